"""What is said of faults, and which of them end a build."""

import pytest

from kernels.lessons.model import Fault
from kernels.lessons.report import ADVICE, TOLERATED, judged


def test_a_fault_is_said_once_in_the_order_of_the_pages():
    late, early = Fault("b.md", 3, "drift", "the output differs", block="x"), Fault("a.md", 9, "failed", "it raised")
    told = list(judged([late, early, late], "pages", strict=False))
    assert [fatal for fatal, _ in told] == [True, False]
    assert told[0][1] == "pages/a.md:9: failed: it raised"
    assert told[1][1].startswith("pages/b.md:3: drift [x]: the output differs\n")
    assert "lessons accept b.md" in told[1][1]


@pytest.mark.parametrize("kind", ["drift", "new", "stale", "edited", "orphan", "missing", "failed", "unplaced"])
@pytest.mark.parametrize("strict", [False, True])
def test_a_plain_build_bears_what_accepting_would_mend_and_a_strict_one_nothing(kind, strict):
    ((fatal, _),) = judged([Fault("a.md", 1, kind, "…")], strict=strict)
    assert fatal == (strict or kind in {"missing", "failed", "unplaced"})


def test_what_is_borne_has_an_advice():
    assert all(ADVICE[kind] for kind in TOLERATED)


def test_what_one_failure_stopped_is_said_once_behind_it():
    """Else the traceback of the failure has left the terminal above a line for each block of the page."""
    stopped = "not run: block 'rule' before it failed"
    faults = [Fault("a.md", 4, "failed", "ZeroDivisionError", block="rule")]
    faults += [Fault("a.md", line, "failed", stopped, block=f"b{line}") for line in (9, 12, 20)]
    faults += [Fault("b.md", 2, "failed", stopped, block="other")]
    told = list(judged(faults, strict=False))
    assert all(fatal for fatal, _ in told)
    assert [text.splitlines() for _, text in told] == [
        ["docs/a.md:4: failed [rule]: ZeroDivisionError"],
        [f"docs/a.md:9: failed [b9]: {stopped}", "    and 2 more blocks and values of a.md"],
        [f"docs/b.md:2: failed [other]: {stopped}"],
    ]
