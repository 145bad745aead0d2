"""The run on two devices: which calls there are, how they are judged, and the calls themselves where there are two."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from documents import provenance

pytest.importorskip("triton")
pytest.importorskip("torch")

import torch

from kernels.bench import two_devices as runs
from kernels.bench.results import ResultsError

ROOT = Path(__file__).resolve().parents[2]
GOOD = {"device_of_results": (1, 1), "current_before": 0, "current_after": 0, "allocations": 0, "wrong": None}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, None),
        ({"current_after": 1}, "current device was 0 before the call and 1 after"),
        ({"device_of_results": (1, 0)}, r"Results are on \[0, 1\]; expected device 1"),
        ({"allocations": 2}, "2 allocations were made on the other device"),
        ({"wrong": "nan"}, "results are wrong, as of another stream or card: nan"),
    ],
)
def test_a_call_is_judged_by_everything_that_it_did(changed, words):
    said = runs.fault(runs.Observation(**GOOD | changed), 1)
    assert said is None if words is None else re.search(words, said)


def test_every_operator_is_called_in_every_form_and_both_ways_round():
    from kernels.ops import registry, unmeasured

    found = list(runs.cases())
    names = {*registry.OPS, *(r.name for file in unmeasured.NAMES for r in registry._records(file))}
    for name in names:
        op = unmeasured.find(name)
        mine = [case for case in found if case.op == name]
        assert {(c.dtype, c.tensors_on) for c in mine if c.form == "direct"} == {
            (d, n) for d in op.dtypes for n in (0, 1)
        }
        assert {c.tensors_on for c in mine if c.form == "compiled"} == {0, 1}
        assert any(c.form == "gradient" for c in mine) == (op.gradient_tolerance is not None)
    assert all(case.current == 1 - case.tensors_on for case in found if case.form != "tensors on both")
    assert {case.op for case in found if case.form == "CUDA"} >= {"add", "softmax", "histogram"}
    assert "add" in {case.op for case in found if case.form == "tensors on both"}
    assert len({(c.op, c.form, c.dtype, c.tensors_on) for c in found}) == len(found)


def test_the_forms_call_what_they_say():
    op = next(op for op in runs._operators() if op.name == "softmax")
    x = torch.randn(3, 5, dtype=torch.float64)
    (got,) = runs.gradients(op.reference)(x)
    y = torch.softmax(x, -1)
    upstream = (torch.arange(15) % 5 - 2.0).reshape(3, 5)
    torch.testing.assert_close(got, y * (upstream - (y * upstream).sum(-1, keepdim=True)))
    assert len(runs._calls(op, "CUDA", "float32")) == sum(each.needs == "cuda" for each in op.implementations)
    assert runs._tensor_inputs(op) == 1


def case(op="softmax", **words):
    return runs.Case(op=op, form="direct", dtype="float32", tensors_on=1, current=0, **words)


def test_failures_and_what_was_not_reached_are_told_apart(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(runs, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def one(asked):
        now[0] += 0.3
        if asked.op == "add":
            raise ValueError("x is on cuda:1\nmore")
        return "Wrong." if asked.op == "histogram" else None

    found = runs.run([case(), case("add"), case("histogram"), case("late")], 0.8, one)
    said = [(c.status, c.reason) for c in found]
    assert said == [
        ("ok", None), ("failed", "ValueError: x is on cuda:1"), ("failed", "Wrong."), ("not run", runs.NO_TIME)
    ]  # fmt: skip


PART = """import json, sys
index, count = map(int, sys.argv[1].partition("=")[2].split("/"))
if index == 1:
    sys.exit("no device")
made = [{"op": str(n), "form": "direct", "dtype": "float32", "tensors_on": 1, "current": 0, "status": "ok"}
        for n in range(index, 5, count)]
print("loading", json.dumps(made), sep=chr(10))"""


def test_cases_are_dealt_out_and_come_back_in_their_order():
    found = runs.side_by_side([case(str(n)) for n in range(5)], 5.0, 3, [sys.executable, "-c", PART])
    assert [c.op for c in found] == ["0", "1", "2", "3", "4"]
    assert [c.status for c in found] == ["ok", "not run", "ok", "ok", "not run"]
    assert found[1].reason == "Its process gave no answer (exit status 1): no device"


def test_the_record_comes_back_and_is_reported():
    made = runs.TwoDevices(
        provenance=provenance(), gpus=["NVIDIA H200"] * 2, seconds=3.0,
        cases=[case(status="ok"), case("add", status="failed", reason="Wrong.")],
    )  # fmt: skip
    assert runs.decode(runs.encode(made)) == made
    assert runs.SCHEMA.read_text() == runs.schema_text()
    text = runs.report(made)
    assert (
        "direct: 1 of 2 ok" in text and "add, direct, float32, tensors on 1, device 0 current: failed: Wrong." in text
    )
    with pytest.raises(ResultsError, match=r"x\.json is no record of a run on two devices"):
        runs.decode(b"[]", "x.json")


@pytest.mark.skipif(torch.cuda.device_count() > 1, reason="this machine has two GPUs")
def test_without_two_gpus_the_script_says_so_and_has_an_exit_status_of_its_own():
    command = [sys.executable, "scripts/two_devices.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == (4 if torch.cuda.is_available() else 3)
    assert "two_devices" in done.stderr


@pytest.mark.gpu
@pytest.mark.parametrize("form", [*runs.FORMS[:3], "tensors on both"])
def test_operators_on_a_gpu_that_is_not_the_current_one(form):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    found = runs.run([each for each in runs.cases() if each.form == form], 120.0)
    assert [(c.op, c.dtype, c.tensors_on, c.reason) for c in found if c.status != "ok"] == []
