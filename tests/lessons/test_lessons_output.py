"""What a block writes, by whatever means, is on the page as it was printed."""

import re
from html import unescape

import pytest
from lessons_project import Project, fence

TICKS = "`" * 8
BLOCKS = {
    "channels": """\
import ctypes, os, subprocess, sys, warnings
import kernels.toy
libc = ctypes.CDLL(None)
print("1 print")
sys.stdout.write("2 write\\n")
libc.puts(b"3 puts")
libc.printf(b"4 printf %d\\n", 4)
subprocess.run(["echo", "5 child"])
print("6 stderr", file=sys.stderr)
warnings.warn("7 warning")
kernels.toy.show("8 module")
os.write(1, b"9 descriptor\\n")
os.system("echo 10 shell >&2")
print("11 last", end="")""",
    "tags": 'print("!tt.ptr<f32> <script>alert(1)</script> __init__ *k* [a](b) &amp; # no heading\\n# no heading")',
    "colours": 'print("\\x1b[31mred\\x1b[0m \\x1b]0;title\\x07plain \\x1b[1;32mgreen\\x1b[m")',
    "progress": """\
import sys
for done in range(0, 101, 25):
    sys.stderr.write(f"\\r{done}% " + "#" * (done // 25))
sys.stderr.write("\\r\\x1b[Kdone\\n")""",
    "nul": 'print("a\\0b\\x02c\\x03d\\x1ae")',
    "long": 'for number in range(700_000): print(f"line {number:07}")',
    "fences": f'print("```\\n{TICKS}\\n<b>after</b>\\n{TICKS}python\\n~~~")',
    "marks": 'print(\'<div data-lesson-unseen></div> data-lesson-block="99" `#!value 1 / 0` ```python exec="1"\')',
    "placeholder": 'print("\\x02wzxhzdk:0\\x03 klzzwxh:0000 \\ue000")',
    "html": 'print("<em>bold</em>\\r\\n<i>x\\0</i>")',
    "tabs": 'print("a\\tb")\nprint("  indented")\nprint()\nprint("after an empty line")',
    "nothing": "x = 1",
    "sentence": 'print("This was not measured.\\nThat was.")',
    "columns": 'print("a sentence, and then\\nrow  1")',
    "bad-bytes": 'import os\nos.write(1, b"\\xff\\xfe ok\\n")',
    "colour-off": 'import os\nprint(os.environ["NO_COLOR"], os.environ["COLUMNS"], os.environ["TZ"])',
}


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Project:
    project = Project(tmp_path_factory.mktemp("output") / "p")
    project.write("kernels/toy.py", "def show(text):\n    print(text)\n")
    for name, code in BLOCKS.items():
        options = 'html="1"' if name == "html" else 'source="above"'
        project.page(name, f"# {name}\n\n{fence(code, f'{name} {options}')}")
    nested = fence(BLOCKS["fences"], "fences")
    shifted = "".join("    " + line + "\n" for line in nested.splitlines())
    again = shifted.replace('"fences', '"again')
    project.page("nested", f'# N\n\n=== "Tab"\n\n{shifted}\n!!! note\n\n{again}\n')
    done = project.lessons("accept")
    assert done.status == 0, done.text
    done = project.build()
    assert done.status == 0, done.text
    assert "WARNING" not in done.text
    return project


def printed(site: Project, name: str) -> str:
    """The output as a reader sees it: the text of the last <pre> of the page."""
    html = site.html(name)
    inner = html.rpartition("<pre>")[2].partition("</pre>")[0]
    text = "".join(part.partition(">")[2] for part in ("<x>" + inner).split("<")[1:])
    return unescape(text).rstrip("\n")


def accepted(site: Project, name: str, ending: str = "txt") -> str:
    return site.read(f"lessons_src/outputs/{name}/{name}.{ending}").removesuffix("\n")


def test_every_channel_in_the_order_written(site):
    lines = printed(site, "channels").splitlines()
    numbers = [int(line.split()[0]) for line in lines if line[:1].isdigit()]
    assert numbers == [1, 2, 3, 4, 5, 6, 8, 9, 10, 11]
    warning = next(index for index, line in enumerate(lines) if "7 warning" in line)
    assert lines[warning].startswith("docs/channels.md:13: UserWarning")  # the page and its line, no machine's path
    assert lines[warning - 1] == "6 stderr" and "8 module" in lines[warning + 1 : warning + 3]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tags", "!tt.ptr<f32> <script>alert(1)</script> __init__ *k* [a](b) &amp; # no heading\n# no heading"),
        ("colours", "red plain green"),
        ("progress", "done"),
        ("nul", "a\ufffdb\ufffdc\ufffdd\ufffde"),
        ("fences", f"```\n{TICKS}\n<b>after</b>\n{TICKS}python\n~~~"),
        ("marks", '<div data-lesson-unseen></div> data-lesson-block="99" `#!value 1 / 0` ```python exec="1"'),
        ("placeholder", "\ufffdwzxhzdk:0\ufffd klzzwxh:0000 \ue000"),
        ("bad-bytes", "\ufffd\ufffd ok"),
        ("colour-off", "1 88 UTC"),
    ],
)
def test_shown_as_printed(site, name, expected):
    assert accepted(site, name) == expected
    assert printed(site, name) == expected


def test_no_foreign_tag_and_no_control_byte_reaches_the_page(site):
    for name in BLOCKS:
        html = site.html(name)
        assert "<script>alert" not in html and "<b>after" not in html and "<f32>" not in html
        assert not {character for character in html if ord(character) < 32} - {"\n"}, name


def test_ten_megabytes_are_bounded_with_a_note(site):
    text = accepted(site, "long")
    assert len(text) < 21_000
    assert text.splitlines()[0] == "line 0000000"
    assert "9,100,000 characters" in text.replace("9,099,999", "9,100,000") and "700,000 lines" in text
    assert "sha256" in text
    assert len(site.html("long")) < 200_000


def test_html_is_passed_through_and_accepted_as_it_is(site):
    assert "<em>bold</em>\n<i>x\ufffd</i>" in site.html("html")
    assert accepted(site, "html", "html") == "<em>bold</em>\n<i>x\ufffd</i>"


def test_output_inside_a_tab_and_an_admonition(site):
    html = re.sub(r'<details class="kl-scratch">.*?</details>', "", site.html("nested"), flags=re.DOTALL)
    assert html.count("<pre") == 2 and html.count("\n&lt;b&gt;after&lt;/b&gt;\n") == 2
    assert "<b>after" not in html


def test_nothing_printed_shows_no_empty_box(site):
    assert site.html("nothing").count("<pre>") == 1


def test_it_all_verifies_again(site):
    done = site.lessons("verify")
    assert done.status == 0, done.text


@pytest.mark.parametrize(
    ("name", "classes"),
    [("sentence", " kl-block--text kl-block--says"), ("columns", " kl-block--text"), ("html", ""), ("nothing", "")],
)
def test_what_may_be_broken_into_lines_is_told_from_columns(site, name, classes):
    """A narrow page breaks sentences, and scrolls what stands in columns."""
    shown = re.search(r'<div class="kl-block no-copy kl-block--[a-z]+([^"]*)"', site.html(name))
    assert shown[1] == classes
