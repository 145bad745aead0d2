"""`lessons check` as a learner meets it: exit codes, hints, other files, the list, ASCII, narrow terminals."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from project import RIGHT, make, source
from typer.testing import CliRunner

from kernels.exercises.progress import FILE, Progress

ROOT = Path(__file__).resolve().parents[2]
WRONG = "    return n // 2\n"
ANSWERS = """
[[wrong]]
name = "floor division"
thought = "Half is n // 2."
replace = [["-(-n // 2)", "n // 2"]]
fails = "odd numbers"
says = "n = 3"
"""


@pytest.fixture
def files(tmp_path):
    return make(tmp_path, answers=ANSWERS)


@pytest.fixture
def check(files, monkeypatch):
    """The command, in this process: its exit code and its output."""
    from kernels.lessons.command import app

    monkeypatch.setenv("KERNEL_LESSONS_ROOT", str(files.root))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("SITE_URL", raising=False)

    def run(*options: str, **environment: str):
        done = CliRunner().invoke(app, ["check", *options], env=environment)
        return done.exit_code, done.output

    return run


def write(files, body: str) -> None:
    files.starter.write_text(source(body), encoding="utf-8")


def test_each_verdict_has_its_exit_code(check, files):
    code, text = check("halves")
    assert code == 2 and text.startswith("TODO  halves") and "lessons_src/exercises/halves.py:9" in text
    write(files, WRONG)
    code, text = check("halves")
    assert code == 1 and text.startswith("FAIL  halves")
    write(files, RIGHT)
    code, text = check("halves")
    assert code == 0 and text.startswith("PASS  halves")
    write(files, "    return (\n")
    code, text = check("halves")
    assert code == 1 and text.startswith("LOAD ERROR  halves") and "halves.py:10" in text
    files.checks.write_text(files.checks.read_text().replace("hints=", 'needs="gpu",\n    hints='))
    code, text = check("halves", LESSONS_WITHOUT="gpu")
    assert code == 3 and text.startswith("UNAVAILABLE  halves") and "LESSONS_WITHOUT" in text


def test_a_failure_says_all_that_is_known(check, files):
    write(files, WRONG)
    _, text = check("halves")
    for part in (
        "PASS        even numbers",
        "FAIL  odd numbers",
        "given          n = 3",
        "expected       2",
        "got            1",
        "likely cause   // rounds down – to the floor.",
        "read           docs/lessons/halves.md#odd",
        "make serve     http://localhost:8000/lessons/halves/#odd",
        "check again    lessons check halves",
    ):
        assert part in text, part


@pytest.mark.parametrize(
    ("slip", "cause"), [("[n] - [1]", "values of these types do not"), ("m", "the name is not defined")]
)
def test_a_slip_in_python_is_told_as_one(check, files, slip, cause):
    """The cause that a check names is one of wrong results, and would mislead here."""
    checks = files.checks.read_text(encoding="utf-8").replace("    n = 3\n", '    given, n, tried = "n = 3", 3, 1\n')
    files.checks.write_text(checks.replace("answer.half(n), 2", "answer.half(3), 2"), encoding="utf-8")
    code = f"return {slip} if n % 2 else n // 2"
    write(files, f"    {code}\n")
    _, text = check("halves")
    for part in (f"code           {code}", "line           halves.py:10", "given          n = 3, tried = 1\n", cause):
        assert part in text, part
    assert not any(part in text for part in ("rounds down", "  element ", "  got "))


@pytest.mark.parametrize(
    ("slip", "said"),
    [
        ("[1][n]", "The answer raises IndexError: list index out of range"),
        ("len(n, n)", "The answer raises TypeError: len() takes exactly one argument (2 given)"),
        ("n // 0", "The answer raises ZeroDivisionError"),
        ("{}[n]", "The answer raises KeyError: 3"),
    ],
)
def test_an_error_that_is_not_known_gets_no_cause(check, files, slip, said):
    """What was raised, and where; a check's own cause and hint explain a wrong result."""
    checks = files.checks.read_text(encoding="utf-8")
    files.checks.write_text(checks.replace('anchor="#odd"', 'hint="Think of n + 1.", anchor="#odd"'), encoding="utf-8")
    code = f"return {slip} if n % 2 else n // 2"
    write(files, f"    {code}\n")
    _, text = check("halves")
    assert said in text and f"code           {code}" in text and "line           halves.py:10" in text
    assert "docs/lessons/halves.md#odd" in text
    assert "likely cause" not in text and "Think of n + 1." not in text
    write(files, WRONG)
    _, text = check("halves")
    assert "likely cause   // rounds down" in text and "hint           Think of n + 1." in text


def test_an_address_is_never_broken_in_two(check, files):
    heading = "a-heading-of-some-length-as-they-have-them"
    files.checks.write_text(files.checks.read_text().replace("#odd", f"#{heading}"))
    write(files, WRONG)
    assert f"http://localhost:8000/lessons/halves/#{heading}\n" in check("halves", COLUMNS="72")[1]


def test_a_narrow_terminal_and_ascii_lose_nothing(check, files):
    files.checks.write_text(
        files.checks.read_text().replace("[1, 2, 5]), [1, 1, 3]", "[5_000_000] * 9 + [7]), [2_500_000] * 9 + [4]")
    )
    write(files, "    return -(-n // 2) + (n == 7) * 999\n")
    code, text = check("halves", COLUMNS="36", LESSONS_ASCII="1")
    assert code == 1 and text.isascii()
    assert all(len(line) <= 36 for line in text.splitlines() if "/" not in line)  # addresses and paths stay whole
    drawn = [line for line in text.splitlines() if line.startswith(("  index", "  expected ", "  got ", "    "))]
    assert any("| 1003 |" in line for line in drawn) and any(line.strip() == "^^^^" for line in drawn)


def test_no_colour_without_a_terminal_or_with_no_color(files):
    write(files, WRONG)
    command = [sys.executable, "-m", "kernels.lessons.command", "check", "halves"]
    environment = {**os.environ, "KERNEL_LESSONS_ROOT": str(files.root), "PYTHONPATH": str(ROOT)}
    for more in ({"FORCE_COLOR": "1"}, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, {}, {"PYTHONIOENCODING": "ascii"}):
        done = subprocess.run(command, env=environment | more, capture_output=True, cwd=ROOT, check=False)
        assert done.returncode == 1, done.stderr
        coloured = b"\x1b[31m" in done.stdout or b"\x1b[1;31m" in done.stdout
        assert coloured == (more == {"FORCE_COLOR": "1"}), more
        if "PYTHONIOENCODING" in more:
            assert done.stdout.isascii()


def test_hints_are_counted_and_grow(check):
    assert check("halves", "--hint") == (0, "hint 1 of 2: Look at 3.\na stronger one: lessons check halves --hint 2\n")
    assert "hint 2 of 2: -(-n // 2)" in check("halves", "--hint", "2")[1]
    assert "no more than 2" in check("halves", "--hint", "5")[1]
    code, text = check("halves", "--hint", "0")
    assert code == 2 and "from 1 to 2" in text
    assert "one argument too many" in check("halves", "2")[1]


def test_the_explanation_the_solution_and_a_wrong_answer(check, files):
    assert check("halves", "--explain")[1] == (
        "Floor division of the negative number rounds *up*.\n\nA second paragraph.\n"
    )
    code, text = check("halves", "--solution")
    assert code == 0 and "lessons_src/solutions/halves.py" in text and "def half" not in text
    assert "-(-n // 2)" in check("halves", "--solution", "--verbose")[1]
    code, text = check("halves", "--wrong", "floor division")
    assert code == 1 and "n = 3" in text
    code, text = check("halves", "--wrong", "flor division")
    assert code == 2 and "did you mean 'floor division'" in text
    code, text = check("halves", "--solution", "--wrong", "floor division")
    assert code == 2 and "exclude each other" in text
    assert Progress(files.root).read() == {}


def test_a_kept_wrong_answer_is_not_taken_for_the_readers_file(check, files):
    write(files, RIGHT)
    code, text = check("halves", "--wrong", "floor division")
    assert code == 1 and text.startswith(
        "This is a wrong answer kept for the exercise, 'floor division'; your own file"
    )
    assert "Half is n // 2." in text.partition("FAIL")[0] and "FAIL  halves  (the kept answer)" in text
    assert "your own file  lessons check halves" in text
    assert not any(part in text for part in ("lessons_src/exercises", "  edit ", "a hint", "check again"))
    files.answers.write_text(ANSWERS.replace('"n // 2"', '"n[0]"'), encoding="utf-8")
    code, text = check("halves", "--wrong", "floor division")
    assert code == 1 and "the kept answer:10" in text and "halves.py" not in text
    assert "your own file" not in check("halves")[1]


@pytest.mark.parametrize("options", [("--wrong",), ("--wrong", "-v"), ("--wrong", "--verbose"), ("-v", "--wrong")])
def test_wrong_without_a_name_lists_the_wrong_answers(check, options):
    code, text = check("halves", *options)
    assert code == 0 and '  lessons check halves --wrong "floor division"' in text
    assert text.startswith("1 wrong answer is kept for halves")


def test_another_file(check, files, tmp_path):
    other = tmp_path / "mine.py"
    other.write_text(source(RIGHT), encoding="utf-8")
    assert check("halves", "--file", str(other))[0] == 0
    code, text = check("halves", "--file", str(tmp_path / "none.py"))
    assert code == 1 and "is not there" in text
    code, text = check("halves", "--file", str(tmp_path))
    assert code == 2 and "is a folder" in text


def test_names(check):
    code, text = check("halfs")
    assert code == 2 and "did you mean halves?" in text
    code, text = check("nothing_like_it")
    assert code == 2 and "there are: halves" in text
    assert check("lessons_src/exercises/halves.py")[0] == 2  # TODO: a path is a name, too
    code, text = check()
    assert code == 2 and "halves" in text


def test_the_path_of_a_page_names_its_exercise(files):
    from kernels.exercises import library

    page = library.described(files).lesson.partition("#")[0]
    with pytest.raises(library.UnknownExercise, match="is a page; its exercise is halves"):
        library.find(f"docs/{page}", files.root)
    with pytest.raises(library.UnknownExercise, match="there is no exercise"):
        library.find("docs/lessons/99-nothing.md", files.root)


def test_no_splits_is_a_sentence(capsys):
    from lessons_src.examples import try_split

    with pytest.raises(SystemExit):
        try_split.main(["--splits", "0"])
    assert "--splits is 0; expected at least 1" in capsys.readouterr().err


def test_a_file_that_is_gone_says_how_to_get_it_back(check, files):
    files.starter.unlink()
    code, text = check("halves")
    assert code == 1 and "git checkout -- lessons_src/exercises/halves.py" in text


def test_a_check_file_that_does_not_work_is_not_the_learners_fault(check, files):
    write(files, RIGHT)
    text = files.checks.read_text()
    files.checks.write_text(
        text.replace("from kernels.exercises import", "import no_such\nfrom kernels.exercises import")
    )
    code, output = check("halves")
    assert code == 70 and "lessons_src/checks/halves.py cannot be used" in output and "no_such" in output
    files.checks.write_text("def (")
    code, output = check("halves")
    assert code == 70 and "is no Python" in output


def test_the_list_follows_the_lessons_and_breaks_no_line(check, files):
    pages = {
        "alpha": "labs/1-x.md#e",
        "beta": "lessons/10-x.md#e",
        "gamma": "lessons/8-x.md#b",
        "zeta": "lessons/8-x.md#a",
    }
    (files.root / "docs/lessons/8-x.md").write_text("## First {#a}\n\n## Then {#b}\n", encoding="utf-8")
    for name, lesson in pages.items():
        text = files.checks.read_text(encoding="utf-8").replace("lessons/halves.md#exercise", lesson)
        files.checks.with_stem(name).write_text(text, encoding="utf-8")
    _, text = check("--list", COLUMNS="60")
    assert re.findall("^[a-z]+", text, re.MULTILINE) == ["exercise", "zeta", "gamma", "beta", "alpha", "halves"]
    assert re.search(r"^gamma +not tried +cpu +docs/lessons/8-x\.md#b$", text, re.MULTILINE)


def test_progress_is_kept_and_remembers_a_pass(check, files):
    assert "not tried" in check("--list")[1]
    write(files, RIGHT)
    check("halves")
    assert "PASS" in check("--list")[1] and "1 of 1 passed" in check("--list")[1]
    write(files, WRONG)
    check("halves")
    code, text = check("--list")
    assert code == 0 and "FAIL (passed before)" in text and "docs/lessons/halves.md#exercise" in text
    assert not list((files.root / ".lessons").glob("*.tmp"))


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"format": 9}', '{"format": 1, "exercises": {"halves": 3}}', "[" * 100_000, "\ufeff{}"],
)
def test_a_damaged_progress_file_is_set_aside(check, files, text):
    path = files.root / FILE
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    code, output = check("--list")
    assert code == 0 and "could not be read" in output and "begins anew" in output
    assert [each.read_text(encoding="utf-8") for each in path.parent.glob("*.damaged-*")] == [text]
    assert check("halves")[0] == 2
    assert json.loads(path.read_text(encoding="utf-8"))["exercises"]["halves"]["verdict"] == "TODO"


def test_bytes_that_are_no_text_are_set_aside_too(check, files):
    path = files.root / FILE
    path.parent.mkdir()
    path.write_bytes(b"\xff\xfe\x00")
    assert check("--list")[0] == 0 and not path.exists()


def test_progress_that_cannot_be_kept_costs_only_itself(check, files):
    (files.root / ".lessons").write_text("a file where a folder should be")
    code, text = check("halves")
    assert code == 2 and "cannot be" in text


def test_plain_python_needs_neither_torch_nor_numpy(files):
    """The whole way of a check, with every package but typer, rich and what they need hidden."""
    write(files, RIGHT)
    hide = (
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('numpy', 'torch', 'triton', 'msgspec', 'mkdocs'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Hidden())\n"
    )
    site = files.root / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(hide)
    environment = {**os.environ, "KERNEL_LESSONS_ROOT": str(files.root)}
    environment["PYTHONPATH"] = os.pathsep.join([str(site), str(ROOT)])
    command = [sys.executable, "-m", "kernels.lessons.command", "check", "halves"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    proof = subprocess.run([sys.executable, "-c", "import numpy"], env=environment, capture_output=True, check=False)
    assert proof.returncode == 1


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot send itself an interrupt there")
@pytest.mark.usefixtures("signals_are_heard")
def test_an_interrupt_while_a_process_is_being_started_waits_until_it_is_known():
    from kernels.exercises import run

    before = signal.getsignal(signal.SIGINT)
    with run._interrupted_afterwards() as interrupted:
        os.kill(os.getpid(), signal.SIGINT)
    assert interrupted == [signal.SIGINT] and signal.getsignal(signal.SIGINT) is before


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="asks Linux for a process's children")
@pytest.mark.usefixtures("signals_are_heard")
def test_ctrl_c_while_the_checks_start_ends_them_and_the_command(files, tmp_path):
    write(files, RIGHT)
    slow = "import sys, time\nif 'kernels.exercises.warm' in sys.orig_argv:\n    time.sleep(1000)\n"
    (tmp_path / "sitecustomize.py").write_text(slow, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-c", "from kernels.lessons.command import app; app()", "check", "halves"],
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)]), "KERNEL_LESSONS_ROOT": str(files.root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        began = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        end = time.monotonic() + 400
        while not (children := began.read_text().split()) and time.monotonic() < end:
            time.sleep(0.05)
        assert children, "no process for the checks was started"
        process.send_signal(signal.SIGINT)
        assert process.wait(400) != 0
        assert b"Traceback" not in process.stdout.read()
        assert not any(Path(f"/proc/{child}").exists() for child in children)
    finally:
        process.kill()
        process.stdout.close()
