"""Whether Triton is interpreted is decided before the first test module: one that decides otherwise ends the run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
MODULE = """
import os, pytest
{first}
pytestmark = pytest.mark.interpreted
def test_one(): assert os.environ["TRITON_INTERPRET"] == "1"
"""


@pytest.mark.parametrize(
    ("first", "decided", "status", "said"),
    [
        ("", "1", 0, "1 passed"),
        ("", "0", 0, "1 skipped"),
        (
            'os.environ["TRITON_INTERPRET"] = "1"',
            "0",
            4,
            "changed TRITON_INTERPRET from '0' to '1'",
        ),
    ],
)
def test_a_module_cannot_turn_the_interpreter_on_for_all_others(tmp_path, first, decided, status, said):
    shutil.copy(TESTS / "conftest.py", tmp_path / "conftest.py")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = interpreted\n", encoding="utf-8")
    (tmp_path / "test_it.py").write_text(MODULE.format(first=first), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        env={**os.environ, "TRITON_INTERPRET": decided},
        capture_output=True,
        text=True,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert said in done.stdout + done.stderr
