"""What the compiler makes of the kernels, on a machine without a GPU too."""

import ast
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
    found = json.loads(done.stdout)
    assert len(found) > 40, f"few kernels were compiled for sm_{arch}: {sorted(found)}"
    return found


@pytest.mark.parametrize("arch", [80, 90, 120])
def test_every_kernel_compiles_and_fits_the_smallest_card(arch):
    for name, fact in facts(arch).items():
        assert fact["shared_bytes"] <= SMALLEST_SHARED_BYTES, name


# What is multiplied in 32 bits there: addresses in shared memory, and columns of rows that have fewer than 2**30.
SHORT = ("histogram shared", *(f"_softmax_backward_pairs {dtype} words" for dtype in ("float16", "bfloat16")))
# What has no mask there: the one number of a row, a look at words that ends at the last one, and parts that are whole.
WHOLE = (
    *("row_sum float32 finish", "row_sum bfloat16 finish", "_rmsnorm_words bfloat16 words"),
    *(f"_softmax_backward_pairs {dtype} words" for dtype in ("float16", "bfloat16")),
)


def test_no_text_in_a_kernel_has_an_escape():
    """torch.compile writes the source of a Triton kernel between quotes, where an escape becomes what it stands for:
    PTX with a line break in it was two halves of a string there, and on a GPU no graph with it compiled."""
    for path in sorted((Path(__file__).parents[2] / "kernels/ops").glob("*.py")):
        source = path.read_text(encoding="utf-8")
        for kernel in ast.walk(ast.parse(source)):
            if isinstance(kernel, ast.FunctionDef) and any("jit" in ast.unparse(by) for by in kernel.decorator_list):
                assert "\\" not in ast.get_source_segment(source, kernel), f"{path.name}: {kernel.name}"


def test_offsets_are_multiplied_in_64_bits():
    for name, fact in facts(90).items():
        if name in SHORT:
            continue
        kinds = re.findall(r"arith\.muli [^:]*: (\S+)", fact["ttir"])
        # A looped row of one column has only constant strides of 1, and nothing left to multiply.
        assert kinds or name.startswith("looped column"), f"{name}: no offset is multiplied"
        assert all("i64" in kind for kind in kinds), f"{name}: an offset is multiplied in 32 bits: {kinds}"


def test_every_load_and_store_is_masked():
    # A load without its mask reads past the end, which no comparison of values can see.
    for name, fact in facts(90).items():
        if name in WHOLE:
            continue
        accesses = re.findall(r"tt\.(load|store) ([^:{]*)[:{]|tt\.(?:load|store) .*", fact["ttir"])
        operands = {"load": 2, "store": 3}
        assert accesses
        for kind, text in accesses:
            assert kind and text.count("%") >= operands[kind], f"{name}: a {kind} has no mask: {text}"


WHOLE_ROWS = [
    *(f"{op} {{}} {width}" for op in ("softmax", "softmax_backward", "row_sum") for width in (128, 1024, 4096)),
    *("add {}", "softmax {} 32768"),
]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kernel", WHOLE_ROWS)
def test_whole_rows_move_in_16_byte_pieces(kernel, dtype):
    name = kernel.format(dtype)
    kinds = "ld" if name.startswith("row_sum") else "(?:ld|st)"  # a row's sum is one element
    moves = re.findall(kinds + r"\.global[\w.:]*", facts(90)[name]["ptx"])
    assert moves and all(move.endswith(".v4.b32") for move in moves), sorted(set(moves))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_one_exponential_an_element_and_one_division_a_row(dtype):
    ptx = facts(90)[f"softmax {dtype} 1024"]["ptx"]
    assert len(re.findall(r"ex2\.approx", ptx)) == 16  # what one thread holds of the row
    assert len(re.findall(r"div\.full", ptx)) == 1
