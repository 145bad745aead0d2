"""The processes that run pages: warm ones stay for the next build, and nothing outlives who waits for it."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from lessons_project import LIMIT_S, PACKAGE, Project, fence, until

from kernels.lessons import runner
from kernels.lessons.locks import is_alive
from kernels.lessons.runner import Job, JobResult, Runner

forks = pytest.mark.skipif(not runner._CAN_FORK, reason="this system cannot fork")


@pytest.fixture(params=[pytest.param(True, marks=forks, id="fork"), pytest.param(False, id="no fork")])
def either(request, monkeypatch) -> bool:
    """With a warm process, and as on a system that cannot fork."""
    monkeypatch.setattr(runner, "_CAN_FORK", request.param)
    return request.param


@pytest.fixture
def running(tmp_path):
    with Runner(tmp_path, jobs=4) as started:
        yield started


def job(root: Path, code: str, name: str = "a", limit_s: float = 60.0) -> Job:
    item = {"kind": "block", "id": name, "line": 1, "language": "python", "code": code}
    return Job(name, root / "page.md", [item | {"session": "", "returncode": 0, "raises": ""}], {name: limit_s})


def only(running: Runner, code: str, **named) -> JobResult:
    limit_s = named.pop("limit_s", 60.0)
    return next(result for _, result in list(running.run([job(running.root, code, limit_s=limit_s)], **named)))


def printed(result: JobResult) -> str:
    assert result.reports["a"]["ok"], result
    return result.reports["a"]["text"]


def gone(process: int) -> bool:
    deadline = time.monotonic() + LIMIT_S
    while is_alive(process) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_alive(process)


@forks
def test_the_warm_process_stays_and_keeps_what_it_has_imported(running):
    parents = []
    for _ in range(3):
        assert printed(only(running, "import numpy, os\nprint(numpy.arange(3).sum())")) == "3\n"
        time.sleep(0.2)  # a signal at the end of a thread would have come by now
        process = running._zygotes[False][0]
        assert process.poll() is None
        parents.append(process.pid)
    assert len(set(parents)) == 1
    assert "numpy" in printed(only(running, "import sys\nprint(*(each for each in sys.modules if each == 'numpy'))"))
    running.close()
    assert gone(parents[0])


@forks
def test_a_warm_process_that_ended_is_started_again(running):
    only(running, "print(1)")
    first = running._zygotes[False][0]
    first.kill()
    first.wait()
    assert printed(only(running, "print(2)")) == "2\n"
    dead = running._zygotes[False][0]
    os.kill(dead.pid, signal.SIGKILL)  # and one that ends between the look at it and the job
    dead.poll = lambda: None
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
    assert printed(only(running, "print(3)")) == "3\n"


@forks
def test_warm_processes_that_do_not_stay_are_a_fault_of_the_page_and_leave_nothing(running, monkeypatch):
    def refuse(*_):
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(runner, "_send", refuse)
    before = len(list(Path("/dev/fd").iterdir()))
    for _ in range(3):
        result = only(running, "print(1)")
        assert "could not be started: the process that starts workers does not stay" in result.ended
    assert len(list(Path("/dev/fd").iterdir())) <= before + 1  # that of the process that is kept


@forks
def test_an_edit_of_the_package_itself_reaches_the_next_worker(running):
    package = running.root / "kernels" / "__init__.py"
    package.parent.mkdir()
    for number in (1, 2):
        package.write_text(f"{PACKAGE}NUMBER = {number}{' ' * number}\n")
        assert printed(only(running, "import kernels\nprint(kernels.NUMBER)")) == f"{number}\n"


def test_results_come_as_they_end(running, either):
    slow = job(running.root, "import os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.02)", "slow")
    results = running.run([slow, job(running.root, "print(1)", "quick")])
    assert next(results)[0].page == "quick"
    (running.root / "go").touch()
    assert [each.page for each, _ in results] == ["slow"]


def test_a_time_limit_needs_no_select(running, either):
    result = only(running, "import time\ntime.sleep(1000)", limit_s=0.5)
    assert result.failed_at == "a" and result.ended.startswith("passed its time limit of 0.5 s and was stopped")
    assert 'timeout="1"' in result.ended


def test_on_a_crowded_machine_a_limit_waits_for_its_turn(running, monkeypatch):
    """The limit is eight times as long there, which leaves time enough on a machine that is crowded in truth."""
    cores = os.cpu_count()
    monkeypatch.setattr(os, "getloadavg", lambda: (8 * cores, 0, 0))
    assert printed(only(running, "import time\ntime.sleep(3)\nprint(1)", limit_s=2.5)) == "1\n"
    monkeypatch.setattr(os, "getloadavg", lambda: (0.1, 0, 0))
    assert only(running, "import time\ntime.sleep(1000)", limit_s=0.5).failed_at == "a"


def test_what_nobody_waits_for_is_stopped(running, either):
    started = threading.Event()
    named = {"progress": lambda *_: started.set(), "interrupted": started.is_set}
    assert only(running, "import time\ntime.sleep(1000)", **named).interrupted


def test_who_stops_taking_results_stops_what_runs(running, either):
    """Or closing waits for it: it ends at last, and leaves a file."""
    slow = job(running.root, "import time\ntime.sleep(30)\nopen('ended', 'w')", "slow")
    results = running.run([slow, job(running.root, "print(1)", "quick")])
    assert next(results)[0].page == "quick"
    results.close()
    assert not (running.root / "ended").exists()


def test_a_block_does_not_read_the_authors_terminal(running, either, monkeypatch):
    reader, writer = os.pipe()
    os.write(writer, b"typed by the author\n")
    kept = os.dup(0)
    os.dup2(reader, 0)
    try:
        report = only(running, "print(input())").reports["a"]
    finally:
        os.dup2(kept, 0)
        for each in (reader, writer, kept):
            os.close(each)
    assert not report["ok"] and "EOFError" in report["error"]


@pytest.mark.parametrize("end", ["", "\nimport time\ntime.sleep(1000)", "\nimport os\nos._exit(1)"])
def test_what_a_block_leaves_in_the_temporary_folder_goes_with_its_page(running, either, tmp_path, monkeypatch, end):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("TMPDIR", str(temporary))
    code = (
        "import subprocess, sys, tempfile\nfrom pathlib import Path\n"
        "Path(tempfile.mkdtemp(), 'left').write_text('1')\n"
        "child = 'import tempfile; print(tempfile.mkdtemp())'\n"
        "made = subprocess.run([sys.executable, '-c', child], capture_output=True, text=True).stdout\n"
        "Path('making').write_text(made + tempfile.mkdtemp())\nPath('making').rename('made')"
    )
    stopped = (running.root / "made").exists if "sleep" in end else None
    only(running, code + end, interrupted=stopped)
    made = (running.root / "made").read_text().split()
    assert len(made) == 2 and all(each.startswith(str(temporary)) for each in made)
    assert list(temporary.iterdir()) == []


@forks
def test_the_child_of_a_block_that_forks_does_not_go_on_with_the_page(running):
    first = job(running.root, "import os\nchild = os.fork()\nif child:\n    os.waitpid(child, 0)\nprint('it')", "a")
    second = job(running.root, "with open('ran', 'a') as file:\n    print(os.getpid(), file=file)", "b")
    both = Job("page", first.path, first.items + second.items, first.limits | second.limits)
    started = []
    [(_, result)] = running.run([both], progress=lambda _, item: started.append(item))
    assert started == ["a", "b"] and result.reports["a"]["text"].split() == ["it", "it"]
    assert len((running.root / "ran").read_text().split()) == 1


@forks
def test_a_block_that_ends_its_parents_group_ends_no_other_page(running):
    other = job(running.root, "open('began', 'w').close()\nimport time\ntime.sleep(3)\nprint('other')", "other")
    code = "import os, pathlib, signal, time\nwhile not pathlib.Path('began').exists():\n    time.sleep(0.01)\n"
    ends = job(running.root, code + "os.killpg(os.getpgid(os.getppid()), signal.SIGKILL)\ntime.sleep(60)", "ends")
    results = {each.page: result for each, result in running.run([other, ends])}
    assert results["other"].reports["other"]["text"] == "other\n"
    assert results["ends"].ended == "ended without a report"


@forks
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells who is left")
def test_a_process_in_a_group_of_its_own_ends_with_its_page(running):
    code = "import subprocess\nmade = subprocess.Popen(['sleep', '600'], start_new_session=True)\nprint(made.pid)"
    left = int(printed(only(running, code)))
    try:
        assert gone(left)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(left, signal.SIGKILL)


BUILD = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_lessons_runner import job
from kernels.lessons.runner import Runner
root = Path(sys.argv[1])
code = "import os, time\\nopen('pids', 'w').write(f'{os.getpid()} {os.getppid()} ')\\ntime.sleep(1000)"
with Runner(root) as running:
    for _ in running.run([job(root, code)], progress=lambda *_: print(running._zygotes[False][0].pid, flush=True)):
        pass
"""


@forks
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux kills with the parent")
@pytest.mark.usefixtures("signals_are_heard")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_outlives_a_command_that_is_killed_or_interrupted(tmp_path, number):
    command = [sys.executable, "-c", BUILD, tmp_path, Path(__file__).parent]
    process = subprocess.Popen(
        command,
        env=os.environ | {"TMPDIR": str(tmp_path)},  # a folder there outlives who is killed
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        zygote = int(process.stdout.readline())
        until(lambda: _numbers(tmp_path / "pids"))
        pids = _numbers(tmp_path / "pids")
        os.killpg(process.pid, number)  # a terminal's Control-C goes to the whole group
        said = process.communicate(timeout=LIMIT_S)[1]
    finally:
        process.kill()
        process.wait()
    assert len(pids) == 2 and all(gone(each) for each in [zygote, *pids])
    assert said.count("Traceback") == (number == signal.SIGINT), said  # Python's own, of the command


def _numbers(path: Path) -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        text = path.read_text()
        return [int(each) for each in text.split()] if text.endswith(" ") else []
    return []


@forks
@pytest.mark.usefixtures("signals_are_heard")
def test_control_c_ends_a_build_at_once_and_quietly(project: Project):
    project.page("index", "# P\n\n" + fence("open('began', 'w').close()\nimport time\ntime.sleep(1000)", "a"))
    command = [sys.executable, "-m", "kernels.lessons.command", "build"]
    process = subprocess.Popen(
        command,
        cwd=project.root,
        env=project.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        until((project.root / "began").exists)
        os.killpg(process.pid, signal.SIGINT)
        said = process.communicate(timeout=LIMIT_S)[0]
    finally:
        process.kill()
        process.wait()
    assert process.returncode != 0 and "zygote" not in said, said
