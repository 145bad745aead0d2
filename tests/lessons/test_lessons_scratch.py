"""`lessons scratch`: a branch in a worktree of its own, made whole or not at all, and the caller's tree as it was."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lessons_project import LIMIT_S, Project, until

from kernels.lessons import scratch_check

GIT = shutil.which("git")
pytestmark = pytest.mark.skipif(GIT is None, reason="git is not installed")

PAGE = """# A page

```python exec="1" source="above" id="first"
total = sum(range(10))
print("total", total)
```

```python exec="1" source="above" id="second"
print("twice", 2 * total)
```

```bash exec="1" source="above" id="shell"
echo from a shell
```

```python exec="1" source="above" id="stops" raises="ZeroDivisionError" session="apart"
1 / 0
```

```python exec="1" html="1" id="drawn" session="drawn"
print("<table><tr><td>1 &lt; 2</td><td>3</td></tr></table>")
```
"""
STARTER = 'print("edit me")\n'
WHO = ("-c", "user.name=Someone", "-c", "user.email=someone@test.invalid")


def git(*command: str, cwd: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    done = subprocess.run([GIT, *WHO, *command], cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"git {' '.join(command)}: {done.stderr}"
    return done.stdout


@pytest.fixture
def repository(tmp_path) -> Project:
    """A project with one accepted page and one exercise, committed."""
    (tmp_path / "mine").mkdir()
    made = Project(tmp_path / "mine")
    made.page("labs/page", PAGE)
    made.write("lessons_src/exercises/add_two.py", STARTER)
    made.write(".gitignore", ".lessons/\n__pycache__/\n")
    assert made.lessons("accept").status == 0
    git("init", "--quiet", "--initial-branch=main", cwd=made.root)
    git("add", "--all", cwd=made.root)
    git("commit", "--quiet", "--message=Start", cwd=made.root)
    return made


def scratch_of(project: Project, name: str = "add_two") -> Path:
    return project.root.parent / f"{project.root.name}-scratch" / name


def state(root: Path) -> dict[str, object]:
    """Everything of the caller's that must not change: files, index, HEAD, refs but scratch/, stash, configuration."""
    place = root / git("rev-parse", "--git-dir", cwd=root).strip()
    common = root / git("rev-parse", "--git-common-dir", cwd=root).strip()
    files = {
        path.relative_to(root): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not {".git", ".lessons", "__pycache__"} & set(path.relative_to(root).parts)
    }
    refs = [line for line in git("for-each-ref", cwd=root).splitlines() if "refs/heads/scratch" not in line]
    kept = [(place / name).read_bytes() for name in ("index", "HEAD")] + [(common / "config").read_bytes()]
    return {"files": files, "kept": kept, "refs": refs}


def leftovers(project: Project) -> list[str]:
    """What a failed attempt left: branches, worktrees, folders."""
    branches = git("branch", "--list", "scratch/*", cwd=project.root).split()
    trees = git("worktree", "list", "--porcelain", cwd=project.root).count("worktree ") - 1
    beside = sorted(path.name for path in project.root.parent.iterdir() if "scratch" in path.name)
    return [*branches, *(["a worktree"] * trees), *beside]


def typed(said: str, what: str) -> str:
    return re.search(rf"^  {what} +(.+)$", said, re.MULTILINE)[1]


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "KERNEL_LESSONS_ROOT")}
    return subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("block", "prints"),
    [
        ("first", "total 45\n"),
        ("second", "total 45\ntwice 90\n"),
        ("shell", "from a shell\n"),
        ("drawn", "1 < 2 3\n"),
    ],
)
def test_a_block_with_the_code_before_it_runs_and_is_checked(repository, block, prints):
    done = repository.lessons("scratch", f"labs/page#{block}")
    assert done.status == 0, done.text
    folder = scratch_of(repository, f"labs/page/{block}")
    assert git("branch", "--show-current", cwd=folder).strip() == f"scratch/labs/page/{block}"
    assert git("status", "--porcelain", cwd=folder) == ""
    assert run(typed(done.text, "run"), folder).stdout == prints
    checked = run(typed(done.text, "check"), folder)
    assert checked.returncode == 0 and "as on the page" in checked.stdout, checked.stdout + checked.stderr
    timed = run(typed(done.text, "time"), folder)
    assert timed.returncode == 0 and "best of 5" in timed.stdout, timed.stderr
    snippet = next((folder / "scratch").glob("snippet.*"))
    snippet.write_text(snippet.read_text() + ("echo more\n" if block == "shell" else "print('more')\n"))
    differs = run(typed(done.text, "check"), folder)
    assert differs.returncode == 1 and "+more" in differs.stdout, differs.stdout + differs.stderr


def test_the_readme_has_three_lines_with_the_printed_commands(repository):
    said = repository.lessons("scratch", "docs/labs/page.md#stops").text
    folder = scratch_of(repository, "labs/page/stops")
    lines = (folder / "scratch" / "README.md").read_text().splitlines()
    assert len(lines) == 3
    for line, what in zip(lines, ("run", "check", "time"), strict=True):
        assert f"`{typed(said, what)}`" in line
    assert run(typed(said, "run"), folder).returncode == 1
    checked = run(typed(said, "check"), folder)
    assert checked.returncode == 0 and "it raises ZeroDivisionError" in checked.stdout


def test_an_exercise_is_ready_to_edit(repository):
    done = repository.lessons("scratch", "add_two")
    folder = scratch_of(repository)
    assert done.status == 0, done.text
    assert typed(done.text, "edit") == "lessons_src/exercises/add_two.py"
    assert run(typed(done.text, "run"), folder).stdout == "edit me\n"
    assert sys.executable in typed(done.text, "run")  # no other environment is installed
    assert repository.lessons("scratch", "lessons_src/exercises/add_two.py").status == 2  # it exists


def test_an_exercise_with_checks_is_checked_by_lessons_check(repository):
    repository.write("lessons_src/checks/add_two.py", "")
    repository.write("kernels/ops/registry.py", 'NAMES = (\n    "add",\n    "two",\n)\n')
    git("add", "--all", cwd=repository.root)
    git("commit", "--quiet", "--message=Checks", cwd=repository.root)
    said = repository.lessons("scratch", "add_two").text
    assert typed(said, "check").endswith(" -m kernels.lessons.command check add_two")
    assert "kernels.bench" not in typed(said, "time")


def test_an_exercise_with_work_to_time_runs_and_is_timed_by_it(repository):
    repository.write("lessons_src/checks/add_two.py", "def timed(answer, device):\n    return lambda: 2\n")
    git("add", "--all", cwd=repository.root)
    git("commit", "--quiet", "--message=Work", cwd=repository.root)
    said = repository.lessons("scratch", "add_two").text
    assert typed(said, "run").endswith(" -m kernels.exercises.timing add_two --once")
    assert typed(said, "time").endswith(" -m kernels.exercises.timing add_two")


def test_an_operator_is_timed_by_kernel_bench_and_a_machine_without_a_gpu_says_so(repository):
    repository.write("kernels/ops/registry.py", 'NAMES = (\n    "add",\n)\n')
    repository.write("lessons_src/exercises/add_two.py", "# stands on kernels.ops.add\n")
    git("add", "--all", cwd=repository.root)
    git("commit", "--quiet", "--message=Operator", cwd=repository.root)
    said = repository.lessons("scratch", "add_two", LESSONS_WITHOUT="gpu").text
    assert "kernels.bench.command --op add --output results/local/scratch-add.json" in typed(said, "time")
    assert "it measures on a GPU" in said


def test_a_dirty_tree_stays_as_it_is_and_the_branch_begins_at_the_commit(repository):
    root = repository.root
    repository.edit("lessons_src/exercises/add_two.py", "edit me", "my own work")
    repository.edit("docs/labs/page.md", "range(10)", "range(99)")
    git("add", "docs/labs/page.md", cwd=root)
    repository.edit("docs/labs/page.md", "range(99)", "range(98)")
    repository.write("new.txt", "untracked")
    (root / "lessons_src" / "outputs" / "labs" / "page" / "first.txt").unlink()
    os.utime(root / "mkdocs.yml", (1, 1))  # git status would write this into the index
    before = state(root)
    for name in ("add_two", "labs/page#first"):
        done = repository.lessons("scratch", name)
        assert done.status == 0 and "4 files stay as changed and not committed" in done.text, done.text
        assert ("your lessons_src/exercises/add_two.py is among them" in done.text) == (name == "add_two")
        if name == "add_two":
            copy = re.search(r"^  (cp .+)$", done.text, re.MULTILINE)[1]
    assert state(root) == before
    assert (scratch_of(repository) / "lessons_src/exercises/add_two.py").read_text() == STARTER
    assert run(copy, root).returncode == 0
    assert "my own work" in (scratch_of(repository) / "lessons_src/exercises/add_two.py").read_text()
    assert "range(10)" in (scratch_of(repository, "labs/page/first") / "scratch/snippet.py").read_text()
    assert not (scratch_of(repository) / "new.txt").exists()


def test_nothing_is_said_of_changes_in_a_clean_tree(repository):
    said = repository.lessons("scratch", "add_two").text
    head = git("rev-parse", "HEAD", cwd=repository.root).strip()
    assert "uncommitted" not in said and f"one commit on top of {head[:9]}, in" in said


@pytest.mark.parametrize(
    "name",
    ["../up", "a b", "x;ls", "-x", "add_two/", "ADD", "", "labs/page#", "labs/../page#first", "labs/page#first#first",
     "ümlaut", "labs//page#first", "/labs/page#first", "$(ls)", "a\nb"],
)  # fmt: skip
def test_an_odd_name_is_refused(repository, name):
    done = repository.lessons("scratch", "--", name)
    assert done.status == 2 and done.text.startswith("lessons: "), done.text
    assert leftovers(repository) == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nothing", "the last commit has no exercise 'nothing'; it has add_two"),
        ("labs/none#first", "the last commit has no page docs/labs/none.md"),
        ("labs/page#third", "has no block 'third' in the last commit; it has first, second, shell, stops, drawn"),
    ],
)
def test_what_the_last_commit_lacks_is_refused_though_the_tree_has_it(repository, name, said):
    repository.write("lessons_src/exercises/nothing.py", "")
    repository.page("labs/none", PAGE)
    repository.edit("docs/labs/page.md", 'id="shell"', 'id="third"')
    done = repository.lessons("scratch", name)
    assert done.status == 2 and said in done.text
    assert leftovers(repository) == []


def test_a_branch_or_a_folder_that_exists_is_refused_with_the_way_on(repository):
    root, folder = repository.root, scratch_of(repository)
    assert repository.lessons("scratch", "add_two").status == 0
    (folder / "kept.txt").write_text("kept")
    again = repository.lessons("scratch", "add_two")
    assert again.status == 2 and f"go on with it: cd {folder}" in again.text

    shutil.rmtree(folder)
    gone = repository.lessons("scratch", "add_two")
    command = gone.text.partition("go on with it: ")[2].strip()
    assert gone.status == 2 and command == f"git worktree prune && git worktree add {folder} scratch/add_two"
    assert run(command, root).returncode == 0 and folder.is_dir()

    git("worktree", "remove", "--force", str(folder), cwd=root)
    unused = repository.lessons("scratch", "add_two")
    assert unused.status == 2 and f"go on with it: git worktree add {folder} scratch/add_two" in unused.text

    git("branch", "--delete", "--force", "scratch/add_two", cwd=root)
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    taken = repository.lessons("scratch", "add_two")
    assert taken.status == 2 and "exists already, and is never written over" in taken.text
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]
    other = repository.lessons("scratch", "add_two", "--folder", str(root.parent / "elsewhere"))
    assert other.status == 0 and (root.parent / "elsewhere" / "mkdocs.yml").exists()


def test_a_branch_named_scratch_is_in_the_way(repository):
    git("branch", "scratch", cwd=repository.root)
    done = repository.lessons("scratch", "add_two")
    assert done.status == 2 and "a branch named 'scratch' is in the way" in done.text


def test_git_that_is_missing_and_folders_that_are_no_repository_are_refused(repository, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    without = repository.lessons("scratch", "add_two", PATH=str(empty))
    assert without.status == 2 and "git is not installed here" in without.text
    plain = tmp_path / "plain"
    shutil.copytree(repository.root, plain, ignore=shutil.ignore_patterns(".git"))
    other = Project.__new__(Project)
    other.root, other.log = plain, repository.log
    done = other.lessons("scratch", "add_two", GIT_CEILING_DIRECTORIES=str(tmp_path))
    assert done.status == 2 and "is in no git repository" in done.text and "git init" in done.text
    git("init", "--quiet", cwd=plain)
    unborn = other.lessons("scratch", "add_two")
    assert unborn.status == 2 and "no commit yet" in unborn.text
    git("config", "core.bare", "true", cwd=repository.root)
    bare = repository.lessons("scratch", "add_two")
    assert bare.status == 2 and "is a bare repository" in bare.text
    nowhere = Project.__new__(Project)
    nowhere.root, nowhere.log = empty, repository.log
    assert "no mkdocs.yml lies in" in nowhere.lessons("scratch", "add_two").text


def at(root: Path, repository: Project) -> Project:
    other = Project.__new__(Project)
    other.root, other.log = root, repository.log
    return other


def test_detached_shallow_submodule_subfolder_and_worktree_of_a_worktree(repository, tmp_path):
    origin = repository.root
    git("checkout", "--quiet", "--detach", cwd=origin)
    assert repository.lessons("scratch", "add_two").status == 0
    assert git("rev-parse", "--abbrev-ref", "HEAD", cwd=origin).strip() == "HEAD"
    git("checkout", "--quiet", "main", cwd=origin)

    git("commit", "--quiet", "--allow-empty", "--message=Second", cwd=origin)
    git("clone", "--quiet", "--depth=1", origin.as_uri(), str(tmp_path / "shallow"), cwd=tmp_path)
    shallow = at(tmp_path / "shallow", repository)
    assert shallow.lessons("scratch", "add_two").status == 0 and scratch_of(shallow).is_dir()

    above = tmp_path / "above"
    above.mkdir()
    git("init", "--quiet", cwd=above)
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(origin), "sub", cwd=above)
    git("commit", "--quiet", "--message=Sub", cwd=above)
    sub = at(above / "sub", repository)
    done = sub.lessons("scratch", "labs/page#first")
    folder = scratch_of(sub, "labs/page/first")
    assert done.status == 0 and run(typed(done.text, "check"), folder).returncode == 0, done.text
    git("worktree", "add", "--quiet", str(tmp_path / "wt"), "-b", "wt", cwd=origin)
    tree = at(tmp_path / "wt", repository)
    before = state(tree.root)
    done = tree.lessons("scratch", "labs/page#second")
    assert done.status == 0 and run(typed(done.text, "check"), scratch_of(tree, "labs/page/second")).returncode == 0
    assert state(tree.root) == before

    # The project in a folder of a repository that holds submodules, too: git does not move such worktrees.
    shutil.copytree(origin, above / "inner", ignore=shutil.ignore_patterns(".git", ".lessons"))
    git("add", "inner", cwd=above)
    git("commit", "--quiet", "--message=Inner", cwd=above)
    inner = at(above / "inner", repository)
    done = inner.lessons("scratch", "labs/page#first")
    folder = tmp_path / "above-scratch" / "labs" / "page" / "first" / "inner"
    assert done.status == 0 and run(typed(done.text, "check"), folder).returncode == 0, done.text


def test_hooks_and_git_variables_of_the_surroundings_have_no_say(repository, tmp_path):
    hook = repository.root / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\nexit 1\n")
    hook.chmod(0o755)
    before = state(repository.root)
    done = repository.lessons(
        "scratch", "add_two", GIT_DIR="/nowhere", GIT_INDEX_FILE=str(tmp_path / "index"), GIT_WORK_TREE="/nowhere",
        HOME=str(tmp_path), GIT_CONFIG_GLOBAL=os.devnull, EMAIL="",
    )  # fmt: skip
    assert done.status == 0, done.text
    assert state(repository.root) == before
    assert not (tmp_path / "ran").exists() and not (tmp_path / "index").exists()


def shim(folder: Path, case: str) -> dict[str, str]:
    """A `git` that does what `case` says when it is asked for something, and otherwise what git does."""
    folder.mkdir()
    (folder / "git").write_text(
        f'#!/bin/bash\nreal={shlex.quote(GIT)}\ncase " $* " in\n{case}\nesac\nexec "$real" "$@"\n'
    )
    (folder / "git").chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


FULL = 'echo "fatal: sha1 file write error: No space left on device" >&2; exit 128;;'


@pytest.mark.parametrize(
    "case",
    [
        f'*" hash-object "*) {FULL}',
        f'*" write-tree "*) {FULL}',
        f'*" worktree add "*) "$real" "$@"; place="${{@: -2:1}}"; rm "$place/mkdocs.yml"; {FULL}',
        f'*" worktree add "*) mkdir -p "${{@: -2:1}}"; {FULL}',
        f'*" checkout --quiet -b "*) "$real" "$@"; {FULL}',
        f'*" checkout --quiet -b "*) {FULL}',
    ],
)
def test_a_full_disk_leaves_nothing(repository, tmp_path, case):
    before = state(repository.root)
    done = repository.lessons("scratch", "labs/page#first", **shim(tmp_path / "bin", case))
    assert done.status == 2 and "nothing was made: " in done.text and "No space left on device" in done.text
    assert leftovers(repository) == [] and state(repository.root) == before
    assert repository.lessons("scratch", "labs/page#first").status == 0


def test_a_folder_that_cannot_be_made_is_refused(repository, tmp_path):
    (tmp_path / "file").write_text("")
    done = repository.lessons("scratch", "add_two", "--folder", str(tmp_path / "file" / "below"))
    assert done.status == 2 and "cannot be made" in done.text
    assert leftovers(repository) == []


@pytest.mark.usefixtures("signals_are_heard")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("when", ["worktree add", "checkout --quiet -b"])
def test_one_that_is_killed_leaves_nothing_under_its_name(repository, tmp_path, number, when):
    begun = tmp_path / "begun"
    slow = shim(tmp_path / "bin", f'*" {when} "*) "$real" "$@"; touch {begun}; sleep 1; exit 0;;')
    command = [sys.executable, "-m", "kernels.lessons.command", "scratch", "add_two"]
    environment = repository.environment(**slow)
    process = subprocess.Popen(
        command, cwd=repository.root, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until(lambda: begun.exists() or process.poll() is not None)
    assert process.poll() is None
    process.send_signal(number)
    assert process.wait(LIMIT_S) != 0
    assert not scratch_of(repository).exists()
    if number != signal.SIGKILL:  # that one nothing can hear; the next attempt clears up
        assert leftovers(repository) == []
    time.sleep(1.1)  # the shim's own child
    assert repository.lessons("scratch", "add_two").status == 0
    assert leftovers(repository) == ["+", "scratch/add_two", "a worktree", "mine-scratch"]
    assert [path.name for path in scratch_of(repository).parent.iterdir()] == ["add_two"]


@pytest.mark.parametrize(
    ("page", "block", "said"),
    [
        ("labs/old.md", "first", "UNAVAILABLE: this branch has no page docs/labs/old.md any more"),
        (
            "labs/page.md",
            "old",
            "UNAVAILABLE: docs/labs/page.md has no block 'old' any more; it has first, second, shell, stops, drawn",
        ),
    ],
)
def test_a_block_that_was_renamed_is_a_sentence(repository, monkeypatch, capsys, page, block, said):
    monkeypatch.chdir(repository.root)
    assert scratch_check.check(page, block, "scratch/snippet.py") == scratch_check.UNAVAILABLE
    assert capsys.readouterr().out.strip() == said
