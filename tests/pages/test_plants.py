"""A change that makes a real page untrue turns `lessons verify` red, and every line that it made untrue is named."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LESSON, LAB_1, ADDING = (
    "lessons/9-read-cuda.md",
    "labs/1-vector-add.md",
    "authoring/adding-a-lesson.md",
)

PLANTS = {
    "kThreads 256 to 128": (
        ("cuda/kernels.cu", "constexpr int kThreads = 256;", "constexpr int kThreads = 128;"),
        {LESSON: ("add-trace", "add-owners", "row-trace", "scratch-writers", "barriers"), LAB_1: ("cuda-ownership",)},
    ),
    "the exercise of Lesson 9": (
        ("cuda/kernels.cu", "constexpr int kThreads = 256;", "constexpr int kThreads = 512;"),
        {LESSON: ("add-trace", "add-steps", "spaces", "row-trace", "scratch-writers", "at-128")},
    ),
    "a mask dropped in add": (
        ("kernels/ops/add.py", "tl.store(out_ptr + offsets, total.to(out_ptr.dtype.element_ty), mask=mask)",
         "tl.store(out_ptr + offsets, total.to(out_ptr.dtype.element_ty))"),
        {LAB_1: ("exit-draw",)},
    ),
    "a block size changed": (
        ("docs/authoring/adding-a-lesson.md", "block_size=256", "block_size=128"),
        {ADDING: ("a-trace",)},
    ),
    "a column renamed": (
        ("kernels/figures/results.py", '"median µs"', '"time µs"'),
        {LESSON: ("cost",), LAB_1: ("contenders",)},
    ),
}  # fmt: skip


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The project's files as they stand, with the compilers' caches of the real one."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file() and (not name.startswith("tests/") or "/plants/" in name):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tmp_path / name)
    (ROOT / "build").mkdir(exist_ok=True)
    (tmp_path / "build").symlink_to(ROOT / "build")
    return tmp_path


def lessons(root: Path, *arguments: str, path: str = "", **named: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("LESSONS_", "KERNEL_"))}
    return subprocess.run(
        [sys.executable, "-m", "kernels.lessons.command", *arguments],
        cwd=root,
        env=environment | {"PYTHONPATH": os.pathsep.join(filter(None, [path, str(root)]))} | named,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.triton
@pytest.mark.parametrize("plant", PLANTS)
def test_a_plant_turns_verify_red_and_is_named_by_page_and_line(copy, plant):
    (path, old, new), untrue = PLANTS[plant]
    text = (copy / path).read_text()
    assert text.count(old) >= 1, f"{path} does not hold {old!r} any more: plant another fault"
    (copy / path).write_text(text.replace(old, new))
    done = lessons(copy, "verify", *untrue)
    assert done.returncode == 1, done.stdout + done.stderr
    if path == "cuda/kernels.cu":  # a reader is asked to change this number and to read what differs
        assert " failed [" not in done.stdout, done.stdout[-3000:]
    for page, blocks in untrue.items():
        lines = (copy / "docs" / page).read_text().splitlines()
        for block in blocks:
            fence = next(number for number, line in enumerate(lines, 1) if f'id="{block}"' in line)
            said = re.findall(rf"^docs/{re.escape(page)}:(\d+): (?:drift|failed) \[{block}\]", done.stdout, re.M)
            assert said, f"{page}#{block} was not named:\n{done.stdout[-3000:]}"
            assert int(said[0]) >= fence


NOTHING = """
import sys


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "triton"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absent())
"""


@pytest.mark.slow
def test_a_machine_without_torch_triton_and_compilers_shows_the_records(copy, tmp_path_factory):
    """Where neither can be imported, the blocks that need nothing run; the others are shown, and say from where."""
    folder = tmp_path_factory.mktemp("nothing")
    (folder / "sitecustomize.py").write_text(NOTHING)
    without = {"LESSONS_WITHOUT": "gpu,nvcc,cxx,triton", "path": str(folder)}
    done = lessons(copy, "verify", **without)
    assert done.returncode == 0, done.stdout + done.stderr
    ran, frozen = map(int, re.search(r"(\d+) ran, \d+ kept, (\d+) frozen", done.stdout).groups())
    assert ran > 3 and frozen > 50
    built = lessons(copy, "build", **without)
    assert built.returncode == 0, built.stdout + built.stderr
    html = (copy / "site" / "lessons" / "9-read-cuda" / "index.html").read_text()
    for machine in ("NVIDIA H200", "host C++", "nvcc"):
        assert f"recorded on {machine}" in html
    doctor = lessons(copy, "doctor", **without)
    assert doctor.returncode == 0 and f"{frozen} would be shown from accepted records" in doctor.stdout
