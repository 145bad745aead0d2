"""What a source may look like: launches whose kernel the arguments choose, equal names, macros, digit separators."""

import numpy as np
import pytest

from kernels.trace.cuda import CompileFailed, NotForHost, trace_cuda, trace_cuda_launcher, why_not
from kernels.trace.cuda_build import host_compiler
from kernels.trace.cuda_library import load

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
GO = 'extern "C" int go(float* out) {{ {} return 0; }}\n'
FILL = "__global__ void fill(float* out) { out[threadIdx.x] = 1; }\n"
SOURCES = {
    "deduced": (
        "template <class T> __global__ void put(T* out, T v) { out[threadIdx.x] = v; }\n"
        + GO.format("put<<<1, 64>>>(out, 3.0f);"),
        3,
    ),
    "a lambda": (
        "template <class F> __global__ void map(F f, float* out) { out[threadIdx.x] = f(threadIdx.x); }\n"
        + GO.format("auto f = [=] __device__(int i) { return i < 64 ? 4.f : 0.f; }; map<<<1, 64>>>(f, out);"),
        4,
    ),
    "overloads": (
        FILL
        + "__global__ void fill(float* out, float v) { out[threadIdx.x] = v; }\n"
        + GO.format("fill<<<1, 64>>>(out); fill<<<1, 64>>>(out, 5.f);"),
        5,
    ),
    "a macro that defines a function": (
        FILL
        + '#define GO(name) extern "C" int name(float* out) { \\\n    fill<<<1, 64>>>(out); return 0; }\n'
        + GO.format("fill<<<1, 64>>>(out);"),
        1,
    ),
    "a digit separator": (
        FILL + GO.format("int n = 1'000; char c = '\"'; fill<<<1, 64>>>(out); if (n == 3 || c == 'x') return 1;"),
        1,
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_launch_is_found_and_runs(name, tmp_path):
    text, value = SOURCES[name]
    (tmp_path / "a.cu").write_text(text)
    out = np.zeros(64, np.float32)
    trace = trace_cuda_launcher("go", [out], source=tmp_path / "a.cu")
    assert trace.result == 0 and (out == value).all() and trace.faults() == []


def test_of_two_kernels_of_one_name_the_namespace_chooses(tmp_path):
    kernel = "namespace {0} {{ __global__ void fill(float* out) {{ out[threadIdx.x] = {1}; }} }}\n"
    (tmp_path / "a.cu").write_text(kernel.format("one", 1) + kernel.format("two", 2))
    for name, value in [("one::fill", 1), ("two::fill", 2)]:
        out = np.zeros(64, np.float32)
        trace_cuda(name, grid=1, block=64, args=[out], source=tmp_path / "a.cu")
        assert (out == value).all()


def test_an_overload_cannot_be_asked_for_by_its_name(tmp_path):
    (tmp_path / "a.cu").write_text(SOURCES["overloads"][0])
    with pytest.raises(NotForHost, match="several kernels fill with other parameters"):
        trace_cuda("fill", grid=1, block=64, args=[np.zeros(64, np.float32)], source=tmp_path / "a.cu")


def test_a_damaged_library_is_named(tmp_path):
    (tmp_path / "a.so").write_bytes(b"\x7fELF\x02")
    with pytest.raises(RuntimeError, match=r"a\.so is damaged .*delete it, and it is compiled again"):
        load(tmp_path / "a.so", "a.cu")


def test_a_compiler_that_dies_is_said_to_have_died(tmp_path, monkeypatch):
    compiler = tmp_path / "g++"
    compiler.write_text(f'#!/bin/sh\ncase "$*" in *-dM*) exec {host_compiler().path} "$@";; esac\nkill -9 $$\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    (tmp_path / "a.cu").write_text("// nobody compiled this before\n" + FILL)
    with pytest.raises(CompileFailed, match=r"g\+\+ died without a message \(signal 9\)"):
        trace_cuda("fill", grid=1, block=64, args=[np.zeros(64, np.float32)], source=tmp_path / "a.cu")
