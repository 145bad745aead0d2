"""The Python that runs copied programs: it tells how each one ended, and never leaves the test waiting."""

import os
import sys

import pytest

pytest.importorskip("torch")

import warm_python
from warm_python import WarmPython

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="this system has no fork")


@pytest.fixture(scope="module")
def warm():
    python = WarmPython(dict(os.environ))
    yield python
    python.close()


def program(folder, text):
    path = folder / "program.py"
    path.write_text(text)
    return path


def test_a_program_ends_with_its_status_and_its_words(warm, tmp_path):
    done = warm.run(program(tmp_path, "import os, sys\nprint(os.getcwd())\nprint('so', file=sys.stderr)\nsys.exit(3)"))
    assert (done.returncode, done.stdout.strip(), done.stderr) == (3, str(tmp_path), "so\n")


def test_a_program_of_which_nothing_is_heard_is_given_up(warm, tmp_path, monkeypatch):
    monkeypatch.setattr(warm_python, "LIMIT_S", 1)
    monkeypatch.setattr(warm_python, "PATIENCE_S", 1)
    with pytest.raises(RuntimeError, match=r"nothing was heard of .*program\.py in 2 s"):
        warm.run(program(tmp_path, "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)"))


def test_a_helper_that_died_is_told(tmp_path):
    python = WarmPython(dict(os.environ))
    python._helper.kill()
    with pytest.raises(RuntimeError, match=r"the Python that runs programs ended with -9"):
        python.run(program(tmp_path, "print(1)"))
    python.close()
