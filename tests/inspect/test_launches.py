"""What an operator launches, found out with no GPU: kernels, grids, the plan's dependence on the card, instructions."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

from kernels.inspect import InspectionFailed
from kernels.inspect.facts import CompileFacts
from kernels.inspect.launches import (
    compiled,
    count_instructions,
    launches,
    launches_many,
    query,
    stage_text,
    width_bits,
)

ROOT = Path(__file__).resolve().parents[2]


def facts(sass: str) -> CompileFacts:
    lines = "\n".join(f"/*{16 * i:04x}*/  {line} ;" for i, line in enumerate(sass.splitlines()))
    return CompileFacts("k", "triton", 90, 1, 0, 0, 0, 0, "", lines, "none")


def test_every_operator_launches_something_for_each_shape_it_is_measured_on():
    from kernels.ops import registry

    asked = [query(op.name, case.shape, op.dtypes[0]) for op in registry.OPS.values() for case in op.benches]
    for one, found in zip(asked, launches_many(asked), strict=True):
        assert found, f"{one.op} {one.shape} launches nothing"
        assert all(launch.programs >= 1 and launch.num_warps >= 1 for launch in found)
        assert all(launch.kernel.startswith("kernels.ops.") for launch in found)


def test_inputs_that_another_operator_computes_are_no_launches_of_this_one():
    (found,) = launches_many([query("attention_backward", (1, 2, 2, 64, 64, 64), "bfloat16")])
    assert [launch.name for launch in found] == ["_attention_delta", "_attention_keys", "_attention_dq"]


def test_the_launch_is_the_operators_own_plan():
    (launch,) = launches("add", (1_000_001,), "bfloat16")
    assert launch.name == "_add"
    block = launch.signature["BLOCK_SIZE"]
    assert launch.programs == -(-1_000_001 // block)
    assert launch.signature["n"] == 1_000_001
    assert launch.signature["x_ptr"] == "*bf16"


def test_two_queries_of_one_process_do_not_mix():
    first, empty, second = launches_many(
        [query("add", (4096,), "float32"), query("add", (0,), "float32"), query("row_sum", (4096, 128), "float32")]
    )
    assert [launch.name for launch in first] == ["_add"]
    assert empty == []
    assert [launch.name for launch in second] == ["_row_sum"]


def test_the_plan_looks_at_the_multiprocessors():
    shape = (64, 1 << 17)
    small, large = launches_many([query("row_sum", shape, "float32", sm_count=n) for n in (8, 132)])
    assert sum(launch.programs for launch in small) < sum(launch.programs for launch in large)


@pytest.mark.parametrize(
    ("op", "shape", "dtype", "words"),
    [
        ("nothing", (4,), "float32", "no operator named 'nothing'"),
        ("add", (4,), "int8", "does not take 'int8'"),
        ("softmax", (), "float32", "launches for float32 scalar could not be found out"),
    ],
)
def test_what_cannot_be_launched_is_a_sentence(op, shape, dtype, words):
    with pytest.raises(InspectionFailed, match=words):
        launches(op, shape, dtype)


def test_an_unknown_card_needs_its_multiprocessors():
    with pytest.raises(ValueError, match="multiprocessors of sm_75"):
        query("add", (4,), "float32", arch=75)
    assert query("add", (4,), "float32", arch=75, sm_count=40).sm_count == 40


def test_instructions_by_kind():
    counts = count_instructions(
        facts(
            "LDG.E.128 R4, desc[UR4][R2.64]\n@P0 LDG.E.U16 R4, desc[UR4][R2.64]\nLDG.E R1, desc[UR4][R2.64]\n"
            "STG.E.64 desc[UR4][R2.64], R4\nLDGSTS.E.BYPASS.128 [R1], desc[UR4][R2.64]\nLDS.128 R4, [R1]\n"
            "BAR.SYNC.DEFER_BLOCKING 0x0\nSHFL.BFLY PT, R1, R2, 0x10, 0x1f\nHGMMA.64x64x16.F32 R24, gdesc[UR4]\n"
            "MUFU.EX2 R1, R2\nSTL [R1], R2\nATOMG.E.ADD.STRONG.GPU PT, R2, desc[UR4][R2.64], R5\nNOP"
        )
    )
    assert counts.global_loads == {16: 1, 32: 1, 128: 1}
    assert counts.global_stores == {64: 1}
    assert counts.matrix == {"HGMMA": 1}
    named = (counts.copies, counts.shared_loads, counts.barriers, counts.shuffles, counts.special)
    assert named == (1, 1, 1, 1, 1)
    assert (counts.local_accesses, counts.atomics, counts.total) == (1, 1, 12)


@pytest.mark.parametrize(
    ("opcode", "bits"),
    [
        ("LDG.E.128.CONSTANT", 128),
        ("LDG.E.64", 64),
        ("LDG.E", 32),
        ("LDG.E.U16", 16),
        ("LDG.E.S8", 8),
        ("STG.E.EF", 32),
    ],
)
def test_width_of_an_opcode(opcode, bits):
    assert width_bits(opcode) == bits


def test_wide_loads_where_the_stride_allows_them_and_narrow_ones_where_not():
    even, odd = launches_many([query("softmax", (64, n), "float32") for n in (4096, 4095)])
    wide, narrow = (count_instructions(compiled(found)[0]) for found in (even, odd))
    assert set(wide.global_loads) == {128}
    assert set(narrow.global_loads) == {32}


def test_the_middle_of_the_compiler_is_text():
    (launch,) = launches("add", (4096,), "float32")
    assert "ttg.num-warps" in stage_text(launch, 90, "ttgir")
    with pytest.raises(ValueError, match="'sass' is not a stage"):
        stage_text(launch, 90, "sass")


def script(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "scripts/inspect_kernel.py", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)


def test_the_command_shows_and_writes(tmp_path):
    file = tmp_path / "facts.json"
    done = script(
        "--op", "row_sum", "--shape", "4096x1024", "--dtype", "float16", "--arch", "80", "--output", str(file)
    )
    assert done.returncode == 0, done.stderr
    for words in ("_row_sum", "sm_80 with 108 multiprocessors", "registers", "spills", "global loads", "barriers"):
        assert words in done.stdout
    kept = json.loads(file.read_text())
    (launch,) = kept["launches"]
    assert kept["arch"] == 80 and launch["registers"] > 0 and launch["instructions"]["shuffles"] > 0
    assert f"{launch['registers']} a thread" in done.stdout


@pytest.mark.nvcc
def test_the_command_shows_a_cuda_kernel():
    done = script("--op", "softmax", "--impl", "softmax_parallel")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("softmax_parallel, sm_90  (nvcc ")
    assert "barriers              0" not in done.stdout and "shuffles" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("--op", "add", "--impl", "torch"), 2, "is a library's"),
        (("--op", "add", "--impl", "cublas"), 2, "no implementation named 'cublas'"),
        (("--op", "nothing"), 2, "no operator named"),
        (("--op", "add", "--shape", "4x-4"), 2, "is not a shape"),
        (("--op", "add", "--arch", "70"), 2, "sm_70"),
        (("--op", "add", "--dtype", "int8"), 1, "does not take 'int8'"),
    ],
)
def test_the_command_refuses_with_a_sentence(arguments, status, words):
    done = script(*arguments)
    assert done.returncode == status
    assert words in " ".join(done.stderr.replace("│", " ").split())
