"""The hooks of the theme, on pieces of pages."""

from __future__ import annotations

import re
import runpy
from types import SimpleNamespace

import pytest
from site_host import ROOT

from kernels.figures.html import svg
from kernels.lessons.mends import Mends

landmarks = runpy.run_path(str(ROOT / "docs/.theme/landmarks.py"))["on_page_content"]
formulas = runpy.run_path(str(ROOT / "docs/.theme/formulas.py"))["on_page_content"]


def test_regions_of_one_name_are_told_apart():
    region = '<div class="kl-scroll" tabindex="0" role="region" aria-label="The table">'
    once, again = landmarks(region + region).split("><")
    assert 'aria-label="The table"' in once and 'aria-label="The table, 2"' in again


def test_a_column_without_a_heading_has_no_heading_cell():
    assert landmarks('<th scope="col"></th><th class="kl-num" scope="col"> </th><th>n</th>') == (
        '<td></td><td class="kl-num"></td><th>n</th>'
    )


def test_a_figure_that_is_drawn_twice_has_two_names():
    drawn = svg("bars", "A title", "A description", 10, 10, ['<path d="M0 0h9"/>'])
    found = re.findall(r' (?:id|aria-[a-z]+by)="([^"]+)"', landmarks(drawn + drawn))
    assert len(found) == 8 and len(set(found)) == 4
    assert found[:2] == found[2:4] and found[4:6] == found[6:]


def test_an_element_without_content_ends_without_a_slash():
    assert landmarks('<hr /><input type="radio" /><path d="M0 0"/>') == '<hr><input type="radio"><path d="M0 0"/>'


def test_a_table_of_markdown_stands_in_a_box_and_one_of_a_figure_does_not():
    text = "<table><tr><td>1</td></tr></table><p>Text</p><table>\n</table><table class='kl-table'></table>"
    assert landmarks(text) == (
        '<div class="kl-wide"><table><tr><td>1</td></tr></table></div><p>Text</p><div class="kl-wide"><table>\n</table>'
        "</div><table class='kl-table'></table>"
    )


def test_a_formula_is_mathml_without_a_script():
    pytest.importorskip("latex2mathml")
    shown = formulas(r'<span class="arithmatex">\(\frac{a}{b} &lt; 1\)</span>')
    assert "<mfrac>" in shown and "<math " in shown and "arithmatex" not in shown and "<script" not in shown


def test_the_name_of_a_function_has_a_gap_behind_it_and_none_before_a_bracket():
    pytest.importorskip("latex2mathml")
    shown = formulas(r'<span class="arithmatex">\(m + \log s + \log_2 e + \log(s)\)</span>')
    gap = '<mspace width="0.17em"/>'
    assert f"<mi>log</mi>{gap}<mi>s</mi>" in shown and f"<mn>2</mn></msub>{gap}<mi>e</mi>" in shown
    assert shown.count(gap) == 2


@pytest.mark.parametrize("latex", [r"\frac{a", r"\fraction{a}{b}", r"\left( a", "x^", "a}"])
def test_a_formula_that_is_none_is_quoted(latex):
    pytest.importorskip("latex2mathml")
    with pytest.raises(ValueError) as raised:
        formulas(rf'<div class="arithmatex">\[{latex}\]</div>')
    assert repr(latex) in str(raised.value)


sources = runpy.run_path(str(ROOT / "docs/.theme/sources.py"))


def test_sources_are_those_that_a_page_includes():
    text = 'include="kernels.ops.add:_add" include="cuda/kernels.cu" include="gone.module:name" include="/etc/passwd"'
    assert sources["source_paths"](text, ROOT) == {"kernels/ops/add.py", "cuda/kernels.cu"}


def test_a_source_has_an_anchor_for_every_line():
    shown = sources["page_of"]("kernels/a.py", "one = 1\n\n\nif one < 2:\n    '''<b>'''\n")
    for line in range(1, 6):
        assert shown.count(f'<a id="L{line}"></a>') == 1
    assert 'name="' not in shown and "&lt;b&gt;" in shown and "href" not in shown


def test_a_file_that_is_to_be_read_beside_a_page_is_a_source_of_it():
    text = "**Time** 1. **Read\nbeside this page** `kernels/ops/add.py`, `gone.py` and `tl.load`.\n\n`cuda/kernels.cu`"
    assert sources["source_paths"](text, ROOT) == {"kernels/ops/add.py"}
    text = 'include="cuda/kernels.cu" include="kernels.ops.add:_add"'
    assert sources["whole_files"](text, ROOT) == {"cuda/kernels.cu"}


class Site(dict):
    """Pages by name, as a hook is given them."""

    def __init__(self, **texts: str) -> None:
        super().__init__()
        for name, text in texts.items():
            self.append(SimpleNamespace(src_uri=f"lessons/{name}.md", content_string=text))

    def append(self, file) -> None:
        file.url_relative_to = lambda other: f"to {file.src_uri}"
        self[file.src_uri] = file

    def documentation_pages(self) -> list:
        return list(self.values())

    get_file_from_path = dict.get


def excerpt(path: str, whole: bool) -> str:
    lines = '<span class="linenos" data-linenos=" 1 "></span>one\n<span class="linenos" data-linenos="12 "></span>two'
    return (
        f'<figure class="kl-excerpt no-copy" data-lesson-include="{path}{"" if whole else ":name"}" '
        f'data-source="{path}" data-lines="1-12">{lines}<figcaption>The file <code>{path}</code></figcaption></figure>'
    )


def test_a_file_has_one_page_which_says_where_it_is_shown(monkeypatch):
    hook = runpy.run_path(str(ROOT / "docs/.theme/sources.py"))
    generated = lambda config, uri, content: SimpleNamespace(src_uri=uri, content_string=content)  # noqa: E731
    monkeypatch.setattr(hook["File"], "generated", generated)
    config = SimpleNamespace(config_file_path=str(ROOT / "mkdocs.yml"))
    one = "# One\n\n**Read beside this page** `kernels/ops/add.py`.\n\n"
    site = Site(one=one + 'include="cuda/kernels.cu:add"', two='---\ntitle: Two\n---\ninclude="cuda/kernels.cu"')
    hook["on_files"](site, config=config)
    assert [name for name in site if name.startswith("source/")] == ["source/kernels/ops/add.py.md"]
    assert "Shown in: [One](../../../lessons/one.md)\n" in site["source/kernels/ops/add.py.md"].content_string

    def shown(name: str, content: str) -> str:
        page = SimpleNamespace(file=site[f"lessons/{name}.md"])
        return hook["on_page_content"](content, page=page, config=config, files=site)

    piece = shown("one", excerpt("cuda/kernels.cu", whole=False))
    lines = '<span class="kl-whole">lines 1–12</span></figcaption>'
    assert f'<code><a href="to lessons/two.md#L1">cuda/kernels.cu</a></code>, {lines}' in piece
    assert 'id="L' not in piece
    named = excerpt("cuda/kernels.cu", whole=False).replace("</code></fig", ", add, launch_add</code></fig")
    assert 'two.md#L1">cuda/kernels.cu</a>, add, launch_add</code>' in shown("one", named), "the file alone is the link"
    broken = excerpt("cuda/kernels.cu", whole=False).replace("<code>cuda/", "<code>cuda/<wbr>")
    assert '#L1">cuda/<wbr>kernels.cu</a></code>' in shown("one", broken), "a path that may be broken is one link"
    whole = shown("two", excerpt("cuda/kernels.cu", whole=True))
    assert '<a id="L1"></a><span' in whole and '<a id="L12"></a><span' in whole and 'href="#L1"' in whole
    file = "<code>kernels/ops/add.py</code>"
    beside = shown("one", f"<p><strong>Read beside this page</strong> {file}.</p>{file}")
    assert beside.count('<a href="to source/kernels/ops/add.py.md">') == 1


def test_two_whole_files_of_a_page_have_pages_of_their_own(monkeypatch):
    hook = runpy.run_path(str(ROOT / "docs/.theme/sources.py"))
    generated = lambda config, uri, content: SimpleNamespace(src_uri=uri, content_string=content)  # noqa: E731
    monkeypatch.setattr(hook["File"], "generated", generated)
    site = Site(both='# Both\n\ninclude="cuda/kernels.cu"\n\ninclude="kernels/ops/add.py"')
    hook["on_files"](site, config=SimpleNamespace(config_file_path=str(ROOT / "mkdocs.yml")))
    made = [name for name in site if name.startswith("source/")]
    assert made == ["source/cuda/kernels.cu.md", "source/kernels/ops/add.py.md"]  # their lines would share anchors


def test_a_path_is_broken_behind_a_stroke_and_never_within_a_word():
    shown = typesetting("<h1 id='a'><code>kernels/ops/row_plan.py</code></h1><code>kernels/ops/row_plan.py</code>")
    assert shown.startswith("<h1 id='a'><code>kernels/<wbr>ops/<wbr>row_<wbr>plan.py</code></h1><code>kernels/ops")
    below = typesetting("<h2 id='b'>kernels/ops/row_plan.py<a class=\"headerlink\" href='#b'>&para;</a></h2>")
    assert below.startswith("<h2 id='b'>kernels/<wbr>ops/<wbr>row_<wbr>plan.py<a")
    mark = '<a class="headerlink" href="#a">&para;</a></h1>'
    assert typesetting(f"<h1 id='a'>kernels/ops/softmax.py{mark}") == (
        f"<h1 id='a'>kernels/<wbr>ops/<wbr>softmax.py{mark}"
    )
    verdict = '<li><strong class="kl-verdict__kind">race</strong> Thread 1, lessons_src/a.cu:7, and 1/2 of it.</li>'
    assert "lessons_<wbr>src/<wbr>a.cu:7, and 1/2 of it" in typesetting(verdict)


def test_a_sections_navigation_is_named_after_its_title():
    post = runpy.run_path(str(ROOT / "docs/.theme/landmarks.py"))["on_post_page"]
    nav = (
        '<nav class="md-nav" data-md-level="1" aria-labelledby="__nav_4_label" aria-expanded="false">\n'
        '  <label class="md-nav__title" for="__nav_4">\n    <span class="md-nav__icon md-icon"></span>\n'
        "    Work &amp; shops\n  </label>"
    )
    assert 'aria-label="Work &amp; shops" aria-expanded="false"' in post(nav)
    assert "aria-labelledby" not in post(nav)


typesetting = runpy.run_path(str(ROOT / "docs/.theme/typesetting.py"))["on_page_content"]


def test_a_sentence_in_a_cell_wraps_and_a_figure_or_a_name_does_not():
    name = "kernels.ops.softmax:_rows_of_a_block"
    row = f'<tr><th scope="row">one thread follows a chain of loads</th><td>12.3 µs</td><td>{name}</td></tr>'
    shown = typesetting(f'<table class="kl-table">{row}</table>{row}')
    assert shown.count("kl-long") == 1
    assert '<th scope="row" class="kl-long">one thread' in shown.partition("</table>")[0]
    lines = "<td>100%, 64 of 64 warps<small>32 registers; limited by warps and registers</small></td>"
    assert '<td class="kl-long">' in typesetting(f'<table class="kl-table">{lines}</table>')


def test_the_next_line_of_a_list_is_not_the_rest_of_the_one_before():
    def shown(*lines):
        code = "<code>" + "\n".join(lines) + "\n</code>"
        return typesetting(
            f'<div class="kl-block kl-block--text"><div class="language-text highlight"><pre><span></span>{code}</pre>'
            '</div>\n<div class="kl-block__bar">bar</div></div>'
        )

    wrote = [f"  program {i} wrote elements {128 * i} to {128 * i + 127}: 128 of its 128 offsets" for i in range(3)]
    assert "kl-turns" not in shown("out, by whom", *wrote)
    alike = [
        "  a block of 256 threads has 8 warps, and all of them are full,",
        "  a block of 257 has 9, and one of them is not",
    ]
    assert "kl-turns" not in shown("blocks", *alike)
    ended = [
        "  it is padding, behind x[0, 0]. In all, 80 elements lie outside there (1, 3, 5 and 77",
        "  more places).",
    ]
    assert "kl-turns" in shown("where", *ended)


def test_what_a_sentence_quotes_is_code():
    assert typesetting("<li><b>kind</b> no test, such as `if (i &lt; n)`, guards it</li>") == (
        "<li><b>kind</b> no test, such as <code>if (i &lt; n)</code>, guards it</li>"
    )
    as_printed = '<pre><code>a `b` c</code></pre><button data-source="`d`">`e`</button>'
    assert typesetting(as_printed) == as_printed


def test_an_option_and_a_short_name_are_not_broken():
    assert typesetting("<code>run --topic latency</code>") == (
        '<code>run <span class="kl-whole">--topic</span> latency</code>'
    )
    assert 'class="kl-whole"' in typesetting("<td><code>nvidia-ml-py</code></td>")
    for as_it_is in ("<code>a_b</code>", f"<code>{'long-' * 6}</code>", "<pre><span></span><code>a-b</code></pre>"):
        assert typesetting(as_it_is) == as_it_is


def test_cells_below_each_other_say_their_column():
    head = "<thead><tr><th>workshop</th><th>you write</th><th>check it with</th><th>before it</th></tr></thead>"
    rows = "<tr><td>I1</td><td>a kernel</td><td>check</td><td>Lesson 8</td></tr>"
    rows += "<tr><td>2</td><td></td><td></td><td></td></tr>"
    shown = typesetting(f'<div class="kl-stack"><table>{head}<tbody>{rows}</tbody></table></div>')
    assert '<td>I1</td><td>a kernel</td><td data-column="Check it with:">' in shown
    assert '<td data-column="Before it:">Lesson 8' in shown and '<td data-column="Workshop">2' in shown


def figure_table(*cells):
    heads = "".join(f'<th scope="col">head {i}</th>' for i in range(len(cells)))
    body = "".join(f"<td>{cell}</td>" for cell in cells[1:])
    row = f'<tr><th scope="row">{cells[0]}</th>{body}</tr>'
    return f'<table class="kl-table">\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{row}\n</tbody>\n</table>'


LONG = "a sentence of more than sixty characters, which a narrow column would make a ladder"


def test_a_table_of_three_columns_with_a_sentence_is_stacked():
    shown = typesetting(figure_table("name", 1.5, LONG))
    assert '<table class="kl-table kl-table--stack">' in shown
    assert (
        '<td data-column="head 1:" class="kl-num">1.5' in shown
        and '<td data-column="head 2:" class="kl-long kl-prose">' in shown
    )
    assert "kl-table--stack" in typesetting(figure_table(LONG, 1, 2))
    for table in (figure_table("name", LONG), figure_table("name", 1, 2, 3), figure_table("n", "<i>a</i>" * 20, 2)):
        assert "kl-table--stack" not in typesetting(table)


def test_a_long_name_at_the_head_of_a_column_is_broken_behind_a_stroke():
    table = (
        figure_table("a", 1, 2).replace("head 1", "histogram_equal, torch.compile").replace("head 2", "histogram_equal")
    )
    shown = typesetting(table)
    assert ">histogram_<wbr>equal</th>" in shown and ">histogram_equal, torch.compile</th>" in shown


def test_a_heading_of_many_words_has_room():
    table = figure_table("a", "b", "c").replace("head 1", "TFLOP/s with the fence")
    shown = typesetting(table.replace('<th scope="col">TF', '<th scope="col" class="kl-num">TF'))
    assert '<th scope="col" class="kl-num kl-wordy">TFLOP/s with the fence</th>' in shown
    assert shown.count("kl-wordy") == 1 and '<th scope="col" class="kl-wordy">TF' in typesetting(table)


def test_a_table_of_markdown_with_a_sentence_is_stacked_once():
    def table(last):
        head = "<thead>\n<tr><th>one</th><th>two</th><th>three</th></tr>\n</thead>"
        row = f"<tr><td>1a</td><td>2</td><td>{last}</td></tr>"
        return f'<div class="kl-wide"><table>{head}<tbody>{row}</tbody></table></div>'

    shown = typesetting(table(LONG))
    assert shown.startswith('<div class="kl-stack"><div class="kl-wide">') and '<td data-column="Three:">' in shown
    assert typesetting(table("short")) == table("short")
    by_hand = typesetting(f'<div class="kl-stack">\n{table(LONG)}\n</div>')
    assert by_hand.count("kl-stack") == 1 and '<td data-column="Three:">' in by_hand


def test_a_printed_sentence_is_told_from_columns():
    says = "This is a sentence that a program printed, and it is longer than a phone is wide."
    wrapped = [
        "name          a sentence that a program has wrapped itself, as",
        "              it does for a terminal of its own width",
    ]
    lines = [
        says,
        f"label    {says}",
        "1.0   2.0   3.0   4.0   5.0   6.0   7.0   8.0   9.0",
        "a | table | of bars | that is long enough to",
        *wrapped,
    ]
    text = "\n".join(lines)
    shown = typesetting(f'<pre><span></span><code>{text}</code></pre></div>\n<div class="kl-block__bar">')
    assert shown.count("kl-says") == 2 and re.sub("</?span[^>]*>", "", shown).count(text) == 1
    assert f'<span class="kl-says">{says}</span>' in shown
    shown_code = f"<pre><span></span><code>{text}</code></pre></div>\n<p>"
    assert typesetting(shown_code) == shown_code


def test_a_command_that_ends_a_paragraph_is_code():
    said = "<p>Not measured yet on an H200. This measures it: python scripts/a.py --topic clean</p>"
    command = 'python scripts/a.py <span class="kl-whole">--topic</span> clean'
    assert typesetting(said) == f"<p>Not measured yet on an H200. This measures it: <code>{command}</code></p>"


def test_a_day_in_a_caption_is_not_broken():
    shown = typesetting("<caption><span>H200, 2026-11-30, commit 1</span></caption><p>2026-11-30</p>")
    assert shown.count("kl-whole") == 1 and '<span class="kl-whole">2026-11-30</span>, commit' in shown


def test_what_was_not_measured_is_a_paragraph():
    output = '<div class="highlight"><pre><span></span><code>{}\n</code></pre></div>'
    assert typesetting(output.format("Not measured yet. `run` measures it.")) == (
        "<p>Not measured yet. <code>run</code> measures it.</p>"
    )
    table = output.format("Not measured yet: a\nb")
    assert typesetting(table) == table


def test_an_option_of_a_command_is_not_broken():
    gap = '<span class="w"> </span>'
    code = f"a{gap}--cache{gap}warm{gap}-n\n# --cache{gap}--no-more\n"
    shown = typesetting(f"<pre><span></span><code>{code}</code></pre>")
    assert shown.count('<span class="kl-whole">--') == 2
    assert '<span class="kl-whole">--cache</span><span class="w"> </span>warm' in shown
    assert '<span class="kl-whole">--no-more</span>\n' in shown


def test_a_stressed_word_of_a_contract_is_stressed_and_a_power_is_raised():
    cell = "<tr><td>the sum is *not* rounded; a * b * c, 2**31 - 2**-20, x**2, <code>2**24</code></td></tr>"
    shown = typesetting(f'<table class="kl-contract">{cell}</table>')
    assert "is <em>not</em> rounded; a * b * c, 2³¹ - 2⁻²⁰, x**2, <code>2**24</code>" in shown
    assert typesetting(f"<table>{cell}</table>") == f"<table>{cell}</table>"


def test_a_mend_that_finds_no_place_on_any_page_is_told(caplog):
    mends = Mends("hook.py", {"an a": re.compile("a"), "a b": re.compile("b")})
    mends.tell()
    assert caplog.messages == [], "no page was looked at"
    for text in ("a", "c"):
        mends.page()
        assert mends.sub("a b", "-", mends.sub("an a", "-", text)) == text.replace("a", "-")
    mends.tell()
    assert [message.partition(".")[0] for message in caplog.messages] == ["hook"]
    assert caplog.messages[0].startswith("hook.py found a b on none of 2 pages.")
    assert caplog.records[0].levelname == "WARNING" and caplog.records[0].name.startswith("mkdocs.")
    mends.tell()
    assert len(caplog.messages) == 1, "each build is counted anew"


def test_the_themes_search_has_a_name():
    post = runpy.run_path(str(ROOT / "docs/.theme/landmarks.py"))["on_post_page"]
    dialog = '<div class="md-search" data-md-component="search" role="dialog">'
    assert post(post(dialog)) == dialog.replace(">", ' aria-label="Search">')


def test_a_notebook_says_of_itself_the_same_before_it_is_read_and_after():
    """Else a preview shows every page twice: what pages say of themselves is what others show of them."""
    hook = runpy.run_path(str(ROOT / "docs/.theme/notebooks.py"))
    notebook, page = (SimpleNamespace(src_uri=uri, page=SimpleNamespace(meta={})) for uri in ("a.ipynb", "a.md"))
    unplaced = SimpleNamespace(src_uri="b.ipynb", page=None)
    files = SimpleNamespace(documentation_pages=lambda: [notebook, page, unplaced])
    assert hook["on_nav"]("the navigation", config=None, files=files) == "the navigation"
    before = dict(notebook.page.meta)
    hook["on_page_content"]("<h1>A</h1>", page=SimpleNamespace(file=notebook, meta=notebook.page.meta))
    assert notebook.page.meta == before and before["description"] and page.page.meta == {}


def test_a_notebook_tells_what_it_is_where_a_card_leads_to_it():
    of_notebook = runpy.run_path(str(ROOT / "docs/.theme/notebooks.py"))["on_page_content"]
    page = SimpleNamespace(file=SimpleNamespace(src_uri="notebooks/a.ipynb"), meta={})
    of_notebook("<h1>A</h1>", page=page)
    assert page.meta["description"].startswith("The same kernels as cells")
    page = SimpleNamespace(file=SimpleNamespace(src_uri="labs/a.md"), meta={})
    of_notebook("<h1>A</h1>", page=page)
    assert page.meta == {}
