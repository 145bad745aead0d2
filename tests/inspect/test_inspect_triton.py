"""Compile facts of the Triton kernels, from processes that are interpreted and from ones that are not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.inspect import InspectionFailed, ToolMissing, TritonRequest, compile_triton, compile_triton_many
from kernels.inspect import triton as inspector

pytestmark = pytest.mark.triton

ROOT = Path(__file__).parents[2]
KERNEL = "tests/inspect/small_kernels.py:_scale"
ARGUMENTS = {"x_ptr": "*fp32", "out_ptr": "*fp32", "N": 4096, "x_stride": 1, "BLOCK_N": 1024}


@pytest.fixture(scope="module")
def known():
    """Everything the tests below ask, compiled by one helper process."""
    variants = {
        "plain": {},
        "strided": {"x_stride": 2},
        "ragged": {"N": 4095},
        "unknown": {"N": "i32"},
        "typed": {"N": "i32:16"},
        "unaligned": {"x_ptr": "*fp32:1", "out_ptr": "*fp32:1"},
        "half": {"x_ptr": "*fp16", "out_ptr": "*fp16"},
        "huge": {"N": 2**31 + 16},
    }
    requests = [TritonRequest(KERNEL, {**ARGUMENTS, **changes}) for changes in variants.values()]
    requests += [TritonRequest(KERNEL, ARGUMENTS, arch=arch) for arch in (80, 120)]
    requests += [TritonRequest(KERNEL, ARGUMENTS, num_warps=8)]
    requests += [TritonRequest("tests/inspect/small_kernels.py:_row_sum", {"x_ptr": "*fp32", "out_ptr": "*fp32"})]
    return dict(zip([*variants, 80, 120, "warps", "sum"], compile_triton_many(requests)))


def test_the_numbers_are_there(known):
    facts = known["plain"]
    assert (facts.kernel, facts.language, facts.arch) == ("_scale", "triton", 90)
    assert 0 < facts.registers <= 255 and facts.spill_store_bytes == facts.spill_load_bytes == 0
    assert facts.toolchain.startswith("Triton ") and ".entry _scale(" in facts.ptx
    assert (known[80].arch, known[120].arch) == (80, 120)
    assert ".target sm_80" in known[80].ptx and ".target sm_120" in known[120].ptx


def test_a_contiguous_aligned_tensor_is_read_16_bytes_at_a_time(known):
    # 1024 elements, 128 threads: eight a thread, which are two 16-byte loads or eight 4-byte ones
    assert known["plain"].instructions("LDG.E.128") == 2 and known["plain"].ptx_count("ld.global.v4") == 2
    assert known["warps"].instructions("LDG.E.128") == 1  # 256 threads
    assert known["half"].instructions("LDG.E.128") == 1  # half as many bytes


def test_what_a_launch_does_not_know_costs_wide_loads(known):
    for name in ("strided", "unaligned"):
        assert known[name].instructions("LDG.E.128") == 0 and known[name].instructions("LDG") == 8, name


def test_a_value_and_its_type_compile_alike(known):
    # a mask `n < N` covers whole 16-byte groups only when N is known to be a multiple of 16
    assert known["typed"].sass == known["plain"].sass
    assert known["unknown"].sass == known["ragged"].sass != known["plain"].sass
    assert known["ragged"].instructions("LDG.E.128") == 0
    assert ".param .u64 _scale_param_2" in known["huge"].ptx and ".param .u32 _scale_param_2" in known["plain"].ptx


def test_a_sum_across_warps_needs_shared_memory_and_barriers(known):
    facts = known["sum"]
    assert facts.shared_bytes == 4 * 4  # one partial for each of four warps
    assert facts.instructions("SHFL") >= 5 and facts.instructions("BAR") >= 1
    assert known["plain"].shared_bytes == 0 == known["plain"].instructions("BAR")


def test_the_report_names_no_path_of_this_machine(known):
    for facts in known.values():
        assert str(ROOT) not in facts.ptx + facts.sass and "small_kernels" not in facts.ptx + facts.sass


def test_an_interpreted_process_gets_the_same_facts(known):
    code = f"""
import sys
sys.path.insert(0, "tests/inspect")
import small_kernels
assert type(small_kernels._scale).__name__ == "InterpretedFunction"
from kernels.inspect import compile_triton, store
store.read = store.write = lambda *arguments: None
print(compile_triton({KERNEL!r}, {ARGUMENTS!r}).sass)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert known["plain"].sass in done.stdout


@pytest.mark.parametrize(
    ("kernel", "changes", "message"),
    [
        (KERNEL, {"M": 3}, "has no argument M; its arguments are x_ptr, out_ptr, N, x_stride, BLOCK_N"),
        (KERNEL, {"N": "*fp32:7"}, "after the colon stands 1 or 16"),
        (KERNEL, {"BLOCK_N": 1000}, "could not compile .*_scale for sm_90: .*power of 2"),
        ("tests/inspect/small_kernels.py:plain_function", {}, "plain_function is not a function under @triton.jit"),
        ("tests/inspect/small_kernels.py:absent", {}, "absent is not a function under @triton.jit"),
        ("tests/inspect/interpreted_kernel.py:one", {}, "its file sets TRITON_INTERPRET itself"),
    ],
)
def test_a_wrong_request_is_a_sentence(kernel, changes, message):
    with pytest.raises(InspectionFailed, match=f"(?s){message}"):
        compile_triton(kernel, {**ARGUMENTS, **changes})


def test_an_argument_that_is_left_out_is_named():
    with pytest.raises(InspectionFailed, match="says nothing about its argument N"):
        compile_triton(KERNEL, {name: value for name, value in ARGUMENTS.items() if name != "N"})


def test_unknown_places_are_named():
    with pytest.raises(KeyError, match=r"no file lessons_src/absent\.py"):
        compile_triton("lessons_src/absent.py:_scale", {})
    with pytest.raises(KeyError, match="_softmx"):
        compile_triton("kernels.ops.softmax:_softmx", {})


SCRIPT = """import triton
import triton.language as tl
{before}

@triton.jit
def _scale(x_ptr, N: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, N), 2.0)

raise RuntimeError("a trace, in the process that compiles")
"""


def test_a_script_that_goes_on_after_its_kernel_is_read_up_to_where_it_stops(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(before=""))
    known = compile_triton(f"{script}:_scale", {"x_ptr": "*fp32", "N": 256})
    assert known.instructions("STG") > 0
    script.write_text(SCRIPT.format(before="raise SystemExit('no luck')"))
    with pytest.raises(InspectionFailed, match="is run to find _scale, and stopped before: SystemExit: no luck"):
        compile_triton(f"{script}:_scale", {"x_ptr": "*fp32", "N": 256})


def test_the_second_question_starts_no_process(own_store, monkeypatch):
    first = compile_triton(KERNEL, ARGUMENTS)
    monkeypatch.setattr(inspector, "_ask_worker", lambda requests: pytest.fail("compiled again"))
    assert compile_triton(KERNEL, ARGUMENTS) == first
    with pytest.raises(pytest.fail.Exception):
        compile_triton(KERNEL, ARGUMENTS, num_warps=2)


def test_without_triton_the_reason_depends_on_the_system(monkeypatch):
    monkeypatch.setattr(inspector.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolMissing, match="Triton is not installed"):
        compile_triton(KERNEL, ARGUMENTS)
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ToolMissing, match="has no wheel for macOS"):
        compile_triton(KERNEL, ARGUMENTS)


def test_the_softmax_of_the_lessons_compiles_for_each_architecture():
    arguments = {
        "x_ptr": "*fp32", "out_ptr": "*fp32", "M": 64, "N": 1000, "x_stride_m": 1000, "x_stride_n": 1,
        "out_stride_m": 1000, "BLOCK_M": 1, "BLOCK_N": 1024,
    }  # fmt: skip
    requests = [TritonRequest("kernels.ops.softmax:_softmax_rows", arguments, arch) for arch in (80, 90, 120)]
    for facts in compile_triton_many(requests):
        assert facts.registers > 0 and facts.instructions("SHFL") > 0


@pytest.mark.gpu
def test_a_real_launch_compiles_to_the_same_code():
    """In a process of its own, because this one may be interpreted."""
    code = """
import sys, torch
sys.path.insert(0, "tests/inspect")
import small_kernels
x = torch.randn(4096, device="cuda")
for N, stride in ((4096, 1), (4095, 1), (2000, 2)):
    kernel = small_kernels._scale[(4,)](x, torch.empty_like(x), N, stride, BLOCK_N=1024)
    kernel._init_handles()
    print(N, stride, kernel.n_regs, kernel.n_spills, kernel.metadata.shared)
"""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    import torch

    major, minor = torch.cuda.get_device_capability()
    lines = done.stdout.split("\n")[:3]
    assert len(lines) == 3
    for line in lines:
        N, stride, registers, spills, shared = (int(word) for word in line.split())
        facts = compile_triton(KERNEL, {**ARGUMENTS, "N": N, "x_stride": stride}, arch=10 * major + minor)
        assert (facts.registers, facts.spill_store_bytes, facts.shared_bytes) == (registers, spills, shared)
