"""Answers that misbehave: the checker outlives each, says what it was, and lets none of them pass."""

import os
from pathlib import Path

import pytest
from project import CHECKS, HEAD, HURRIED, RIGHT, TAIL, make, source

from kernels.exercises.model import FAIL, LOAD_ERROR, PASS, TODO
from kernels.exercises.run import Checker

LINUX = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="looks at processes through /proc")


def first(verdict):
    assert verdict.kind == FAIL, verdict
    return verdict.first_failure


@pytest.fixture
def hurried(checker, tmp_path):
    """`judged` with a second for each check."""
    files = make(tmp_path, checks=HURRIED)
    return lambda body: checker.judge(files, source(body))


@pytest.fixture(scope="module")
def spawning(files):
    """A checker as on systems that cannot fork."""
    with Checker() as warm:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KERNELS_EXERCISES_SPAWN", "1")
            warm.judge(files, source(RIGHT))  # the warm process has started
        yield warm


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        (RIGHT, PASS, ""),
        ("    return n // 2\n", FAIL, "the result is 1, and should be 2"),
        ("    import os\n    os._exit(0)\n", FAIL, "before the check was through"),
        ("    raise SystemExit(0)\n", FAIL, "sys.exit(0)"),
        ("    import ctypes\n    ctypes.string_at(0)\n", FAIL, "before the check was through"),
        ("    return int(input())\n", FAIL, "EOFError"),
        ("    return (\n", LOAD_ERROR, "halves.py:10"),
        ("    if n < 0:\n        return 0\n    raise NotImplementedError('the rest')\n", TODO, "the rest"),
    ],
)
def test_without_fork_the_verdicts_are_the_same(spawning, files, body, kind, said):
    verdict = spawning.judge(files, source(body))
    assert verdict.kind == kind, verdict
    failed = verdict.first_failure
    assert said in (failed.failure.sentence if failed else verdict.sentence)
    assert all(len(result.output) < 20_000 for result in verdict.results)


@pytest.mark.parametrize(
    "body", ["    while n == 3:\n        pass\n" + RIGHT, "    while True:\n        print('x' * 10_000)\n"]
)
def test_without_fork_what_does_not_end_is_stopped_at_its_limit(spawning, tmp_path, body):
    verdict = spawning.judge(make(tmp_path, checks=HURRIED), source(body))
    assert "limit of 1 s" in first(verdict).failure.sentence
    assert all(len(result.output) < 20_000 for result in verdict.results)


def test_a_right_answer_passes(judged):
    verdict = judged(RIGHT)
    assert (verdict.kind, verdict.exit_code) == (PASS, 0)
    assert [result.compared for result in verdict.results] == [3, 4]


def test_an_endless_loop_is_stopped_at_the_limit_of_its_check(hurried):
    failed = first(hurried("    while n == 3:\n        pass\n" + RIGHT))
    assert failed.title == "odd numbers"
    assert "in this check" in failed.failure.sentence and "limit of 1 s" in failed.failure.sentence


def test_an_endless_loop_at_the_top_is_told_apart(checker, tmp_path):
    files = make(tmp_path, checks=HURRIED)
    failed = first(checker.judge(files, source(RIGHT) + "\nwhile True:\n    pass\n"))
    assert "while the file was loaded" in failed.failure.sentence


@pytest.mark.parametrize("status", ["0", "1", "None", "'done'", "2**40"])
@pytest.mark.parametrize("call", ["raise SystemExit({})", "import sys; sys.exit({})"])
def test_leaving_in_a_check_passes_nothing(judged, call, status):
    failed = first(judged(f"    {call.format(status)}\n"))
    assert "sys.exit" in failed.failure.sentence
    assert not any(result.status == PASS for result in judged(f"    {call.format(status)}\n").results)


@pytest.mark.parametrize("status", [0, 1, 81])
def test_os_exit_passes_nothing(judged, status):
    failed = first(judged(f"    import os\n    os._exit({status})\n"))
    assert "before the check was through" in failed.failure.sentence


def test_leaving_while_the_file_is_loaded(judged):
    verdict = judged(source(RIGHT) + "\nraise SystemExit(0)\n", whole=True)
    assert (verdict.kind, verdict.exit_code) == (LOAD_ERROR, 1)
    assert "halves.py:17: the file calls sys.exit(0) while it is loaded" in verdict.sentence


def test_a_crash_names_its_signal(judged):
    failed = first(judged("    import ctypes\n    ctypes.string_at(0)\n"))
    assert "SIGSEGV" in failed.failure.sentence and "memory that is not there" in failed.failure.cause


def test_killing_itself_names_its_signal(judged):
    failed = first(judged("    import os, signal\n    os.kill(os.getpid(), signal.SIGKILL)\n"))
    assert "SIGKILL" in failed.failure.sentence


def test_a_flood_of_output_is_cut_and_said(judged):
    body = "    for _ in range(300):\n        print('x' * 10_000)\n" + RIGHT
    verdict = judged(body)
    assert verdict.kind == PASS
    result = verdict.results[0]
    assert len(result.output) < 20_000 and "[cut: 9,000,900 bytes were written, 16,384 are kept]" in result.output


def test_an_endless_flood_ends_with_the_limit(hurried):
    failed = first(hurried("    while True:\n        print('x' * 10_000)\n"))
    assert failed.failure.kind == "too-long" and len(failed.output) < 20_000


def test_output_past_python_is_kept(judged):
    verdict = judged("    import os\n    os.write(1, b'raw\\n')\n    os.system('echo shell')\n" + RIGHT)
    assert verdict.kind == PASS and "raw\nshell" in verdict.results[0].output


@pytest.mark.parametrize("read", ["input()", "input('number? ')", "next(iter(__import__('sys').stdin))"])
def test_reading_input_finds_none(judged, read):
    failed = first(judged(f"    return int({read})\n"))
    assert "EOFError" in failed.failure.sentence or "StopIteration" in failed.failure.sentence


def test_a_thread_left_running_does_not_hold_the_check(judged):
    body = "    import threading, time\n    threading.Thread(target=time.sleep, args=(1000,)).start()\n" + RIGHT
    assert judged(body).kind == PASS


@LINUX
@pytest.mark.parametrize("apart", ["", "            os.setsid()\n"])
def test_a_child_that_stays_is_killed_and_passes_nothing_twice(judged, tmp_path, apart):
    note = tmp_path / "child"
    body = (
        "    import os, time\n"
        "    if n == 0 and os.fork() == 0:\n"
        "        if os.fork() == 0:\n"
        f"{apart}"
        f"            open({str(note)!r}, 'w').write(str(os.getpid()))\n"
        "            time.sleep(1000)\n"
        "        os._exit(0)\n"
        f"    while not os.path.exists({str(note)!r}) or not open({str(note)!r}).read():\n"
        "        time.sleep(0.01)\n" + RIGHT
    )
    assert judged(body).kind == PASS
    assert not _alive(int(note.read_text()))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_fork_that_returns_twice_reports_once(judged):
    verdict = judged("    import os\n    os.fork()\n" + RIGHT)
    assert verdict.kind == PASS and len(verdict.results) == 2


def test_a_forked_child_does_not_report_for_a_wrong_answer(judged):
    body = (
        "    import os\n    child = os.fork()\n    if child:\n        os.waitpid(child, 0)\n        return 7\n" + RIGHT
    )
    assert first(judged(body)).title == "even numbers"


@pytest.mark.parametrize(
    "patch",
    [
        "kernels.exercises.equal = lambda *a, **k: None",
        "kernels.exercises.expect._compare = lambda *a, **k: None",
        "kernels.exercises.expect._same = lambda *a, **k: ''",
        "kernels.exercises.expect.Seen.end = lambda *a: None",
        "kernels.exercises.expect.equal.__code__ = (lambda *a, **k: None).__code__",
        "kernels.exercises.worker._ask = lambda *a: ('PASS', None)",
        "import builtins; builtins.abs = lambda n: 0",
        "import builtins; builtins.isinstance = lambda *a: True",
        "import json; json.dumps = lambda *a, **k: '{}'",
        "import os; os.write = lambda *a: 0",
        "import gc; [each.checks.clear() for each in gc.get_objects() if type(each).__name__ == 'Exercise']",
    ],
)
def test_a_patched_checker_passes_nothing(judged, patch):
    verdict = judged(source("    return 0\n", head=f"import kernels.exercises.worker\n{patch}\n" + HEAD), whole=True)
    assert verdict.kind == FAIL, verdict


def test_patching_even_beside_a_right_answer_is_refused(judged):
    patch = "import math\nmath.isfinite = lambda n: True\n"
    failed = first(judged(source(RIGHT, head=patch + HEAD), whole=True))
    assert failed.failure.kind == "tampered" and "math.isfinite" in failed.failure.sentence


TELLS = "t({'result': {'title': '', 'status': 'PASS', 'failure': None, 'compared': 1, 'seconds': 0.0}})"


@pytest.mark.parametrize(
    "body",
    [
        "    import sys\n    return sys._getframe(1).f_locals['n'] // 2\n",
        "    import inspect\n    return inspect.currentframe().f_back.f_locals['n'] // 2\n",
        "    import inspect\n    return inspect.stack()[1].frame.f_locals['n'] // 2\n",
        "    import traceback\n    return [f for f, _ in traceback.walk_stack(None)][1].f_locals['n'] // 2\n",
        "    try:\n        1 / 0\n    except ZeroDivisionError as e:\n"
        "        return e.__traceback__.tb_frame.f_back.f_locals['n'] // 2\n",
        "    def g():\n        yield it.gi_frame.f_back\n    it = g()\n    return next(it).f_locals['n'] // 2\n",
        "    import sys\n    return [f.f_back.f_locals['n'] for f in sys._current_frames().values()][0] // 2\n",
        "    try:\n        import sys\n        sys._getframe(1)\n    except BaseException:\n        pass\n" + RIGHT,
        "    import sys\n    sys.settrace(lambda *a: None)\n" + RIGHT,
        "    import sys\n    sys.setprofile(lambda *a: None)\n" + RIGHT,
        "    import gc\n    gc.get_objects()\n" + RIGHT,
        "    import gc\n    for t in gc.get_objects():\n"
        f"        if getattr(t, '__name__', '') == 'tell':\n            {TELLS}\n    return 7\n",
        "    import sys\n    f = sys._getframe()\n    while f:\n        t = f.f_locals.get('tell')\n        if t:\n"
        f"            {TELLS}\n            break\n        f = f.f_back\n    return 7\n",
        "    import ctypes\n    ctypes.pythonapi.Py_IsInitialized()\n" + RIGHT,
    ],
)
def test_who_calls_it_is_not_the_answers_business(judged, body):
    failed = first(judged(body))
    assert failed.failure.kind == "looks-around", failed
    assert "halves.py:" in failed.failure.place and failed.title == "even numbers"


def test_looking_around_while_the_file_is_loaded_fails(judged):
    failed = first(judged(source(RIGHT) + "import sys\nsys._getframe()\n", whole=True))
    assert failed.failure.kind == "looks-around" and "halves.py:17" in failed.failure.place


def test_libraries_may_look_at_their_callers(judged):
    more = (
        "import collections, dataclasses, enum, functools, logging, traceback, typing, warnings\n"
        "Pair = collections.namedtuple('Pair', 'a b')\n"
        "@dataclasses.dataclass(frozen=True)\nclass Data:\n    a: int = 0\n"
        "class Kind(enum.Enum):\n    A = 1\n"
        "class Typed(typing.NamedTuple):\n    a: int\n"
        "logging.warning('a warning')\nwarnings.warn('another')\n"
        "try:\n    1 / 0\nexcept ZeroDivisionError:\n    traceback.format_exc()\n"
    )
    assert judged(source(RIGHT) + more, whole=True).kind == PASS


@pytest.mark.parametrize(
    "patch",
    [
        "e.seen.end = lambda f: None",
        "e.seen.__class__ = type('S', (), {'end': lambda s, f: None, 'compared': 5, 'failure': None})",
    ],
)
def test_a_patch_that_undoes_itself_reaches_a_copy_alone(judged, patch):
    body = f"    import kernels.exercises.expect as e\n    {patch}\n    return n // 2\n"
    assert first(judged(body)).title == "odd numbers"


def test_what_tolist_gives_is_looked_at_as_well(judged):
    body = (
        "    class Number(int):\n        __eq__ = lambda *a: True\n        __hash__ = int.__hash__\n"
        "    class Array:\n        tolist = lambda self: Number(1)\n    return Array()\n"
    )
    assert first(judged(body)).title == "even numbers"


def test_reading_the_checks_is_refused(judged, files):
    body = f"    assert 'odd' in open({str(files.checks)!r}).read()\n" + RIGHT
    failed = first(judged(body))
    assert failed.failure.kind == "reads-solution" and "lessons_src/checks/halves.py" in failed.failure.sentence


def test_reading_the_solution_through_a_link_is_refused(judged, files, tmp_path):
    link = tmp_path / "elsewhere"
    link.symlink_to(files.solution.parent)
    failed = first(judged(f"    open({str(link / 'halves.py')!r}).read()\n" + RIGHT))
    assert failed.failure.kind == "reads-solution"


def test_a_number_that_equals_everything_is_not_asked(judged):
    number = (
        "    class Number(int):\n"
        "        def __eq__(self, other):\n"
        "            return True\n"
        "        __hash__ = int.__hash__\n"
        "        def __sub__(self, other):\n"
        "            return 0\n"
        "    return Number(n)\n"
    )
    assert first(judged(number)).title == "even numbers"
    number = number.replace("(int)", "(float)").replace("int.__hash__", "float.__hash__")
    assert first(judged(number)).title == "even numbers"
    anything = "    class Anything:\n        __eq__ = lambda *a: True\n        __hash__ = None\n    return Anything()\n"
    assert first(judged(anything)).title == "even numbers"


def test_catching_everything_does_not_hide_a_failure(judged, checker, tmp_path):
    """The answer catches what a check that it calls back into raises; the failure was noted, and counts."""
    checks = CHECKS.replace("equal(answer.half(n), n // 2,", "answer.half(lambda: equal(1, 2)); equal(0, 0,")
    files = make(tmp_path, checks=checks)
    body = "    try:\n        n()\n    except BaseException:\n        pass\n    return 0\n"
    assert first(checker.judge(files, source(body))).title == "even numbers"


def test_a_check_that_compares_nothing_is_refused(checker, tmp_path):
    checks = CHECKS.replace("for n in (0, 2, 4):", "for n in range(answer.half(0)):")
    files = make(tmp_path, checks=checks)
    failed = first(checker.judge(files, source(RIGHT)))
    assert failed.failure.kind == "vacuous" and "without comparing anything" in failed.failure.sentence


def test_deep_recursion_is_named(judged):
    failed = first(judged("    return half(n)\n"))
    assert "without an end (RecursionError)" in failed.failure.sentence


def test_recursion_past_the_stack_is_a_crash_and_no_pass(hurried):
    body = "    import sys\n    sys.setrecursionlimit(10**9)\n    return half(n + 0) + repr([n]).count('x')\n"
    failed = first(hurried(body))
    assert failed.failure.kind in ("ended", "too-long", "raised")


@LINUX
@pytest.mark.parametrize("take", ["bytearray(2 << 30)", "[0] * (1 << 28)"])
def test_memory_has_a_limit(judged, take):
    failed = first(judged(f"    kept = {take}\n    return len(kept)\n"))
    assert "MemoryError" in failed.failure.sentence


def test_junk_on_every_descriptor_is_no_result(judged):
    body = (
        "    import os\n"
        '    junk = b\'\\n{"result": {"status": "PASS"}}\\nfff {"result": {"status": "PASS"}}\\n\'\n'
        "    for descriptor in range(3, 64):\n"
        "        try:\n"
        "            os.write(descriptor, junk * 100)\n"
        "        except OSError:\n"
        "            pass\n"
        "    return 0\n"
    )
    assert first(judged(body)).title == "even numbers"
    assert judged(body.replace("return 0", "return -(-n // 2)")).kind == PASS


def test_closing_every_descriptor_passes_nothing(judged):
    failed = first(judged("    import os\n    os.closerange(0, 64)\n" + RIGHT))
    assert "closed the pipe" in failed.failure.sentence or failed.failure.kind in ("ended", "raised")


@pytest.mark.parametrize("body", ["    return None\n", "    pass\n", "    yield n\n", "    return 'two'\n"])
def test_results_of_another_kind_are_named(judged, body):
    failed = first(judged(body))
    assert failed.failure.expected == "0" and "should be" in failed.failure.sentence


def test_a_float_is_no_count(judged):
    failed = first(judged("    return n / 2\n"))
    assert "whole number" in failed.failure.sentence


def test_reading_the_solution_is_refused(judged, files):
    body = f"    scope = {{}}\n    exec(open({str(files.solution)!r}).read(), scope)\n    return scope['half'](n)\n"
    failed = first(judged(body))
    assert failed.failure.kind == "reads-solution" and "lessons_src/solutions/halves.py" in failed.failure.sentence


def test_writing_to_its_own_file_changes_nothing_that_is_checked(judged, files):
    before = files.starter.read_bytes()
    judged(RIGHT)
    assert files.starter.read_bytes() == before


def test_a_region_that_still_asks_is_todo_with_what_it_asks(judged):
    verdict = judged("    if n < 0:\n        return 0\n    raise NotImplementedError('half: the rest')\n")
    assert (verdict.kind, verdict.exit_code) == (TODO, 2) and "half: the rest" in verdict.sentence


def test_a_library_that_raises_not_implemented_is_no_todo(judged):
    body = "    import numbers, io\n    return io.IOBase().fileno() if n else io.RawIOBase().readinto(b'')\n"
    assert judged(body).kind == FAIL
    body = "    import asyncio\n    return asyncio.AbstractEventLoop().run_forever()\n"
    assert judged(body).kind == FAIL


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (source("    return (n\n"), "halves.py:10: '(' was never closed"),
        (source(RIGHT) + "import no_such_module_at_all\n", "halves.py:16: ModuleNotFoundError"),
        (
            source(RIGHT).replace("def halves", "def thirds"),
            "halves.py defines no `halves`, which the checks use; was it renamed",
        ),
        (source(RIGHT).replace("    # --- end ---\n", ""), "opens a region"),
        (source(RIGHT).replace("    # --- fill in ---\n", ""), "closes a region"),
        (HEAD + RIGHT + TAIL, "has 0 regions"),
        (source(RIGHT) + "x = 1 / 0\n", "halves.py:16: ZeroDivisionError"),
        (source(RIGHT) + "\0", "null bytes"),
        (source(RIGHT) + "#" * (2 << 20), "holds more than"),
        ("(" * 100_000, "has 0 regions"),
        (source("    return " + "(" * 5000 + "n" + ")" * 5000 + "\n"), "halves.py"),
    ],
)
def test_what_cannot_be_loaded_names_file_and_line(judged, text, said):
    verdict = judged(text, whole=True)
    assert (verdict.kind, verdict.exit_code) == (LOAD_ERROR, 1), verdict
    assert said in verdict.sentence


def test_a_change_outside_the_marks_is_said_and_checked_all_the_same(judged):
    verdict = judged("import math\n" + source("    return math.ceil(n / 2)\n"), whole=True)
    assert verdict.kind == PASS
    assert "halves.py:1 is `import math`" in verdict.notes[0]


def test_the_first_bad_element_is_shown_with_its_neighbours(judged):
    body = "    return -(-n // 2) + (n == 5)\n"
    failure = first(judged(body)).failure
    assert (failure.at, failure.expected, failure.got) == ("[2]", "3", "4")
    assert failure.drawing.rows[2] == ("got", ("1", "1", "4")) and failure.drawing.marked == 2


def test_an_exception_names_its_line_and_what_was_given(judged):
    failure = first(judged("    return 10 // (3 - n) if n == 3 else n // 2\n")).failure
    assert failure.sentence == "The answer raises ZeroDivisionError: integer division or modulo by zero"
    assert failure.place == "halves.py:10" and failure.given == "n = 3"
