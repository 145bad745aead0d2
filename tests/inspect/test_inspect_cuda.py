"""Compile facts of the CUDA kernels, held against what the source says."""

import re
from pathlib import Path

import pytest

from kernels.inspect import InspectionFailed, compile_cuda, disassembler
from kernels.inspect import cuda as inspector

pytestmark = pytest.mark.nvcc

ROOT = Path(__file__).parents[2]
SOURCE = (ROOT / "cuda" / "kernels.cu").read_text(encoding="utf-8")
THREADS = int(re.search(r"constexpr int kThreads = (\d+);", SOURCE)[1])
HALF = {f"constexpr int kThreads = {THREADS};": f"constexpr int kThreads = {THREADS // 2};"}
KERNELS = ("vector_add", "softmax_serial", "softmax_parallel", "softmax_online", "softmax_online_scalar")
needs_cuobjdump = pytest.mark.skipif(disassembler.cuobjdump() is None, reason="There is no cuobjdump.")


@pytest.mark.parametrize("arch", [75, 80, 86, 89, 90, 120])
@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_fits_every_architecture(kernel, arch):
    facts = compile_cuda(kernel, arch)
    assert (facts.kernel, facts.language, facts.arch) == (kernel, "cuda", arch)
    assert 0 < facts.registers * THREADS <= 65536  # one block must fit the register file of an SM
    assert facts.spill_store_bytes == facts.spill_load_bytes == facts.stack_bytes == 0
    assert facts.fits
    assert f".target sm_{arch}" in facts.ptx and facts.toolchain.startswith("nvcc ")


def test_shared_memory_is_one_partial_per_warp():
    warps = THREADS // 32
    assert compile_cuda("softmax_parallel").shared_bytes == 4 * warps
    assert compile_cuda("softmax_online").shared_bytes == 8 * warps  # a pair: maximum and sum
    assert compile_cuda("vector_add").shared_bytes == compile_cuda("softmax_serial").shared_bytes == 0


def test_a_variant_with_half_the_threads_has_half_the_partials():
    whole, half = compile_cuda("softmax_parallel"), compile_cuda("softmax_parallel", replace=HALF)
    assert half.shared_bytes * 2 == whole.shared_bytes


def test_a_variant_that_changes_nothing_is_refused():
    with pytest.raises(ValueError, match=r"'kThreads = 7' does not occur in kernels\.cu"):
        compile_cuda("softmax_parallel", replace={"kThreads = 7": "kThreads = 8"})


@needs_cuobjdump
def test_barriers_and_shuffles_in_the_machine_code_are_those_of_the_source():
    # block_reduce is used twice and has three barriers. block_merge has two, once in each branch of softmax_online.
    barriers = {kernel: compile_cuda(kernel).instructions("BAR") for kernel in KERNELS}
    assert barriers == {
        "vector_add": 0, "softmax_serial": 0, "softmax_parallel": 6, "softmax_online": 4, "softmax_online_scalar": 2,
    }  # fmt: skip
    # Each of the two block reductions reduces twice within a warp, in five steps. Counted in PTX: in machine code, a
    # shuffle under `if (warp == 0)` has a second copy for lanes that arrive one by one.
    assert compile_cuda("softmax_parallel").ptx_count("shfl.sync.down") == 2 * 2 * 5
    assert compile_cuda("softmax_online_scalar").ptx_count("shfl.sync.down") == 2 * 5 * 2  # a pair takes two shuffles
    assert compile_cuda("softmax_parallel").instructions("SHFL.DOWN") >= 2 * 2 * 5
    # One barrier fewer in the source is two fewer here.
    fewer = {"    __syncthreads();  // every thread has read the result before the next reduction reuses scratch\n": ""}
    assert compile_cuda("softmax_parallel", replace=fewer).instructions("BAR") == 4


@needs_cuobjdump
def test_only_the_float4_form_has_16_byte_accesses():
    for opcode in ("LDG.E.128", "STG.E.128"):
        assert compile_cuda("softmax_online").instructions(opcode) > 0
        assert compile_cuda("softmax_online_scalar").instructions(opcode) == 0


def test_spills_are_read_from_a_kernel_that_must_spill():
    starved = {"__global__ void softmax_serial(": "__global__ void __launch_bounds__(1024, 2) softmax_serial("}
    assert compile_cuda("softmax_serial", replace=starved).registers <= 32
    array = "float many[64]; for (int i = 0; i < 64; ++i) many[i] = x_row[i]; out_row[0] = many[columns % 64];"
    indexed = {"    float lost = 0.0f;": f"    float lost = 0.0f;\n{array}"}
    assert compile_cuda("softmax_serial", replace=indexed).stack_bytes >= 256


def test_an_unknown_kernel_and_architecture_are_named():
    with pytest.raises(ValueError, match=r"cuda/kernels\.cu has no kernel softmx; it has softmax_online, .*vector_add"):
        compile_cuda("softmx")
    with pytest.raises(ValueError, match=r"does not compile for sm_35; it compiles for .*90"):
        compile_cuda("vector_add", arch=35)
    with pytest.raises(FileNotFoundError, match=r"absent\.cu does not exist"):
        compile_cuda("vector_add", source="cuda/absent.cu")


def test_a_source_that_does_not_compile_shows_the_compilers_words():
    with pytest.raises(InspectionFailed, match=r"could not compile cuda/kernels\.cu for sm_90:\n(.|\n)*undefined"):
        compile_cuda("vector_add", replace={"x[i] + y[i]": "x[i] + why[i]"})


def test_the_second_question_compiles_nothing(own_store, monkeypatch):
    first = compile_cuda("softmax_parallel")
    calls = []
    compile_really = inspector._compile
    monkeypatch.setattr(inspector, "_compile", lambda *args: calls.append(args) or compile_really(*args))
    assert compile_cuda("softmax_parallel") == first
    assert compile_cuda("vector_add").shared_bytes == 0  # compiled along with the first
    assert not calls
    (stored,) = own_store.iterdir()
    stored.write_text("damaged")
    assert compile_cuda("softmax_parallel") == first
    assert len(calls) == 1
    with pytest.raises(ValueError, match="no kernel softmx"):
        compile_cuda("softmx")
    assert len(calls) == 1
    compile_cuda("softmax_parallel", replace=HALF)
    assert len(calls) == 2


def test_the_report_names_no_path_of_this_machine():
    facts = compile_cuda("softmax_online")
    for text in (facts.ptx, facts.sass, facts.toolchain):
        assert "/tmp" not in text and str(ROOT) not in text
