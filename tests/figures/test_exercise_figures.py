"""The page about the graders: counts, folded lists, and nothing of an answer's text taken for HTML."""

from kernels.exercises.gate import Gated, Judged
from kernels.figures import exercise_answers, exercise_lists, exercise_overview

GATED = Gated(
    "halves",
    "lessons/halves.md",
    3,
    answers=[
        Judged("rounds <down>", True, "`//` & rounding", "FAIL", "odd numbers", "x[1] < 2.", "wrong", "n = 3", 1),
        Judged("no mask", True, "It is masked later.", "FAIL", "the end", "reads x[6].", "out-of-bounds", "", 2),
        Judged("not seen", True, "Who would notice?", "PASS", passed=3),
        Judged("with math", False, "", "PASS", passed=3),
    ],
)


def test_the_overview_counts_what_fails_and_what_passes():
    text = exercise_overview([GATED])
    assert (
        "<code>halves</code>" in text
        and '<td class="kl-num">2 of 3</td>' in text
        and '<td class="kl-num">1 of 1</td>' in text
    )
    assert text.count('<td class="kl-num">1</td>') == 1  # one by its accesses
    assert '<td class="kl-num">3</td>' in text


def test_an_answer_is_shown_with_its_thought_its_check_and_its_sentence():
    text = exercise_answers(GATED)
    assert "<strong>rounds &lt;down&gt;</strong>" in text and "<code>//</code> &amp; rounding" in text
    assert '<em class="kl-verdict__kind">odd numbers</em>: x[1] &lt; 2. Given: n = 3.' in text
    assert '<em class="kl-verdict__kind">PASS</em>' in text  # one that is not caught is said to pass
    assert "with math" not in text


def test_lists_are_folded_under_the_exercise():
    text = exercise_lists([GATED, Gated("empty")])
    assert text.count("<details>") == 2 and "<code>halves</code>: 3 wrong answers" in text and "<li>none</li>" in text
