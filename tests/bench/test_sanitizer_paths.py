"""The list of kernel paths is whole: every kernel of kernels/ops, every way of sharing out rows, every dtype."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

from kernels.bench.sanitizer.command import chosen
from kernels.bench.sanitizer.paths import kernel_paths

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def found() -> list[dict]:
    """What each path launches, asked on tensors without memory, in a process where nothing is interpreted."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "tests/bench/fake_launches.py"],
        cwd=ROOT,
        env=environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def launched_kernels() -> set[str]:
    """Every function under a jit decorator in kernels/ops that no other one names: those are launched from outside."""
    defined: dict[str, str] = {}
    named: set[str] = set()
    for path in sorted((ROOT / "kernels/ops").glob("*.py")):
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, ast.FunctionDef):
                continue
            decorators = {ast.unparse(each).partition("(")[0] for each in function.decorator_list}
            if not decorators & {"triton.jit", "gluon.jit"}:
                continue
            defined[function.name] = f"kernels.ops.{path.stem}:{function.name}"
            named |= {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    return {full for name, full in defined.items() if name not in named}


def test_every_path_launches(found):
    assert [(each["op"], each["way"], each["error"]) for each in found if each["error"] or not each["kernels"]] == []
    assert len({(each["op"], each["way"], each["dtype"]) for each in found}) == len(found)


def test_no_kernel_is_missed(found):
    kernels = launched_kernels()
    assert len(kernels) > 25
    reached = {kernel for each in found for kernel in each["kernels"]}
    assert kernels - reached == set()


def test_every_operator_has_a_path_in_each_of_its_dtypes(found):
    from kernels.ops import registry, unmeasured

    records = [*registry.OPS.values(), *(r for file in unmeasured.NAMES for r in registry._records(file))]
    by_launcher: dict[str, set[str]] = {}
    for path in kernel_paths():
        by_launcher.setdefault(path.source.partition(":")[0], set()).add(path.dtype)
    for record in records:
        module = record.implementation("triton").source.partition(":")[0]
        assert set(record.dtypes) <= by_launcher.get(module, set()), record.name


def test_every_way_of_sharing_out_rows_is_there_in_every_dtype(found):
    from kernels.ops import rmsnorm, rmsnorm_backward, row_sum, softmax, softmax_backward

    there = {(each["op"], each["way"], each["dtype"]) for each in found}
    for module in (row_sum, softmax, softmax_backward, rmsnorm, rmsnorm_backward):
        for way in module.PATHS:
            for dtype in module.OP.dtypes:
                assert (module.OP.name, way, dtype) in there


def test_every_cuda_function_is_there():
    from kernels.bench.occupancy import sources_with_kernels
    from kernels.ops import registry

    twins = {each.name for op in registry.OPS.values() for each in op.implementations if each.needs == "cuda"}
    listed = [path.cuda for path in kernel_paths() if path.cuda]
    text = "".join((ROOT / source).read_text() for source in sources_with_kernels())
    head = re.compile(r"^__global__ void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\(", re.M)
    written = set(head.findall(text))
    assert len(written) == text.count("\n__global__ void")
    assert twins <= set(listed)
    # The second kernel of two launches runs, and is watched, on the path of the first.
    assert sorted(listed) == sorted(written - {"sum_of_partials"})


@pytest.mark.parametrize("tool", ["racecheck", "synccheck"])
def test_every_kernel_with_a_barrier_gets_the_fault_of_the_tool(tool):
    """Each text that is replaced is there, and what is left of barriers without a fault is none of the tool's."""
    from kernels.bench.sanitizer.plants import CUDA_ROOTS, cuda_replacements
    from kernels.cuda.building import sources_of, substitute

    for root in CUDA_ROOTS:
        sources = sources_of(ROOT / "cuda" / root)
        replace = cuda_replacements(tool, root, sources)
        for old, new in replace.items():
            assert substitute(sources, {old: new}) != sources, (root, old)
        changed = "".join(substitute(sources, replace).values())
        calm = re.sub(r"//[^\n]*", "", changed).replace("planted[0] = threadIdx.x; __syncthreads();", "")
        calm = calm.replace("planted = threadIdx.x; __syncthreads();", "").replace("!= 0) { __syncthreads(); }", "")
        kernels = changed.count("__global__ void")
        if tool == "synccheck" and root in ("ladder.cu", "essentials.cu"):
            assert changed.count("{ if (threadIdx.x + blockIdx.x + blockIdx.y != 0) {") == kernels == len(replace)
        else:
            assert "__syncthreads();" not in calm, root


def test_every_launcher_is_there_by_its_reference():
    """A record is as old as the code that its path's reference reaches; one that leads nowhere would be a KeyError."""
    from kernels.sources import Sources

    sources, references = Sources(), {path.source for path in kernel_paths()}
    assert [each for each in sorted(references) if each not in sources.explain([each])] == []
    assert len(references) > 20


def test_operators_are_chosen_by_name():
    paths = kernel_paths()
    assert len(chosen(paths, [])) == len(paths)
    assert {paths[place].op for place in chosen(paths, ["softmax"])} == {"softmax"}
    with pytest.raises(KeyError, match="no kernel path of 'nothing'; there are paths of add"):
        chosen(paths, ["nothing"])
