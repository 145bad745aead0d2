"""Lists of mutants: every mutant is in them, under its first verdict, and text from outside is escaped."""

from kernels.figures import mutant_list, rewrite_list, verdict_summary
from kernels.mutants.model import Case, Judgement, Mutant, Subject, Verdict

SUBJECT = Subject("add", "triton", "add.py", (Case("ragged", "", dict), Case("empty", "", dict, trivial=True)))


def judgement(name, kind="", unseen="", code="x < y"):
    verdict = Verdict(kind, "out[1]", "program 0", "add.py", 3, code, "It is wrong.") if kind else None
    mutant = Mutant(name, "add", "The mask `m` is gone.", "It <spoils>.", (), (kind,) if kind else (), unseen)
    return Judgement(mutant, SUBJECT, {"ragged": verdict, "empty": None})


def test_a_mutant_is_shown_with_its_verdict_and_its_cases():
    table = mutant_list([judgement("no-mask", "out-of-bounds")], "Addition")
    for words in (
        "no-mask",
        "<code>m</code>",
        "It &lt;spoils&gt;.",
        '<em class="kl-verdict__kind">out-of-bounds</em>',
        "<code>out[1]</code>",
        "x &lt; y",
        "1 of 1",
    ):
        assert words in table, words


def test_a_mutant_that_nobody_sees_shows_the_reason():
    table = mutant_list([judgement("int32", unseen="It needs 2^32 elements.")], "Addition")
    assert "<em>Not caught.</em> It needs 2^32 elements." in table and "0 of 1" in table


def test_the_summary_counts_each_mutant_once_and_leaves_out_what_is_not_caught():
    many = [judgement("a", "unwritten"), judgement("b", "unwritten"), judgement("c", "wrong-value"), judgement("d")]
    table = verdict_summary(many, {"unwritten": "a hole"})
    rows = [row.split("</tr>")[0] for row in table.split("<tr>")[2:]]
    assert len(rows) == 2 and "unwritten" in rows[0] and "a hole" in rows[0] and ">2</td>" in rows[0]
    assert "wrong-value" in rows[1] and ">1</td>" in rows[1]


def test_a_right_kernel_shows_how_many_cases_accuse_it():
    assert "Accused in 0 of 1 cases." in rewrite_list([judgement("other-style")], "Right")
    assert "Accused in 1 of 1 cases." in rewrite_list([judgement("accused", "unwritten")], "Right")
