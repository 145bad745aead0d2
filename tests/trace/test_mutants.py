"""The gate: every wrong kernel is shown for its reason, and no right one is accused; all of it without a GPU."""

import os
from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from kernels.mutants.catalogue import catalogue, right, wrong
from kernels.mutants.judge import judge
from kernels.mutants.model import Mutant, mutated
from kernels.mutants.subjects import subjects
from kernels.mutants.variants import grouped, needed
from kernels.trace.cuda import why_not

SUBJECTS = subjects()
CAUGHT = 0.95  # of all wrong kernels, at least
by_name = pytest.mark.parametrize("name", [mutant.name for mutant in catalogue()])
by_subject = pytest.mark.parametrize("name", list(SUBJECTS))


def language(mutant):
    return SUBJECTS[mutant.subject].language


def skip_without(name):
    if name == "cuda" and why_not():
        pytest.skip(str(why_not()))
    if name == "triton" and os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("Triton is compiled in this run; with TRITON_INTERPRET=1 its kernels are traced.")


@pytest.fixture(scope="module")
def judgements():
    """All judgements of a language by name, made when first asked for; the subjects as they are among them."""
    made = {}
    unchanged = [Mutant(f"as it is: {name}", name, "Nothing.", "Right.", ()) for name in SUBJECTS]

    def of(name):
        skip_without(name)
        if name not in made:
            chosen = [mutant for mutant in (*catalogue(), *unchanged) if language(mutant) == name]
            made[name] = {judgement.mutant.name: judgement for judgement in judge(chosen, SUBJECTS)}
        return made[name]

    return of


def sentences(judgement):
    return {case: verdict.sentence for case, verdict in judgement.verdicts.items() if verdict}


@by_name
def test_a_mutant_shows_for_its_reason_and_a_right_kernel_does_not(name, judgements):
    mutant = next(mutant for mutant in catalogue() if mutant.name == name)
    judgement = judgements(language(mutant))[name]
    assert judgement.kinds == mutant.expect, sentences(judgement)


@by_name
def test_what_is_wrong_everywhere_says_so(name, judgements):
    mutant = next(mutant for mutant in catalogue() if mutant.name == name)
    judgement = judgements(language(mutant))[name]
    assert (not judgement.passed) == mutant.everywhere, f"{name} passes {judgement.passed}"


@by_name
def test_a_verdict_names_its_place_in_the_source(name, judgements):
    mutant = next(mutant for mutant in catalogue() if mutant.name == name)
    judgement = judgements(language(mutant))[name]
    lines = mutated(judgement.subject, mutant).split("\n")
    verdicts = [verdict for verdict in judgement.verdicts.values() if verdict]
    assert bool(verdicts) == bool(mutant.expect)  # none of a right kernel, nor where the catalogue says why none shows
    for verdict in verdicts:
        if not verdict.line:  # nobody holds the element
            assert verdict.place and ("is never written" in verdict.sentence or "Nobody wrote it" in verdict.sentence)
            continue
        assert verdict.file == judgement.subject.source
        assert verdict.code and verdict.code in lines[verdict.line - 1]
        if verdict.kind != "launch-refused":  # nobody ran
            assert verdict.who


@by_subject
def test_the_subjects_themselves_are_not_accused(name, judgements):
    judgement = judgements(SUBJECTS[name].language)[f"as it is: {name}"]
    assert not judgement.caught, sentences(judgement)
    assert len(judgement.passed) == sum(not case.trivial for case in SUBJECTS[name].cases)


def test_nearly_all_wrong_kernels_are_caught(judgements):
    caught = [judgements(language(mutant))[mutant.name].caught for mutant in wrong()]
    assert sum(caught) >= CAUGHT * len(caught)


def test_both_languages_have_their_share():
    count = {name: sum(language(mutant) == name for mutant in wrong()) for name in ("cuda", "triton")}
    assert min(count.values()) >= 20 and sum(count.values()) >= 48
    assert len(right()) >= 10 and {language(mutant) for mutant in right()} == set(count)


def test_every_kind_of_verdict_has_a_mutant_that_expects_it():
    kinds = {kind for mutant in wrong() for kind in mutant.expect}
    assert kinds >= {
        "out-of-bounds", "double-write", "read-write-overlap", "global-race", "shared-race", "unwritten",
        "barrier-divergence", "warp-divergence", "inactive-lane", "misaligned", "read-before-written",
        "launch-refused", "wrong-value", "not-a-number", "too-many-events",
    }  # fmt: skip


def test_an_edit_that_no_longer_fits_is_an_error():
    mutant = wrong()[0]
    gone = replace(mutant, edits=(("no such text", ""),))
    with pytest.raises(ValueError, match="occurs 0 times"):
        mutated(SUBJECTS[mutant.subject], gone)
    twice = Mutant("twice", "vector_add", "", "", (("__syncthreads();", ""),), ("shared-race",))
    with pytest.raises(ValueError, match="not once"):
        mutated(SUBJECTS["vector_add"], twice)
    idle = Mutant("idle", "vector_add", "", "", (("if (i < n) {", "if (i < n) {"),), ("out-of-bounds",))
    with pytest.raises(ValueError, match="changes nothing"):
        mutated(SUBJECTS["vector_add"], idle)


def test_variants_in_one_file_keep_their_lines_and_not_their_names():
    source = SUBJECTS["vector_add"]
    text = grouped(source.source, [needed(source.text, source.launcher)] * 2)
    assert "launch_vector_add_v0(" in text and "launch_vector_add_v1(" in text and "launch_vector_add(" not in text
    assert "vector_add_v1<<<" in text and "softmax_serial<<<" in source.text and "softmax_serial<<<" not in text
    own = text.split('#line 1 "cuda/kernels.cu"\n')[1].split("\n")
    line = source.text.split("\n").index("        out[i] = x[i] + y[i];")
    assert own[line] == "        out[i] = x[i] + y[i];"


def test_a_mistake_that_only_values_show_is_found_and_its_owner_named(judgements):
    verdict = judgements("triton")["add-same-input"].verdicts["ragged"]
    assert (verdict.kind, verdict.place, verdict.who) == ("wrong-value", "out[0]", "program 0")
    assert "the reference has" in verdict.sentence and "257 elements in all" in verdict.sentence


def test_an_input_that_the_kernel_changes_is_a_verdict():
    skip_without("triton")
    store = "y.to(tl.float32)\n    tl.store(out_ptr + offsets, total.to(out_ptr.dtype.element_ty), mask=mask)"
    both = (store, f"{store}; tl.store(x_ptr + offsets, total, mask=mask)")
    spoilt = Mutant("also-writes-input", "add.py", "", "", (both,), ("input-changed",))
    (judgement,) = judge([spoilt], SUBJECTS, ["ragged"])
    assert judgement.verdicts["ragged"].kind == "input-changed" and "x[0]" in judgement.verdicts["ragged"].sentence


def test_a_launcher_that_raises_is_a_verdict():
    skip_without("triton")
    broken = Mutant(
        "raises", "add.py", "", "", (("kernel[(triton.cdiv(n, block_size),)]", "kernel[(n / 0,)]"),), ("error",)
    )
    (judgement,) = judge([broken], SUBJECTS, ["ragged"])
    assert judgement.kinds == ("error",) and "ZeroDivisionError" in judgement.verdicts["ragged"].sentence
