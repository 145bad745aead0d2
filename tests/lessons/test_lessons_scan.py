"""Every fence that Markdown renders as executed is found, at its line, and no other."""

import re
from pathlib import Path

import pytest
from lessons_project import CONFIG, Project, line_of
from markdown import Markdown
from mkdocs.config import load_config

from kernels.lessons import fence
from kernels.lessons.engine import Engine
from kernels.lessons.mkdocs_plugin import new_markdown_of
from kernels.lessons.model import PageSource
from kernels.lessons.scan import annotate_known, scan_page

CODE = "print(7)  # HERE"
FORMS = {
    # name: (text, number of blocks)
    "plain": (f'```python exec="1" id="a"\n{CODE}\n```\n', 1),
    "tab": (f'=== "T"\n\n    ```python exec="1" id="a"\n    {CODE}\n    ```\n', 1),
    "two tabs": (
        f'=== "T"\n\n    ```python exec="1" id="a"\n    {CODE}\n    ```\n\n=== "U"\n\n    ```python exec="1" id="b"\n'
        "    print(8)\n    ```\n",
        2,
    ),
    "admonition": (f'!!! note\n    ```python exec="1" id="a"\n    {CODE}\n    ```\n', 1),
    "details": (f'??? note "Open"\n\n    ```python exec="1" id="a"\n    {CODE}\n    ```\n', 1),
    "list": (f'- item\n\n    ```python exec="1" id="a"\n    {CODE}\n    ```\n', 1),
    "list in list": (f'1. one\n    - two\n\n        ```python exec="1" id="a"\n        {CODE}\n        ```\n', 1),
    "quote": (f'> said\n>\n> ```python exec="1" id="a"\n> {CODE}\n> ```\n', 1),
    "quote and admonition": (f'!!! note\n    > ```python exec="1" id="a"\n    > {CODE}\n    > ```\n', 1),
    "md in html": (f'<div markdown="1">\n\n```python exec="1" id="a"\n{CODE}\n```\n\n</div>\n', 1),
    "tildes": (f'~~~python exec="1" id="a"\n{CODE}\n~~~\n', 1),
    "longer fence": (f'`````python exec="1" id="a"\n{CODE}\ntext = """\n```\n"""\n`````\n', 1),
    "braces": (f'```{{.python exec="1" id="a"}}\n{CODE}\n```\n', 1),
    "braces, spaced": (f'``` {{ .python #a exec="1" }}\n{CODE}\n```\n', 1),
    "dotted": (f'```.python exec="1" id="a"\n{CODE}\n```\n', 1),
    "title": (f'```python exec="1" id="a" title="softmax.py: exec {{x}}" hl_lines="1"\n{CODE}\n```\n', 1),
    "single quotes": (f"```python exec='1' id='a'\n{CODE}\n```\n", 1),
    "short names": (f'```py exec="on" id="a"\n{CODE}\n```\n\n```sh exec="yes" id="b"\necho\n```\n', 2),
    "tab stops": (f'!!! note\n\n\t```python exec="1" id="a"\n\t{CODE}\n\t```\n', 1),
    "trailing space": (f'```python exec="1" id="a"   \n{CODE}\n```   \n', 1),
    "windows": (f'Text.\r\n\r\n```python exec="1" id="a"\r\n{CODE}\r\n```\r\n', 1),
    "unicode": (f'Prüfung – “µs” \U0001f600\n\n```python exec="1" id="a" title="µs"\n{CODE} – ß\n```\n', 1),
    "comment": (f'<!--\n```python exec="1" id="a"\n{CODE}\n```\n-->\n', 0),
    "comment on one line": (f'<!-- x -->\n\n```python exec="1" id="a"\n{CODE}\n```\n\n<!-- y -->\n', 1),
    "quoted": (f'````markdown\n```python exec="1" id="a"\n{CODE}\n```\n````\n', 0),
    "quoted in titled text": (f'````text title="how to exec"\n```python exec="1" id="a"\n{CODE}\n```\n````\n', 0),
    "quoted in titled Python": (
        f'````python title="how to exec"\n```python exec="1" id="a"\n{CODE}\n```\n````\n',
        0,
    ),
    "indented code": (f'Text\n\n    ```python exec="1" id="a"\n    {CODE}\n    ```\n', 0),
    "indented code in a list": (f'- x\n\n        ```python exec="1" id="a"\n        {CODE}\n        ```\n', 0),
    "unclosed": (f'Text\n\n```python exec="1" id="a"\n{CODE}\n', 0),
    "not executed": (f'```python\n{CODE}\n```\n\n```python exec="0" id="b"\nx\n```\n', 0),
    "only titled so": (f'```python title="exec"\n{CODE}\n```\n', 0),
    "other language": (f'```rust exec="1" id="a"\n{CODE}\n```\n', 0),
    "mentioned": (f'Write `` ```python exec="1" `` above `code`.\n\n```python\n{CODE}\n```\n', 0),
    "paragraph above": (f'Text\n```python exec="1" id="a"\n{CODE}\n```\n', 1),
    "twenty": ("\n".join(f'```python exec="1" id="n{n}"\nprint({n})\n```\n' for n in range(20)), 20),
}


@pytest.fixture(scope="module")
def converter(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("scan") / "p")
    config = load_config(str(project.root / "mkdocs.yml"))
    fence.register(config.mdx_configs, config.markdown_extensions)
    return new_markdown_of(config)


class Rendered:
    """Renders a page as the site does and notes which blocks and values were asked for."""

    def __init__(self, scan) -> None:
        self.root = Path()
        self.known = {block.line: block for block in scan.blocks}
        self.blocks: list[int] = []
        self.values: list[str] = []

    def output(self, line):
        return f"OUTPUT-OF-{line}" if line in self.known else None

    def cached(self, line):
        return None

    def block(self, line, html, block_id):
        self.blocks.append(line)
        return html

    def inline(self, line, column, expression):
        self.values.append(expression)
        return f"VALUE({expression})"


def both(converter, text: str):
    source = PageSource("page.md", Path("page.md"), text)
    scan = scan_page(source, converter)
    rendered = Rendered(scan)
    with fence.passing(rendered):
        html = converter().convert(annotate_known(scan))
    return scan, rendered, html


@pytest.mark.parametrize("form", FORMS)
def test_found_where_markdown_renders_it_and_nowhere_else(converter, form):
    text, count = FORMS[form]
    scan, rendered, html = both(converter, "# Title\n\n" + text)
    expected = {"unclosed": ["unrendered"], "not executed": ["unrendered"]}.get(form, [])
    assert [fault.kind for fault in scan.faults] == expected
    assert len(scan.blocks) == count
    assert [block.line for block in scan.blocks] == sorted(set(rendered.blocks))
    for block in scan.blocks:
        assert html.count(f"OUTPUT-OF-{block.line}<") + html.count(f"OUTPUT-OF-{block.line}\n") == 1
        header = ("# Title\n\n" + text).replace("\r\n", "\n").split("\n")[block.line - 1]
        assert "exec" in header and ("```" in header or "~~~" in header)
    if count and form != "twenty":
        assert scan.blocks[0].line == line_of("# Title\n\n" + text, "HERE") - 1
        assert scan.blocks[0].code.startswith(CODE)
    shown = re.sub("<!--.*?-->", "", html, flags=re.DOTALL)
    assert "lesson_line" not in shown and "lesson-" not in shown


def test_a_byte_order_mark_and_front_matter_leave_the_lines_right(project):
    body = '---\ntitle: x\n---\n\n# T\n\n```python exec="1" id="a"\nraise ValueError  # HERE\n```\n'
    project.page("index", b"\xef\xbb\xbf" + body.encode())
    project.page("plain", b"\xef\xbb\xbf" + body.partition("---\n\n")[2].encode())
    done = project.lessons("verify")
    assert "docs/index.md:8: failed" in done.text and "docs/plain.md:4: failed" in done.text


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("One `#!value n` and `#!value n + 1`.", ["n", "n + 1"]),
        ("| a | b |\n| --- | --- |\n| `#!value n` | `#!value 2 * n` |", ["n", "2 * n"]),
        ("- `#!value n`\n    1. `#!value m`", ["n", "m"]),
        ("## Heading `#!value n`", ["n"]),
        ('!!! note "x"\n    `#!value n`', ["n"]),
        ("> `#!value n`", ["n"]),
        ("**`#!value n`** times", ["n"]),
        ("Same `#!value n` again `#!value n`", ["n", "n"]),
        ("Literally ``#!value n`` too", ["n"]),
        ("````\n`#!value n`\n````", []),
        ("<!-- `#!value n` -->", []),
        ("    `#!value n`", []),
        ("`` `#!value n` ``", []),
        ("`#!python n`", []),
        ("`#!value  n`", ["n"]),
        ('Mention `` ```python exec="1" `` and `#!value n`', ["n"]),
        ("`#!value '`'`", None),
    ],
)
def test_inline_values_are_found_where_markdown_renders_them(converter, text, values):
    scan, rendered, html = both(converter, "Text before.\n\n" + text + "\n")
    if values is None:
        assert [each.expression for each in scan.inlines] == sorted(set(rendered.values))
        return
    assert [each.expression for each in scan.inlines] == values == rendered.values
    assert not scan.faults and html.count("VALUE(") == len(values) and "@" not in html


def test_code_that_holds_our_own_marks_is_run_as_written(converter):
    code = 'text = """\n```python exec="1" id="x"\n`#!value 1 / 0` and <div data-lesson-block="3">\n"""'
    scan, rendered, html = both(converter, f'````python exec="1" id="a" source="above"\n{code}\n````\n')
    assert [block.code for block in scan.blocks] == [code]
    assert not scan.faults and rendered.blocks == [1] and "lesson_line" not in html


def test_prose_that_names_our_marks_is_prose(converter):
    text = 'The page must not hold `data-lesson-unseen` nor `<div data-lesson-block="5">`.\n'
    scan, _, _ = both(converter, text + '\n```python exec="1" id="a"\n1\n```\n')
    assert not scan.faults and [block.line for block in scan.blocks] == [3]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("", "needs an id"),
        ('id="A b"', "lower-case"),
        ('id="a" needs="gpu,tpu"', "tpu"),
        ('id="a" check="nearly"', "exact, close, none"),
        ('id="a" check="close"', "needs a tolerance"),
        ('id="a" rtol="1e-3"', 'only with check="close"'),
        ('id="a" check="none"', "must say why"),
        ('id="a" normalise="magic"', "magic"),
        ('id="a" timeout="soon"', "not a number"),
        ('id="a" timeout="0"', "above zero"),
        ('id="a" evidence="rumour"', "rumour"),
        ('id="b"', "used on line 11 already"),
    ],
)
def test_wrong_options_are_sentences_at_the_fence(converter, options, words):
    text = f'```python exec="1" id="b"\n1\n```\n\n```python exec="1" {options}\n2\n```\n'
    source = PageSource("page.md", Path("page.md"), text, line_offset=10)
    scan = scan_page(source, converter)
    assert [(fault.line, fault.kind) for fault in scan.faults] == [(15, "option")]
    assert words in scan.faults[0].message


def test_another_set_of_markdown_extensions_is_another_scan(project):
    project.page("index", '!!! note\n\n    ```python exec="1" id="a"\n    print(1)\n    ```\n')
    assert "1 blocks" in project.lessons("list").text
    project.write("mkdocs.yml", CONFIG.replace("  - admonition\n", ""))
    assert "0 blocks" in project.lessons("list").text.splitlines()[-1]  # now it is an indented code block


def test_a_page_shown_without_the_plugin_is_refused(converter):
    with pytest.raises(Exception, match="outside the lesson engine"):
        converter().convert('```python exec="1" id="a"\n1\n```\n')
    with pytest.raises(Exception, match="outside the lesson engine"):
        converter().convert("`#!value 1`")


def test_the_engine_says_which_markdown_extension_it_needs(project, tmp_path):
    project.page("index", "# T\n")
    project.write("mkdocs.yml", CONFIG.replace("  - pymdownx.superfences\n", ""))
    done = project.build()
    assert done.status == 1 and "pymdownx.superfences" in done.text
    with pytest.raises(ValueError, match="accept"):
        Engine(tmp_path, Markdown).bring_up_to_date([], "everything")


@pytest.mark.parametrize(
    "head",
    ['python exce="1" id="b"', 'python3 exec="1" id="b"', 'console exec="1" id="b"', 'python exec="0" id="b"'],
)
def test_a_fence_that_only_looks_executed_is_a_fault_with_its_line(converter, head):
    scan, _, _ = both(converter, f"# T\n\nText.\n\n```{head}\nprint(1)\n```\n")
    assert [(fault.kind, fault.line) for fault in scan.faults] == [("unrendered", 5)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ('id="b" chek="none"', "did you mean check?"),
        ('id="b" tiemout="3"', "did you mean timeout?"),
        ('id="index"', "a name of the engine's own files"),
        ('id="inline"', "a name of the engine's own files"),
    ],
)
def test_an_option_that_would_be_ignored_is_a_fault(converter, options, said):
    scan, _, _ = both(converter, f'# T\n\n```python exec="1" {options}\nprint(1)\n```\n')
    assert [(fault.kind, fault.line) for fault in scan.faults] == [("option", 3)] and said in scan.faults[0].message
