"""The build: what makes it compile again, what it refuses, and two processes at once."""

import subprocess
import sys

import pytest

from kernels.cuda import BuildFailed, build, build_portfolio, toolchain
from kernels.cuda.building import sources_of, substitute

# Answers as nvcc does; "compiling" copies the source to the output and writes a line to a log.
FAKE_NVCC = """\
case "$1" in
  --version) echo "release 13.0, V13.0.88"; exit 0;;
  --list-gpu-arch) printf 'compute_80\\ncompute_90\\n'; exit 0;;
  --dryrun) exit 0;;
esac
echo "$*" >> {log}
grep -q BROKEN kernels.cu && {{ echo "kernels.cu(1): error: BROKEN" >&2; exit 2; }}
sleep {seconds}
while [ "$1" != -o ]; do shift; done
cat kernels.cu > "$2"
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with small sources and a fake nvcc; its log has one line per compilation."""
    if sys.platform == "win32":
        pytest.skip("The fake compiler is a shell script.")
    root = tmp_path / "project"
    (root / "cuda").mkdir(parents=True)
    (root / "cuda" / "kernels.cu").write_text("int kernels;\n")
    (root / "cuda" / "library.cu").write_text('#include "kernels.cu"\n')
    (root / "cuda" / "portfolio.cu").write_text('#include "kernels.cu"\n#include "check.cuh"\n')
    (root / "cuda" / "check.cuh").write_text("// checks\n")
    log = tmp_path / "log"
    log.touch()
    nvcc = tmp_path / "nvcc"
    nvcc.write_text("#!/bin/sh\n" + FAKE_NVCC.format(log=log, seconds=0))
    nvcc.chmod(0o755)
    monkeypatch.setenv("CUDACXX", str(nvcc))
    monkeypatch.setenv("KERNEL_LESSONS_ROOT", str(root))
    monkeypatch.setattr("kernels.cuda.building.gpu_architectures", lambda: ())
    return root


def compilations(project):
    return (project.parent / "log").read_text().splitlines()


def test_an_unchanged_library_is_compiled_once(project):
    first = build()
    assert first.parent == project / "build" and first.name.startswith("libkernels_")
    assert build() == first
    assert len(compilations(project)) == 1


def test_changed_sources_flags_or_compiler_make_another_library(project, monkeypatch):
    paths = [build(), build(archs=(80,)), build(replace={"int kernels": "int other"})]
    (project / "cuda" / "kernels.cu").write_text("int changed;\n")
    paths.append(build())
    monkeypatch.setattr(toolchain, "nvcc_version", lambda nvcc: "13.1.0")
    paths.append(build())
    assert len(set(paths)) == len(paths) == len(compilations(project))


def test_a_file_that_is_not_included_changes_nothing(project):
    first = build()
    (project / "cuda" / "check.cuh").write_text("// other checks\n")
    (project / "cuda" / "unrelated.cu").write_text("int unrelated;\n")
    assert build() == first and len(compilations(project)) == 1


def test_the_portfolio_keeps_its_name_and_is_compiled_again_when_stale(project):
    program = build_portfolio()
    assert program == project / "build" / "cuda_portfolio"
    build_portfolio()
    assert len(compilations(project)) == 1
    (project / "cuda" / "check.cuh").write_text("// other checks\n")
    build_portfolio()
    assert len(compilations(project)) == 2
    program.write_text("from another build")
    build_portfolio()
    assert len(compilations(project)) == 3 and program.read_text() == "int kernels;\n"


def test_a_variant_does_not_overwrite_the_portfolio(project):
    program = build_portfolio()
    variant = build_portfolio(replace={"int kernels": "int variant"})
    assert variant != program
    assert (program.read_text(), variant.read_text()) == ("int kernels;\n", "int variant;\n")


def test_the_architectures_reach_the_compiler(project):
    build(archs=(80, 90))
    line = compilations(project)[0]
    assert "-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90" in line
    assert line.count("code=compute_") == 1 and "code=compute_90" in line  # PTX of the newest, for GPUs yet to come
    assert "allow-unsupported" not in line


def test_the_gpu_of_the_machine_decides(project, monkeypatch):
    monkeypatch.setattr("kernels.cuda.building.gpu_architectures", lambda: (90,))
    build()
    assert "code=sm_90" in compilations(project)[0] and "code=sm_80" not in compilations(project)[0]


def test_an_unknown_architecture_names_the_known_ones(project):
    with pytest.raises(ValueError, match=r"nvcc 13\.0\.88 does not compile for sm_70; it compiles for 80, 90\."):
        build(archs=(70,))
    with pytest.raises(ValueError, match="archs is empty"):
        build(archs=())


def test_a_compile_error_is_passed_on_and_leaves_nothing(project):
    (project / "cuda" / "kernels.cu").write_text("BROKEN\n")
    with pytest.raises(BuildFailed, match=r"could not compile cuda/library\.cu:\nkernels\.cu\(1\): error: BROKEN"):
        build()
    assert [path.name for path in (project / "build").iterdir() if not path.name.startswith(".")] == []


def test_sources_that_change_under_the_compiler_are_not_kept(project):
    nvcc = project.parent / "nvcc"
    nvcc.write_text(nvcc.read_text() + "echo 'int saved_by_the_editor;' > kernels.cu\n")
    with pytest.raises(BuildFailed, match="changed while it was compiled; build again"):
        build()
    assert [path.name for path in (project / "build").iterdir() if not path.name.startswith(".")] == []


def test_two_processes_compile_once(project):
    nvcc = project.parent / "nvcc"
    nvcc.write_text("#!/bin/sh\n" + FAKE_NVCC.format(log=project.parent / "log", seconds=1))
    code = "from kernels.cuda import build; print(build(archs=(90,)))"
    started = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    answers = {process.communicate(timeout=500)[0] for process in started}
    assert [process.returncode for process in started] == [0, 0, 0]
    assert len(answers) == 1 and len(compilations(project)) == 1


def test_a_text_that_does_not_occur_is_no_variant():
    sources = {"a.cu": "int x = 1;", "b.cuh": "int y = 1;"}
    assert substitute(sources, {"= 1": "= 2"}) == {"a.cu": "int x = 2;", "b.cuh": "int y = 2;"}
    with pytest.raises(ValueError, match=r"'int z' does not occur in a\.cu, b\.cuh"):
        substitute(sources, {"int z": "int w"})
    with pytest.raises(ValueError, match="nothing to replace"):
        substitute(sources, {"": "x"})


def test_a_missing_source_is_named(tmp_path):
    (tmp_path / "a.cu").write_text('#include "gone.cuh"\n')
    with pytest.raises(FileNotFoundError, match=r"gone\.cuh does not exist"):
        sources_of(tmp_path / "a.cu")
