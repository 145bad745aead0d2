"""Notebooks: run, compared and frozen as pages are; the files made of them are whole, fresh and open in Jupyter."""

import io
import json
import sys
import types
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from lessons_project import CONFIG, Project, line_of

from kernels.figures import timeline
from kernels.lessons.model import Outcome, Output, PageOutcome
from kernels.lessons.notebook import as_notebook, cells_of, notebook_sources, plain, prose_of, scan_notebook

ROOT = Path(__file__).resolve().parents[2]
SOURCES = notebook_sources(ROOT)
NOTEBOOK = """\
# %% [markdown]
# # Doubling
#
# See [the first page](../../docs/index.md#i) before you begin.

# %% id="double"
from kernels.toy import double

print(double(4))

# %% [markdown]
# A table:

# %% id="table" html="1"
print(f"<table><tr><th>twice</th><td>{double(5)}</td></tr></table>")
"""
SHOWN = CONFIG.replace(
    "plugins: [lessons]",
    """plugins:
  - lessons: {shown_notebooks: [doubling]}
  - mkdocs-jupyter: {include: ["notebooks/*.ipynb"], cache: false}""",
)


@pytest.fixture
def noted(tmp_path: Path) -> Project:
    """A page and an accepted notebook over one function."""
    project = Project(tmp_path / "noted", SHOWN)
    project.write("kernels/toy.py", "def double(x):\n    return 2 * x\n")
    project.page("index", "# I\n")
    project.write("lessons_src/notebooks/doubling.py", NOTEBOOK)
    done = project.lessons("accept")
    assert done.status == 0, done.text
    return project


def test_a_notebook_is_accepted_and_verified_as_a_page_is(noted):
    kept = noted.accepted()
    assert kept["notebooks/doubling/double.txt"] == b"8\n" and b"<td>10</td>" in kept["notebooks/doubling/table.html"]
    for arguments, what in ((("verify",), "ran"), (("verify", "--frozen"), "frozen")):
        done = noted.lessons(*arguments, "notebooks/doubling.py")
        assert done.status == 0 and done.counts()[what] == 2, done.text
    assert noted.lessons("verify", "lessons_src/notebooks/doubling.py").status == 0


def test_a_changed_function_is_drift_and_stale_with_the_line_of_the_cell(noted):
    noted.edit("kernels/toy.py", "2 * x", "3 * x")
    line = line_of(NOTEBOOK, 'id="double"')
    drifted = noted.lessons("verify", "notebooks/doubling.py")
    assert drifted.status == 1
    assert f"lessons_src/notebooks/doubling.py:{line}: drift [double]" in drifted.text and "+12" in drifted.text
    assert "lessons accept notebooks/doubling.py" in drifted.text
    stale = noted.lessons("verify", "--frozen", "notebooks/doubling.py")
    assert stale.status == 1 and f"doubling.py:{line}: stale [double]" in stale.text and "double changed" in stale.text
    assert noted.build("--strict").status == 1
    assert noted.lessons("accept", "notebooks/doubling.py").status == 0
    assert noted.accepted()["notebooks/doubling/double.txt"] == b"12\n"
    assert noted.build("--strict").status == 0


def test_a_comment_in_the_code_makes_nothing_stale(noted):
    noted.edit("kernels/toy.py", "    return", "    # twice\n    return")
    assert noted.lessons("verify", "--frozen", "notebooks/doubling.py").status == 0


def test_a_failing_cell_is_named_with_its_line_and_nothing_is_accepted(noted):
    before = noted.accepted()
    noted.edit("lessons_src/notebooks/doubling.py", "print(double(4))", 'print(double("4") / 0)')
    done = noted.lessons("accept", "notebooks/doubling.py")
    line = line_of(NOTEBOOK, "print(double(4))")
    assert done.status == 1 and f"lessons_src/notebooks/doubling.py:{line}: failed [double]: TypeError" in done.text
    assert noted.accepted() == before


def test_outputs_of_a_notebook_that_is_gone_are_orphans(noted):
    (noted.root / "lessons_src/notebooks/doubling.py").unlink()
    assert "notebooks/doubling holds accepted outputs of a page that is gone" in noted.lessons("verify").text


def test_a_number_typed_into_a_cell_of_text_is_told_with_its_line(noted):
    noted.edit("lessons_src/notebooks/doubling.py", "# A table:", "# It moves 4,800 GB/s:")
    noted.edit("lessons_src/notebooks/doubling.py", "print(double(4))", 'print(double(4))\nlimit = "20 GB/s"')
    assert noted.lessons("accept", "notebooks/doubling.py").status == 0
    done = noted.lessons("verify", "notebooks/doubling.py")
    told = [line for line in done.text.splitlines() if ": typed" in line]
    line = line_of(NOTEBOOK, "A table") + 1
    assert len(told) == 1 and f"lessons_src/notebooks/doubling.py:{line}: typed" in told[0], done.text


def outputs(project: Project, name: str) -> list[dict]:
    document = json.loads(project.read(f"site/notebooks/{name}"))
    return [output for cell in document["cells"] for output in cell.get("outputs", [])]


def test_the_download_holds_todays_outputs_and_links_of_the_folder(noted):
    nbformat = pytest.importorskip("nbformat")
    assert noted.build("--strict").status == 0
    document = nbformat.reads(noted.read("site/notebooks/download/doubling.ipynb"), as_version=4)
    nbformat.validate(document)
    text, table = outputs(noted, "download/doubling.ipynb")
    assert "".join(text["text"]) == "8\n"
    assert "<td>10</td>" in "".join(table["data"]["text/html"]) and table["data"]["text/plain"] == ["twice 10"]
    assert "](../../docs/index.md#i)" in document.cells[0].source
    noted.edit("kernels/toy.py", "2 * x", "5 * x")
    noted.build()  # drift is a warning here
    assert "".join(outputs(noted, "download/doubling.ipynb")[0]["text"]) == "20\n"


def test_a_shown_notebook_is_a_page_with_links_to_pages(noted):
    pytest.importorskip("mkdocs_jupyter")
    assert noted.build("--strict").status == 0
    page = noted.html("notebooks/doubling")
    assert 'href="../../#i"' in page and "<td>10</td>" in page and ">8" in page
    assert not (noted.root / "site/notebooks/download/doubling/index.html").exists()


def test_what_mkdocs_jupyter_brings_stays_out_of_the_page(noted):
    pytest.importorskip("mkdocs_jupyter")
    assert noted.build("--strict").status == 0
    brought = noted.html("notebooks/doubling")
    assert "<script" in brought and "<style" in brought and "cdn" in brought  # else the hook has nothing to do
    noted.write("mkdocs.yml", f"{noted.read('mkdocs.yml')}hooks: [{ROOT / 'docs/.theme/notebooks.py'}]\n")
    assert noted.build("--strict").status == 0
    page = noted.html("notebooks/doubling").partition("<main>")[2]
    for word in ("<script", "<style", "http", "clipboard", "Prompt", "Collapser", "highlight-ipynb"):
        assert word not in page, word
    assert page.count("print(double(4))") == 0 and page.count('class="highlight"') == 2  # coloured, and once
    assert 'href="../download/doubling.ipynb" download' in page
    assert page.count('<pre tabindex="0">') == 3 and "<td>10</td>" in page
    assert "Download" not in noted.html()  # other pages are left alone


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("docs/index.md", "docs/gone.md", "lessons_src/notebooks/doubling.py:4: it links docs/gone.md"),
        (
            "shown_notebooks: [doubling]",
            "shown_notebooks: [tripling]",
            "names 'tripling'; lessons_src/notebooks holds doubling",
        ),
    ],
)
def test_a_link_or_a_name_that_leads_nowhere_fails_the_build(noted, old, new, said):
    noted.edit("mkdocs.yml" if "shown" in old else "lessons_src/notebooks/doubling.py", old, new)
    done = noted.build()
    assert done.status != 0 and said in done.text.replace("\n", ""), done.text


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('import os\n# %% id="a"\nprint(1)', 1, "text stands above the first cell"),
        ('# %% [markdown]\n# words\nprint(1)\n# %% id="a"\n1', 1, "'print(1)'; begin it with '# '"),
        ('# %% id="a" neds="triton"\n1', 1, "did you mean needs?"),
        ('# %% id="a" shown\n1', 1, "'shown' is no option of a cell"),
        ("# %% [markdown]\n# t\n# %%\n1", 3, "needs an id"),
        ('# %% id="a"\n1\n# %% id="a"\n2', 3, "the id 'a' is used on line 1 already"),
        ('# %% id="a" needs="gpu"\n1', 1, "cannot need a gpu"),
    ],
)
def test_what_is_wrong_with_a_cell_is_said(tmp_path, text, line, said):
    path = tmp_path / "lessons_src/notebooks/x.py"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    (source,) = notebook_sources(tmp_path)
    (fault,) = scan_notebook(source).faults
    assert (fault.line, fault.where()) == (line, f"lessons_src/notebooks/x.py:{line}") and said in fault.message


def test_there_are_notebooks():
    assert len(SOURCES) >= 2


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.slug)
def test_jupytext_reads_the_same_cells(source):
    jupytext = pytest.importorskip("jupytext")
    theirs = jupytext.reads(source.body, fmt="py:percent").cells
    ours = cells_of(source.body)
    assert [(c.cell_type, c.source.strip("\n")) for c in theirs] == [(c.kind, c.text) for c in ours]
    spaced = "lines_to_next_cell"  # of the empty lines above a function, which jupytext notes
    assert [{k: v for k, v in c.metadata.items() if k != spaced} for c in theirs] == [c.options for c in ours]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.slug)
def test_text_of_a_notebook_stays_on_its_lines(source):
    lines, prose = source.body.split("\n"), prose_of(source.body).split("\n")
    assert len(lines) == len(prose)
    assert all(line in ("#", f"# {words}") for line, words in zip(lines, prose) if words)
    scan = scan_notebook(source)
    assert scan.faults == [] and all(lines[block.line - 1].startswith("# %%") for block in scan.blocks)


@pytest.mark.slow
def test_a_notebook_runs_in_jupyter_and_gives_what_was_accepted():
    nbclient, jupytext = pytest.importorskip("nbclient"), pytest.importorskip("jupytext")
    pytest.importorskip("triton")
    source = SOURCES[0]
    ran = nbclient.NotebookClient(jupytext.reads(source.body, fmt="py:percent"), kernel_name="python3")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("TRITON_INTERPRET", "0")  # the notebook says what it wants
        document = ran.execute(cwd=str(ROOT))
    compared = 0
    for cell in document.cells:
        texts = ["".join(o.text) for o in cell.get("outputs", []) if o.output_type == "stream" and o.name == "stdout"]
        if texts:
            accepted = ROOT / "lessons_src/outputs" / source.slug / f"{cell.metadata['id']}.txt"
            assert "".join(texts) == accepted.read_text(encoding="utf-8")
            compared += 1
        assert not any(output.output_type == "error" for output in cell.get("outputs", []))
    assert compared >= 3
    pictures = [o for cell in document.cells for o in cell.get("outputs", []) if "text/html" in o.get("data", {})]
    assert len(pictures) >= 3  # the style sheet, and two figures or tables


def test_the_style_sheet_comes_once_and_only_where_a_page_has_none(tmp_path):
    (tmp_path / "docs/assets").mkdir(parents=True)
    (tmp_path / "docs/assets/lessons.css").write_text(".kl-fig { margin: 0 }")
    path = tmp_path / "lessons_src/notebooks/x.py"
    path.parent.mkdir(parents=True)
    path.write_text('# %% id="a" html="1"\n1\n# %% id="b" html="1"\n2\n')
    scan = scan_notebook(notebook_sources(tmp_path)[0])
    found = {b.id: Outcome(b, "ran", Output(f"<p>{b.id}</p>"), "CPU", "c") for b in scan.blocks}
    outcome = PageOutcome(scan, found)
    assert as_notebook(outcome, tmp_path).count("<style>") == 1
    assert as_notebook(outcome, tmp_path, styled=False).count("<style>") == 0


def test_words_of_a_figure():
    table = "<table><caption>Times</caption><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>&lt;2</td></tr></table>"
    assert plain(table) == "Times\na b\n1 <2"
    assert plain("<figure><svg><text>x</text></svg></figure>") == "a figure"
    cells = [{"warp": 0, "interval": i, "writes": 2, "reads": 0, "atomics": 0} for i in range(4)]
    assert plain(timeline(cells, "Said once")).count("Said once") == 1


def test_show_prints_for_the_engine_and_displays_in_jupyter(monkeypatch):
    from kernels.lessons import show

    monkeypatch.setattr(show, "_shown", set())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: None))
    said = io.StringIO()
    with redirect_stdout(said):
        show.show("<p>1</p>")
    assert said.getvalue() == "<p>1</p>\n"
    displayed: list[str] = []
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=object))
    display = types.SimpleNamespace(HTML=str, display=displayed.append)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    show.show("<p>1</p>")
    show.show("<p>2</p>")
    assert displayed[0].startswith("<style>") and displayed[1:] == ["<p>1</p>", "<p>2</p>"]


def test_no_page_is_parsed_to_find_out_that_it_is_no_notebook(monkeypatch):
    from mkdocs.config import load_config

    config = load_config(str(ROOT / "mkdocs.yml"))
    plugin, asked = config.plugins["mkdocs-jupyter"], []
    monkeypatch.setattr("jupytext.read", lambda path: asked.append(path) or {})
    paths = {"docs/index.md": False, "docs/labs/3-softmax.md": False, "docs/notebooks/3-softmax.ipynb": True}
    assert {
        path: plugin.should_include(types.SimpleNamespace(abs_src_path=str(ROOT / path))) for path in paths
    } == paths
    assert asked == []
