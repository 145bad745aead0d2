"""The host build of CUDA sources: what is rewritten, refused and kept, and what it says where it cannot work."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kernels.sources.closure import project_root
from kernels.trace import cuda, cuda_build
from kernels.trace.cuda_library import Symbol
from kernels.trace.cuda_translate import NotForHost, blanked, translate

needs_compiler = pytest.mark.skipif(cuda.why_not() is not None, reason=str(cuda.why_not()))

SCALE = """#include <cuda_runtime.h>
__global__ void scale(const float* x, float* out, float by) { out[threadIdx.x] = x[threadIdx.x] * by; }
"""


def differing_lines(before, after):
    pairs = zip(before.splitlines(), after.splitlines())
    return [number for number, (a, b) in enumerate(pairs, 1) if a != b]


def test_only_launches_change_and_every_line_stays_where_it_was():
    text = (project_root() / "cuda" / "kernels.cu").read_text()
    changed = differing_lines(text, translate(text, "cuda/kernels.cu").text)
    lines = text.splitlines()
    assert changed == [number for number, line in enumerate(lines, 1) if "<<<" in blanked(line)]
    assert len(changed) >= 5


def test_windows_line_ends_change_nothing():
    text = (project_root() / "cuda" / "kernels.cu").read_text()
    assert translate(text.replace("\n", "\r\n"), "cuda/kernels.cu") == translate(text, "cuda/kernels.cu")


@pytest.mark.parametrize(
    ("launch", "call"),
    [
        ("k<<<1, 32>>>(a);", 'kh_launch("k", __LINE__, k, 1, 32)(a);'),
        ("ns::k<int, 3> <<<dim3(n >> 1), f(a, b), 0, s>>> (a);", None),
        ("k<<<(n + 255) / 256,\n    256>>>(a);", 'kh_launch("k", __LINE__, k, (n + 255) / 256,\n    256)(a);'),
        ('puts("k<<<1, 2>>>()"); // k<<<1, 2>>>()', 'puts("k<<<1, 2>>>()"); // k<<<1, 2>>>()'),
    ],
)
def test_launches(launch, call):
    call = call or 'kh_launch("ns::k<int, 3>", __LINE__, ns::k<int, 3> , dim3(n >> 1), f(a, b), 0, s) (a);'
    text = f"void f() {{\n{launch}\n}}\n"
    translated = translate(text, "a.cu").text
    assert translated.startswith(f"void f() {{\n{call}\n}}\n")


def test_const_is_blanked_in_device_tables_only():
    text = (
        "__constant__ const float a[2] = {1, 2};\nconst int b = 3;\n"
        "static const __device__ int c[1] = {4};\n__device__ const float* f(const float* x);\n"
    )
    lines = translate(text, "a.cu").text.splitlines()
    assert "const float a" not in lines[0] and "a[2] = {1, 2};" in lines[0]
    assert lines[1] == "const int b = 3;"
    assert "const " not in lines[2].replace("__constant__", "")
    assert lines[3] == text.splitlines()[3]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('\n__global__ void k() { asm volatile("bar.sync 0;"); }', "a.cu:2: inline PTX runs on a GPU only"),
        (
            'void f() {\n  asm("wgmma.fence.sync.aligned;"); }',
            "a.cu:2: inline PTX runs on a GPU only, and a Hopper one",
        ),
        ('void f() {\n  asm volatile("cp.async.bulk.wait_all;"); }', "cannot be traced: `cp.async.bulk.wait_all`"),
        ("#include <cuda/barrier>\n", "a.cu:1: the host build has no <cuda/barrier> yet"),
        ("#include <cuda_runtime.h>\n#include <cuda.h>\n", "a.cu:2: the host build has no <cuda.h> yet"),
        ("#include <cooperative_groups/scan.h>\n", "a.cu:1: the host build has no <cooperative_groups/scan.h> yet"),
        ("#include <cudaTypedefs.h>\n", "a.cu:1: the host build has no <cudaTypedefs.h> yet"),
        (
            "\n__global__ void __cluster_dims__(2) k() {}",
            "a.cu:2: `__cluster_dims__`: thread block clusters exist on Hopper",
        ),
        ("\n\n__global__ void k(const CUtensorMap m) {}", "a.cu:3: `CUtensorMap`: tensor maps belong to the copy unit"),
        (
            "void f() { cuda::barrier<cuda::thread_scope_block> b; }",
            "a.cu:1: `cuda::barrier`: the host build has no libcu++",
        ),
        (
            "int f() {\n return cudaLaunchCooperativeKernel(0); }",
            "a.cu:2: `cudaLaunchCooperativeKernel`: the host build",
        ),
    ],
)
def test_what_only_a_gpu_can_run_is_refused_with_its_line(text, words):
    with pytest.raises(NotForHost) as caught:
        translate(text, "a.cu")
    assert words in str(caught.value)
    here = ("mma", "cuda_fp16", "cuda_pipeline", "cooperative_groups", "cooperative_groups/reduce", "cuda_runtime_api")
    translate("// asm volatile in a comment\n" + "".join(f"#include <{name}.h>\n" for name in here), "a.cu")


def test_kernels_of_namespaces_and_templates_are_found_by_name():
    text = (
        "namespace one { namespace { __global__ void k(int* a, float b) {} } }\n"
        "template <typename T, int N>\n__global__ void t(T* a) {}\n"
        'extern "C" int launch(int n = (1, 2)) { return n; }\n__global__ void declared(int);\n'
    )
    found = {f.name: (f.call, f.parameters, f.line, f.kernel) for f in translate(text, "a.cu", "t<float, 2>").functions}
    assert found == {
        "k": ("one::k", ("a", "b"), 1, True),
        "t<float, 2>": ("t<float, 2>", ("a",), 3, True),
        "launch": ("launch", ("n",), 4, False),
    }


def test_extents_of_shared_arrays_are_computed_from_the_files_constants():
    text = "#define PAD 1\nconstexpr int kThreads = 256;\nconstexpr int kWarps = kThreads / 32;\n"
    translation = translate(text, "a.cu")
    assert translation.extent("kWarps") == 8
    assert translation.extent("2 * kWarps + PAD") == 17
    assert translation.extent("sizeof(x)") is None
    assert translation.extent("9 ** 9 ** 9") is None


def test_names_come_out_of_mangled_symbols():
    names = {
        "_ZZ12block_reducefE7scratch_0": ["block_reduce", "scratch"],
        "_ZZN12_GLOBAL__N_15tile2EvE5tile2": ["_GLOBAL__N_1", "tile2", "tile2"],
        "plain": ["plain"],
        "_ZZ2mmILi16EEvPKfS1_PfiiiE1A": ["mm", "A"],
        "_ZZN2ns6nestedILi32ELNS_4KindE11EEEvPfE1s": ["ns", "nested", "Kind", "s"],
        "_ZZ3d16IL4Mode7EfLb1EEvPT0_E1s": ["d16", "Mode", "s"],
        "_ZZ3d19ILin5EEvPfE1s": ["d19", "s"],
        "_ZZ3arrILi16EEvRAT__fPfE4_tmp": ["arr", "_tmp"],
        "_ZZ2k1RA16_fE1s": ["k1", "s"],
        "_ZZZ3d13PfENKUliE1_clEiE1s": ["d13", "s"],
        "_ZL5table": ["table"],
    }
    for mangled, parts in names.items():
        assert Symbol(mangled, 0, 0, True).components == parts


# ---- libraries ----


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project of its own, with the real shim and no library built yet."""
    (tmp_path / "cuda").mkdir()
    shutil.copytree(project_root() / "cuda" / "host", tmp_path / "cuda" / "host")
    (tmp_path / "cuda" / "scale.cu").write_text(SCALE)
    monkeypatch.setenv("KERNEL_LESSONS_ROOT", str(tmp_path))
    return tmp_path


def run_scale(**more):
    out = np.zeros(4, np.float32)
    x = np.arange(4, dtype=np.float32)
    trace = cuda.trace_cuda("scale", grid=1, block=4, args=[x, out, 3.0], source="cuda/scale.cu", **more)
    return out.tolist(), trace


@needs_compiler
def test_a_library_is_built_once_and_again_when_anything_it_is_made_of_changes(project):
    folder = project / "build" / "host"
    assert run_scale()[0] == [0, 3, 6, 9]
    (first,) = folder.glob("*.so")
    stamp = first.stat().st_mtime_ns
    run_scale()
    assert [p.stat().st_mtime_ns for p in folder.glob("*.so")] == [stamp]
    run_scale(replace={"* by": "+ by"})
    assert len(list(folder.glob("*.so"))) == 2
    header = project / "cuda" / "host" / "kh_math.h"
    header.write_text(header.read_text() + "\n")
    run_scale()
    assert len(list(folder.glob("*.so"))) == 3
    assert not list(folder.glob("making-*")) and not list(folder.glob("*.lock"))


@needs_compiler
def test_two_processes_that_build_at_once_both_get_the_library(project):
    code = (
        "import numpy as np; from kernels.trace.cuda import trace_cuda; out = np.zeros(4, np.float32);"
        "trace_cuda('scale', grid=1, block=4, args=[np.ones(4, np.float32), out, 3.0], source='cuda/scale.cu');"
        "print(out.tolist())"
    )
    root = str(Path(__file__).parents[2])
    environment = os.environ | {"PYTHONPATH": root}
    both = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert [process.communicate(timeout=500)[0] for process in both] == ["[3.0, 3.0, 3.0, 3.0]\n"] * 2
    assert len(list((project / "build" / "host").glob("*.so"))) == 1


@needs_compiler
def test_what_a_killed_build_left_is_removed_and_what_others_work_in_is_not(project):
    folder = project / "build" / "host"
    for name in ("making-old", "making-locked", "making-new"):
        (folder / name).mkdir(parents=True)
        (folder / name / "kernels.s").write_text("")
    for name in ("making-old", "making-locked"):
        os.utime(folder / name, (1e9, 1e9))
    code = "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], 0), fcntl.LOCK_EX); print(1, flush=True); input()"
    other = [sys.executable, "-c", code, str(folder / "making-locked")]
    with subprocess.Popen(other, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        run_scale()
        assert sorted(path.name for path in folder.glob("making-*")) == ["making-locked", "making-new"]
        process.kill()
    run_scale(replace={"* by": "+ by"})
    assert [path.name for path in folder.glob("making-*")] == ["making-new"]


@needs_compiler
@pytest.mark.parametrize(
    ("number", "words"), [(errno.ENOSPC, "make room on that disk"), (errno.EROFS, "make that folder writable")]
)
def test_a_full_or_read_only_disk_is_named_with_what_to_do(project, monkeypatch, number, words):
    def refuse(path, *_, **__):
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(cuda.CompileFailed, match=rf"cannot be written: .*scale\.cu: {os.strerror(number)}; {words}"):
        run_scale()


@needs_compiler
def test_a_compiler_that_finds_the_disk_full_is_no_refusal_of_the_source(project, tmp_path, monkeypatch):
    compiler = tmp_path / "g++"
    real = cuda_build.host_compiler().path
    says = f"fatal error: error writing to part.o: {os.strerror(errno.ENOSPC)}"
    compiler.write_text(f'#!/bin/sh\ncase "$*" in *-dM*) exec {real} "$@";; esac\necho "{says}" >&2; exit 1\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(cuda.CompileFailed, match=r"cannot be written: .*make room on that disk"):
        run_scale()


@needs_compiler
def test_an_error_of_the_compiler_names_the_line_of_the_source(project):
    with pytest.raises(cuda.CompileFailed, match=r"cuda/scale\.cu:2:.*nothing_of_the_sort"):
        run_scale(replace={"* by": "* nothing_of_the_sort"})
    assert not list((project / "build" / "host").glob("making-*"))


@needs_compiler
def test_a_row_that_begins_off_the_boundary_is_as_misaligned_as_on_the_gpu():
    x, out = np.arange(9, dtype=np.float32), np.zeros(8, np.float32)
    source = Path(__file__).parents[1] / "trace" / "cuda_sources" / "traps.cu"
    right = cuda.trace_cuda("copy_float4", grid=1, block=2, args=[x[:8], out], source=source)
    assert right.faults() == []
    wrong = cuda.trace_cuda("copy_float4", grid=1, block=2, args=[x[1:], out], source=source)
    assert [f.kind for f in wrong.faults()] == ["misaligned"]


HEADER = """#pragma once
#include "deep/factor.cuh"
__global__ void scale_in_header(const float* x, float* out) {
    __shared__ float line[32];
    extern __shared__ float more[];
    line[threadIdx.x] = x[threadIdx.x];
    more[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = (line[threadIdx.x ^ 1] + more[threadIdx.x ^ 1]) * factor[0];
}
inline int launch_from_header(const float* x, float* out) {
    scale_in_header<<<1, 32, 128>>>(x, out);
    return 0;
}
"""


@needs_compiler
def test_a_files_own_headers_may_have_launches_tables_and_shared_arrays(project):
    (project / "cuda" / "deep").mkdir()
    (project / "cuda" / "deep" / "factor.cuh").write_text("__constant__ const float factor[1] = {1.5f};\n")
    (project / "cuda" / "own.cuh").write_text(HEADER)
    text = (
        '#include "own.cuh"\nextern "C" int launch(const float* x, float* out) { return launch_from_header(x, out); }\n'
    )
    (project / "cuda" / "main.cu").write_text(text)
    x, out = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    trace = cuda.trace_cuda_launcher("launch", [x, out], source="cuda/main.cu")
    assert out.tolist() == (3 * x[np.arange(32) ^ 1]).tolist()
    assert trace.launches[0].kernel == "scale_in_header" and trace.faults() == []
    reads = [(e.buffer, e.element) for e in trace.select(thread=4, what="read")]
    assert reads == [("x", 4), ("x", 4), ("line", 5), ("more", 5), ("factor", 0)]
    assert trace.buffer("factor").space == "constant"
    (project / "cuda" / "deep" / "factor.cuh").write_text("__constant__ const float factor[1] = {2.0f};\n")
    cuda.trace_cuda_launcher("launch", [x, out], source="cuda/main.cu")
    assert out.tolist() == (4 * x[np.arange(32) ^ 1]).tolist()


def test_a_header_that_only_a_gpu_can_run_is_named(project):
    (project / "cuda" / "own.cuh").write_text('\ninline void f() { asm("bar.sync 0;"); }\n')
    (project / "cuda" / "main.cu").write_text('#include "own.cuh"\n' + SCALE)
    with pytest.raises(NotForHost, match=r"own\.cuh:2: inline PTX runs on a GPU only"):
        cuda.trace_cuda("scale", grid=1, block=1, args=[], source="cuda/main.cu")


# ---- machines without ----


def test_windows_is_pointed_to_wsl(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    assert "inside WSL" in cuda.why_not()
    with pytest.raises(cuda.Unavailable):
        cuda_build.host_compiler()


def test_other_systems_are_told_which_ones_it_runs_on(monkeypatch):
    monkeypatch.setattr(sys, "platform", "freebsd14")
    assert cuda.why_not() == "the traced host build of CUDA kernels runs on Linux and macOS; this is freebsd14"


def test_no_compiler_is_a_sentence_with_a_remedy(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt-get install g++" in cuda.why_not()
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(cuda.HostCompilerMissing, match="CXX names no-such-compiler"):
        cuda_build.host_compiler()


def test_importing_the_tracer_needs_neither_torch_nor_triton_nor_a_compiler():
    code = "import sys, kernels.trace.cuda; print(sorted({'torch', 'triton'} & set(sys.modules)))"
    environment = {"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
