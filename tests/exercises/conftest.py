"""A small exercise in a folder of its own, and the warm process that checks answers to it."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from project import make, source

from kernels.exercises.run import Checker


@pytest.fixture(scope="module")
def checker():
    with Checker() as warm:
        yield warm


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return make(tmp_path_factory.mktemp("halves"))


@pytest.fixture
def judged(checker, files):
    """The verdict on an answer with this between its marks, or on a whole file."""

    def judge(body: str, **named):
        whole = named.pop("whole", False)
        return checker.judge(files, body if whole else source(body), **named)

    return judge
