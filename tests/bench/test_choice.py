"""Which way to write an operation: cases from records, thresholds and rules, and the figures of them."""

import math
import re

import pytest
from documents import record

from kernels.bench import records
from kernels.bench.choice import (
    COMPILE,
    CUDA,
    PYTORCH,
    TRITON,
    Case,
    calls_until_even,
    cases,
    enough,
    judged,
    left_out,
    mean_ratio,
    score,
    stop_at,
    stop_or_write,
)
from kernels.figures import case_table, choice_table, enough_chart, score_table


def timed(implementation, us, op="add", spread=0.0, **changes):
    ours = implementation in ("triton", "twin", "other_twin")
    source = "cuda/kernels.cu:twin" if implementation.endswith("twin") else ""
    made = record(op=op, implementation=implementation, ours=ours, source=source, **changes)
    made.median_us, made.spread_us = us, spread
    return made


def case(op="add", dtype="float32", **times):
    names = {"torch": PYTORCH, "compile": COMPILE, "triton": TRITON, "cuda": CUDA}
    ways = {names[name]: timed(name, us, op, dtype=dtype) for name, us in times.items()}
    return Case(op, (257,), dtype, ways)


def at_limit(share, compile_us, triton_us, op="add"):
    made = case(op, compile=compile_us, triton=triton_us)
    made.ways[COMPILE].fraction_of_limit = share
    return made


def test_a_case_takes_pytorchs_own_call_or_else_the_formula_and_the_fastest_twin():
    found = cases(
        [timed("triton", 2.0), timed("torch", 5.0), timed("eager", 1.0), timed("twin", 4.0), timed("other_twin", 3.0)]
    )
    assert len(found) == 1
    assert {way: found[0].time_us(way) for way in found[0].ways} == {PYTORCH: 5.0, TRITON: 2.0, CUDA: 3.0}
    wrong = timed("torch", 0.5)
    wrong.status, wrong.median_us = "wrong", None
    (fallen,) = cases([timed("triton", 2.0), wrong, timed("eager", 9.0)])
    assert fallen.time_us(PYTORCH) == 9.0 and fallen.best == TRITON


def test_no_case_without_our_kernel_a_peer_and_a_wanted_shape():
    assert cases([timed("torch", 1.0), timed("torch.compile", 1.0)]) == []
    assert cases([timed("triton", 1.0)]) == []
    both = [timed("triton", 1.0), timed("torch", 1.0)]
    assert cases(both, [(258,)]) == [] and len(cases(both, [(257,)])) == 1


def test_ways_within_both_spreads_win_together():
    close = case(torch=10.0, compile=10.3, triton=12.0)
    for record_ in close.ways.values():
        record_.spread_us = 0.2
    assert close.winners == (PYTORCH, COMPILE) and close.best == PYTORCH


def test_the_cheapest_way_is_the_first_that_is_fast_enough():
    one = case(torch=20.0, compile=10.5, triton=10.0, cuda=9.9)
    assert [one.cheapest(tolerated) for tolerated in (0.0, 0.02, 0.1, 1.1)] == [CUDA, TRITON, COMPILE, PYTORCH]
    assert one.ratio(PYTORCH) == pytest.approx(20 / 9.9) and case(triton=1.0, torch=2.0).ratio(CUDA) is None


def test_shares_and_means_count_only_what_was_measured():
    found = [case(compile=11.0, triton=10.0), case(compile=10.0, triton=20.0), case(torch=10.0, triton=10.0)]
    assert enough(found, COMPILE, 0.05) == 0.5 and enough(found, COMPILE, 0.1) == 1.0
    assert enough(found, TRITON, 0.0) == pytest.approx(2 / 3) and enough(found, CUDA, 1.0) is None
    assert mean_ratio(found, TRITON) == pytest.approx(2 ** (1 / 3)) and mean_ratio(found, CUDA) is None


def test_stopping_begins_above_the_last_case_that_gains():
    found = [
        at_limit(0.99, 10.0, 10.0),
        at_limit(0.95, 10.4, 10.0),
        at_limit(0.9, 12.0, 10.0),
        at_limit(0.8, 10.0, 10.0),
    ]
    assert stop_at(found, 0.05) == 0.95 and stop_at(found, 0.01) == 0.99 and stop_at(found, 0.5) == 0.8
    assert stop_at([at_limit(1.0, 20.0, 10.0)], 0.05) == math.inf
    cached = at_limit(0.99, 20.0, 10.0)
    cached.ways[COMPILE].in_l2 = True
    assert judged([cached, found[0]]) == [found[0]]


def test_a_rule_is_scored_by_its_mean_its_worst_and_the_kernels_it_asks_for():
    found = [at_limit(0.99, 10.0, 10.0), at_limit(0.5, 40.0, 10.0), at_limit(0.96, 10.0, 20.0)]
    scored = score("rule", found, stop_or_write(0.95))
    assert (scored.mean, scored.worst, scored.kernels) == (1.0, 1.0, 1)
    always = score("compile", found, lambda case: COMPILE)
    assert always.mean == pytest.approx(4 ** (1 / 3)) and always.worst == 4.0 and always.worst_case is found[1]
    with pytest.raises(ValueError, match="there is none"):
        score("rule", [], stop_or_write(0.5))


def test_leaving_an_operator_out_finds_the_threshold_on_the_others_only():
    found = [at_limit(0.9, 10.0, 10.0, "a"), at_limit(0.92, 12.0, 10.0, "b"), at_limit(0.95, 10.0, 10.0, "a")]
    assert left_out(found, 0.05) == [("a", math.inf, []), ("b", 0.9, [1.2])]  # nothing of "a" is kept: no evidence


def test_calls_until_even_divide_the_longer_first_call_by_the_gain():
    slow, fast = timed("eager", 30.0, first_call_ms=1.0), timed("torch.compile", 10.0, first_call_ms=101.0)
    assert calls_until_even(slow, fast) == pytest.approx(100_000 / 20)
    assert calls_until_even(fast, slow) is None
    assert calls_until_even(timed("eager", 30.0, first_call_ms=200.0), fast) == 0.0


def test_a_product_of_matrices_is_not_limited_by_copies():
    pytest.importorskip("kernels.ops.registry")
    from kernels.bench.choice import limited_by_copies
    from kernels.ops.unmeasured import find

    assert all(limited_by_copies(find(name)) for name in ("add", "softmax", "bias_gelu_backward", "split_softmax"))
    assert not any(limited_by_copies(find(name)) for name in ("matmul", "fused_gemm", "matmul_train", "attention"))


def test_pytorch_is_the_fastest_of_its_own_calls():
    (found,) = cases([timed("triton", 10.0), timed("torch", 300.0), timed("cudnn", 9.0), timed("eager", 1.0)])
    assert found.best == PYTORCH and found.ways[PYTORCH].implementation == "cudnn"


def test_the_committed_records_make_cases_of_every_operator():
    import kernels.ops.registry as registry

    measured = {name: op for name, op in registry.OPS.items() if records(name)}
    assert len(measured) >= 12
    for name, op in measured.items():
        found = cases(records(name), [bench.shape for bench in op.benches])
        assert found, name
        # What a library call computes alone is not always compiled beside it.
        compiled = {record.dtype for record in records(name) if record.implementation == "torch.compile"}
        for each in found:
            assert {PYTORCH, TRITON} | ({COMPILE} if each.dtype in compiled else set()) <= set(each.ways)
            assert min(each.ratio(way) for way in each.ways) == 1.0 and each.winners


def test_the_figures_show_times_winners_and_missing_ways():
    found = [case("add", torch=10.0, compile=12.0, triton=11.0), case("add", torch=20.0, triton=10.0, cuda=40.0)]
    text = re.sub(r"<[^>]+>", " ", case_table(found))
    assert "2.00\u00a0×" in text and "4.00\u00a0×" in text and "—" in text and "PyTorch" in text
    assert "fastest" in text and "in bold" in text and "<b>" in case_table(found)
    summary = re.sub(r"<[^>]+>", " ", choice_table(found))
    assert "won 1" in summary and "1.41\u00a0×" in summary
    chart = enough_chart(found, (0.05, 1.0))
    assert "PyTorch: 50 at 5 to 100 at 100" in chart
    assert "782" not in score_table([score("Triton", found, lambda each: TRITON)])
    assert "1.1" in score_table([score("Triton", found, lambda each: TRITON)])
