"""The sources that the host build's tests run are CUDA: nvcc takes them as they are, template instances included."""

import subprocess
from pathlib import Path

import pytest

from kernels.cuda import compiler

SOURCES = sorted((Path(__file__).parent / "host_sources").glob("*.cu"))
ROW, COLUMN = "wmma::row_major", "wmma::col_major"
INSTANCES = {
    "float16": "template __global__ void arithmetic<__half>(const __half*, const __half*, const __half*, __half*,"
    " __half*, __half*, __half*, __half*, __half*, __half*, int);",
    "warps": "template __global__ void hints<float4>(const float4*, float4*);"
    "template __global__ void shuffles<__half>(const __half*, __half*);"
    "template __global__ void whole_atomics<unsigned long long>(unsigned long long*);",
    "groups": "template __global__ void tiles<16>(const int*, int*, int*, unsigned*, int*, int*, double*);",
    "wmma": f"template __global__ void product<__half, float, {ROW}, {COLUMN}, 16, 16>(const __half*, const __half*,"
    " const float*, float*, int, int);",
}


@pytest.mark.nvcc
@pytest.mark.parametrize("path", SOURCES, ids=[path.stem for path in SOURCES])
def test_nvcc_compiles_it(path, tmp_path):
    source = tmp_path / path.name
    source.write_text(f"{path.read_text()}\n{INSTANCES.get(path.stem, '')}\n")
    command = [str(compiler().nvcc), *compiler().flags, "-std=c++17", "-arch=sm_90", "-c", str(source), "-o"]
    done = subprocess.run([*command, str(tmp_path / "object.o")], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
