"""The roofline: the most that a GPU can do at each number of operations a byte, and where operators stand under it."""

from __future__ import annotations

from collections.abc import Mapping

from kernels.figures.charts import NEAR, SHAPES, Axis, Room, end_names, frame, legend, mark_path
from kernels.figures.html import data_table, escape, figure, fitting, number, owner_class, place, svg

ROOM, NEAR_ROOM = Room(right=190), NEAR._replace(right=36)


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
    rows = [
        (name, intensity, rate, roof(intensity), f"{rate / roof(intensity):.0%}")
        for name, (intensity, rate) in points.items()
    ]
    described = "; ".join(f"{name} reaches {share} of its roof" for name, *_, share in rows)
    roofs = f"roofs: {number(memory_gb_per_s)} GB/s of memory, {number(peak_tflop_per_s)} TFLOP/s ({peak_name})"
    title = caption or "Roofline"
    corners = [(low, roof(low)), (ridge, peak_tflop_per_s), (high, peak_tflop_per_s)]
    rooms = (ROOM, NEAR_ROOM)
    drawn = [(r.width, r.height, _drawn(points, x_axis, y_axis, corners, peak_name, r)) for r in rooms]
    wide, phone = (svg("roofline", title, f"{described}; {roofs}", *each) for each in drawn)
    key = legend([(f"{i + 1} {name}", "", i) for i, name in enumerate(points)])
    headers = ("operator", "operations a byte", "TFLOP/s", "roof, TFLOP/s", "of its roof")
    table = data_table(headers, rows, f"Roofline, {roofs}", numeric=range(1, 5))
    more = f'<details class="kl-data"><summary>The numbers</summary>\n{table}\n</details>'
    return figure(fitting(title, wide, ROOM.width, f"{phone}\n{key}"), caption, "lines", more)


def _drawn(points, x_axis: Axis, y_axis: Axis, corners, peak_name: str, room: Room) -> list[str]:
    """The plot; on a phone the points have numbers, which a legend names."""
    body = frame(x_axis, y_axis, ("operations a byte (logarithmic)", "TFLOP/s (logarithmic)"), room)
    path = "M" + "L".join(f"{place(room.x(x_axis, x))} {place(room.y(y_axis, y))}" for x, y in corners)
    body.append(f'<path class="kl-axisline" stroke-width="2" d="{path}"/>')
    x, y = corners[-1]
    body.append(
        f'<text class="kl-t kl-t--soft kl-t--e" x="{place(room.x(x_axis, x))}" y="{place(room.y(y_axis, y) - 6)}">'
        f"{escape(peak_name)}</text>"
    )
    ends = {}
    for i, (name, (intensity, rate)) in enumerate(points.items()):
        x, y = room.x(x_axis, intensity), room.y(y_axis, rate)
        body.append(f'<path class="kl-point {owner_class(i)}" d="{mark_path(i % SHAPES, x, y)}"/>')
        ends[name if room.named else str(i + 1)] = (x, y, i)
    return body + end_names(ends, room)
