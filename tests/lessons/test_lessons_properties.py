"""Properties of the pure parts: normalisers, comparison, annotation."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.lessons.compare import differences
from kernels.lessons.fence import _MARKS
from kernels.lessons.model import Block, Output
from kernels.lessons.normalise import LIMIT_CHARS, NORMALISERS, bounded, normalise, plain
from kernels.lessons.scan import annotate

ROOT = "/home/a/project"
PIECES = (
    "12|.5| |ms|s|\n|0x|7f3e3c0b5e40|pid=|pid |/tmp/|x|é|\x1b[31m|\x1b[K|\r|\b|\x1b|[|\t|-two|…|\x00|\x05|'|:|#|```|µs"
)
pieces = st.sampled_from([*PIECES.split("|"), ROOT, ROOT + "/"])
texts = st.lists(pieces | st.text(max_size=4), max_size=25).map("".join)
numbers = st.floats(allow_nan=True, allow_infinity=True, width=32)
values = st.recursive(
    numbers | st.text(max_size=5) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("name", NORMALISERS)
@given(text=texts)
@settings(max_examples=150, deadline=None)
def test_named_normalisers_are_idempotent(name, text):
    once = NORMALISERS[name](text)
    assert NORMALISERS[name](once) == once
    assert once.count("\n") == text.count("\n")  # no line is lost: the report's line numbers stay


@given(text=texts, html=st.booleans(), names=st.lists(st.sampled_from(sorted(NORMALISERS)), max_size=2, unique=True))
@settings(max_examples=300, deadline=None)
def test_what_is_stored_is_printable_and_stays_itself(text, html, names):
    once = normalise(text, () if html else tuple(names), ROOT, html=html)
    assert not {character for character in once if ord(character) < 32 or ord(character) == 127} - {"\n", "\t"}
    assert ROOT + "/" not in once or html
    if not html:
        assert plain(once, ROOT) == once


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("10%\r20%\r100%\n", "100%"),
        ("1000%\rdone", "done%"),
        ("100%\r\x1b[Kdone", "done"),
        ("100%\x1b[2K\rdone", "done"),
        ("abc\b\bX", "aXc"),
        ("a\r\nb\r\n", "a\nb"),
        (f"{ROOT}/docs/x.md:3", "docs/x.md:3"),
        (f"{ROOT}-two/x {ROOT}: {ROOT}", f"{ROOT}-two/x .: ."),
        ("count 5\ns = 3", "count 5\ns = 3"),
        ("a  \n\nb\n\n", "a\n\nb"),
        ("\x1b]8;;https://x\x1b\\link\x1b]8;;\x1b\\", "link"),
    ],
)
def test_output_as_a_terminal_leaves_it(printed, shown):
    assert normalise(printed, ("durations",), ROOT, html=False) == shown


@given(st.integers(0, 3 * LIMIT_CHARS))
@settings(max_examples=30, deadline=None)
def test_bounded_keeps_short_texts_and_tells_long_ones_apart(length):
    text = ("x" * 79 + "\n") * (length // 80)
    if len(text) <= LIMIT_CHARS:
        assert bounded(text) == text
        return
    cut = bounded(text)
    assert len(cut) <= LIMIT_CHARS + 200 and text.startswith(cut.rpartition("\n")[0])
    assert bounded(text + "y") != cut  # a change past the cut still shows


def block(check: str, rtol: float = 0.0, atol: float = 0.0) -> Block:
    return Block("a", 1, "python", "", check=check, rtol=rtol, atol=atol)


@given(texts, st.dictionaries(st.text(max_size=3), values, max_size=3))
@settings(max_examples=150, deadline=None)
def test_an_output_equals_itself(text, named):
    output, same = Output(text, named), Output(text, named)
    for check in (block("exact"), block("close", rtol=1e-6), block("none")):
        assert differences(check, output, same) == []


@given(numbers, numbers, st.floats(0, 1e3), st.floats(0, 1e3))
@settings(max_examples=300, deadline=None)
def test_a_number_is_near_exactly_within_the_tolerance(old, new, rtol, atol):
    found = differences(block("close", rtol, atol), Output("", {"x": old}), Output("", {"x": new}))
    if math.isfinite(old) and math.isfinite(new):
        assert bool(found) == (not abs(new - old) <= atol + rtol * abs(old))
    else:
        assert bool(found) == (not (old == new or (math.isnan(old) and math.isnan(new))))


@given(texts, texts)
@settings(max_examples=150, deadline=None)
def test_exact_is_exact(old, new):
    assert bool(differences(block("exact"), Output(old), Output(new))) == (old != new)


@given(
    st.lists(st.integers(-999, 999), min_size=1, max_size=4), st.lists(st.integers(-999, 999), min_size=1, max_size=4)
)
@settings(max_examples=200, deadline=None)
def test_numbers_in_text_are_compared_as_numbers(old, new):
    def text(found):
        return "t = " + ", ".join(map(str, found)) + " us"

    found = differences(block("close", atol=0.5), Output(text(old)), Output(text(new)))
    assert bool(found) == (old != new)


LINES = """\
```python exec="1" id="a"
    ```{.python exec="1" id="x"}
> ~~~bash exec="1"\x20\x20
```
> ```
~~~

`#!value n + 1` and ``#!value m``
Text
```` exec="1"
````
- `` ```python exec="1" ``
print(1)
```cuda include="cuda/kernels.cu:add"
`#!value  x`"""
lines = st.sampled_from(LINES.split("\n"))


@given(
    st.lists(lines | st.text(st.characters(exclude_characters="\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), max_size=20))
)
@settings(max_examples=300, deadline=None)
def test_annotation_keeps_every_line_and_can_be_taken_back(body_lines):
    body = "\n".join(body_lines)
    marked = annotate(body)
    assert marked.count("\n") == body.count("\n")
    assert [line.replace(" }", "}").rstrip() for line in _MARKS.sub("", marked).split("\n")] == [
        line.replace(" }", "}").rstrip() for line in body.split("\n")
    ]
    assert annotate(body, fences=[], inlines=[]) == body  # only what is asked for is marked


@pytest.mark.parametrize(
    ("printed", "root", "shown"),
    [
        ("at C:\\work\\site\\docs\\page.md:3", "C:\\work\\site", "at docs/page.md:3"),
        ("in C:\\work\\site, beside C:\\work\\site-2\\x", "C:\\work\\site\\", "in ., beside C:\\work\\site-2\\x"),
        ("C:\\work\\site/docs/page.md and a\\b", "C:\\work\\site", "docs/page.md and a\\b"),
        ("'/home/site\\n'", "/home/site", "'.\\n'"),  # an escape behind the root is no folder
    ],
)
def test_paths_of_windows_are_told_as_elsewhere(printed, root, shown):
    assert normalise(printed, (), root, html=False) == shown
