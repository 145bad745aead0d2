"""A list of verdicts shows kind and sentence, escaped and bounded, and says when there is none."""

from dataclasses import replace

from kernels.figures import verdict_list
from kernels.figures.verdicts import verdict_text
from kernels.trace import Fault
from kernels.trace.advice import Advice


def fault(sentence: str) -> Fault:
    return Fault("unwritten", sentence, "out", 1, "nobody", "", 0, 1, "")


def test_kind_and_sentence_are_shown_escaped():
    html = verdict_list([fault("out[1] <is> & stays unwritten")], "without the guard")
    assert "unwritten</strong> out[1] &lt;is&gt; &amp; stays unwritten" in html
    assert "without the guard" in html


def test_a_printed_verdict_has_no_marks_around_its_code():
    assert verdict_text(fault("Likely cause: a `__syncthreads()` is missing.")) == (
        "Likely cause: a __syncthreads() is missing."
    )


def test_no_verdict_is_said_and_not_empty():
    assert "nothing is wrong" in verdict_list([])
    assert "no advice &amp; more</li>" in verdict_list([], none="no advice & more")


def test_the_key_of_an_explanation_stands_in_the_item_where_the_kind_does_not_say_it():
    other = replace(fault("x"), explanation="a-key")
    assert '<li data-explained="a-key"><strong' in verdict_list([other])
    assert "data-explained" not in verdict_list([fault("x")])


def test_a_long_list_says_how_many_follow():
    html = verdict_list([fault(f"number {index}") for index in range(9)], most=2)
    assert "number 1" in html and "number 2<" not in html and "and 7 more" in html


def test_advice_looks_calmer_than_a_fault():
    advice = Advice("bank-conflict", "slow", "tile", 0, "block 0", "", 0, 1, "", remedy="pad")
    assert '<li class="kl-advice"><strong' in verdict_list([advice])
    assert "kl-advice" not in verdict_list([fault("x")])
