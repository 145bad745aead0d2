"""What the compiler makes of the kernels, on a machine without a GPU too."""

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.triton
SMALLEST_SHARED_BYTES = 99 * 1024  # what a program may have on sm_86, sm_89 and sm_120


@cache
def facts(arch: int) -> dict:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    script = Path(__file__).with_name("compile_kernels.py")
    root = str(script.parents[2])
    environment["PYTHONPATH"] = os.pathsep.join([root, environment.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, script, str(arch)], capture_output=True, text=True, env=environment, cwd=root
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("arch", [80, 90, 120])
def test_every_kernel_compiles_and_fits_the_smallest_card(arch):
    for name, fact in facts(arch).items():
        assert fact["shared_bytes"] <= SMALLEST_SHARED_BYTES, name


def test_offsets_are_multiplied_in_64_bits():
    for name, fact in facts(90).items():
        kinds = re.findall(r"arith\.muli [^:]*: (\S+)", fact["ttir"])
        # A looped row of one column has only constant strides of 1, and nothing left to multiply.
        assert kinds or name.startswith("looped column"), f"{name}: no offset is multiplied"
        assert all("i64" in kind for kind in kinds), f"{name}: an offset is multiplied in 32 bits: {kinds}"


def test_every_load_and_store_is_masked():
    # A load without its mask reads past the end, which no comparison of values can see.
    for name, fact in facts(90).items():
        accesses = re.findall(r"tt\.(load|store) ([^:{]*)[:{]|tt\.(?:load|store) .*", fact["ttir"])
        operands = {"load": 2, "store": 3}
        assert accesses
        for kind, text in accesses:
            assert kind and text.count("%") >= operands[kind], f"{name}: a {kind} has no mask: {text}"


def test_whole_rows_move_in_16_byte_pieces():
    for name, fact in facts(90).items():
        if re.search(r"(add \w+|(softmax|softmax_backward|row_sum) \w+ (128|1024|4096)|softmax \w+ 32768)$", name):
            kinds = "ld" if name.startswith("row_sum") else "(?:ld|st)"  # a row's sum is one element
            moves = re.findall(kinds + r"\.global[\w.:]*", fact["ptx"])
            assert moves and all(move.endswith(".v4.b32") for move in moves), f"{name}: {sorted(set(moves))}"


def test_one_exponential_an_element_and_one_division_a_row():
    for name, fact in facts(90).items():
        threads_hold = {"softmax float32 1024": 16, "softmax bfloat16 1024": 16}
        if name in threads_hold:
            assert len(re.findall(r"ex2\.approx", fact["ptx"])) == threads_hold[name]
            assert len(re.findall(r"div\.full", fact["ptx"])) == 1
