"""Programs that are asked for something have a limit, and what they say is read as UTF-8."""

import ast
import sys
from pathlib import Path

import pytest

from kernels.sources.processes import TooLong, answered

KERNELS = Path(__file__).resolve().parents[2] / "kernels"
AS_RECORDED = "a record of the GPU stands on it, so it changes when the records are next taken"
WITHOUT_A_LIMIT = {
    "cuda/building.py": AS_RECORDED,
    "lessons/worker.py": "a block's shell has the block's limit, which ends the process that waits",
    "lessons/machine.py": "to be mended",
    "lessons/new_command.py": "to be mended",
    "lessons/scratch.py": "to be mended",
    "lessons/scratch_check.py": "to be mended",
}


def test_a_program_that_does_not_end_is_stopped_and_named():
    with pytest.raises(TooLong, match=r"^python[\d.]* did not end within 0\.3 s, and was stopped: .*sleep"):
        answered([sys.executable, "-c", "import time; time.sleep(60)"], 0.3)


def test_what_a_program_says_is_text_whatever_its_bytes():
    code = "import sys; sys.stdout.buffer.write(b'\\xc3\\xa9\\xff'); sys.stderr.write(sys.stdin.read()); sys.exit(3)"
    done = answered([sys.executable, "-c", code], 60, given="asked")
    assert (done.returncode, done.stdout, done.stderr) == (3, "é\N{REPLACEMENT CHARACTER}", "asked")


def test_a_program_does_not_read_what_is_typed():
    asks = "import sys; from kernels.sources.processes import answered; "
    asks += "print(answered([sys.executable, '-c', 'import sys; print(repr(sys.stdin.read()))'], 60).stdout)"
    assert answered([sys.executable, "-c", asks], 120, cwd=KERNELS.parent, given="typed").stdout.strip() == "''"


def calls_without_a_limit(path: Path) -> list[int]:
    """The lines that wait for a program, and say neither how long nor that others may kill it."""
    found = []
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if "subprocess" in text else ():
        if isinstance(node, ast.Call) and ast.unparse(node.func) in (
            "subprocess.run",
            "subprocess.call",
            "subprocess.check_call",
            "subprocess.check_output",
        ):
            found += [node.lineno] if "timeout" not in [each.arg for each in node.keywords] else []
    return found


def test_no_room_waits_for_a_program_without_a_limit():
    looked = {path.relative_to(KERNELS).as_posix(): calls_without_a_limit(path) for path in KERNELS.rglob("*.py")}
    assert len(looked) > 100
    assert {name: lines for name, lines in looked.items() if lines and name not in WITHOUT_A_LIMIT} == {}
