"""The labs: every part of the skeleton is there, and every command works as written."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LABS = sorted(path.stem for path in (ROOT / "docs" / "labs").glob("[0-9]*.md"))
SECTIONS = (
    "What you will be able to explain",
    "Predict",
    "The code",
    "Run it",
    "Who owns what",
    "What the compiler made of it",
    "What it costs",
    "What goes wrong",
    "Exercise",
    "Exit questions",
    "Next",
)


def page(lab: str) -> str:
    return (ROOT / "docs" / "labs" / f"{lab}.md").read_text(encoding="utf-8")


def section(text: str, title: str) -> str:
    """The text below a heading of the second level, up to the next one."""
    return re.split(r"^## ", text.partition(f"\n## {title}\n")[2], maxsplit=1, flags=re.M)[0]


def headers(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if re.match(r"\s*```python exec", line)]


def environment() -> dict[str, str]:
    return {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}


def run(*command: str) -> subprocess.CompletedProcess:
    return subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)


@pytest.mark.parametrize("lab", LABS)
def test_a_lab_has_every_section_in_order(lab):
    titles = re.findall(r"^## (.+)$", page(lab), re.M)
    assert [title for title in titles if title in SECTIONS] == list(SECTIONS)


@pytest.mark.parametrize("path", sorted(ROOT.glob("docs/labs/[0-9]*.md")) + sorted(ROOT.glob("docs/workshops/*-*.md")))
def test_who_types_a_block_by_hand_is_told_what_to_set_once(path):
    text = path.read_text(encoding="utf-8")
    before = text.partition("**Read beside this page**")[0]
    assert 'needs="triton"' not in text or "`export TRITON_INTERPRET=1`" in before


@pytest.mark.parametrize("lab", LABS)
def test_sections_hold_the_evidence_that_their_names_promise(lab):
    text = page(lab)
    assert section(text, "Predict").count("\n??? question") >= 4
    assert any("exec" in header for header in headers(section(text, "Predict")))
    assert any('evidence="trace"' in header for header in headers(section(text, "Who owns what")))
    assert any('evidence="compile"' in header for header in headers(section(text, "What the compiler made of it")))
    assert sum('evidence="measure"' in header for header in headers(section(text, "What it costs"))) >= 5
    assert "### Where we lose" in section(text, "What it costs")
    assert len(headers(section(text, "What goes wrong"))) >= 3


@pytest.mark.parametrize("lab", LABS)
def test_every_exit_question_is_folded_and_most_answers_are_computed(lab):
    text = section(page(lab), "Exit questions")
    answers = re.split(r"^\?\?\? question ", text, flags=re.M)[1:]
    assert len(answers) >= 5
    assert sum("#!value" in answer for answer in answers) >= len(answers) - 1
    assert not re.search(r"^#### |^### ", text, re.M)


@pytest.mark.parametrize("lab", LABS)
def test_no_number_with_a_unit_is_typed(lab):
    from kernels.lessons.model import PageSource
    from kernels.lessons.prose import typed_numbers

    path = ROOT / "docs" / "labs" / f"{lab}.md"
    source = PageSource(f"labs/{lab}.md", path, page(lab))
    assert [fault.message for fault in typed_numbers(source)] == []


@pytest.mark.triton
@pytest.mark.parametrize("lab", LABS)
def test_every_command_on_the_page_is_one_that_its_program_takes(lab):
    """Without a GPU, kernel-bench ends with 3 where it understood, and with 2 where it did not."""
    lines = [line.strip() for body in re.findall(r"```bash\n(.*?)```", page(lab), re.S) for line in body.splitlines()]
    bench = [line for line in lines if line.startswith("kernel-bench ")]
    assert bench and all("--output results/local/" in line for line in bench)
    assert any(line.startswith("python scripts/report_results.py results/local/") for line in lines)
    variants = re.findall(r"`(--(?:variant|num-warps) [^`]+)`", page(lab))
    whole = [line.removeprefix("kernel-bench ") for line in bench]
    for options in whole + [f"--op {_op(bench[0])} {each}" for each in variants]:
        done = run(sys.executable, "-m", "kernels.bench.command", *shlex.split(options))
        assert done.returncode == 3, (options, done.stderr)
    for line in lines:
        if line.startswith("python "):
            assert (ROOT / shlex.split(line)[1]).is_file(), line


def _op(line: str) -> str:
    return re.search(r"--op (\w+)", line)[1]


@pytest.mark.triton
def test_the_first_program_reports_what_its_programs_wrote():
    done = run(sys.executable, "lessons_src/examples/hello_triton.py")
    assert done.returncode == 0, done.stderr
    assert "program 0 wrote elements 0 to 255: 256 of its 256 offsets" in done.stdout
    assert "program 1 wrote element 256: 1 of its 256 offsets" in done.stdout
    assert "right in every element: True" in done.stdout
    refused = run(sys.executable, "lessons_src/examples/hello_triton.py", "--block", "100")
    assert refused.returncode == 2 and "power of two" in refused.stderr
