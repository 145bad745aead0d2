"""What all figures share: escaping, ids, numbers as text, and the frame around a figure.

Figures hold no colour and no script. They name classes, `kl-c0` to `kl-c7` for owners among them, that
`docs/assets/lessons.css` colours for light and dark. No line is empty, so a figure survives being put into Markdown.
"""

from __future__ import annotations

import hashlib
import html
import math
from collections.abc import Iterable, Sequence

PALETTE = 8
PHONE = 336  # pixels that a figure has on a phone of 390 px
DASH = "–"
MISSING = "—"


def escape(value: object) -> str:
    """Text that is safe between tags and inside a quoted attribute, on one line."""
    return html.escape(" ".join(str(value).split()), quote=True)


def unique_id(kind: str, *content: object) -> str:
    """An id made of the content: the same figure has the same id in every build."""
    return f"kl-{kind}-{hashlib.sha256(repr(content).encode()).hexdigest()[:10]}"


def owner_class(owner: int) -> str:
    """The class that colours an owner; colours repeat after eight, so every owner is also named."""
    return f"kl-c{owner % PALETTE}"


def number(value: float | int | None, digits: int = 3) -> str:
    """A number for readers: whole numbers in full, others with `digits` significant digits, `—` for None.

    Raises ValueError for NaN and infinities: a figure never shows a number that is not one.
    """
    if value is None:
        return MISSING
    if not math.isfinite(value):
        raise ValueError(f"a figure was given {value}; leave the value out (None) and say why beside it")
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if not 1e-4 <= abs(value) < 1e9:
        return f"{value:.{max(0, digits - 1)}e}"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}"


def shape_text(shape: Iterable[int]) -> str:
    """A shape for readers: 4,096 × 1,024, 268,435,456. A shape without dimensions is a scalar."""
    return " × ".join(f"{size:,}" for size in shape) or "scalar"


def span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}{DASH}{last}"


def scroll(label: str, inner: str) -> str:
    """A region that scrolls sideways where the page is narrow, reachable by keyboard."""
    return f'<div class="kl-scroll" tabindex="0" role="region" aria-label="{escape(label)}">\n{inner}\n</div>'


def fitting(label: str, wide: str, width: float, narrow: str) -> str:
    """Two drawings of the same: `wide`, so many pixels wide, where the page has room, and else `narrow`.

    The other one is not there for a screen reader either. A drawing that a phone shows whole stays alone, and so does
    one that would be the same.
    """
    if width <= PHONE or wide == narrow:
        return scroll(label, wide)
    name = "kl-fits" if width <= 680 else "kl-fits kl-fits--wide"  # as in lessons.css
    return f'<div class="{name}">\n{scroll(label, wide)}\n<div class="kl-narrow">\n{narrow}\n</div>\n</div>'


def hatching(name: str) -> str:
    """The pattern of what is masked off, as `fill="url(#name)"`; each drawing needs its own."""
    return (
        f'<defs><pattern id="{name}" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect class="kl-hatch-back" width="6" height="6"/>'
        '<rect class="kl-hatch-line" width="2" height="6"/></pattern></defs>'
    )


def figure(inner: str, caption: str = "", kind: str = "", more: str = "") -> str:
    """A `<figure>`; `caption` is text, `more` is HTML that stands under it."""
    name = f"kl-fig kl-fig--{kind}" if kind else "kl-fig"
    below = "\n".join(part for part in (escape(caption), more) if part)
    below = f"\n<figcaption>{below}</figcaption>" if below else ""
    return f'<figure class="{name}">\n{inner}{below}\n</figure>'


def svg(kind: str, title: str, description: str, width: float, height: float, body: Iterable[str], *key: object) -> str:
    """An image of natural size in pixels with its text alternative."""
    body = list(body)
    name = unique_id(kind, title, description, body, key)
    opening = (
        f'<svg class="kl-svg" xmlns="http://www.w3.org/2000/svg" role="img" width="{place(width)}" '
        f'height="{place(height)}" viewBox="0 0 {place(width)} {place(height)}" '
        f'aria-labelledby="{name}-t" aria-describedby="{name}-d">'
    )
    texts = f'<title id="{name}-t">{escape(title)}</title>\n<desc id="{name}-d">{escape(description)}</desc>'
    return "\n".join([opening, texts, *body, "</svg>"])


def place(value: float) -> str:
    """A coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def text(x: float, y: float, words: object, name: str = "", anchor: str = "") -> str:
    """An SVG text; `anchor` is "m" for the middle, "e" for the end."""
    classes = " ".join(filter(None, ["kl-t", name, f"kl-t--{anchor}" if anchor else ""]))
    return f'<text class="{classes}" x="{place(x)}" y="{place(y)}">{escape(words)}</text>'


def data_table(
    headers: Sequence[object],
    rows: Iterable[Sequence[object]],
    caption: str = "",
    groups: Sequence[tuple[object, int]] = (),
    numeric: Sequence[int] | None = None,
    marked: Sequence[int] = (),
    stack: bool = False,
    beside: bool = False,
) -> str:
    """A table that scrolls on a narrow page; the first cell of a row is its heading.

    Cells are text, numbers (shown by `number`) or `Markup`, which is taken as it is. `groups` puts a heading over the
    next so many rows. `numeric` lists the columns that are set flush right; left out, those whose cells are numbers.
    `marked` lists rows that are set apart. `stack`, for sentences: on a narrow page the cells of a row stand below each
    other, with their columns' headings. `beside`, likewise, but the last cell stands beside the row's heading, for a
    value that must not go out of sight. ValueError for a row that is longer or shorter than the headings.
    """
    rows = [list(row) for row in rows]
    for row in rows:
        if len(row) != len(headers):
            raise ValueError(f"the table has {len(headers)} headings, but a row has {len(row)} cells: {row}")
    if numeric is None:
        kinds = [[row[i] for row in rows if row[i] is not None] for i in range(len(headers))]
        numeric = [i for i, cells in enumerate(kinds) if cells and all(isinstance(c, (int, float)) for c in cells)]
    right = [' class="kl-num"' if i in numeric else "" for i in range(len(headers))]
    said = [f' data-column="{escape(h)}:"' if stack or beside else "" for h in headers]
    kind = " kl-table--stack" * (stack or beside) + " kl-table--beside" * beside
    lines = [f'<table class="kl-table{kind}">']
    if caption:
        lines.append(f"<caption><span>{escape(caption)}</span></caption>")
    heads = "".join(f'<th scope="col"{_head_class(h, i in numeric)}>{_cell(h)}</th>' for i, h in enumerate(headers))
    lines.append(f"<thead><tr>{heads}</tr></thead>")
    starts, at = {}, 0
    for name, size in groups:
        starts[at], at = name, at + size
    lines.append("<tbody>")
    for i, row in enumerate(rows):
        if i in starts:
            if i:
                lines.append("</tbody><tbody>")
            lines.append(
                f'<tr class="kl-group"><th scope="rowgroup" colspan="{len(headers)}">{_cell(starts[i])}</th></tr>'
            )
        cells = "".join(f"<td{c}{h}>{_cell(v)}</td>" for v, c, h in zip(row[1:], right[1:], said[1:], strict=True))
        name = ' class="kl-marked"' if i in marked else ""
        lines.append(f'<tr{name}><th scope="row"{right[0]}>{_cell(row[0])}</th>{cells}</tr>')
    if not rows:
        lines.append(f'<tr><td colspan="{len(headers)}">nothing to show</td></tr>')
    lines += ["</tbody>", "</table>"]
    return scroll(caption or "table", "\n".join(lines))


def _head_class(head: object, numeric: bool) -> str:
    """The classes of a heading; one of many words gets room for more than one of them on a line."""
    many = isinstance(head, str) and len(head) > 15 and head.count(" ") > 1
    names = " ".join(["kl-num"] * numeric + ["kl-head"] * many)
    return f' class="{names}"' if names else ""


class Markup(str):
    """HTML that a figure made itself; never text from outside."""


def _cell(value: object) -> str:
    if isinstance(value, Markup):
        return str(value)
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return number(value)
    return escape(value)
