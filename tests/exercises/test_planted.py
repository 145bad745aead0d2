"""Wrong answers for a page: as modules that run, and with what the checks say of them."""

import inspect

import pytest
from project import make

from kernels.exercises import kept_gate as kept
from kernels.exercises.gate import Gated
from kernels.exercises.planted import planted

ANSWERS = """
[[wrong]]
name = "rounded down"
thought = "// rounds."
replace = [["-(-n // 2)", "n // 2"]]
fails = "odd numbers"
says = "should be"

[[right]]
name = "one more before"
replace = [["-(-n // 2)", "(n + 1) // 2"]]
"""


def test_each_wrong_answer_is_a_module_of_its_own(tmp_path):
    files = make(tmp_path, answers=ANSWERS)
    ((answer, module),) = planted("halves", tmp_path)
    assert answer.name == "rounded down" and module.__file__ != str(files.solution)
    assert [module.half(n) for n in (4, 5)] == [2, 2]
    assert "n // 2" in inspect.getsource(module.half)  # where Triton reads a kernel, too


def test_a_list_that_fits_no_longer_is_refused(tmp_path):
    make(tmp_path, answers=ANSWERS.replace('"-(-n // 2)", "n // 2"', '"n // 3", "n // 2"'))
    with pytest.raises(ValueError, match="not once"):
        list(planted("halves", tmp_path))


def test_a_gate_of_one_exercise_keeps_what_is_known_of_the_others(tmp_path, monkeypatch):
    make(tmp_path, answers=ANSWERS)
    for folder in ("checks", "solutions", "exercises"):
        one = tmp_path / "lessons_src" / folder / "halves.py"
        (one.parent / "thirds.py").write_text(one.read_text(encoding="utf-8"), encoding="utf-8")
    asked = []

    def gate(names, root):
        asked.append(list(names))
        return [Gated(name, checks=len(asked)) for name in names]

    monkeypatch.setattr(kept, "gate", gate)
    assert [each.name for each in kept.kept_gate(tmp_path)] == ["halves", "thirds"]
    assert [each.name for each in kept.kept_gate(tmp_path, ["thirds"])] == ["thirds"]
    starter = tmp_path / "lessons_src/solutions/thirds.py"
    starter.write_text(starter.read_text(encoding="utf-8") + "\nmore = 1\n", encoding="utf-8")
    assert kept.kept_gate(tmp_path, ["thirds"])[0].checks == 2
    assert [each.checks for each in kept.kept_gate(tmp_path)] == [1, 2]
    assert asked == [["halves", "thirds"], ["thirds"]]
