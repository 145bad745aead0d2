"""kernel-bench and report_results.py as a reader runs them, on a machine without a GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from documents import provenance, record
from fake_device import FakeDevice, Mark
from typer.testing import CliRunner

from kernels.bench import command, device, limits
from kernels.bench.provenance import command_line, gpu_slug
from kernels.bench.results import Limit, Writer, complete, read
from kernels.bench.timer import DeviceFailure

ROOT = Path(__file__).resolve().parents[2]


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "NO_COLOR": "1", "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        timeout=500,
    )


def test_without_a_gpu_it_points_to_the_records(tmp_path: Path) -> None:
    output = str(tmp_path / "softmax.json")
    done = run("-m", "kernels.bench.command", "--op", "softmax", "--output", output)
    assert done.returncode == 3, done.stderr
    assert "GPU" in done.stderr and "scripts/report_results.py" in done.stderr
    assert "Traceback" not in done.stderr and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--iters", "0"], "--iters"),
        (["--op", "sofmax"], "row_sum, softmax"),
        (["--dtype", "int7"], "no operator takes 'int7'"),
        (["--op", "add", "--shape", "4x"], "4096x1024"),
        (["--op", "add", "--dtype", "int7"], "float32"),
        (["--op", "add", "--variant", "blok=1"], "block_size"),
        (["--timing", "wallclock"], "graph"),
    ],
)
def test_wrong_usage_is_status_2(options: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_measure", lambda *_: pytest.fail("it began to measure"))
    done = CliRunner(env={"COLUMNS": "400"}).invoke(command.app, options)
    assert done.exit_code == 2, done.output
    assert said in done.output


def test_help_names_the_exit_statuses() -> None:
    done = CliRunner(env={"COLUMNS": "400"}).invoke(command.app, ["--help"])
    assert done.exit_code == 0 and "3 no GPU here" in done.output


def a_file(path: Path, gpu: str = "NVIDIA H200") -> Path:
    writer = Writer(path, provenance(gpu))
    writer.add(
        complete(record(bytes_moved=3_221_225_472, flops=2**28, shape=[2**28], samples_us=[800.0, 801.0, 802.0]))
    )
    writer.add(complete(record(implementation="torch", bytes_moved=3_221_225_472, shape=[2**28], samples_us=[1602.0])))
    return writer.finish()


def test_report_to_a_file_and_to_standard_output(tmp_path: Path) -> None:
    source, target = a_file(tmp_path / "add.json"), tmp_path / "add.md"
    before = source.read_bytes()
    done = run("scripts/report_results.py", str(source), "--output", str(target))
    assert done.returncode == 0, done.stderr
    text = target.read_text()
    assert "| 268435456 | triton | 801 | 1 | 4022 |" in text and "2.00×" in text
    assert run("scripts/report_results.py", str(source)).stdout == text
    assert source.read_bytes() == before


def test_report_says_what_makes_a_file_that_is_not_there(tmp_path: Path) -> None:
    done = run("scripts/report_results.py", str(tmp_path / "softmax.json"))
    assert done.returncode == 1
    assert f"{tmp_path}/softmax.json is not there: kernel-bench --output" in done.stderr


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("softmax-layouts", "python lessons_src/examples/softmax_layouts.py"),
        ("gemm-training", "python scripts/gemm_training.py"),
        ("fused-relu", "kernel-bench --op fused_gemm_relu"),  # in a row of a table
        ("add-warps", "kernel-bench --op add --block-size 128 --block-size 256 --variant block=256,warps=8"),
    ],
)
def test_report_names_the_command_of_the_page_that_asks_for_the_file(name: str, command: str) -> None:
    file = f"results/local/{name}.json"
    if (ROOT / file).exists():
        pytest.skip(f"{file} has been measured here")
    done = run("scripts/report_results.py", file)
    assert done.returncode == 1
    said = f"{file} is not there: {command} --output {file} makes it, on a machine with a GPU.\n"
    assert done.stderr == said


def test_report_refuses_two_gpus(tmp_path: Path) -> None:
    done = run(
        "scripts/report_results.py", str(a_file(tmp_path / "a.json")), str(a_file(tmp_path / "b.json", "NVIDIA L4"))
    )
    assert done.returncode == 1
    assert "different GPUs (NVIDIA H200, NVIDIA L4)" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("target", ["add.json", "other.json"])
def test_report_never_replaces_results(tmp_path: Path, target: str) -> None:
    source = a_file(tmp_path / "add.json")
    before = source.read_bytes()
    done = run("scripts/report_results.py", str(source), "--output", str(tmp_path / target))
    assert done.returncode == 1 and source.read_bytes() == before


def test_report_of_a_file_that_is_not_results(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[1, NaN]")
    done = run("scripts/report_results.py", str(tmp_path / "x.json"))
    assert done.returncode == 1 and "is not a results document" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA GeForce RTX 4080 SUPER", "rtx-4080-super"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("Tesla T4", "t4"),
    ],
)
def test_slug(name: str, slug: str) -> None:
    assert gpu_slug(name) == slug


def test_the_command_line_holds_no_path_of_the_machine() -> None:
    shown = command_line(
        ["/opt/x/bin/kernel-bench", "--output", str(ROOT / "results/h200/a.json"), "--output=/tmp/b.json"]
    )
    assert shown == "kernel-bench --output results/h200/a.json --output=b.json"


class Ticking(FakeDevice):
    """Time passes between any two marks, whatever is launched."""

    def mark(self) -> Mark:
        self.device_us += 500.0
        return super().mark()


@pytest.fixture
def with_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "gpu_missing", lambda: None)
    monkeypatch.setattr(device, "CudaDevice", Ticking)
    monkeypatch.setattr(limits, "copy_limit", lambda _: Limit(name="copy", method="stand-in", gb_per_s=4000.0))


def test_a_whole_command(with_a_device: None, tmp_path: Path) -> None:
    output = tmp_path / "add.json"
    options = ["--op", "add", "--implementation", "torch", "--iters", "3", "--output", str(output)]
    done = CliRunner().invoke(command.app, [*options, "--shape", "300", "--shape", "0", "--dtype", "float32"])
    assert done.exit_code == 0, done.output
    document = read(output)
    assert document.finished and document.limits[0].method == "stand-in"
    assert [(case.shape, case.status) for case in document.cases] == [([300], "ok"), ([0], "no_work")]
    assert document.provenance.gpu_slug == "h200" and document.provenance.clocks_after is not None
    assert "| 300 | torch |" in done.output
    again = CliRunner().invoke(command.app, [*options, "--shape", "300"])
    assert again.exit_code == 0, again.output


def test_a_wrong_result_is_status_1(with_a_device: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.add", lambda x, y: x - y)
    options = ["--op", "add", "--implementation", "torch", "--shape", "300", "--dtype", "float32"]
    done = CliRunner().invoke(command.app, [*options, "--output", str(tmp_path / "add.json")])
    assert done.exit_code == 1 and "wrong: add torch float32 300" in done.output
    assert read(tmp_path / "add.json").cases[0].samples_us == []


def test_a_device_that_gives_up_is_status_4(
    with_a_device: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(self: FakeDevice) -> None:
        self.dead = True
        raise DeviceFailure("an illegal memory access was encountered")

    monkeypatch.setattr(Ticking, "synchronize", dies)
    options = ["--op", "add", "--implementation", "torch", "--shape", "300"]
    done = CliRunner().invoke(command.app, [*options, "--output", str(tmp_path / "add.json")])
    assert done.exit_code == 4 and "illegal memory access" in done.output
    assert not (tmp_path / "add.json").exists() and read(tmp_path / "add.partial.json").cases == []


def test_records_of_another_card_are_status_2(with_a_device: None, tmp_path: Path) -> None:
    path = a_file(tmp_path / "add.json", "NVIDIA L4")
    done = CliRunner().invoke(command.app, ["--op", "add", "--shape", "300", "--output", str(path)])
    assert done.exit_code == 2 and "holds records of NVIDIA L4" in done.output
