"""The programs that a CUDA trace asks: one that fails or hangs is a sentence that names it, and what to do."""

import os
import sys

import pytest

pytest.importorskip("numpy")

from kernels.trace import cuda_build, cuda_library
from kernels.trace.cuda_build import HostCompilerMissing, host_compiler

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the programs here are shell scripts")


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A script of this name that comes first on PATH."""

    def made(name: str, text: str) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    return made


def test_a_program_that_cannot_read_the_lines_says_why(program):
    program("addr2line", "echo 'first' >&2; echo 'addr2line: library.so: file format not recognized' >&2; exit 1")
    with pytest.raises(RuntimeError, match=r"addr2line could not read the lines of library\.so: .*not recog.*remove"):
        cuda_library._resolve("library.so", "kernels.cu", [1, 2])
    program("addr2line", "exit 1")
    with pytest.raises(RuntimeError, match=r"of library\.so: exit status 1; remove that file"):
        cuda_library._resolve("library.so", "kernels.cu", [1, 2])


def test_a_compiler_that_hangs_when_it_is_asked_its_name_is_none(program, monkeypatch):
    program("slow++", "exec sleep 60")
    monkeypatch.setenv("CXX", "slow++")
    monkeypatch.setattr(cuda_build, "ASKED_S", 0.2)
    with pytest.raises(HostCompilerMissing, match=r"CXX names slow\+\+, which is not a g\+\+ or clang\+\+ that runs"):
        host_compiler()
