"""The roofline: the most that a GPU can do at each number of operations a byte, and where operators stand under it."""

from __future__ import annotations

from collections.abc import Mapping

from kernels.figures.charts import BOTTOM, HEIGHT, LEFT, SHAPES, TOP, WIDTH, Axis, apart, mark_path, tick_text
from kernels.figures.html import data_table, escape, figure, number, owner_class, place, scroll, svg

RIGHT = 190


def roofline(
    points: Mapping[str, tuple[float, float]],
    memory_gb_per_s: float,
    peak_tflop_per_s: float,
    peak_name: str = "peak",
    caption: str = "",
) -> str:
    """Operators as points (operations a byte, TFLOP/s) under two roofs; the numbers follow as a table.

    The slanted roof is `memory_gb_per_s` (10**9 bytes a second) times the operations a byte, the flat one is
    `peak_tflop_per_s`. A point on the slanted roof cannot become faster without moving fewer bytes. Both axes are
    logarithmic. ValueError for a value that is not above 0.
    """
    for name, value in (("memory_gb_per_s", memory_gb_per_s), ("peak_tflop_per_s", peak_tflop_per_s)):
        if not value > 0:
            raise ValueError(f"a roof is above 0; {name} is {value}")
    if not points:
        return figure('<p class="kl-empty">No point to show.</p>', caption, "lines")
    ridge = 1e3 * peak_tflop_per_s / memory_gb_per_s  # operations a byte from which on computing is the limit

    def roof(intensity: float) -> float:
        return min(peak_tflop_per_s, intensity * memory_gb_per_s / 1e3)

    intensities = [intensity for intensity, _ in points.values()]
    x_axis = Axis([*intensities, min(intensities) / 2, 4 * ridge], log=True)
    low, high = 10.0**x_axis.low, 10.0**x_axis.high
    y_axis = Axis([*(rate for _, rate in points.values()), roof(low), peak_tflop_per_s], log=True)
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    base = TOP + inner_height

    def x_of(value: float) -> float:
        return LEFT + inner_width * x_axis.at(value)

    def y_of(value: float) -> float:
        return TOP + inner_height * (1 - y_axis.at(value))

    rules = "".join(f"M{LEFT} {place(y_of(tick))}h{inner_width}" for tick in y_axis.ticks)
    body = [f'<path class="kl-gridline" d="{rules}"/>', f'<path class="kl-axisline" d="M{LEFT} {base}h{inner_width}"/>']
    ticks = "".join(f'<text x="{place(x_of(t))}" y="{base + 17}">{tick_text(t)}</text>' for t in x_axis.ticks)
    body.append(f'<g class="kl-t kl-t--soft kl-t--m">{ticks}</g>')
    ticks = "".join(f'<text x="{LEFT - 8}" y="{place(y_of(t) + 4)}">{tick_text(t)}</text>' for t in y_axis.ticks)
    body.append(f'<g class="kl-t kl-t--soft kl-t--e">{ticks}</g>')
    body.append(
        f'<text class="kl-t kl-t--m" x="{LEFT + inner_width / 2:g}" y="{base + 38}">'
        "operations a byte (logarithmic)</text>"
    )
    middle = TOP + inner_height / 2
    body.append(
        f'<text class="kl-t kl-t--m" transform="translate(14 {middle:g}) rotate(-90)">TFLOP/s (logarithmic)</text>'
    )
    corners = [(low, roof(low)), (ridge, peak_tflop_per_s), (high, peak_tflop_per_s)]
    path = "M" + "L".join(f"{place(x_of(x))} {place(y_of(y))}" for x, y in corners)
    body.append(f'<path class="kl-axisline" stroke-width="2" d="{path}"/>')
    body.append(
        f'<text class="kl-t kl-t--soft kl-t--e" x="{place(x_of(high))}" y="{place(y_of(peak_tflop_per_s) - 6)}">'
        f"{escape(peak_name)}</text>"
    )
    ends = {}
    for i, (name, (intensity, rate)) in enumerate(points.items()):
        x, y = x_of(intensity), y_of(rate)
        body.append(f'<path class="kl-point {owner_class(i)}" d="{mark_path(i % SHAPES, x, y)}"/>')
        ends[name] = (x, y, i)
    for name, y in apart({name: end[1] for name, end in ends.items()}, 15, TOP + 4, base).items():
        x, end_y, i = ends[name]
        body.append(f'<path class="kl-leader" d="M{place(x + 5)} {place(end_y)}L{LEFT + inner_width + 8} {place(y)}"/>')
        body.append(
            f'<text class="kl-t kl-end {owner_class(i)}" x="{LEFT + inner_width + 12}" y="{place(y + 4)}">'
            f"{escape(name)}</text>"
        )
    rows = [
        (name, intensity, rate, roof(intensity), f"{rate / roof(intensity):.0%}")
        for name, (intensity, rate) in points.items()
    ]
    described = "; ".join(f"{name} reaches {share} of its roof" for name, *_, share in rows)
    roofs = f"roofs: {number(memory_gb_per_s)} GB/s of memory, {number(peak_tflop_per_s)} TFLOP/s ({peak_name})"
    title = caption or "Roofline"
    picture = svg("roofline", title, f"{described}; {roofs}", WIDTH, HEIGHT, body)
    headers = ("operator", "operations a byte", "TFLOP/s", "roof, TFLOP/s", "of its roof")
    table = data_table(headers, rows, f"Roofline, {roofs}", numeric=range(1, 5))
    more = f'<details class="kl-data"><summary>The numbers</summary>\n{table}\n</details>'
    return figure(scroll(title, picture), caption, "lines", more)
