"""The switch between two threads of a block: it keeps what a call keeps, and costs tens of nanoseconds at most."""

import subprocess
from pathlib import Path

import pytest

from kernels.trace.cuda import why_not
from kernels.trace.cuda_build import host_compiler, host_sources

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
SOURCE = Path(__file__).parent / "host_sources" / "switches.cpp"


@pytest.fixture(scope="module", params=["", "-DKH_FORCE_UCONTEXT"], ids=["assembly", "ucontext"])
def program(request, tmp_path_factory):
    compiler = host_compiler()
    path = tmp_path_factory.mktemp("fibers") / "switches"
    sources = [str(SOURCE), str(host_sources() / "fiber.cpp")]
    more = [request.param] if request.param else []
    command = [compiler.path, *compiler.runtime_flags, *more, f"-I{host_sources()}", *sources, "-o", str(path)]
    subprocess.run(command, check=True)
    return "ucontext" if request.param else "assembly", path


def run(path, switches):
    done = subprocess.run([path, str(switches)], capture_output=True, text=True, check=True, timeout=500)
    return [float(word) for word in done.stdout.split()]


def expected(which, step, turns):
    """What the loop adds up to after so many turns."""
    a, b, c = step * (1 + turns), step * (2 - turns), step * (3 + 2 * turns)
    return a + b + c + turns + (7 * which + 2 * turns) + (-which - 3 * turns)


def test_registers_survive_a_switch(program):
    _, path = program
    _, first, second = run(path, 2000)
    turns = {expected(0, 0.5, n): n for n in range(900, 1100)}, {expected(1, 0.25, n): n for n in range(900, 1100)}
    assert first in turns[0] and second in turns[1], (first, second)


def test_a_switch_takes_tens_of_nanoseconds(program):
    name, path = program
    if name == "ucontext":
        pytest.skip("The fall-back makes a system call for each switch, and nobody counts on its speed.")
    fastest = min(run(path, 2_000_000)[0] for _ in range(5))  # other work on the machine only adds
    print(f"{fastest:.1f} ns a switch")
    assert fastest < 50
