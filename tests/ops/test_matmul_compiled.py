"""What the compiler makes of the matmul kernels, on a machine without a GPU too: instructions, registers, memory."""

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from kernels.inspect.launches import compiled, launches_many, query, stage_text
from kernels.inspect.limits import shared_limit_bytes
from kernels.ops.matmul_tuning import CONFIGURATIONS, fitting

pytestmark = pytest.mark.triton
SMALLEST_SHARED_BYTES = 99 * 1024  # what a program may have on sm_86, sm_89 and sm_120


@cache
def facts(arch: int) -> dict:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_")}
    script = Path(__file__).with_name("compile_matmul.py")
    root = str(script.parents[2])
    environment["PYTHONPATH"] = os.pathsep.join([root, environment.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, script, str(arch)], capture_output=True, text=True, env=environment, cwd=root
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def every_launch(arch: int) -> list[tuple[str, dict]]:
    return [(name, fact) for name, made in facts(arch).items() for fact in made]


def test_everything_compiles_fits_and_spills_nothing():
    for name, fact in every_launch(90):
        assert "error" not in fact, f"{name}: {fact.get('error')}"
        assert fact["shared_bytes"] <= shared_limit_bytes(90), name
        assert fact["spills"] == 0, f"{name}: {fact['spills']} bytes are spilled"


def test_the_fast_way_is_the_tensor_cores_and_the_copy_engine():
    found = [(name, fact) for name, fact in every_launch(90) if fact["kernel"] == "_matmul_persistent"]
    assert {"plan 8192x8192x8192 bfloat16", "plan 16x4096x4096 bfloat16", "transposed 11"} <= {
        name for name, _ in found
    }
    for name, fact in found:
        assert "wgmma.mma_async" in fact["ptx"] and "mma.sync" not in fact["ptx"], name
        assert fact["ptx"].count("cp.async.bulk.tensor") >= 3, name


def test_the_readable_kernel_reaches_the_tensor_cores_too():
    for name, fact in every_launch(90):
        if name.startswith("tuned") and "ieee" in name and "bfloat16" in name:
            small = fact["tile"]["BLOCK_M"] < 64  # the Hopper instruction takes 64 rows
            assert ("mma.sync" if small else "wgmma.mma_async") in fact["ptx"], name
            assert "cp.async.cg.shared.global" in fact["ptx"], name  # tiles on the way while others are multiplied


def test_float32_is_exact_unless_tf32_was_asked_for():
    seen = set()
    for name, fact in every_launch(90):
        if "float32" in name or "tf32" in name:
            asked = "tf32" in name
            seen.add(asked)
            uses = re.search(r"mma\S*\.tf32|tf32\.tf32", fact["ptx"]) is not None
            assert uses == asked, f"{name}: tf32 instructions {'found' if uses else 'missing'}"
    assert seen == {True, False}


def test_offsets_are_multiplied_in_64_bits():
    for name, fact in every_launch(90):
        if fact["kernel"] == "_matmul_tiles":
            # Of a pointer's offset: what is multiplied with a stride, a tensor; tile numbers are scalars and small.
            kinds = re.findall(r"arith\.muli [^:]*: (tensor<\S+>)", fact["ttir"])
            assert kinds and all("i64" in kind for kind in kinds), f"{name}: {kinds}"


def test_every_pointer_access_is_masked():
    for name, fact in every_launch(90):
        accesses = re.findall(r"tt\.(load|store) ([^:{]*)[:{]", fact["ttir"])
        operands = {"load": 2, "store": 3}
        for kind, text in accesses:
            assert text.count("%") >= operands[kind], f"{name}: a {kind} has no mask: {text}"


def test_a_factor_of_64_bits_makes_no_arithmetic_of_64_bits():
    """torch.compile types a Python float so; float64 sums would cost a large part of the speed."""
    from kernels.inspect.triton import compile_triton

    pointers = dict.fromkeys(("slices_ptr",), "*fp32") | dict.fromkeys(("out_ptr", "bias_ptr"), "*bf16")
    sizes = {"residual_ptr": None, "M": 64, "N": 64, "rows": 64, "bias_stride": 1, "residual_stride_m": 0}
    rest = {"residual_stride_n": 0, "scale": "fp64", "SPLITS": 2, "ACTIVATION": "none", "BLOCK_M": 8, "BLOCK_N": 64}
    fact = compile_triton("kernels.ops.matmul_kernels:_add_slices", pointers | sizes | rest | {"OVERLAP": False}, 90)
    assert fact.ptx_count("cvt.rn.f32.f64") and not fact.ptx_count("mul.f64") + fact.ptx_count("add.f64")


@pytest.mark.parametrize("arch", [80, 120])
def test_other_cards_have_configurations_that_fit(arch):
    limit = min(shared_limit_bytes(arch), SMALLEST_SHARED_BYTES)
    for element_bytes, precision in ((2, "ieee"), (4, "ieee"), (4, "tf32")):
        assert fitting(element_bytes, precision, limit)
    made = [(name, fact) for name, fact in every_launch(arch) if name.startswith("tuned")]
    assert len(made) >= 6
    for name, fact in made:
        assert "error" not in fact and fact["shared_bytes"] <= shared_limit_bytes(arch), name
        assert "float32 ieee" in name or "mma.sync" in fact["ptx"], name


def test_a_card_too_small_for_all_is_told_so():
    assert len(CONFIGURATIONS) == 8 and len({str(each) for each in CONFIGURATIONS}) == 8
    with pytest.raises(RuntimeError, match=r"smallest configuration needs 30720 bytes .* gives a program 4096"):
        fitting(2, "ieee", 4096)


def test_an_inspection_by_name_follows_the_plan_of_each_card():
    queries = [query("matmul", (4096, 4096, 4096), "bfloat16", arch) for arch in (90, 80)]
    queries += [query("matmul", (16, 4096, 4096), "bfloat16"), query("fused_gemm", (64, 64, 64), "float32")]
    hopper, ampere, thin, fused = launches_many(queries)
    assert [launch.name for launch in hopper] == ["_matmul_ring"] and hopper[0].grid == (132, 1, 1)
    assert hopper[0].signature["a_desc"].startswith("tensordesc<bf16[128, 64],NVMMASharedLayout(")
    assert thin[0].signature["a_desc"] == "tensordesc<bf16[256, 64]>"
    assert [launch.name for launch in ampere] == ["_matmul_tiles"]
    assert [launch.name for launch in thin] == ["_matmul_persistent", "_add_slices"]
    assert fused[0].signature["ACTIVATION"] == "gelu"
    (fact,) = compiled(hopper)
    # Two consumers, each with two products of 64 rows and four steps of 16 in a stage.
    assert fact.instructions("HGMMA") == 16 and fact.spill_store_bytes == 0 and fact.registers == 168
    with pytest.raises(ValueError, match=r"_matmul_ring has no stage 'ttir'; it has ttgir, llir, ptx"):
        stage_text(hopper[0], 90, "ttir")
