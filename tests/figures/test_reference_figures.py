"""Tables of commands and of the results schema: nothing is left out, and text is escaped."""

from __future__ import annotations

import re

import typer

from kernels.bench.command import app as bench
from kernels.bench.schema import schema
from kernels.figures.reference import command_reference, schema_reference, type_words
from kernels.lessons.command import app as lessons


def test_every_command_and_option_is_there():
    group = typer.main.get_command(lessons)
    html = command_reference("lessons", group)
    found = dict(group.commands)
    for name, below in group.commands.items():
        if hasattr(below, "commands"):  # a group has no line of its own, its commands have
            found |= {f"{name}-{each}": command for each, command in found.pop(name).commands.items()}
    assert "new-lesson" in found and len(found) > 8
    for name, command in found.items():
        assert f'<h3 id="lessons-{name}">' in html
        for one in command.params:
            if one.name != "help" and not one.hidden:
                assert (one.opts[0] if one.param_type_name == "option" else one.name.upper()) in html, (name, one.name)
    html = command_reference("kernel-bench", typer.main.get_command(bench))
    assert "--variant &lt;" in html and "<h3" not in html  # its heading is the page's


def test_an_option_in_a_sentence_is_code_whether_it_is_marked_or_not():
    much_said = "So many: --much 2, or `lessons asks --much 2`; well--known."

    def asks(name: str, much: int = typer.Option(0, help=much_said)):
        """Ask."""

    app = typer.Typer()
    app.command()(asks)
    html = command_reference("asks", typer.main.get_command(app))
    assert "So many: <code>--much</code> 2, or <code>lessons asks --much 2</code>; well--known." in html


def test_every_field_of_the_schema_is_there_and_links_lead_somewhere():
    html, published = schema_reference(schema()), schema()
    for one in published["$defs"].values():
        for field in one["properties"]:
            assert f"<code>{field}</code>" in html
    assert html.index("Document") < html.index('id="clocks"')  # the whole file first
    assert set(re.findall(r'href="#([^"]+)"', html)) <= set(re.findall(r' id="([^"]+)"', html))


def test_a_field_of_many_words_has_them_below_the_table():
    """A sentence in a cell would have a phone set the table cell below cell."""
    html = schema_reference(schema())
    assert "one of 7 words, below" in html or "one of 6 words, below" in html
    assert re.search(
        r"</table>\n</div>\n(?:<p><code>\w+</code> is one of .*</p>\n)*<p><code>status</code> is one of", html
    )
    cells = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", html, re.DOTALL)
    assert max(len(re.sub("<.*?>", "", cell)) for cell in cells) <= 60


def test_rules_in_words():
    assert type_words({"anyOf": [{"type": "number"}, {"type": "null"}]}) == "number or null"
    assert type_words({"type": "array", "items": {"type": "integer"}}) == "list of integer"
    assert type_words({"enum": ["<a>"]}) == "one of <code>&lt;a&gt;</code>"
    assert type_words({"const": 3}) == "always <code>3</code>"
