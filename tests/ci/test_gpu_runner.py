"""scripts/gpu_runner.sh without a GPU: usage, the exit without one, and its book-keeping over stand-in tools."""

import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "gpu_runner.sh"

pytestmark = pytest.mark.skipif(os.name != "posix" or not shutil.which("bash"), reason="needs bash")

TOOLS = {
    "nvidia-smi": 'echo "GPU 0: NVIDIA H200"',
    "nvcc": "",
    "ncu": "",
    # Reports the plants, and finds nothing elsewhere.
    "compute-sanitizer": 'case "$*" in *plant_*) echo "========= ERROR SUMMARY: 1 error"; exit 97 ;; esac',
    "python": """case "$*" in
*gpu_slug*) echo h200 ;;
*kernels.cuda*portfolio*) printf '#!/bin/sh\n' >build/cuda_portfolio; chmod +x build/cuda_portfolio ;;
*kernels.bench.command*) while [ $# -gt 0 ]; do [ "$1" = --output ] && echo '{}' >"$2"; shift; done ;;
esac""",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the script in an otherwise empty project, and stand-ins on a path of their own."""
    root = tmp_path / "project"
    (root / "scripts").mkdir(parents=True)
    shutil.copy(SCRIPT, root / "scripts" / "gpu_runner.sh")
    (tmp_path / "tools").mkdir()
    for name, body in TOOLS.items():
        tool(tmp_path, name, body)
    return root


def tool(tmp_path: Path, name: str, body: str) -> None:
    path = tmp_path / "tools" / name
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(0o755)


def run(project: Path, *steps: str, **environment: str) -> subprocess.CompletedProcess[str]:
    tools = project.parent / "tools"
    return subprocess.run(
        ["bash", "scripts/gpu_runner.sh", *steps],
        cwd=project,
        env={"PATH": f"{tools}:/usr/bin:/bin", "PYTHON": str(tools / "python"), **environment},
        capture_output=True,
        text=True,
        timeout=500,
    )


def until(what) -> None:
    """Wait for it; the limit is against hanging."""
    over = time.monotonic() + 400
    while not what():
        assert time.monotonic() < over
        time.sleep(0.05)


def test_says_there_is_no_gpu(project: Path) -> None:
    tool(project.parent, "nvidia-smi", "exit 9")
    done = run(project)
    assert done.returncode == 3
    assert "no NVIDIA GPU" in done.stderr
    assert not (project / "build").exists()


def test_unknown_step_is_a_usage_error(project: Path) -> None:
    done = run(project, "bensh")
    assert done.returncode == 2
    assert "'bensh'" in done.stderr and "bench" in done.stderr


def test_everything_passes_and_records_are_packed(project: Path) -> None:
    (project / "results/h200").mkdir(parents=True)
    (project / "results/h200/add.json").write_text("{}")
    done = run(project)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All passed." in done.stdout
    with tarfile.open(project / "build/gpu-records/records.tar.gz") as archive:
        names = archive.getnames()
    assert {"results/h200/add.json", "results/h200/softmax.json"} <= set(names)
    assert "racecheck reports the planted fault" in (project / "build/gpu-records/gpu_runner.log").read_text()


def test_goes_on_after_a_failure_and_exits_nonzero(project: Path) -> None:
    tool(project.parent, "python", TOOLS["python"].replace("esac", "*pytest*) echo broken; exit 1 ;;\nesac"))
    done = run(project, "tests", "bench")
    assert done.returncode == 1
    assert "exit 1" in done.stdout and "kernel-bench softmax" in done.stdout
    assert (project / "results/h200/softmax.json").is_file()


CASES = "*--cases*) printf 'add float32 bfloat16\\nsoftmax float32\\n' ;;\nesac"


def test_the_gate_measures_what_has_a_record_and_is_red_when_it_says_so(project: Path) -> None:
    (project / "results/h200").mkdir(parents=True)
    (project / "results/h200/add.json").write_text("{}")
    asked = project.parent / "asked"
    body = TOOLS["python"].replace("esac", CASES)
    tool(project.parent, "python", f'echo "$*" >>{asked}\n{body}')
    done = run(project, "gate")
    assert done.returncode == 0, done.stdout + done.stderr
    words = asked.read_text()
    assert "--op add --dtype float32 --dtype bfloat16 --output build/gate/add.json" in words
    assert "scripts/performance_gate.py build/gate/add.json build/gate/softmax.json" in words
    red = body.replace("esac", "*build/gate/add.json\\ build/gate/softmax.json*) exit 1 ;;\nesac")
    tool(project.parent, "python", red)
    done = run(project, "gate")
    assert done.returncode == 1
    assert "performance gate" in done.stdout and "exit 1" in done.stdout
    assert (project / "results/h200/add.json").read_text() == "{}"  # the records stand as they were


def test_every_operator_is_measured_in_its_own_dtypes(project: Path) -> None:
    asked = project.parent / "asked"
    body = TOOLS["python"].replace(
        "esac", "*registry.OPS*) printf 'row_sum float32 bfloat16\\nhistogram int32\\n' ;;\nesac"
    )
    tool(project.parent, "python", f'echo "$*" >>{asked}\n{body}')
    assert run(project, "bench").returncode == 0
    words = asked.read_text()
    assert "--op row_sum --dtype float32 --dtype bfloat16 --compile --output results/h200/row_sum.json" in words
    assert "--op histogram --dtype int32 --compile --output results/h200/histogram.json" in words
    assert "report_results.py results/h200/histogram.json" in words


def test_a_gate_without_records_is_no_pass(project: Path) -> None:
    done = run(project, "gate")
    assert done.returncode == 1
    assert "no committed record" in done.stdout


def test_experiments_stand_apart_from_the_records(project: Path) -> None:
    asked = project.parent / "asked"
    tool(project.parent, "python", f'echo "$*" >>{asked}\n{TOOLS["python"]}')
    assert run(project, "experiments").returncode == 0
    words = asked.read_text()
    for name in ("scale_rows", "overhead-softmax", "profile-softmax"):
        assert f"--output results/h200/experiments/{name}.json" in words


def test_a_run_that_is_killed_keeps_the_records_it_had(project: Path) -> None:
    bench = "*kernels.bench.command*)"
    tool(project.parent, "python", TOOLS["python"].replace(bench, f"*--op*softmax*) sleep 1000 ;;\n{bench}"))
    environment = {"PATH": f"{project.parent}/tools:/usr/bin:/bin", "PYTHON": str(project.parent / "tools/python")}
    child = subprocess.Popen(
        ["bash", "scripts/gpu_runner.sh", "bench"],
        cwd=project,
        env=environment,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    records = project / "build/gpu-records/records.tar.gz"
    until(records.exists)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    with tarfile.open(records) as archive:
        assert "results/h200/add.json" in archive.getnames()


@pytest.mark.parametrize(
    "body",
    [
        'echo "========= ERROR SUMMARY: 0 errors"',
        'echo "========= ERROR SUMMARY: 1 error"',  # a tool that says so and exits with 0 would pass everything
        'echo "========= ERROR SUMMARY: 0 errors"; exit 97',
    ],
)
def test_a_sanitizer_that_sees_nothing_fails(project: Path, body: str) -> None:
    tool(project.parent, "compute-sanitizer", body)
    done = run(project, "sanitizer")
    assert done.returncode == 1
    assert "memcheck did not report the planted out_of_bounds" in done.stdout


def test_the_operators_follow_the_portfolio_and_leave_a_record(project: Path) -> None:
    asked = project.parent / "asked"
    body = TOOLS["python"].replace(
        "esac", '*sanitize_operators*) echo "{}" >results/h200/experiments/sanitizers.json ;;\nesac'
    )
    tool(project.parent, "python", f'echo "$*" >>{asked}\n{body}')
    done = run(project, "sanitizer", SANITIZER_SECONDS="90")
    assert done.returncode == 0, done.stdout + done.stderr
    words = asked.read_text()
    assert "--seconds 90 --output results/h200/experiments/sanitizers.json" in words
    assert "two_devices" not in words and "one GPU" in done.stdout
    with tarfile.open(project / "build/gpu-records/records.tar.gz") as archive:
        assert "results/h200/experiments/sanitizers.json" in archive.getnames()


def test_only_what_does_not_stand_in_the_record_is_run_when_that_is_asked(project: Path) -> None:
    asked = project.parent / "asked"
    tool(project.parent, "python", f'echo "$*" >>{asked}\n{TOOLS["python"]}')
    assert run(project, "sanitizer", SANITIZER_UNPROVED="1").returncode == 0
    record = "results/h200/experiments/sanitizers.json"
    assert f"--seconds 240 --unproved {record} --output {record}" in asked.read_text()


def test_two_gpus_are_used_and_a_report_on_an_operator_is_red(project: Path) -> None:
    asked = project.parent / "asked"
    tool(project.parent, "nvidia-smi", 'printf "GPU 0: NVIDIA H200\\nGPU 1: NVIDIA H200\\n"')
    body = TOOLS["python"].replace("esac", "*sanitize_operators*) echo found; exit 1 ;;\nesac")
    tool(project.parent, "python", f'echo "$*" >>{asked}\n{body}')
    done = run(project, "sanitizer")
    assert done.returncode == 1
    assert "two_devices.py --seconds 100 --output results/h200/experiments/two-devices.json" in asked.read_text()


def test_a_part_past_its_limit_is_stopped_and_reported(project: Path) -> None:
    tool(project.parent, "python", TOOLS["python"].replace("esac", "*verify*) sleep 1000 ;;\nesac"))
    done = run(project, "verify", "bench", STEP_LIMIT="6")  # which a slow machine has for a stand-in
    assert done.returncode == 1
    assert "time limit" in done.stdout
    assert (project / "results/h200/add.json").is_file()


def test_a_part_that_was_killed_before_its_limit_is_not_called_late(project: Path) -> None:
    tool(project.parent, "python", TOOLS["python"].replace("esac", "*verify*) kill -9 $$ ;;\nesac"))
    done = run(project, "verify")
    assert done.returncode == 1
    assert "was memory short?" in done.stdout and " killed " in done.stdout
    assert "time limit" not in done.stdout and "stopped after" not in done.stdout


@pytest.mark.parametrize("limit", ["soon", "0", "1.5", "-3"])
def test_a_limit_that_is_no_number_is_a_usage_error(project: Path, limit: str) -> None:
    done = run(project, "verify", STEP_LIMIT=limit)
    assert done.returncode == 2
    assert f"STEP_LIMIT is '{limit}'" in done.stderr and not (project / "build").exists()


@pytest.mark.usefixtures("signals_are_heard")  # bash leaves what was ignored when it began
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_interrupted_leaves_no_temporary_file(project: Path, number: int) -> None:
    temporary, began = project.parent / "temporary", project.parent / "began"
    temporary.mkdir()
    tool(project.parent, "python", TOOLS["python"].replace("esac", f"*verify*) touch {began}; sleep 3 ;;\nesac"))
    tools = project.parent / "tools"
    child = subprocess.Popen(
        ["bash", "scripts/gpu_runner.sh", "verify"],
        cwd=project,
        env={"PATH": f"{tools}:/usr/bin:/bin", "PYTHON": str(tools / "python"), "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL,
    )
    until(began.exists)
    assert list(temporary.iterdir())
    child.send_signal(number)
    assert child.wait(timeout=500) == -number
    assert list(temporary.iterdir()) == []


def test_shellcheck_is_clean() -> None:
    found = shutil.which("shellcheck") or shutil.which("shellcheck", path=str(Path(sys.executable).parent))
    if not found:
        pytest.skip("shellcheck is not installed")
    scripts = sorted(str(path) for path in (ROOT / "scripts").glob("*.sh"))
    done = subprocess.run([found, *scripts], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout
