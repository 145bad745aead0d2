"""The workflows: valid, pinned, least permissions, and no way for a fork's code to the GPU machine by itself."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SAME_REPOSITORY = "github.event.pull_request.head.repo.full_name == github.repository"
PIN = re.compile(r"^\s*-?\s*uses:\s*(?P<action>[\w./-]+)@(?P<commit>\S+)(?P<rest>.*)$")


def load(path: Path) -> dict:
    made = yaml.safe_load(path.read_text())
    made["on"] = made.pop(True)  # YAML 1.1 reads the key on as true
    return made


def unpinned(text: str) -> list[str]:
    """Lines that use an action of another repository without a full commit and a tag beside it."""
    found = []
    for line in text.splitlines():
        if "uses:" not in line or "uses: ./" in line or line.lstrip().startswith("#"):
            continue
        pin = PIN.match(line)
        if (
            not pin
            or not re.fullmatch(r"[0-9a-f]{40}", pin["commit"])
            or not re.match(r"\s+# v\d+\.\d+\.\d+$", pin["rest"])
        ):
            found.append(line.strip())
    return found


def fork_reaches_own_machine(workflow: dict) -> list[str]:
    """Jobs on a self-hosted machine that a pull request from a fork could start."""
    if not {"pull_request", "pull_request_target"} & set(workflow["on"]):
        return []
    return [
        name
        for name, job in workflow["jobs"].items()
        if "self-hosted" in str(job.get("runs-on", ""))
        and (
            str(job.get("if", "")).replace("\n", " ").strip()
            != f"github.event_name != 'pull_request' || {SAME_REPOSITORY}"
            or "gpu-pull-request" not in str(job.get("environment", ""))
        )
    ]


def too_much_permission(workflow: dict) -> list[str]:
    """The workflow's own permissions where there are any, and jobs that may write something unexpected."""
    found = [] if workflow.get("permissions") == {} else ["the workflow"]
    for name, job in workflow["jobs"].items():
        allowed = {"contents": "write"} if name == "publish" else {"contents": "read"}
        if job.get("permissions") != allowed:
            found.append(name)
    return found


def tool(name: str) -> str:
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if not found:
        pytest.skip(f"{name} is not installed")
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_pins_permissions_and_forks(path: Path) -> None:
    assert unpinned(path.read_text()) == []
    assert too_much_permission(load(path)) == []
    assert fork_reaches_own_machine(load(path)) == []
    assert "pull_request_target" not in load(path)["on"]
    assert "concurrency" in load(path)


@pytest.mark.parametrize(
    "line",
    [
        "- uses: actions/checkout@v5",
        "- uses: actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8",
        "- uses: actions/checkout@08c6903 # v5.0.0",
        "- uses: actions/checkout@main # v5.0.0",
    ],
)
def test_a_loose_pin_is_seen(line: str) -> None:
    assert unpinned(f"    steps:\n      {line}\n")


def test_a_missing_fork_rule_is_seen() -> None:
    gpu = load(ROOT / ".github/workflows/gpu.yml")
    assert gpu["jobs"]["gpu"]["runs-on"] == ["self-hosted", "gpu"]
    for key in ("if", "environment"):
        broken = {**gpu, "jobs": {"gpu": {k: v for k, v in gpu["jobs"]["gpu"].items() if k != key}}}
        assert fork_reaches_own_machine(broken) == ["gpu"]


def test_write_permission_is_seen() -> None:
    ci = load(ROOT / ".github/workflows/ci.yml")
    ci["jobs"]["lint"]["permissions"] = {"contents": "write"}
    assert too_much_permission(ci) == ["lint"]
    ci["permissions"] = {"contents": "read"}
    assert "the workflow" in too_much_permission(ci)


def test_pins_are_listed_as_seen_or_as_unverified() -> None:
    listed = (ROOT / ".github/actions-unverified.md").read_text()
    for path in WORKFLOWS:
        for line in path.read_text().splitlines():
            pin = PIN.match(line)
            if pin and not pin["action"].startswith("./"):
                tag = pin["rest"].strip().split()[1]
                assert f"| {pin['action']} | {tag} | {pin['commit']} |" in listed, line


def test_cache_keys_hold_triton_card_and_sources_and_nothing_near() -> None:
    keys = []
    for path in WORKFLOWS:
        for job in load(path)["jobs"].values():
            for step in job.get("steps", []):
                if "actions/cache@" in step.get("uses", ""):
                    keys.append(step["with"]["key"])
                    assert "restore-keys" not in step["with"]
    assert len(keys) == 2
    for key in keys:
        assert "triton${{ steps.toolchain.outputs.triton }}" in key and "gpu" in key
        assert "hashFiles('kernels/**/*.py', 'cuda/**'" in key


def test_publishing_executes_nothing_and_waits_for_the_gates() -> None:
    publish = load(ROOT / ".github/workflows/publish.yml")
    job = publish["jobs"]["publish"]
    assert job["env"]["LESSONS_MODE"] == "frozen"
    assert job["needs"] == ["gate", "gpu-gate"]
    commands = "\n".join(step.get("run", "") for step in job["steps"])
    assert "--update-aliases" in commands and "set-default --push latest" in commands
    assert publish["jobs"]["gate"]["uses"] == "./.github/workflows/ci.yml"
    assert "workflow_call" in load(ROOT / ".github/workflows/ci.yml")["on"]


def test_shards_cover_everything() -> None:
    shards = load(ROOT / ".github/workflows/ci.yml")["jobs"]["verify"]["strategy"]["matrix"]["shard"]
    assert shards == [f"{part}/{len(shards)}" for part in range(1, len(shards) + 1)]


def test_scripts_named_in_workflows_exist() -> None:
    named = {(path.name, name) for path in WORKFLOWS for name in re.findall(r"scripts/[\w.]+", path.read_text())}
    assert {"ci.yml", "publish.yml"} <= {workflow for workflow, _ in named}
    assert [each for each in sorted(named) if not (ROOT / each[1]).is_file()] == []


def test_schema() -> None:
    files = [str(path) for path in WORKFLOWS]
    done = subprocess.run(
        [tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", *files],
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_schema_check_sees_a_fault(tmp_path: Path) -> None:
    broken = tmp_path / "ci.yml"
    broken.write_text(WORKFLOWS[0].read_text().replace("runs-on:", "run-on:"))
    done = subprocess.run(
        [tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", str(broken)],
        capture_output=True,
        timeout=500,
    )
    assert done.returncode != 0


def test_linter() -> None:
    done = subprocess.run(
        [tool("zizmor"), "--offline", "--no-progress", ".github"], cwd=ROOT, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_linter_sees_a_fault(tmp_path: Path) -> None:
    broken = tmp_path / "gpu.yml"
    text = (ROOT / ".github/workflows/gpu.yml").read_text()
    broken.write_text(text.replace('if ! [[ "$COMMIT" =~', 'if ! [[ "${{ inputs.commit }}" =~'))
    done = subprocess.run(
        [tool("zizmor"), "--offline", "--no-progress", str(broken)], capture_output=True, text=True, timeout=500
    )
    assert done.returncode != 0 and "template-injection" in done.stdout


def test_actionlint_where_it_is_installed() -> None:
    done = subprocess.run([tool("actionlint")], cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout
