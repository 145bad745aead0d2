"""Numbers with a unit that were typed into prose, where a computed value should stand.

A number that comes from a cited source and not from our code may stay, if its line says so in a comment:
``<!-- typed: NVIDIA H200 datasheet -->``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernels.lessons.model import Fault, PageSource

_UNITS = ("µs", "us", "ms", "ns", "[GMT]B/s", "GiB/s", "[GT]FLOP/s", "TFLOPS", "FLOP/byte", "[GM]Hz", "registers?")
_FACTORS = (r"×(?!\s*\d)", "x faster", "times faster")  # 2×, but not the shape 4096 × 1024
_UNIT = f"(?:{'|'.join(_UNITS + _FACTORS)})"
_TYPED = re.compile(rf"(?<![\w.`-])\d[\d,.]*\s?{_UNIT}(?![\w/])")
_FENCE = re.compile(r"^[\s>]*(`{{3,}}|~{{3,}})".replace("{{", "{").replace("}}", "}"))
_CODE = re.compile(r"(`+).+?\1")
_ALLOWED = re.compile(r"<!--\s*typed:\s*\S.*?-->")


def typed_numbers(source: PageSource) -> Iterator[Fault]:
    """One fault for every line of prose with a typed number that carries a unit."""
    fence = ""
    comment = False
    for number, line in enumerate(source.body.replace("\r\n", "\n").split("\n"), 1 + source.line_offset):
        opening = _FENCE.match(line)
        if fence:
            if opening and opening[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
            continue
        if opening:
            fence = opening[1]
            continue
        if _ALLOWED.search(line):
            continue
        text = re.sub(r"<!--.*?-->", "", line)
        if comment:
            if "-->" not in text:
                continue
            text, comment = text.partition("-->")[2], False
        if "<!--" in text:
            text, comment = text.partition("<!--")[0], True
        found = _TYPED.search(_CODE.sub("", text))
        if found:
            message = (
                f"the number {found.group().strip()!r} is typed; compute it (`#!value expression`), "
                "or name its source: <!-- typed: source -->"
            )
            yield Fault(source.name, number, "typed", message)
