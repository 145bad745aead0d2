"""`lessons trace` tells one thread's life, ends with the verdict as its status, and writes figures."""

import re
import shutil

import pytest
import typer
from click.testing import CliRunner

from kernels.lessons import command, tracing
from kernels.lessons.machine import Machine

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="There is no g++ to build kernels with.")


def lessons(*arguments: str):
    return CliRunner().invoke(typer.main.get_command(command.app), ["trace", *arguments])


def test_a_thread_without_a_column_still_meets_every_barrier(tmp_path):
    done = lessons("softmax_parallel", "--cols", "33", "--thread", "67", "--output", str(tmp_path / "t.html"))
    assert done.exit_code == 0, done.output
    assert "softmax_parallel: 1 block of 256 threads" in done.output and "warp 2, lane 3" in done.output
    assert re.findall(r"barrier (\d), which 256 of 256", done.output) == list("123456")
    assert "reads x" not in done.output
    html = (tmp_path / "t.html").read_text()
    assert "after barrier 5" in html and "nothing is wrong" in html and "src=" not in html


def test_the_only_thread_of_the_second_block(tmp_path):
    done = lessons("vector_add", "--block", "1", "--output", str(tmp_path / "t.html"))
    assert done.exit_code == 0 and "writes out[256]" in done.output and "2 blocks of 256" in done.output


def test_advice_is_given_and_is_no_fault(tmp_path):
    done = lessons("softmax_serial", "--rows", "64", "--cols", "40", "--output", str(tmp_path / "t.html"))
    assert done.exit_code == 0 and "no verdict: nothing is wrong" in done.output
    assert "advice: Block 0, warp 0 reads x" in done.output
    assert "Explained in: docs/reference/verdicts.md#uncoalesced" in done.output
    assert "slower than it need be" in (tmp_path / "t.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nosuch"], "launches no kernel 'nosuch'; it launches softmax_online"),
        (["vector_add", "--thread", "999"], "there is no thread 999 of block 0"),
        (["softmax_parallel", "--cols", "0"], "must both be at least 1"),
    ],
)
def test_what_cannot_be_traced_is_a_sentence(arguments, said, tmp_path):
    done = lessons(*arguments, "--output", str(tmp_path / "t.html"))
    assert done.exit_code == 2 and said in done.output and not (tmp_path / "t.html").exists()


def test_a_kernel_that_does_wrong_ends_with_one(tmp_path, monkeypatch):
    from kernels.trace import cuda

    traced = cuda.trace_cuda_launcher

    def broken(launcher, arguments):
        return traced(launcher, arguments, replace={"if (i < n) {": "if (true) {"})

    monkeypatch.setattr(cuda, "trace_cuda_launcher", broken)
    done = lessons("vector_add", "--output", str(tmp_path / "t.html"))
    assert done.exit_code == 1 and "verdict: Block 1, thread 1" in done.output
    assert "Explained in: docs/reference/verdicts.md#out-of-bounds" in done.output
    assert "Explained in: docs/reference/verdicts.md#out-of-bounds" in (tmp_path / "t.html").read_text()
    assert "out-of-bounds" in (tmp_path / "t.html").read_text()
    assert tracing.trace_kernel("vector_add", 1, 8).faults()


def test_a_machine_that_cannot_trace_gives_the_tracers_reason(monkeypatch):
    """A compiler alone is not enough: on macOS there is one, and the trace is not built there yet."""
    monkeypatch.setattr("kernels.trace.cuda.why_not", lambda: "not here yet")
    assert Machine("").ability("cxx").reason == "not here yet"
