"""A block that fails in any way is a red build that names page and line, and nothing that was good is lost."""

import shutil
from pathlib import Path

import pytest
from lessons_project import CONFIG, Project, fence, line_of, marks

GOOD = f"# Good\n\n{fence(marks('good') + chr(10) + 'print(6 * 7)', 'good')}\nThe end, `#!value 6 * 7`.\n"
CRASH = 'raise ValueError("planted")  # HERE'


def one(code: str, options: str = "a", language: str = "python") -> str:
    return "# P\n\n" + fence(code, options, language)


def nested(head: str, indent: str = "    ") -> str:
    return f'# P\n\n{head}{indent}```python exec="1" id="a"\n{indent}x = 1\n{indent}{CRASH}\n{indent}```\n'


FAILURES = {
    # name: (page, words of the report); the line is that of HERE, or the one above HERE+1, or the fence's
    "exception": (one(f"x = 1\n{CRASH}"), "ValueError: planted"),
    "front-matter": ("---\ntitle: P\ntags: [x]\n---\n\n" + one(CRASH), "ValueError: planted"),
    "exit": (one("import sys\nsys.exit(0)  # HERE"), "sys.exit(0)"),
    "hard-exit": (
        one("print(1)") + "\n" + fence("import os  # HERE+1\nos._exit(0)", "b"),
        "ended the process with status 0",
    ),
    "segfault": (one("import ctypes\nctypes.string_at(0)"), "SIGSEGV"),
    "time-limit": (one("import time\ntime.sleep(60)", 'a timeout="0.6"'), "time limit of 0.6 s"),
    "time-limit-in-c": (one("import ctypes\nctypes.CDLL(None).sleep(60)", 'a timeout="0.6"'), "time limit of 0.6 s"),
    "syntax": (one("x = 1\nx = = 2  # HERE"), "SyntaxError"),
    "function": (one("def f():\n    assert 1 == 2  # HERE") + "\n" + fence("f()", "b"), "AssertionError"),
    "project-code": (one("import kernels.toy\nkernels.toy.fail()  # HERE"), "in toy"),
    "several-lines": (one("raise ValueError('planted\\nand more')  # HERE"), "ValueError: planted"),
    "list": (nested("- item\n\n"), "ValueError: planted"),
    "admonition": (nested("!!! note\n"), "ValueError: planted"),
    "tab": (nested('=== "Tab"\n\n'), "ValueError: planted"),
    "quote": (nested("> said\n>\n", "> "), "ValueError: planted"),
    "windows": (one(f"x = 1\n{CRASH}").replace("\n", "\r\n"), "ValueError: planted"),
    "inline": ("# P\n\nText.\n\nThere are `#!value missing_name` things. <!-- HERE -->\n", "NameError"),
    "inline-too-early": (f"# P\n\nThe `#!value n`. <!-- HERE -->\n\n{fence('n = 1', 'a')}", "NameError"),
    "inline-lines": ("# P\n\nThe `#!value 'a' + chr(10) + 'b'`. <!-- HERE -->\n", "one line of text"),
    "option": (one("x = 1", 'a needs="quantum"'), "quantum"),
    "shell": (one("false", "a", "bash"), "status 1, expected 0"),
    "shell-pipe": (one("false | cat", "a", "bash"), "status 1, expected 0"),
    "shell-unset": (one("echo $NEVER_SET_BY_ANYONE", "a", "bash"), "expected 0"),
    "shell-passes": (one("true", 'a returncode="1"', "bash"), "status 0, expected 1"),
    "raises-other": (one("raise KeyError(3)  # HERE", 'a raises="ValueError"'), "KeyError: 3"),
    "raises-passes": (one("x = 1  # HERE", 'a raises="ValueError"'), "should raise ValueError"),
    "warning-as-error": (
        one("import warnings\nwarnings.simplefilter('error')\nwarnings.warn('w')  # HERE"),
        "UserWarning: w",
    ),
}


def expected_line(text: str) -> int:
    text = text.replace("\r\n", "\n")
    for mark, shift in (("HERE+1", -1), ("HERE", 0)):
        if mark in text:
            return line_of(text, mark) + shift
    return 3  # the fence


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A good site, then the same with every failing page beside it: what the failed build said and left."""
    project = Project(tmp_path_factory.mktemp("failures") / "p")
    project.write("kernels/toy.py", "def fail():\n    raise RuntimeError('in toy')\n")
    project.page("good", GOOD)
    first = project.lessons("accept")
    assert first.status == 0, first.text
    first = project.build()
    assert first.status == 0, first.text
    before = project.html("good")
    project.ran()
    project.edit("docs/good.md", "The end", "The very end")
    project.edit("docs/good.md", "6 * 7)", "3 * 14)")  # so that the block must run again
    for name, (text, _) in FAILURES.items():
        project.page(name, text)
    done = project.build()
    return project, before, done


def test_the_build_is_red_and_the_site_is_the_last_good_one(built):
    project, before, done = built
    assert done.status == 1
    assert project.html("good") == before
    assert not (project.root / "site" / "exception").exists()
    assert not [path.name for path in project.root.glob(".site-*")]  # nothing left over beside it
    assert "literal" not in done.text and 'Traceback (most recent call last):\n  File "/' not in done.text


@pytest.mark.parametrize("name", FAILURES)
def test_the_report_names_page_and_line(built, name):
    _, _, done = built
    text, words = FAILURES[name]
    where = f"docs/{name}.md:{expected_line(text)}: "
    lines = [line for line in done.text.splitlines() if where in line and "ERROR" in line]
    assert lines, "\n".join(line for line in done.text.splitlines() if f"docs/{name}.md" in line)
    assert words in lines[0]


def test_other_pages_ran_and_were_counted(built):
    project, _, done = built
    assert project.ran() == ["good"]
    counts = done.counts()
    assert counts["blocks"] == counts["ran"] + counts["kept"] + counts["frozen"] + counts["failed"]
    blocks = sum(text.count('exec="1"') for text, _ in FAILURES.values()) + 1
    assert counts["blocks"] == blocks - 1  # the option fault is no block


def test_a_failure_is_never_stored(built):
    project, _, _ = built
    again = project.lessons("verify", "exception.md")
    assert again.status == 1 and "docs/exception.md:5: failed" in again.text
    again = project.lessons("verify", "exception.md", "--frozen")
    assert again.status == 1 and "missing" in again.text


def test_accept_refuses_a_page_with_a_failing_block_and_leaves_its_files(project):
    project.page("index", f"# P\n\n{fence('print(1)', 'one')}\n{fence('print(2)', 'two')}")
    project.page("other", f"# O\n\n{fence('print(3)', 'three')}")
    assert project.lessons("accept").status == 0
    before = project.accepted()
    project.edit("docs/index.md", "print(1)", "print(100)")
    project.edit("docs/index.md", "print(2)", "print(1 / 0)")
    project.edit("docs/other.md", "print(3)", "print(4)")
    done = project.lessons("accept")
    assert done.status == 1
    assert "docs/index.md:8: failed [two]: ZeroDivisionError" in done.text
    after = project.accepted()
    assert {name: data for name, data in after.items() if name.startswith("index")} == {
        name: data for name, data in before.items() if name.startswith("index")
    }
    assert after["other/three.txt"] == b"4\n"  # another page is no reason to refuse


def test_expected_failures_pass(project):
    raises = fence('print("before")\nraise FileNotFoundError("planted")', 'a raises="OSError" session="x"')
    shell = fence("echo before; exit 3", 'b returncode="3"', "bash")
    project.page("index", f"# P\n\n{raises}\n{shell}")
    assert project.lessons("accept").status == 0
    assert project.accepted()["index/a.txt"] == b"before\nFileNotFoundError: planted\n"
    assert project.accepted()["index/b.txt"] == b"before\n"
    assert project.lessons("verify").status == 0


@pytest.mark.parametrize(
    ("where", "plant"),
    [
        ("validator", "fence.take_own_options = lambda inputs: 1 / 0"),
        ("scan", "fence._collect = lambda *rest: 1 / 0"),
        ("formatter", "fence._render = lambda *rest: 1 / 0"),
        ("renderer", "render.PageRenderer.block = lambda *rest: 1 / 0"),
        ("inline", "render.PageRenderer.inline = lambda *rest: 1 / 0"),
        ("lost", "fence._render = lambda *rest: ''"),
        ("numbering", "plugin.annotate_known = lambda scan: scan.source.body"),
    ],
)
def test_a_bug_of_our_own_is_red_and_never_literal_fence_text(project, where, plant):
    project.page("index", GOOD)
    assert project.lessons("accept").status == 0
    assert project.build().status == 0
    before = project.html()
    shutil.rmtree(project.root / ".lessons")  # else the scan and the HTML are remembered
    hook = f"from kernels.lessons import fence, render\nfrom kernels.lessons.mkdocs_plugin import plugin\n{plant}\n"
    project.write("hook.py", hook)
    project.write("mkdocs.yml", CONFIG + "hooks: [hook.py]\n")
    done = project.run("mkdocs", "build")
    assert done.status == 1, done.text
    assert "index.md" in done.text
    assert project.html() == before and "```" not in before
    assert not list(project.root.glob(".site-*"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "said"),
    [
        (b"# P\n\nna\xefve\n", "wrong.md: line 3 holds the byte 0xef, which is no UTF-8; save the page as UTF-8"),
        ("# P\n".encode("utf-16"), "wrong.md: line 1 holds the byte 0xff, which is no UTF-8"),
        (b"---\ntitle: Softmax: twice\n---\n# P\n", "wrong.md: line 2: the front matter is no YAML, mapping values"),
        (b'---\ntitle: "open\n---\n# P\n', "the front matter is no YAML, found unexpected end of stream"),
    ],
)
def test_a_page_that_cannot_be_read_is_named(project, page, said):
    (project.root / "docs/wrong.md").write_bytes(page)
    for command in (["build"], ["verify"]):
        done = project.lessons(*command)
        assert done.status and said in " ".join(done.text.split()) and "Traceback" not in done.text, done.text


def test_a_page_may_begin_with_a_rule(project):
    (project.root / "docs/ruled.md").write_text("---\nTwo rules, so: no front matter.\n---\n\n# P\n")
    assert project.lessons("build").status == 0


def test_mike_publishes_nothing_when_a_page_fails_or_drifts(tmp_path: Path):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    project = Project(tmp_path / "p", CONFIG.replace("plugins: [lessons]", "plugins: [lessons, mike]"))
    project.page("index", GOOD)
    project.write(".gitignore", "/site/\n/.lessons/\n/.site-*/\n")
    assert project.lessons("accept").status == 0
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")
    for command in (("git", "init", "-q", "-b", "main"), ("git", "add", "."), (*git, "commit", "-qm", "a")):
        assert project.run(*command).status == 0
    for name in ("user.name", "user.email"):
        project.run("git", "config", name, "a@example.org")
    done = project.run("mike", "deploy", "1.0", "latest")
    assert done.status == 0, done.text
    published = project.run("git", "rev-parse", "gh-pages").text
    assert "42" in project.run("git", "show", "gh-pages:1.0/index.html").text
    project.edit("docs/index.md", "6 * 7)", "6 * 8)")  # drift is enough
    done = project.run("mike", "deploy", "1.1", "latest", "--update-aliases")
    assert done.status != 0 and "docs/index.md:3: drift [good]" in done.text
    assert project.run("git", "rev-parse", "gh-pages").text == published
    project.edit("docs/index.md", "print(6 * 8)", "raise SystemExit")
    done = project.run("mike", "deploy", "1.1", "latest", "--update-aliases")
    assert done.status != 0 and "docs/index.md:5: failed [good]" in done.text
    assert project.run("git", "rev-parse", "gh-pages").text == published
