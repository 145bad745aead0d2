"""`lessons trace` tells one thread's life, ends with the verdict as its status, and overwrites nobody's file."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from click.testing import CliRunner

from kernels.lessons import command, tracing
from kernels.lessons.machine import Machine
from kernels.lessons.tracing import run, words
from kernels.trace import Buffer

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="There is no g++ to build kernels with.")


def lessons(*arguments: str):
    return CliRunner().invoke(typer.main.get_command(command.app), ["trace", *arguments])


@pytest.fixture
def page(tmp_path):
    return tmp_path / "t.html"


def test_a_thread_without_a_column_still_meets_every_barrier(page):
    done = lessons("softmax_parallel", "--cols", "33", "--thread", "67", "--output", str(page))
    assert done.exit_code == 0, done.output
    assert "softmax_parallel: 1 block of 256 threads; lines are those of cuda/kernels.cu" in done.output
    assert "warp 2, lane 3" in done.output
    assert re.findall(r"barrier (\d), which 256 of 256", done.output) == list("123456")
    assert "reads x" not in done.output and f"figures: {page}" in done.output
    html = page.read_text()
    assert "after barrier 5 <small>line" in html and "nothing is wrong" in html
    assert '"start":{"thread":67,"step":0}' in html
    headings = re.findall(r"<h2>(.*?)</h2>", html)
    assert headings == [
        "Step by step", "In words", "Verdicts", "Who writes what", "Banks of warp 2, at its worst", "Barriers",
        "Lanes of warp 2",
    ]  # fmt: skip
    for line in done.output.splitlines()[1:-2]:
        assert f"<li>{line}</li>" in html


def test_the_page_needs_no_other_file(page):
    assert lessons("vector_add", "--output", str(page)).exit_code == 0
    html = page.read_text()
    outside = re.findall(r"""(?:\bsrc|href|@import|url\()\s*=?\s*["']?([^"'#\s)]{3,})""", html.partition("<main>")[0])
    outside = [each for each in outside if not each.startswith("data:")]
    assert outside == [] and "<link" not in html and " src=" not in html
    assert html.count("http") == html.count("http://www.w3.org/2000/svg")
    assert "class Stepper" in html and ".kl-stepper__say" in html


def test_the_only_thread_of_the_second_block(page):
    done = lessons("vector_add", "--block", "1", "--output", str(page))
    assert done.exit_code == 0 and "writes out[256]" in done.output and "2 blocks of 256" in done.output
    assert "block 1 out[256] 1 element" in re.sub("<[^>]*>", "", page.read_text())


def test_advice_is_given_and_is_no_fault(page):
    done = lessons("softmax_serial", "--rows", "64", "--cols", "40", "--output", str(page))
    assert done.exit_code == 0 and "no verdict: nothing is wrong" in done.output
    assert "advice: Block 0, warp 0 reads x" in done.output
    assert "Explained in: docs/reference/verdicts.md#uncoalesced" in done.output
    assert "slower than it need be" in page.read_text()


@pytest.mark.parametrize(
    ("kernel", "reads", "writes", "says"),
    [
        ("copy_rows", "x[33, 5]", "out[33, 5]", "in 4 sectors"),
        ("copy_columns", "x[37, 1]", "out[37, 1]", "in 32 sectors"),
        ("transpose_tile_32", "x[33, 5]", "out[1, 37]", "conflict degree 32"),
        ("transpose_tile_33", "x[33, 5]", "out[1, 37]", "no bank is asked for two different words"),
    ],
)
def test_the_four_patterns(kernel, reads, writes, says, page):
    """Block 2 of 64 x 64 is the tile of rows 32-63 and columns 0-31; thread 37 is lane 5 of its second line."""
    done = lessons(kernel, "--rows", "64", "--cols", "64", "--block", "2", "--thread", "37", "--output", str(page))
    assert done.exit_code == 0, done.output
    assert f"reads {reads}" in done.output and f"writes {writes}" in done.output
    assert says in page.read_text()


def test_a_transpose_of_a_ragged_matrix_writes_all_of_the_other_shape(page):
    done = lessons("transpose_tile_33", "--rows", "33", "--cols", "40", "--output", str(page))
    assert done.exit_code == 0 and "no verdict" in done.output
    assert "out, 40 × 33: 1,320 elements owned by 4 blocks." in page.read_text()


def triton(*arguments: str, folder: Path):
    """A process of its own: Triton decides once whether it interprets."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")))
    )
    return subprocess.run(
        [sys.executable, "-m", "kernels.lessons.command", "trace", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=500,
    )  # fmt: skip


def test_a_triton_operator_is_told_by_its_program(tmp_path):
    pytest.importorskip("triton")
    done = triton("add", "--n", "257", "--block-size", "256", "--program", "1", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "add: 2 programs" in done.stdout
    assert re.findall(r"line \d+: (.*)", done.stdout) == [
        "reads x[256]; 255 elements masked off", "reads y[256]; 255 elements masked off",
        "writes out[256]; 255 elements masked off",
    ]  # fmt: skip
    html = (tmp_path / "build/trace/add-257-program-1.html").read_text()
    assert "figures: build/trace/add-257-program-1.html" in done.stdout
    assert "masked off: x[257]–x[511]" in html and "Who writes what" in html
    one = triton("add", "--n", "257", "--program", "1", folder=tmp_path)
    assert one.returncode == 2 and "has 1 program, so there is no program 1" in one.stderr
    assert "smaller --block-size" in one.stderr


def test_an_operators_inputs_keep_their_names_for_a_matrix(tmp_path):
    pytest.importorskip("triton")
    done = triton("add", "--rows", "4", "--cols", "5", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line.partition("; ")[0] for line in re.findall(r"line \d+: (.*)", done.stdout)] == [
        "reads x[0, 0]–x[3, 4]", "reads y[0, 0]–y[3, 4]", "writes out[0, 0]–out[3, 4]",
    ]  # fmt: skip


def test_lines_of_a_function_that_the_kernel_calls_are_of_its_file():
    trace = SimpleNamespace(sites=(("kernels/ops/odd.py", 3), ("kernels/ops/even.py", 4)))
    assert (
        tracing.Traced(trace, "odd", "kernels/ops/odd.py", (4,)).files
        == "kernels/ops/odd.py, and of kernels/ops/even.py"
    )


def test_no_text_is_marked_with_the_lines_of_another_file(tmp_path):
    pytest.importorskip("triton")
    for operator, texts in (("add", 1), ("rmsnorm_backward", 0)):
        assert triton(operator, "--cols", "8", "--output", "t.html", folder=tmp_path).returncode == 0
        assert (tmp_path / "t.html").read_text().count('<pre class="kl-stepper__source') == texts


def test_a_thread_of_a_triton_program_is_the_compilers(tmp_path):
    pytest.importorskip("triton")
    done = triton("add", "--n", "257", "--block-size", "256", "--program", "1", "--thread", "0", folder=tmp_path)
    if "not installed" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    assert "add: 2 programs of 128 threads" in done.stdout and "program 1, thread 0 (warp 0, lane 0)" in done.stdout
    assert re.findall(r"line \d+: (.*)", done.stdout) == [
        "reads x[256]; 1 element masked off", "reads y[256]; 1 element masked off",
        "writes out[256]; 1 element masked off",
    ]  # fmt: skip
    html = (tmp_path / "build/trace/add-257-program-1-thread-0.html").read_text()
    assert '"threads":128' in html and "Lanes of warp 0" in html and "Sectors of a read of warp 0" in html
    assert "masked off: threads 1–127 → x[258]–x[510], in steps of 2" in html


def test_operators_are_listed_without_importing_triton(tmp_path):
    pytest.importorskip("triton")
    code = (
        "import sys; from kernels.lessons.tracing.run import _operators; print(_operators(), 'triton' in sys.modules)"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=500
    )
    assert done.stdout.startswith("['add', ") and "'softmax'" in done.stdout and done.stdout.endswith(" False\n"), (
        done.stderr
    )


def test_elements_in_words():
    x = Buffer("x", 4, (40,))
    assert words._elements(x, [3]) == "x[3]"
    assert words._elements(x, [4, 3, 5, 3]) == "x[3]–x[5]"
    assert words._elements(x, [0, 1, 8, 20, 21]) == "x[0]–x[1], x[8] and x[20]–x[21]"
    assert words._elements(x, [0, 2, 4, 6]) == "4 elements from x[0] to x[6]"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nosuch"], "there is no kernel 'nosuch' to trace. CUDA kernels: copy_columns, copy_rows, softmax_online"),
        (["vector_add", "--thread", "999"], "2 blocks of 256 threads, so there is no thread 999 of block 0"),
        (["vector_add", "--thread", "-1"], "there is no thread -1 of block 0"),
        (["vector_add", "--block", "2"], "so there is no block 2; they count from 0"),
        (["softmax_parallel", "--cols", "0"], "--cols (or --n) is 0; it must be at least 1"),
        (["softmax_parallel", "--rows", "-3"], "--rows is -3; it must be at least 1"),
        (
            ["softmax_parallel", "--cols", "2000000"],
            ": 2,000,000 elements are too many; every access is",
        ),
        (["vector_add", "--rows", "4"], "--rows is for kernels that take a matrix; vector_add takes vectors"),
        (["vector_add", "--block-size", "128"], "vector_add is CUDA, and its source fixes the block"),
    ],
)
def test_what_cannot_be_traced_is_a_sentence(arguments, said, page):
    done = lessons(*arguments, "--output", str(page))
    assert done.exit_code == 2 and said in done.output and not page.exists()
    assert "Traceback" not in done.output


def test_a_kernel_with_other_arguments_is_refused_in_words(monkeypatch):
    monkeypatch.setattr(run, "_launchers", lambda: {"odd": ("cuda/kernels.cu", [("float*", "out"), ("double", "eps")])})
    with pytest.raises(ValueError, match="launch_odd takes double eps, which this command cannot make up"):
        tracing.trace_kernel("odd", 1, 8)


def test_nobodys_file_is_written_over(page):
    page.write_text("my notes")
    done = lessons("vector_add", "--output", str(page))
    assert done.exit_code == 2 and "is there already, and this command did not write it" in done.output
    assert page.read_text() == "my notes" and "figures:" not in done.output
    assert lessons("vector_add", "--output", str(page), "--force").exit_code == 0
    assert "class Stepper" in page.read_text()
    page.write_text(page.read_text().replace("vector_add, 257", "an older page"))
    assert lessons("vector_add", "--output", str(page)).exit_code == 0, "a page of this command may be replaced"
    assert "an older page" not in page.read_text()
    done = lessons("vector_add", "--output", str(page.parent))
    assert done.exit_code == 2 and "is a folder; --output names a file" in done.output


def test_each_question_has_a_page_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert lessons("vector_add").exit_code == 0
    assert lessons("vector_add", "--block", "1", "-n", "300").exit_code == 0
    names = sorted(path.name for path in (tmp_path / "build/trace").iterdir())
    assert names == ["vector_add-257-block-0-thread-0.html", "vector_add-300-block-1-thread-0.html"]


def test_the_same_question_gives_the_same_bytes(page):
    lessons("softmax_parallel", "--cols", "33", "--output", str(page))
    first = page.read_bytes()
    lessons("softmax_parallel", "--cols", "33", "--output", str(page))
    assert page.read_bytes() == first


def test_a_kernel_that_does_wrong_ends_with_one(page, monkeypatch):
    from kernels.trace import cuda

    traced = cuda.trace_cuda_launcher

    def broken(launcher, arguments, **more):
        return traced(launcher, arguments, replace={"if (i < n) {": "if (true) {"}, **more)

    monkeypatch.setattr(cuda, "trace_cuda_launcher", broken)
    done = lessons("vector_add", "--output", str(page))
    assert done.exit_code == 1 and "verdict: Block 1, thread 1" in done.output
    assert "Explained in: docs/reference/verdicts.md#out-of-bounds" in done.output
    html = page.read_text()
    assert "Explained in: docs/reference/verdicts.md#out-of-bounds" in html
    assert html.index("Verdicts</h2>") < html.index("Step by step</h2>"), "what is wrong comes first"


def test_help_says_what_ends_how():
    done = lessons("--help")
    text = " ".join(done.output.replace("│", " ").split())
    assert done.exit_code == 0 and "lessons trace softmax_parallel --cols 33 --thread 67" in text
    assert "1 when there is a verdict" in text and "--program" in text


def test_a_machine_that_cannot_trace_gives_the_tracers_reason(monkeypatch):
    """A compiler alone is not enough: on macOS there is one, and the trace is not built there yet."""
    monkeypatch.setattr("kernels.trace.cuda.why_not", lambda: "not here yet")
    assert Machine("").ability("cxx").reason == "not here yet"
    done = lessons("vector_add")
    assert done.exit_code == 3 and "not here yet" in done.output


@pytest.mark.parametrize(("kernel", "need"), [("vector_add", "cxx"), ("add", "triton")])
def test_a_hidden_ability_is_one_that_the_machine_lacks(kernel, need, monkeypatch):
    monkeypatch.setenv("LESSONS_WITHOUT", need)
    done = lessons(kernel)
    assert done.exit_code == 3 and f"{need} is hidden by LESSONS_WITHOUT" in done.output


def test_without_triton_an_operator_is_known_and_the_reason_is_said(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = lessons("add")
    assert done.exit_code == 3 and "torch is not installed" in done.output


def test_a_torch_that_cannot_be_imported_is_a_sentence(monkeypatch, page):
    def broken(*_, **__):
        raise ImportError("libtorch.so is missing", name="torch")

    monkeypatch.setattr("kernels.lessons.tracing.run._trace_triton", broken)
    done = lessons("add", "--output", str(page))
    assert done.exit_code == 3 and "torch is installed, and cannot be imported: libtorch.so is missing" in done.output
