"""Programs with a `main` that are built for the CPU: they run by themselves, and say why a launch was stopped."""

import subprocess
from pathlib import Path

import pytest

from kernels.trace.cuda import why_not
from kernels.trace.cuda_build import build_program
from kernels.trace.cuda_translate import translate

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
SOURCE = Path(__file__).parent / "host_sources" / "program.cu"
LINES = SOURCE.read_text().splitlines()


@pytest.fixture(scope="module", params=["-O1", "-O2"])
def program(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("program") / "program"
    translation = translate(SOURCE.read_text(), SOURCE.name)
    build_program(translation.text, SOURCE.name, path, translation.headers, [request.param])
    return path


def said(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=500)
    return done.returncode, done.stdout.strip()


def line(part):
    return 1 + next(number for number, text in enumerate(LINES) if part in text)


def test_a_template_has_shared_memory_of_the_launch_s_size(program):
    assert said(program, "reversed") == (0, " ".join(str(3 * i) for i in reversed(range(64))))


def test_a_stopped_launch_is_named_with_block_thread_and_cause(program):
    fault = "cudaError{}: the kernel {} was stopped in block (0, 0, 0), thread ({}): {}"
    waits = f"it waits at the barrier of line {line('        __syncthreads();')}, which other threads"
    assert said(program, "barrier") == (
        3,
        fault.format("LaunchFailure", "barrier", "0, 0, 0", f"{waits} of its block never reach"),
    )
    waits = f"it waits in the warp operation of line {line('__shfl_sync')} for lanes of the mask 0x000001ff"
    assert said(program, "mask") == (3, fault.format("LaunchFailure", "mask", "0, 0, 0", f"{waits} that never come"))
    crash = "the processor refused address 0x1000 (SIGSEGV); trace_cuda_launcher of kernels.trace.cuda names the line"
    assert said(program, "nowhere") == (3, fault.format("LaunchFailure", "nowhere", "0, 0, 0", crash))
    deep = "it needs more than the 64 KB of stack that a thread has"
    assert said(program, "deep") == (3, fault.format("LaunchFailure", "deep", "0, 0, 0", deep))
    claim = "it finds that `threadIdx.y < 3` is false"
    assert said(program, "claim") == (3, fault.format("Assert", "claim", "0, 3, 0", claim))


def test_an_error_without_a_stopped_launch_has_a_meaning(program):
    status, text = said(program, "large")
    assert status == 3
    assert text == (
        "cudaErrorInvalidConfiguration: the launch has no threads, or more threads, blocks or shared memory than it may"
    )
