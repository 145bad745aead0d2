"""The experiments of the case studies: what needs no GPU of them, and their documents."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from documents import provenance
from fake_device import FakeDevice

from kernels.bench import overhead, specialization
from kernels.bench.contracts import LABELS, REQUIRED, contract, parse, ways
from kernels.bench.results import ResultsError
from kernels.inspect.launches import count_instructions

ROOT = Path(__file__).resolve().parents[2]


def script(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, f"scripts/{name}.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)


def test_what_is_known_of_a_width_decides_how_wide_loads_are():
    pytest.importorskip("triton")
    facts = dict(zip((v.name for v in specialization.VARIANTS), specialization.compiled(), strict=True))
    loads = {name: count_instructions(fact).global_loads for name, fact in facts.items()}
    assert set(loads["run time, multiple of 16"]) == set(loads["constant, multiple of 16"]) == {128}
    for name in ("run time, odd", "run time, not looked at", "constant, odd"):
        assert set(loads[name]) == {32}, name
    instructions = {name: count_instructions(fact).total for name, fact in facts.items()}
    assert instructions["constant, multiple of 16"] < instructions["run time, multiple of 16"]
    text = specialization.table(list(facts.values()))
    assert all(variant.name in text for variant in specialization.VARIANTS)


def test_variants_are_timed_by_the_bench_and_a_wrong_one_is_not(monkeypatch):
    pytest.importorskip("torch")
    device = FakeDevice()
    costs = {variant.name: 10.0 + i for i, variant in enumerate(specialization.VARIANTS)}

    def call_of(variant):
        def call(x, out):
            out.copy_(x if variant.name == "constant, odd" else 2 * x)
            device.busy(costs[variant.name])

        return call

    monkeypatch.setattr(specialization, "ROWS", 8)
    monkeypatch.setattr(specialization, "call_of", call_of)
    monkeypatch.setattr(specialization, "buffer_sets", lambda *_: (2, None))
    records = specialization.run(device, None, None, samples=3)
    found = {record.implementation: record for record in records}
    assert found["run time, multiple of 16"].median_us == pytest.approx(10.0)
    assert found["run time, odd"].median_us == pytest.approx(11.0)
    assert found["constant, odd"].status == "wrong" and found["constant, odd"].median_us is None
    assert found["run time, odd"].config == {"knows": "nothing"}


class Host:
    """A host clock that calls move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waited = 0

    def call(self, us: float):
        def run() -> None:
            self.now += us

        return run

    def synchronize(self) -> None:
        self.now += 1000.0  # waiting must be in no sample
        self.waited += 1


def test_host_time_of_a_call_without_the_waiting():
    host = Host()
    ways_to_call = [
        overhead.Call(overhead.BASELINE, "theirs", lambda: host.call(5.0)),
        overhead.Call("ours", "ours", lambda: host.call(8.0)),
        overhead.Call("gone", "none", lambda: [][1]),
    ]
    theirs, ours, gone = overhead.measure(ways_to_call, host.synchronize, lambda: host.now, samples=4, calls=10)
    assert theirs.samples_us == [5.0] * 4 and theirs.of_eager == 1.0
    assert (ours.median_us, ours.spread_us, ours.of_eager) == (8.0, 0.0, 1.6)
    assert gone.status == "unavailable" and "IndexError" in gone.reason and gone.of_eager is None


@pytest.mark.parametrize(("samples", "calls"), [(0, 1), (1, 0)])
def test_no_samples_is_an_error(samples, calls):
    with pytest.raises(ValueError, match="At least one"):
        overhead.measure([], lambda: None, samples=samples, calls=calls)


def document(samples=(1.0, 2.0)) -> overhead.Overhead:
    way = overhead.Way(name="direct call", what="ours", samples_us=list(samples), median_us=1.5, spread_us=0.5)
    return overhead.Overhead(
        op="softmax", shape=[32, 127], dtype="float32", calls_in_sample=200, provenance=provenance(), ways=[way]
    )


def test_the_document_is_strict_and_its_schema_is_published():
    data = overhead.encode(document())
    assert overhead.decode(data) == document()
    with pytest.raises(ResultsError, match=r"samples_us\[0\] is nan: JSON has no such number"):
        overhead.encode(document((float("nan"),)))
    with pytest.raises(ResultsError, match="unknown field"):
        overhead.decode(data.replace(b'"op"', b'"operator"'))
    assert overhead.SCHEMA.read_text(encoding="utf-8") == overhead.schema_text()
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(json.loads(data), json.loads(overhead.schema_text()))


def test_without_a_gpu_the_instructions_are_shown_and_the_times_refused():
    pytest.importorskip("triton")
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    done = script("specialization")
    assert done.returncode == 3 and "16 of 32 bits" in done.stdout and "no NVIDIA GPU" in done.stderr
    assert script("specialization", "--compile-only").returncode == 0
    done = script("wrapper_overhead")
    assert done.returncode == 3 and "no NVIDIA GPU" in done.stderr


def test_every_operator_states_its_contract():
    registry = pytest.importorskip("kernels.ops.registry")
    for op in registry.OPS.values():
        stated = contract(op.implementation("triton").call.__module__)
        assert set(REQUIRED) <= set(stated.parts) <= set(LABELS)
        assert stated.formula, f"{op.name} states no formula"
        assert all(len(text) > 10 for text in stated.parts.values())


CONTRACT = """op: what it does.

    out = x

Shapes    any, and
          some more.
Dtypes    all.
Strides   any.
Limits    none.
Special   nothing.

More words,
on two lines.
"""


def test_a_contract_is_read_whole():
    stated = parse(CONTRACT, "op")
    assert stated.summary == "what it does." and stated.formula == ("out = x",)
    assert stated.parts["Shapes"] == "any, and some more."
    assert stated.text == ("More words, on two lines.",)


def test_a_contract_that_lacks_a_part_is_an_error():
    with pytest.raises(ValueError, match="says nothing about Strides"):
        parse(CONTRACT.replace("Strides   any.\n", ""), "op")


def test_a_line_between_the_parts_is_an_error_and_not_left_out():
    line = "Fast path on a newer card: what follows would have been read as a part of the one before."
    with pytest.raises(ValueError, match="a line between its parts that belongs to none: 'Fast path on a newer"):
        parse(CONTRACT.replace("Strides   any.\n", f"Strides   any.\n{line}\n"), "op")


def test_a_part_that_no_contract_has_is_an_error_and_not_left_out():
    with pytest.raises(ValueError, match="of op has a part Stride; its parts are Shapes, Visible, Splits"):
        parse(CONTRACT.replace("Strides   any.\n", "Strides   any.\nStride    any.\n"), "op")


def test_the_ways_of_the_row_plan():
    row_plan = pytest.importorskip("kernels.ops.row_plan")
    assert set(ways(row_plan.__doc__)) == {"block", "twice", "looped", "joint", "split"}
    assert ways("one   word\n      more\nTwo words\n\ntwo   x") == {"one": "word more", "two": "x"}


def test_products_of_other_values_are_timed_in_turns_on_their_own_operands(monkeypatch):
    torch = pytest.importorskip("torch")
    from kernels.bench import values

    device = FakeDevice()
    seen = []

    def mm(a, b, out):
        kind = "zeros" if not a.any() else "ones" if bool((a == 1).all()) else "random"
        assert a.shape == b.shape == out.shape == (16, 16) and a.dtype == torch.bfloat16
        seen.append(kind)
        device.busy({"zeros": 20.0, "ones": 22.0, "random": 25.0}[kind])
        return out

    monkeypatch.setattr(torch, "mm", mm)
    records = values.run(device, None, samples=3, size=16)
    assert [r.implementation for r in records] == ["zeros", "ones", "random"]
    assert [r.median_us for r in records] == pytest.approx([20.0, 22.0, 25.0])
    assert all(r.flops == 2 * 16**3 and r.buffer_sets == 2 and r.status == "ok" for r in records)
    assert set(seen) == {"zeros", "ones", "random"}
    assert "0.800" in values.table(records)
