"""A whole run over the stand-in device: real operators' records, real checks, a clock that is moved by hand."""

import dataclasses
import os
from pathlib import Path

import pytest
import torch
from documents import provenance
from fake_device import FakeDevice

from kernels.bench import run as bench
from kernels.bench.report import markdown
from kernels.bench.results import Limit, Record, Writer, read
from kernels.bench.timer import DeviceFailure
from kernels.ops.op import Case, Implementation, Op, elements


def operator(device: FakeDevice, bytes_each: int = 8, **others: object) -> Op:
    """Doubling, in as many ways as the test wants: name -> what it returns."""

    def implementation(name: str, function: object) -> Implementation:
        def call(x: torch.Tensor) -> torch.Tensor:
            device.busy(10.0, name)
            return function(x)

        return Implementation(name, call, "torch", "", ours=name == "right")

    def inputs(shape: tuple[int, ...], dtype: str, where: str, seed: int, padding: int = 0) -> tuple[torch.Tensor, ...]:
        generator = torch.Generator(where).manual_seed(seed)
        return (torch.randn(shape, generator=generator, device=where).to(getattr(torch, dtype)),)

    ways = {"right": lambda x: x + x, **others}
    return Op(
        name="double",
        reference=lambda x: x.double() * 2,
        implementations=tuple(implementation(name, way) for name, way in ways.items()),
        inputs=inputs,
        bytes_moved=lambda shape, dtype: bytes_each * elements(shape),
        flops=elements,
        checks=(),
        benches=(Case((1 << 12,), "small"),),
        dtypes=("float32",),
        tolerance=lambda dtype, shape: (1e-6, 1e-30),
    )


def measured(tmp_path: Path, device: FakeDevice, op: Op, **options: object) -> dict[str, Record]:
    writer = Writer(tmp_path / "double.json", provenance())
    writer.add_limit(Limit(name="copy", method="x", gb_per_s=10.0))
    found = bench.run(device, [op], bench.Options(**{"samples": 5, **options}), writer, lambda text: None)
    writer.finish()
    assert read(tmp_path / "double.json").cases == found
    return {record.implementation: record for record in found}


def test_a_right_implementation_is_timed(tmp_path: Path) -> None:
    device = FakeDevice()
    made = measured(tmp_path, device, operator(device))["right"]
    assert (made.status, made.median_us, made.launches) == ("ok", pytest.approx(10.0), made.launches)
    assert len(made.samples_us) == 5 and made.max_abs_error == 0.0
    assert made.gb_per_s == pytest.approx(8 * 4096 / 10e-6 / 1e9)


def test_a_wrong_implementation_is_recorded_and_never_timed(tmp_path: Path) -> None:
    device = FakeDevice()
    op = operator(device, wrong=lambda x: torch.where(torch.arange(len(x)) == 3, x, x + x))
    made = measured(tmp_path, device, op)
    assert made["wrong"].status == "wrong" and made["wrong"].samples_us == []
    assert made["wrong"].median_us is None and "the first is (3,)" in made["wrong"].reason
    assert made["right"].status == "ok"
    assert device.launches.count("wrong") < 10


@pytest.mark.parametrize(
    "way", [lambda x: x * float("nan"), lambda x: (x + x)[:-1], lambda x: torch.full_like(x, float("inf"))]
)
def test_nan_inf_and_a_wrong_shape_are_wrong(tmp_path: Path, way: object) -> None:
    device = FakeDevice()
    made = measured(tmp_path, device, operator(device, wrong=way))["wrong"]
    assert made.status == "wrong" and made.reason and made.median_us is None


def test_wrong_only_on_other_inputs_is_still_found(tmp_path: Path) -> None:
    device, kept = FakeDevice(), {}

    def remembers(x: torch.Tensor) -> torch.Tensor:
        return kept.setdefault("first", x + x)

    assert measured(tmp_path, device, operator(device, caching=remembers))["caching"].status == "wrong"


def test_an_exception_is_a_failed_case_and_the_rest_goes_on(tmp_path: Path) -> None:
    device = FakeDevice()

    def raises(x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("no kernel image\nmore")

    made = measured(tmp_path, device, operator(device, broken=raises))
    assert (made["broken"].status, made["broken"].reason) == ("failed", "RuntimeError: no kernel image")
    assert made["right"].status == "ok"


def test_an_arm_that_fails_only_while_timed_does_not_take_the_others_along(tmp_path: Path) -> None:
    device, calls = FakeDevice(), []

    def breaks_later(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if len(calls) > 8:
            raise RuntimeError("cannot be captured")
        return x + x

    made = measured(tmp_path, device, operator(device, late=breaks_later))
    assert made["late"].status == "failed" and made["right"].status == "ok"
    assert len(made["right"].samples_us) == 5


def test_a_dead_device_stops_the_run_and_keeps_what_was_finished(tmp_path: Path) -> None:
    device = FakeDevice()

    def kills(x: torch.Tensor) -> torch.Tensor:
        if x.numel() == 2:
            device.failing = "an illegal memory access was encountered"
        return x + x

    writer = Writer(tmp_path / "double.json", provenance())
    options = bench.Options(samples=2, shapes=((4,), (2,), (8,)))
    with pytest.raises(DeviceFailure, match="illegal memory access"):
        bench.run(device, [operator(device, killer=kills)], options, writer, lambda text: None)
    left = read(writer.partial)
    assert {tuple(case.shape) for case in left.cases} == {(4,)} and not left.finished


def test_an_impossible_rate_is_refused_and_kept_as_evidence(tmp_path: Path) -> None:
    device = FakeDevice()
    made = measured(tmp_path, device, operator(device, 8 << 10), shapes=((1 << 12,),))["right"]  # 33.5 MB in 10 µs
    assert made.status == "ok" and not made.in_l2
    made = measured(tmp_path, device, operator(device, 8 << 10), shapes=((1 << 13,),))["right"]  # 67 MB in 10 µs
    assert made.status == "implausible" and made.median_us is None and made.gb_per_s is None
    assert "6711 GB/s is above" in made.reason and len(made.samples_us) == 5


def test_empty_input_is_no_work(tmp_path: Path) -> None:
    device = FakeDevice()
    made = measured(tmp_path, device, operator(device), shapes=((0,),))["right"]
    assert (made.status, made.samples_us, made.gb_per_s) == ("no_work", [], None)


def test_one_sample_has_no_spread(tmp_path: Path) -> None:
    device = FakeDevice()
    made = measured(tmp_path, device, operator(device), samples=1)["right"]
    assert len(made.samples_us) == 1 and made.spread_us is None


def test_a_report_names_every_case(tmp_path: Path) -> None:
    device = FakeDevice()
    measured(tmp_path, device, operator(device, wrong=lambda x: x), shapes=((1 << 10,), (0,)))
    text = markdown([read(tmp_path / "double.json")])
    assert "| 1024 | right | 10 |" in text
    assert "wrong: Seed" in text and "no_work" in text
    assert "nan" not in text.lower() and "inf" not in text.lower().replace("info", "")


@pytest.mark.parametrize(("text", "shape"), [("4096x1024", (4096, 1024)), ("257", (257,)), ("0x8", (0, 8))])
def test_shapes(text: str, shape: tuple[int, ...]) -> None:
    assert bench.parse_shape(text) == shape


@pytest.mark.parametrize("text", ["", "3x", "-4", "4,5", "1.5", "²"])
def test_not_a_shape(text: str) -> None:
    with pytest.raises(bench.UsageError, match="is not a shape"):
        bench.parse_shape(text)


def test_variants_name_the_launchers_knobs() -> None:
    from kernels.ops import registry

    add = registry.get("add")
    made = bench.variant(add, "block=128,warps=8")
    assert made.name == "triton[block=128,warps=8]" and made.config == {"block_size": 128, "num_warps": 8}
    assert made.dtypes == add.dtypes
    with pytest.raises(bench.UsageError, match="block_size, num_warps"):
        bench.variant(add, "blok=128")
    with pytest.raises(bench.UsageError, match="does not set a knob of add"):
        bench.variant(add, "block")


@pytest.mark.triton
@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="with TRITON_INTERPRET=1 the launchers run here")
def test_a_variant_of_every_operator_gives_what_the_operator_gives() -> None:
    from kernels.ops import registry

    for op in registry.OPS.values():
        try:
            knobs = bench.launcher(op)[1]
        except bench.UsageError:
            continue  # no launcher of its own
        if "num_warps" not in knobs:
            continue  # choices that it hands on without naming them
        shape = (3, 40) if len(op.benches[0].shape) <= 2 else op.checks[1].shape
        inputs = op.inputs(shape if not op.name.startswith("histogram") else (40,), op.dtypes[0], "cpu", 1, 0)
        if op.name == "add":
            inputs = tuple(each.flatten() for each in inputs)
        outs = bench.results(bench.variant(op, "warps=2").call(*inputs))
        verdict = bench.judge_all(outs, bench.results(op.reference(*inputs)), op.tolerance(op.dtypes[0], shape))
        assert verdict.right, (op.name, verdict.sentence)


def several(device: FakeDevice, call: object) -> Op:
    """Both the double and the sum of integers, as an operator with two results returns them."""

    def reference(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.double() * 2, x.double().sum(-1)

    def timed(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        device.busy(10.0, "right")
        return call(x)

    return dataclasses.replace(
        operator(device),
        reference=reference,
        implementations=(Implementation("right", timed, "torch", "", ours=True, dtypes=("int32",)),),
        inputs=lambda shape, dtype, where, seed, padding=0: (
            torch.arange(3 * 4, dtype=torch.int32).view(3, 4) + seed % 9,
        ),
        outputs=lambda x: (torch.empty_like(x), x.new_empty(len(x), dtype=torch.int64)),
        benches=(Case((3, 4), "small"),),
        dtypes=("int32",),
        tolerance=lambda dtype, shape: (0.0, 0.0),
    )


def test_several_results_of_integers_are_all_checked(tmp_path: Path) -> None:
    device = FakeDevice()
    made = measured(tmp_path, device, several(device, lambda x: (x + x, x.sum(-1))))["right"]
    assert made.status == "ok" and made.max_abs_error == 0.0 and made.error_over_tolerance == 0.0
    for call, sentence in [
        (lambda x: (x + x, x.sum(-1) + 1), "Result 1 of 2: 3 of 3 elements are wrong"),
        (lambda x: (x, x.sum(-1)), "Result 0 of 2: "),
        (lambda x: x + x, "There are 1 results; there should be 2."),
        (lambda x: (x + x, x.sum()), "Result 1 of 2: The shape is (); it should be (3,)."),
    ]:
        made = measured(tmp_path, device, several(device, call))["right"]
        assert made.status == "wrong" and sentence in made.reason and made.samples_us == []


def test_memory_that_outputs_may_get_holds_what_no_result_holds() -> None:
    device = FakeDevice()
    (x,) = several(device, None).inputs((3, 4), "int32", "cpu", 0)
    double, total = bench.new_outputs(several(device, None), (x,))
    bench.poison((double, total))
    assert (double == -(2**31)).all() and total.tolist() == [-(2**63)] * 3
    (like,) = bench.new_outputs(operator(device), (torch.ones(3, 4).t(),))
    assert like.shape == (4, 3) and like.is_contiguous()
    bench.poison((like,))
    assert like.isnan().all()


def test_a_peer_that_is_not_installed_is_unavailable_and_says_so(tmp_path: Path) -> None:
    device = FakeDevice()
    op = operator(device)
    peer = dataclasses.replace(op.implementations[0], name="peer", needs="no_such_kernels", ours=False)
    made = measured(tmp_path, device, dataclasses.replace(op, implementations=(*op.implementations, peer)))
    assert made["peer"].status == "unavailable" and made["peer"].samples_us == []
    assert made["peer"].reason == (
        "no-such-kernels is not installed; pip install no-such-kernels adds it to the comparison."
    )
    assert made["right"].status == "ok"
    installed = dataclasses.replace(peer, needs="json")
    made = measured(tmp_path, device, dataclasses.replace(op, implementations=(*op.implementations, installed)))
    assert made["peer"].status == "ok"


def test_an_operator_is_timed_in_the_dtypes_that_it_takes() -> None:
    from kernels.ops import registry

    histogram, softmax = registry.get("histogram"), registry.get("softmax")
    assert bench.dtypes_of(softmax, bench.Options()) == softmax.dtypes
    assert bench.dtypes_of(histogram, bench.Options()) == histogram.bench_dtypes != histogram.dtypes
    asked = bench.Options(dtypes=("bfloat16", "int8"))
    assert bench.dtypes_of(softmax, asked) == ("bfloat16",) and bench.dtypes_of(histogram, asked) == ("int8",)


def test_torch_compile_only_when_asked() -> None:
    from kernels.ops import registry

    op = registry.get("softmax")
    assert "torch.compile" not in [c.name for c in bench.contenders(op, bench.Options())]
    assert "torch.compile" in [c.name for c in bench.contenders(op, bench.Options(compile=True))]
    with pytest.raises(bench.UsageError, match="no implementation called nothing"):
        bench.contenders(op, bench.Options(only=("nothing",)))
