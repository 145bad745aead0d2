"""The gate finds every way in which an exercise can be untrue, and names file and line; its results are kept."""

import subprocess

import pytest
from project import ASKS, CHECKS, RIGHT, make, source

from kernels.exercises import kept_gate
from kernels.exercises.gate import gate, through


def listed(*, wrong: int = 6, right: int = 2, **first: str) -> str:
    """A list that passes, with the first wrong answer changed by `first`."""
    lines = []
    for number in range(wrong):
        entry = {"replace": f"-((-n // 2) * {2 + number})", "fails": "even numbers", "says": "should be"}
        entry = {"replace": "n // 2", "fails": "odd numbers", "says": "n = 3"} if number < 9 else entry
        entry |= first if number == 0 else {}
        old = entry.get("old", "-(-n // 2)")
        lines += ["[[wrong]]", f'name = "wrong {number}"', 'thought = "That it is right."']
        lines += [f'replace = [["{old}", "{entry["replace"]}"]]', f'fails = "{entry["fails"]}"']
        lines += [f'says = "{entry["says"]}"']
    for number in range(right):
        text = f"({number} + n + 1 - {number}) // 2"
        lines += ["[[right]]", f'name = "right {number}"', f'replace = [["-(-n // 2)", "{text}"]]']
    return "\n".join(lines) + "\n"


def faults(checker, root, **named):
    named.setdefault("answers", listed())
    files = make(root, **named)
    return [str(fault) for fault in through(files, checker).faults]


def test_an_exercise_that_is_as_it_should_be_has_no_fault(checker, tmp_path):
    assert faults(checker, tmp_path) == []


TOML = "lessons_src/checks/halves.toml"


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"starter": "    return (n + 1) // 2\n"}, f"{TOML}:1: the starter is PASS, not TODO"),
        ({"starter": "    return n // 2\n"}, f"{TOML}:1: the starter is FAIL, not TODO"),
        ({"starter": RIGHT}, "lessons_src/exercises/halves.py:10: between the marks, the starter holds the solution"),
        ({"solution": "    return -(n // 2)\n"}, "lessons_src/solutions/halves.py:1: the solution is FAIL, not PASS"),
        ({"solution": ASKS}, "halves.py:10: the solution's region raises NotImplementedError"),
        (
            {"checks": CHECKS.replace("def timed", "def _timed")},
            "checks/halves.py:1: there is no timed(answer, device)",
        ),
        ({"answers": ""}, f"{TOML}:1: it lists 0 wrong answers; at least 6 are asked for"),
        ({"answers": listed(wrong=5)}, f"{TOML}:1: it lists 5 wrong answers"),
        ({"answers": listed(right=1)}, f"{TOML}:1: it lists 1 right answers; at least 2 are asked for"),
        ({"answers": listed(fails="even numbers")}, f"{TOML}:1: 'wrong 0' fails first at 'odd numbers', not at"),
        ({"answers": listed(fails="no such check")}, f"{TOML}:1: 'wrong 0' should fail at 'no such check', and no"),
        ({"answers": listed(says="n = 99")}, f"{TOML}:1: 'wrong 0' fails where it should, without 'n = 99'"),
        ({"answers": listed(replace="(n + 1) // 2")}, f"{TOML}:1: the wrong answer 'wrong 0' is PASS, not FAIL"),
        ({"answers": listed(replace="n + 7", fails="even numbers", says="0")}, "'wrong 0' passes no check"),
        ({"answers": listed(old="n // 3")}, f"{TOML}:1: 'wrong 0': the text to exchange occurs 0 times"),
        ({"answers": listed(old="n")}, "times in lessons_src/solutions/halves.py, not once"),
        ({"answers": listed(replace="-(-n // 2)")}, f"{TOML}:1: 'wrong 0' changes nothing"),
        ({"answers": listed().replace("wrong 1", "wrong 0")}, f"{TOML}:1: two answers are called 'wrong 0'"),
        ({"answers": listed().replace('says = "n = 3"', "", 1)}, f"{TOML}:1: says is missing here"),
        ({"answers": listed() + "[[wrung]]\n"}, f"{TOML}:1: 'wrung' is unknown"),
        ({"answers": listed() + "[[wrong]\n"}, f"{TOML}:43: this is no TOML"),
        ({"checks": CHECKS.replace("EXERCISE = ", "OTHER = ").replace("@EXERCISE", "@OTHER")}, "cannot be used"),
        ({"checks": "import no_such_module\n" + CHECKS}, "lessons_src/checks/halves.py:1:"),
        ({"checks": CHECKS + "    )\n"}, "this is no Python"),
        (
            {"checks": CHECKS.replace("halves.md", "thirds.md")},
            "its lesson docs/lessons/thirds.md#exercise is not there",
        ),
    ],
)
def test_what_is_untrue_is_named_with_its_place(checker, tmp_path, named, said):
    found = faults(checker, tmp_path, **named)
    assert any(said in fault for fault in found), found


def test_a_right_answer_that_fails_is_named(checker, tmp_path):
    found = faults(checker, tmp_path, answers=listed().replace("(0 + n + 1 - 0) // 2", "n // 2"))
    assert len(found) == 1 and "the right answer 'right 0' is FAIL, not PASS: odd numbers" in found[0]
    assert found[0].startswith(f"{TOML}:37:")


def test_text_outside_the_marks_must_be_equal(checker, tmp_path):
    files = make(tmp_path, answers=listed())
    files.starter.write_text(source(ASKS).replace("rounded up.", "rounded down."), encoding="utf-8")
    found = [str(fault) for fault in through(files, checker).faults]
    assert found[0].startswith("lessons_src/exercises/halves.py:8: outside the marks it differs from the solution")


def test_a_starter_of_working_code_is_known_by_its_digest(checker, tmp_path):
    naive = "    return n / 2  # a start\n"
    found = faults(checker, tmp_path / "one", starter=naive)
    digest = found[0].partition('shipped = ["')[2][:12]
    answers = f'shipped = ["{digest}"]\n' + listed()
    assert faults(checker, tmp_path / "two", starter=naive, answers=answers) == []


def test_results_are_kept_until_something_changes(tmp_path, monkeypatch):
    files = make(tmp_path, answers=listed())
    asked = []

    def counted(names, root):
        asked.extend(names)
        return gate(names, root)

    monkeypatch.setattr(kept_gate, "gate", counted)
    first = kept_gate.kept_gate(tmp_path)
    assert asked == ["halves"] and first[0].faults == [] and len(first[0].answers) == 8
    assert kept_gate.kept_gate(tmp_path) == first and asked == ["halves"]
    (tmp_path / kept_gate.FILE).write_text("{")
    assert kept_gate.kept_gate(tmp_path) == first and asked == ["halves"] * 2
    files.answers.write_text(listed(says="n = 99"), encoding="utf-8")
    assert len(kept_gate.kept_gate(tmp_path)[0].faults) == 1 and asked == ["halves"] * 3


def test_verify_tells_the_gates_faults(tmp_path):
    from kernels.lessons.checks import repository_faults

    make(tmp_path, answers=listed(says="n = 99"))
    found = [fault for fault in repository_faults(tmp_path, []) if fault.kind == "exercise"]
    assert [fault.where() for fault in found] == ["docs/../lessons_src/checks/halves.toml:1"]


def test_an_answer_that_somebody_filled_in_is_no_fault_where_the_last_commit_has_the_starter(checker, tmp_path):
    files = make(tmp_path, answers=listed())
    solved = files.starter.read_text().replace(ASKS, "    return (n + 1) // 2\n")
    assert solved != files.starter.read_text()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "as shipped"]):
        subprocess.run([*git, *command], cwd=tmp_path, check=True)
    files.starter.write_text(solved)
    assert through(files, checker).faults == []
    assert files.starter.read_text() == solved
    subprocess.run([*git, "commit", "-qam", "shipped with its answer"], cwd=tmp_path, check=True)
    (fault,) = through(files, checker).faults
    assert f"{TOML}:1: the starter is PASS, not TODO" in str(fault)
