"""Sentences of the case studies: they follow the records, whichever way these turn out."""

import pytest
from documents import provenance, record

from kernels.bench import case_studies, results
from kernels.bench.case_studies import experiment, find, not_measured, ranking, recorded, span, versus
from kernels.bench.results import Document, encode


def timed(name: str, us: float, spread: float = 0.1, **changes):
    made = record(implementation=name, **changes)
    made.median_us, made.spread_us = us, spread
    return made


def test_the_faster_one_is_named_first_whichever_it_is():
    ours, theirs = timed("triton", 10.0), timed("torch", 13.0)
    assert versus(ours, theirs) == versus(theirs, ours) == "triton is 1.30 times as fast as torch"
    assert versus(theirs, ours, "theirs", "ours") == "ours is 1.30 times as fast as theirs"
    assert versus(ours, timed("torch", 10.5)) == "triton is 5.0% faster than torch"


def test_a_difference_within_both_spreads_is_none():
    ours, theirs = timed("triton", 10.0, 0.3), timed("torch", 10.5, 0.3)
    assert versus(ours, theirs) == "triton and torch do not differ by more than their spreads"
    assert versus(theirs, ours) == "torch and triton do not differ by more than their spreads"
    with pytest.raises(ValueError, match="no time"):
        versus(record(implementation="triton", median_us=None), timed("torch", 1.0))


def test_a_record_is_found_by_all_that_was_asked():
    block = timed("triton[path=block]", 2.0, shape=[4, 8], config={"path": "block"})
    wanted = timed("triton", 3.0, shape=[4, 8], dtype="bfloat16")
    failed = record(implementation="torch", shape=[4, 8], status="failed", samples_us=[])
    kept = [failed, block, timed("triton", 1.0, shape=[8, 4]), wanted]
    assert find(kept, "triton", (4, 8), "bfloat16") is wanted
    assert find(kept, "triton[path=block]", [4, 8], path="block") is block
    assert find(kept, "triton[path=block]", [4, 8], path="looped") is None
    assert find(kept, "torch", (4, 8)) is None  # it has no time


def test_spans_and_rankings():
    assert span([1.31, 1.2, 1.25]) == "1.20 to 1.31"
    assert span([1.001, 1.002]) == "1.00"
    with pytest.raises(ValueError):
        span([])
    assert ranking([timed("a", 3.0), timed("b", 1.0), record(implementation="c")]) == ["b", "a"]


def test_an_experiment_that_was_not_measured_is_none_and_says_how(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    assert experiment("scale_rows") is None
    path = tmp_path / "h200" / "experiments" / "scale_rows.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(encode(Document(provenance=provenance(), cases=[record()])))
    assert experiment("scale_rows").cases[0].op == "add"
    assert case_studies.folder() == path.parent
    assert not_measured("x", "y").endswith("`y` measures it.")


def test_a_page_says_which_of_its_experiments_wait_for_a_record(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    both = {"the orders": "gemm-grouping", "the widths": "scale_rows"}
    assert recorded(both) == "Recorded on an H200: 0 of 2 GPU experiments below. Not yet: the orders; the widths."
    (tmp_path / "h200" / "experiments").mkdir(parents=True)
    (tmp_path / "h200" / "experiments" / "scale_rows.json").write_text("{}")
    assert recorded(both) == "Recorded on an H200: 1 of 2 GPU experiments below. Not yet: the orders."
    assert recorded({"the widths": "scale_rows"}) == "Recorded on an H200: the GPU experiment below."
    with pytest.raises(ValueError, match="at least one"):
        recorded({})
