"""What makes a page untrue is told with page, line, difference and the command that accepts it; no more is told."""

import json
import shutil

import pytest
from lessons_project import Project, fence, line_of, marks

OPS = """\
SCALE = 2


def helper(x):
    return x * SCALE


def double(x):
    return helper(x)


def triple(x):
    return 3 * x
"""


def counted(name: str, code: str, options: str = "") -> str:
    return fence(marks(name) + "\n" + code, f"{name} {options}".strip())


@pytest.fixture
def accepted(project: Project) -> Project:
    """Three pages over two operators and a data file, all accepted."""
    project.write("kernels/toy.py", OPS)
    project.write("lessons_src/data.txt", "5")
    first = counted("double", "from kernels.toy import double\nprint(double(4))")
    second = counted("triple", "from kernels.toy import triple\nprint(triple(4))")
    reads = counted("reads", "print(open('lessons_src/data.txt').read())", 'session="files"')
    one = counted("one", "n = 1\nprint(n)")
    two = counted("two", "print(n + 1)")
    project.page("index", f"# I\n\nA paragraph.\n\n{first}\nMore.\n")
    project.page("other", f"# O\n\n{second}\n{reads}\n")
    project.page("session", f"# S\n\n{one}\n{two}\nIn all `#!value n + 2`.\n")
    done = project.lessons("accept")
    assert done.status == 0, done.text
    assert project.ran() == ["double", "one", "reads", "triple", "two"]
    return project


def builds(project: Project) -> list[str]:
    done = project.build("--strict")
    assert done.status == 0, done.text
    return project.ran()


def test_nothing_changed_nothing_runs(accepted):
    assert builds(accepted) == []
    frozen = accepted.lessons("verify", "--frozen")
    assert frozen.status == 0 and frozen.counts()["frozen"] == 5


@pytest.mark.parametrize(
    ("path", "old", "new", "run"),
    [
        ("docs/index.md", "A paragraph.", "Another\nparagraph.\n", []),
        ("docs/session.md", "# S", "# S\n\nText above the blocks.", []),
        ("kernels/toy.py", "SCALE = 2", "SCALE = 2  # a comment", []),
        ("kernels/toy.py", "def helper(x):", 'def helper(x):\n    """Documented."""', []),
        ("kernels/toy.py", "return 3 * x", "return x * 3", ["triple"]),
        ("kernels/toy.py", "return x * SCALE", "return SCALE * x", ["double"]),
        ("kernels/toy.py", "SCALE = 2", "SCALE = 1 + 1", ["double"]),
        ("lessons_src/data.txt", "5", "5 ", ["reads"]),
        ("docs/session.md", "n = 1", "n = 2 - 1", ["one", "two"]),
        ("docs/session.md", "print(n + 1)", "print(1 + n)", ["one", "two"]),  # the first is replayed
        ("docs/session.md", "n + 2", "2 + n", ["one", "two"]),
    ],
)
def test_exactly_what_depends_on_an_edit_runs_again(accepted, path, old, new, run):
    accepted.edit(path, old, new)
    done = accepted.build()
    assert done.status == 0, done.text
    assert accepted.ran() == run
    drifted = done.counts()["drifted"]
    assert drifted == 0 or (path.endswith("session.md") and "the inline value" in done.text)
    accepted.build()
    assert accepted.ran() == []  # and its run is kept


@pytest.mark.parametrize(
    ("path", "old", "new", "stale"),
    [
        ("kernels/toy.py", "SCALE = 2", "SCALE = 2  # a comment", {}),
        ("kernels/toy.py", "return 3 * x", "return x * 3", {"other.md": "kernels.toy:triple"}),
        ("kernels/toy.py", "return x * SCALE", "return SCALE * x", {"index.md": "kernels.toy:helper"}),
        ("lessons_src/data.txt", "5", "6", {"other.md": "file lessons_src/data.txt"}),
        ("docs/session.md", "n = 1", "n = 2 - 1", {"session.md": "its own code"}),
    ],
)
def test_frozen_says_stale_and_names_what_changed(accepted, path, old, new, stale):
    accepted.edit(path, old, new)
    done = accepted.lessons("verify", "--frozen")
    assert accepted.ran() == []
    assert done.status == (1 if stale else 0), done.text
    lines = [line for line in done.text.splitlines() if ": stale" in line]
    assert {line.partition(":")[0].removeprefix("docs/") for line in lines} == set(stale)
    for page, words in stale.items():
        assert any(words in line for line in lines if page in line)


def test_frozen_after_a_verified_change_with_the_same_output(accepted):
    accepted.edit("kernels/toy.py", "return x * SCALE", "return SCALE * x")
    assert accepted.lessons("verify").status == 0
    accepted.ran()
    done = accepted.build("--strict", LESSONS_MODE="frozen")
    assert done.status == 0 and accepted.ran() == [], done.text
    assert accepted.lessons("verify", "--frozen").status == 0
    accepted.edit("kernels/toy.py", "return SCALE * x", "return SCALE * x + 0")
    assert accepted.lessons("verify", "--frozen").status == 1  # the run that confirmed was of other code


def test_drift_tells_page_line_difference_and_command(accepted):
    accepted.edit("kernels/toy.py", "SCALE = 2", "SCALE = 5")
    before = accepted.accepted()
    done = accepted.lessons("verify")
    assert done.status == 1
    line = line_of(accepted.read("docs/index.md"), "```python")
    assert f"docs/index.md:{line}: drift [double]: the output differs (check: exact)" in done.text
    for part in ("    --- accepted/index/double.txt", "    +++ today/index/double.txt", "    -8", "    +20"):
        assert part in done.text.splitlines()
    assert "lessons accept index.md" in done.text
    assert "; 1 fault\n" in done.text and done.counts()["drifted"] == 1
    assert accepted.accepted() == before
    assert accepted.lessons("accept", "index.md").status == 0
    assert accepted.accepted()["index/double.txt"] == b"20\n"
    assert accepted.lessons("verify").status == 0


def test_strict_and_plain(accepted):
    assert accepted.build().status == 0
    before = accepted.html()
    accepted.edit("kernels/toy.py", "SCALE = 2", "SCALE = 5")
    for strict in (
        accepted.build("--strict"),
        accepted.build(MIKE_DOCS_VERSION='{"version": "1.0"}'),
        accepted.build(LESSONS_MODE="verify"),
        accepted.lessons("build"),
    ):
        assert strict.status == 1 and "docs/index.md:5: drift [double]" in strict.text
        assert accepted.html() == before
    plain = accepted.build()
    assert plain.status == 0 and "WARNING -  docs/index.md:5: drift [double]" in plain.text
    assert "20" in accepted.html() and "drift" in accepted.html()
    assert accepted.lessons("build", "--no-strict").status == 0


def test_an_unknown_mode_is_a_sentence(accepted):
    done = accepted.build(LESSONS_MODE="fast")
    assert done.status == 1 and "LESSONS_MODE='fast' is not one of run, frozen, verify, accept" in done.text
    assert "Traceback" not in done.text


@pytest.mark.parametrize("file", ["index/double.txt", "session/inline.txt"])
def test_an_output_edited_by_hand_is_told_and_not_rewritten(accepted, file):
    path = "lessons_src/outputs/" + file
    accepted.write(path, accepted.read(path).replace("8", "9").replace("=> 3", "=> 4"))
    page = file.partition("/")[0]
    for command in (("verify",), ("verify", "--frozen"), ("build",)):
        done = accepted.lessons(*command)
        assert done.status == 1 and f"docs/{page}.md:" in done.text and "edited" in done.text
        assert "edited by hand" in done.text
    before = accepted.accepted()[file]
    assert before in (b"9\n", b"n + 2 => 4\n")
    assert accepted.lessons("accept", f"{page}.md").status == 0
    assert accepted.accepted()[file] in (b"8\n", b"n + 2 => 3\n")
    assert accepted.lessons("verify").status == 0


def test_a_hand_edit_that_agrees_with_windows_line_ends_is_no_edit(accepted):
    for name, data in accepted.accepted().items():
        accepted.write("lessons_src/outputs/" + name, data.replace(b"\n", b"\r\n"))
    assert accepted.lessons("verify", "--frozen").status == 0


def test_new_missing_and_orphan(accepted):
    accepted.edit("docs/index.md", "More.", fence("print('new')", "fresh"))
    plain = accepted.build()
    assert plain.status == 0 and "new [fresh]: the output has not been accepted yet" in plain.text
    frozen = accepted.build(LESSONS_MODE="frozen")
    assert frozen.status == 1 and "missing [fresh]: no accepted output, and this mode runs nothing" in frozen.text
    (accepted.root / "docs/other.md").unlink()
    accepted.edit("docs/session.md", fence(marks("two") + "\nprint(n + 1)", "two"), "")
    done = accepted.lessons("verify")
    assert done.status == 1
    assert "orphan: an accepted output 'two' has no block" in done.text
    assert "orphan: lessons_src/outputs/other" in done.text
    assert accepted.lessons("accept", "session.md").status == 0
    assert "session/two.txt" not in accepted.accepted()


def test_what_cannot_run_here_is_shown_from_its_record_with_its_label(accepted):
    accepted.page("gpu", f"# G\n\n{counted('native', 'print(6)', 'needs=' + chr(34) + 'cxx' + chr(34))}")
    assert accepted.lessons("accept", "gpu.md").status == 0
    accepted.ran()
    done = accepted.build("--strict", LESSONS_WITHOUT="cxx,gpu,nvcc")
    assert done.status == 0 and accepted.ran() == []
    assert "recorded on host C++, CPU" in accepted.html("gpu")
    accepted.edit("docs/gpu.md", "print(6)", "print(3 + 3)")
    done = accepted.build(LESSONS_WITHOUT="cxx")
    assert done.status == 0 and "stale [native]: recorded on host C++, CPU from other code" in done.text
    assert "kl-badge--stale" in accepted.html("gpu")
    assert accepted.build("--strict", LESSONS_WITHOUT="cxx").status == 1
    doctor = accepted.lessons("doctor", LESSONS_WITHOUT="cxx")
    assert "cxx is hidden by LESSONS_WITHOUT" in doctor.text and "from its record: gpu.md#native" in doctor.text
    accepted.edit("docs/gpu.md", 'id="native"', 'id="unknown"')
    done = accepted.build(LESSONS_WITHOUT="cxx")
    assert done.status == 1 and "docs/gpu.md:3: missing [unknown]" in done.text


def test_a_stale_record_warning_is_a_stale_fault(project):
    project.write("kernels/toy.py", "class StaleRecord(UserWarning): pass\n")
    code = (
        "import warnings\nfrom kernels.toy import StaleRecord\n"
        "warnings.warn(StaleRecord('results/x.json: old'))\nprint(1)"
    )
    project.page("index", f"# P\n\n{fence(code, 'a')}\n{fence('print(2)', 'b')}")
    done = project.lessons("accept")
    assert "docs/index.md:3: stale [a]: results/x.json: old" in done.text
    assert "index/a.txt" not in project.accepted() and "index/b.txt" in project.accepted()
    project.edit("kernels/toy.py", "pass", "pass\n")
    assert "stale [a]" in project.lessons("verify").text
    strict = project.build("--strict")
    assert strict.status == 1 and "stale [a]" in strict.text


def close(code: str, options: str) -> str:
    return fence(f"from kernels.lessons.page import values\n{code}", f'a check="close" {options}')


@pytest.mark.parametrize(
    ("before", "after", "options", "broken"),
    [
        ("print('t =', 1.0, 'us')", "print('t =', 1.0005, 'us')", 'rtol="1e-3"', ""),
        ("print('t =', 1.0, 'us')", "print('t =', 1.0020, 'us')", 'rtol="1e-3"', "the output: 1.002 against 1.0"),
        ("print('t =', 1.0, 'us')", "print('t =', 1.0, 'ms')", 'rtol="1e-3"', "the words of the output differ"),
        ("values(x=[1.0, 2.0])", "values(x=[1.0, 2.00001])", 'atol="1e-4"', ""),
        ("values(x=[1.0, 2.0])", "values(x=[1.0, 2.1])", 'atol="1e-4"', "x[1]: 2.1 against 2.0 differs by 0.1"),
        ("values(x=[1.0, 2.0])", "values(x=[1.0])", 'atol="1e-4"', "x has 1 elements, accepted 2"),
        ("values(x={'k': 1.0})", "values(x={'j': 1.0})", 'atol="1e-4"', "x lost 'k'; x gained 'j'"),
        ("values(x=float('nan'))", "values(x=-float('nan'))", 'atol="1"', ""),
        ("values(x=float('nan'))", "values(x=1.0)", 'atol="1"', "x: 1.0 against nan"),
        ("values(x=float('inf'))", "values(x=float('inf'))  #", 'atol="1"', ""),
        ("values(x=float('inf'))", "values(x=-float('inf'))", 'atol="1"', "x: -inf against inf"),
        ("values(x='text', y=True)", "values(x='Text', y=True)", 'atol="1"', "x is 'Text', accepted 'text'"),
        ("values(y=True)", "values(y=False)", 'atol="1"', "y is False, accepted True"),
    ],
)
def test_tolerances(project, before, after, options, broken):
    project.page("index", f"# P\n\n{close(before, options)}")
    assert project.lessons("accept").status == 0
    files = project.accepted()
    json.loads(files.get("index/a.json", b"{}"), parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    project.edit("docs/index.md", before, after)
    done = project.lessons("verify")
    assert done.status == (1 if broken else 0), done.text
    if broken:
        assert f"drift [a]: {broken}" in done.text
    else:  # within the tolerance the files stay as they were accepted, whatever today's digits are
        assert project.lessons("accept").status == 0
        kept = {name: data for name, data in project.accepted().items() if not name.endswith("index.json")}
        assert kept == {name: data for name, data in files.items() if not name.endswith("index.json")}


def test_exact_values_and_check_none(project):
    values = "from kernels.lessons.page import values\n"
    project.page(
        "index",
        f"# P\n\n{fence(values + 'values(x=1.0)', 'a')}\n"
        + fence("import time\nprint(time.time_ns())", 'b check="none" why="the time of day"'),
    )
    assert project.lessons("accept").status == 0
    assert project.lessons("verify").status == 0
    project.edit("docs/index.md", "x=1.0", "x=1.0000001")
    done = project.lessons("verify")
    assert done.status == 1 and "drift [a]: x: 1.0000001 against 1.0" in done.text and "[b]" not in done.text


def test_values_of_another_kind_are_refused_at_the_line(project):
    project.page("index", "# P\n\n" + fence("from kernels.lessons.page import values\nvalues(x=object())", "a"))
    done = project.lessons("verify")
    assert "docs/index.md:5: failed [a]: TypeError: values(x=…) got a object" in done.text


def test_normalisers(project):
    code = "print(f'at 0x7f3e3c0b5e40 after {5 * 2} ms in /tmp/abc123/x')"
    project.page("index", "# P\n\n" + fence(code, 'a normalise="addresses durations temporary"'))
    assert project.lessons("accept").status == 0
    assert project.accepted()["index/a.txt"].decode() == "at 0x… after … s in /tmp/…\n"
    project.edit("docs/index.md", "5 * 2", "7")
    assert project.lessons("verify").status == 0


def test_what_import_lists_is_no_data_of_a_block(project):
    """A folder that `import` looks through may hold other files elsewhere; one that the block lists may not."""
    project.write("lessons_src/examples/one.py", "n = 1\n")
    project.page("imports", "# I\n\n" + fence("from lessons_src.examples import one\nprint(one.n)", "imports") + "\n")
    lists = fence("import os\nprint(sorted(os.listdir('lessons_src/shelf')))", "lists")
    project.write("lessons_src/shelf/a.txt", "a")
    project.page("lists", f"# L\n\n{lists}\n")
    assert project.lessons("accept").status == 0
    project.write("lessons_src/examples/another.py", "n = 2\n")
    project.write("lessons_src/shelf/b.txt", "b")
    assert project.lessons("verify", "--frozen", "imports.md").status == 0
    assert "file lessons_src/shelf changed" in project.lessons("verify", "--frozen", "lists.md").text


def test_a_folder_that_only_this_checkout_has_is_no_data_of_a_block(project):
    """Git keeps no empty folder, and a temporary tree that a block removes is opened folder by folder."""
    lists = fence("import os\nprint(sorted(n for n in os.listdir('lessons_src/shelf') if '.' in n))", "lists")
    removes = "import os, shutil, tempfile\ntop = tempfile.mkdtemp()\nos.makedirs(top + '/lessons_src/shelf')\n"
    removes = fence(removes + "shutil.rmtree(top)\nprint('removed')", 'removes session="b"')
    project.write("lessons_src/shelf/a.txt", "a")
    project.page("lists", f"# L\n\n{lists}\n")
    project.page("removes", f"# R\n\n{removes}\n")
    assert project.lessons("accept").status == 0
    (project.root / "lessons_src/shelf/empty/emptier").mkdir(parents=True)
    (project.root / "lessons_src/notebooks").mkdir()
    assert project.lessons("verify", "--frozen").status == 0
    project.write("lessons_src/notebooks/a.py", "a = 1\n")
    assert project.lessons("verify", "--frozen", "removes.md").status == 0
    project.write("lessons_src/shelf/empty/emptier/b.txt", "b")
    assert "file lessons_src/shelf changed" in project.lessons("verify", "--frozen", "lists.md").text


def test_a_block_needs_what_the_blocks_before_it_need(project):
    """Replaying what leads to a block takes a machine that can: else the block, too, is shown from its record."""
    first, second = fence("import sys\nn = 1\nprint(n)", 'first needs="nvcc"'), fence("print(n + 1)", "second")
    apart = fence("print('apart')", 'apart session="b"')
    project.page("p", f"# P\n\n{first}\n{second}\n{apart}\nAnd `#!value n` here.\n")
    accepted = project.lessons("accept")
    assert accepted.status == 0, accepted.text
    (project.root / "lessons_src/outputs/p/index.json").write_text(
        project.read("lessons_src/outputs/p/index.json").replace('"python": "3.', '"python": "2.')
    )  # as from another machine, so nothing may stand in for a run
    shutil.rmtree(project.root / ".lessons")
    done = project.lessons("verify", LESSONS_WITHOUT="nvcc")
    assert done.status == 0, done.text
    assert done.counts() | {"blocks": 3} == {"ran": 1, "kept": 0, "frozen": 2, "failed": 0, "drifted": 0, "blocks": 3}


STALE = """\
import warnings


class StaleRecord(UserWarning):
    pass


def record():
    open("results/toy/a.json").close()
    warnings.warn(StaleRecord("a was measured on other code"))
    return 7
"""


def test_an_include_that_names_nothing_is_red_without_a_build(project):
    project.write("kernels/toy.py", OPS)
    project.page("p", '# P\n\n```python include="kernels.toy:double"\n```\n\n```python include="kernels/toy.py"\n```\n')
    assert project.lessons("verify").status == 0
    project.edit("docs/p.md", "toy:double", "toy:doubel")
    done = project.lessons("verify", "--frozen")
    assert (
        done.status == 1 and "docs/p.md:3: include: include='kernels.toy:doubel': kernels.toy defines no" in done.text
    )
    project.write("kernels/other.py", "from kernels.toy import double\n")
    project.edit("docs/p.md", "kernels.toy:doubel", "kernels.other:double")
    done = project.lessons("verify", "--frozen")
    assert done.status == 1 and "docs/p.md:3: include: include='kernels.other:double': kernels.other does" in done.text


def test_a_stale_record_behind_an_inline_value_is_named(project):
    project.write("kernels/toy.py", STALE)
    project.write("results/toy/a.json", '{"source": "kernels.toy:record"}')
    project.page("p", "# P\n\n" + fence("from kernels.toy import record", "a") + "It is `#!value record()`.\n")
    done = project.lessons("verify")
    assert "docs/p.md:6: stale: a was measured on other code" in done.text, done.text


def test_a_figure_of_a_results_file_is_judged_anew_when_a_measured_kernel_changes(project):
    """The block does not reach the kernel: only the file that it reads says what was measured."""
    project.write("kernels/toy.py", OPS)
    project.write("results/toy/a.json", '{"source": "kernels.toy:triple"}')
    project.page("p", "# P\n\n" + counted("a", "print(open('results/toy/a.json').read())"))
    assert project.lessons("accept").status == 0
    project.ran()
    project.edit("kernels/toy.py", "return x * SCALE", "return SCALE * x")
    assert project.build().status == 0 and project.ran() == []
    project.edit("kernels/toy.py", "return 3 * x", "return x * 3")
    assert project.lessons("verify", "--frozen").status == 1
    assert project.build().status == 0 and project.ran() == ["a"]


def test_a_page_that_runs_nothing_any_more_can_be_accepted(project):
    project.page("p", "# P\n\n" + fence("print(1)", "a"))
    assert project.lessons("accept").status == 0 and project.accepted()
    project.page("p", "# P\n\nNothing runs here.\n")
    assert project.lessons("verify").status == 1
    assert project.lessons("accept").status == 0
    assert project.accepted() == {} and project.lessons("verify").status == 0


def test_a_failed_block_does_not_show_what_it_once_gave(project):
    project.page("p", "# P\n\n" + fence("print('OLD ' + 'OUTPUT')", "a"))
    assert project.lessons("accept").status == 0
    project.page("p", "# P\n\n" + fence("print('OLD ' + 'OUTPUT' + oops)", "a"))
    done = project.build("--site-dir", "other")
    assert done.status == 1 and "NameError" in done.text and "OLD OUTPUT" not in done.text


def test_what_an_installer_wrote_into_the_folder_is_nothing_that_an_output_stands_on(project):
    """It is in the checkout that was installed, and in no other: there the output would be stale for no reason."""
    paths = ["toy.egg-info/entry_points.txt", "toy-1.dist-info/METADATA", "lessons_src/data.txt"]
    for path in paths:
        project.write(path, "5")
    code = f"import os\nfor name in {paths}:\n    print(open(name).read())\n"
    code += "try: os.listdir('__editable__.toy-1.finder.__path_hook__/lib')\nexcept OSError: pass"
    project.page("index", "# I\n\n" + fence(code, "it"))
    assert project.lessons("accept").status == 0
    index = json.loads(project.read("lessons_src/outputs/index/index.json"))
    assert index["blocks"]["it"]["data"] == "lessons_src/data.txt"
