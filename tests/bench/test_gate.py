"""The performance gate and the comparison with peers, on documents made here."""

import subprocess
import sys
from pathlib import Path

import pytest
from documents import provenance, record

from kernels.bench.compare import geometric_mean, key, losses, rows, slower
from kernels.bench.gate import compare, markdown, recorded_cases
from kernels.bench.report import markdown as report
from kernels.bench.results import Document, ResultsError, complete, encode
from kernels.bench.targets import Target, against, judge

ROOT = Path(__file__).resolve().parents[2]


def timed(median: float, spread: float = 0.2, **changes):
    """A record whose samples have exactly this median and this distance between the quartiles."""
    samples = [median - spread, median - spread / 2, median, median + spread / 2, median + spread]
    return complete(record(samples_us=samples, **changes))


def document(*cases, gpu="NVIDIA H200", finished=True):
    return Document(provenance=provenance(gpu), cases=list(cases), finished=finished)


def test_the_helper_makes_what_it_says():
    made = timed(10.0, 0.4)
    assert (made.median_us, round(made.spread_us, 9)) == (10.0, 0.4)


def test_within_both_spreads_is_green_and_beyond_is_red():
    old = document(timed(10.0, 0.3))
    assert not compare([document(timed(10.55, 0.3))], [old], run_to_run=0.0).red  # 0.55 of 0.6
    outcome = compare([document(timed(10.65, 0.3))], [old], run_to_run=0.0)
    assert outcome.red and len(outcome.slower) == 1
    assert outcome.slower[0].factor == pytest.approx(1.065)


def test_what_two_runs_may_differ_by_counts_too():
    old, new = document(timed(100.0, 0.0)), document(timed(103.9, 0.0))
    assert not compare([new], [old]).red
    assert compare([document(timed(104.1, 0.0))], [old]).red


def test_faster_is_told_and_green():
    outcome = compare([document(timed(8.0))], [document(timed(10.0))])
    assert not outcome.red and len(outcome.faster) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"op": "softmax"},
        {"implementation": "vector_add"},
        {"shape": [258]},
        {"dtype": "bfloat16"},
        {"timing": "events"},
        {"cache": "warm"},
        {"config": {"block": 128}},
    ],
)
def test_only_the_same_case_is_compared(changes):
    outcome = compare([document(timed(99.0, **changes))], [document(timed(10.0))])
    assert outcome.compared == 0 and len(outcome.unrecorded) == 1
    assert outcome.red, "a gate that compared nothing has shown nothing"
    assert "nothing was compared" in markdown(outcome)
    assert key(timed(1.0, **changes)) != key(timed(1.0))


def test_a_time_that_is_gone_is_red():
    broken = complete(record(status="wrong", reason="3 of 257 elements are wrong"))
    outcome = compare([document(broken)], [document(timed(10.0))])
    assert outcome.red and len(outcome.broken) == 1
    assert "3 of 257 elements are wrong" in markdown(outcome)


def test_a_peer_that_got_slower_is_told_and_not_held_against_us():
    theirs = {"ours": False, "implementation": "torch"}
    outcome = compare([document(timed(10.0), timed(30.0, **theirs))], [document(timed(10.0), timed(20.0, **theirs))])
    assert not outcome.red and len(outcome.peers_slower) == 1
    assert "Peers that got slower" in markdown(outcome)


def test_different_gpus_are_refused():
    with pytest.raises(ResultsError, match="different GPUs"):
        compare([document(timed(10.0), gpu="NVIDIA H100 80GB HBM3")], [document(timed(10.0))])


def test_an_unfinished_run_is_refused():
    with pytest.raises(ResultsError, match="did not finish"):
        compare([document(timed(10.0), finished=False)], [document(timed(10.0))])


def test_the_report_names_the_case_and_both_times():
    text = markdown(compare([document(timed(20.0))], [document(timed(10.0))]))
    assert "Performance gate on NVIDIA H200: red" in text
    assert "add triton, float32 257, graph, cold" in text and "2.000" in text


def test_what_a_gate_measures():
    found = recorded_cases([document(timed(1.0), timed(1.0, dtype="bfloat16"), timed(1.0, op="b", timing="events"))])
    assert found == {"add": ["float32", "bfloat16"]}


def gate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "scripts/performance_gate.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)


def test_the_command_is_green_red_or_refuses(tmp_path):
    old = tmp_path / "old"
    old.mkdir()
    (old / "add.json").write_bytes(encode(document(timed(10.0))))
    for name, value, status in (("same", 10.0, 0), ("slow", 20.0, 1)):
        fresh = tmp_path / f"{name}.json"
        fresh.write_bytes(encode(document(timed(value))))
        report = tmp_path / f"{name}.md"
        done = gate(str(fresh), "--records", str(old), "--output", str(report))
        assert done.returncode == status, done.stderr
        assert report.read_text() in done.stdout
    other = tmp_path / "other.json"
    other.write_bytes(encode(document(timed(10.0), gpu="NVIDIA A100-SXM4-80GB")))
    done = gate(str(other), "--records", str(old))
    assert done.returncode == 2 and "different GPUs" in done.stderr
    assert gate().returncode == 2
    (old / "add.json").unlink()
    assert "nothing to compare with" in gate(str(tmp_path / "same.json"), "--records", str(old)).stderr


def test_committed_records_pass_their_own_gate():
    files = sorted(map(str, (ROOT / "results" / "h200").glob("*.json")))
    done = gate(*files)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 slower" in done.stdout


def peers(ours: float, **others: float):
    made = [timed(ours)]
    return made + [timed(value, implementation=name, ours=False) for name, value in others.items()]


def test_the_kernels_that_pytorch_chooses_for_attention_are_peers():
    (row,) = rows(peers(10.0, torch=300.0, cudnn=9.0))
    assert row.best_peer.implementation == "cudnn" and row.loses


def test_the_best_peer_is_the_fastest_that_is_right():
    cases = peers(10.0, torch=14.0, eager=30.0, liger=5.0)
    cases.append(complete(record(implementation="torch.compile", ours=False, status="wrong", reason="no")))
    (row,) = rows(cases)
    assert row.best_peer.implementation == "torch"  # another package is shown and no part of the ratio
    assert row.speedup == pytest.approx(1.4)
    assert not row.loses


def test_a_row_is_lost_beyond_both_spreads_only():
    (near,) = rows(peers(10.0, torch=9.7))
    (lost,) = rows(peers(10.0, torch=9.5))
    assert losses([near, lost]) == [lost]
    assert near.speedup < 1.0


def test_the_report_keeps_lost_rows_and_ends_with_the_mean():
    cases = [
        *peers(10.0, torch=5.0),
        timed(10.0, shape=[9]),
        timed(20.0, implementation="torch", ours=False, shape=[9]),
    ]
    text = report([document(*cases)])
    assert "| add, float32 257 | 10 | torch | 5 | 0.50× | **loses** |" in text
    assert "| add, float32 9 | 10 | torch | 20 | 2.00× |  |" in text
    assert "Geometric mean of 2 rows: 1.00×" in text
    assert "fastest peer" not in report([document(timed(10.0))])


def test_variants_are_no_peers_and_the_first_record_counts():
    cases = [timed(5.0, config={"block": 1}), timed(10.0), timed(99.0)]
    (row,) = rows(cases)
    assert row.ours.median_us == 10.0 and row.others == ()
    assert row.speedup is None


def test_ways_of_timing_are_not_mixed():
    cases = [timed(10.0), timed(1.0, implementation="torch", ours=False, timing="events")]
    (row,) = rows(cases)
    assert row.best_peer is None


def test_geometric_mean():
    assert geometric_mean([2.0, 0.5, None]) == pytest.approx(1.0)
    assert geometric_mean([4.0, 1.0]) == pytest.approx(2.0)
    assert geometric_mean([None]) is None


def test_a_record_without_a_time_is_never_slower():
    broken = complete(record(status="failed", reason="no"))
    assert not slower(broken, timed(1.0)) and not slower(timed(1.0), broken)


def test_demands_by_time_share_and_peer():
    (row,) = rows(peers(10.0, torch=20.0))
    demands = [
        Target("add", None, at_most_us=9.9),
        Target("add", "float32", (257,), at_most_us=10.0),
        Target("add", "float32", (258,), at_most_us=1.0),
        Target("add", None, at_least_of_limit=0.5),
        Target("add", None, not_slower_than="torch"),
        Target("add", None, not_slower_than="torch.compile"),
        Target("add", None, at_most_us=1.0, least_bytes=10**9),
    ]
    assert [judgement.met for judgement in judge(row, demands)] == [False, True, None, True, None]
    row.ours.fraction_of_limit = 0.4
    assert judge(row, demands)[2].met is False


def test_awkward_inputs_against_usual_ones():
    usual = rows([timed(10.0), timed(10.0, shape=[9])])
    awkward = rows([timed(19.0, op="b"), timed(21.0, op="b", shape=[9]), timed(1.0, op="b", shape=[8])])
    found = [(row.shape, ratio, allowed) for row, ratio, allowed in against(awkward, usual, at_most=2.0)]
    assert found == [((257,), pytest.approx(1.9), True), ((9,), pytest.approx(2.1), False)]


def test_demands_are_for_one_card():
    (row,) = rows(peers(10.0))
    row.ours.__dict__["_provenance"] = provenance("NVIDIA A100-SXM4-80GB")
    assert judge(row, [Target("add", None, at_most_us=9.9)]) == []


def test_every_demand_is_on_an_operator_that_is_planned_and_says_one_thing():
    from kernels.bench.targets import TARGETS

    for target in TARGETS:
        said = [target.at_most_us, target.at_least_of_limit, target.not_slower_than]
        assert sum(value is not None for value in said) == 1, target
        assert target.words.startswith(("≤", "≥"))
