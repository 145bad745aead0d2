"""Which compiler is found, and what is said when there is none or when it does not fit."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.cuda import CompilerMissing, compiler, toolchain
from kernels.cuda.__main__ import main

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="The fake compilers are shell scripts.")


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def fake_nvcc(folder, version="13.0.88"):
    short = ".".join(version.split(".")[:2])
    return script(folder / "nvcc", f'[ "$1" = --version ] && echo "release {short}, V{version}"; exit 0')


def fake_host(path, macros):
    lines = "\n".join(f"#define {name} {value}" for name, value in macros.items())
    return script(path, f"cat <<'END'\n{lines}\nEND")


def gnu(path, major):
    return fake_host(path, {"__GNUC__": major, "__GNUC_MINOR__": 1, "__GNUC_PATCHLEVEL__": 0})


HOST_CONFIG = """\
#if defined(__GNUC__)
#if __GNUC__ > 15
#error -- unsupported GNU version!
#endif
#if defined(__clang__) && !defined(__HORIZON__)
#if (__clang_major__ >= 21) || (__clang_major__ < 3)
#error -- unsupported clang version!
"""


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A machine with an empty PATH, no toolkit and no wheel; `bare` is the folder on PATH."""
    for name in ("CUDACXX", "CUDA_HOME", "CUDA_PATH", "CUDAHOSTCXX", "NVCC_CCBIN"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "path"
    path.mkdir()
    for tool in ("cat", "sh"):
        (path / tool).symlink_to(shutil.which(tool))
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setattr(toolchain, "wheel_folders", lambda: [])
    exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda self: not str(self).startswith("/usr/local/cuda") and exists(self))
    return path


@pytest.fixture
def wheel(bare, monkeypatch, tmp_path):
    """The same machine with a complete fake wheel and a g++ 12."""
    home = tmp_path / "nvidia" / "cu13"
    fake_nvcc(home / "bin")
    for name in ("include/cuda_runtime.h", "nvvm/bin/cicc", "lib/libcudart_static.a"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch()
    (home / "include" / "crt").mkdir()
    (home / "include" / "crt" / "host_config.h").write_text(HOST_CONFIG)
    monkeypatch.setattr(toolchain, "wheel_folders", lambda: [home])
    gnu(bare / "g++", 12)
    return home


def test_no_nvcc_says_how_to_get_one(bare):
    with pytest.raises(CompilerMissing, match=r'no nvcc.*pip install "cuda-toolkit\[.*nvcc.*\]==13\.0\.2"'):
        compiler()


def test_macos_has_no_compiler_to_install(bare, monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(CompilerMissing, match="no CUDA compiler for macOS"):
        compiler()


def test_the_command_ends_with_three(bare, capsys):
    assert main(["portfolio"]) == 3
    assert "There is no nvcc" in capsys.readouterr().err


def test_the_wheel_comes_before_path_and_brings_its_folders(wheel, bare):
    fake_nvcc(bare, "12.0.1")
    found = compiler()
    assert (found.origin, found.version) == ("wheel", "13.0.88")
    assert found.flags == ["-ccbin", str(bare / "g++"), f"-I{wheel / 'include'}", f"-L{wheel / 'lib'}"]
    assert str(wheel) in str(found) and "g++ 12.1.0" in str(found)
    assert found.identity == "nvcc 13.0.88, g++ 12.1.0"  # no path: two machines with the same tools agree


def test_cudacxx_comes_before_the_wheel(wheel, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDACXX", str(fake_nvcc(tmp_path / "chosen", "12.9.86")))
    found = compiler()
    assert (found.origin, found.version, found.include, found.library) == ("CUDACXX", "12.9.86", None, None)


def test_a_wrong_cudacxx_is_named(wheel, monkeypatch):
    monkeypatch.setenv("CUDACXX", "/nowhere/nvcc")
    with pytest.raises(CompilerMissing, match="CUDACXX names /nowhere/nvcc"):
        compiler()


def test_cuda_home_comes_before_path(bare, tmp_path, monkeypatch):
    gnu(bare / "g++", 12)
    fake_nvcc(bare, "12.0.1")
    fake_nvcc(tmp_path / "toolkit" / "bin", "13.0.48")
    assert (compiler().origin, compiler().version) == ("PATH", "12.0.1")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    assert (compiler().origin, compiler().version) == ("CUDA_HOME", "13.0.48")


@pytest.mark.parametrize("needed", ["include/cuda_runtime.h", "include/crt/host_config.h", "nvvm/bin/cicc"])
def test_an_incomplete_wheel_names_what_is_missing(wheel, needed):
    (wheel / needed).unlink()
    with pytest.raises(CompilerMissing, match=f"not complete: {needed} is missing. Run `pip install"):
        compiler()


def test_an_nvcc_that_does_not_run_is_no_compiler(bare):
    gnu(bare / "g++", 12)
    script(bare / "nvcc", "exit 1")
    with pytest.raises(CompilerMissing, match="no working nvcc"):
        compiler()


def test_no_host_compiler_says_how_to_get_one(wheel, bare):
    (bare / "g++").unlink()
    with pytest.raises(CompilerMissing, match=r"no g\+\+ on PATH.*CUDAHOSTCXX"):
        compiler()


def test_a_host_compiler_that_is_too_new_names_both_versions(wheel, bare, tmp_path):
    (bare / "g++").unlink()
    gnu(bare / "g++", 16)
    with pytest.raises(CompilerMissing) as caught:
        compiler()
    message = str(caught.value)
    assert message.startswith(f"nvcc 13.0.88 accepts g++ up to version 15, and {bare / 'g++'} is version 16.1.0. ")
    assert "choose it with CUDAHOSTCXX=g++-15" in message
    assert "allow-unsupported" not in message  # overriding the check builds what nobody supports


def test_an_older_one_that_is_installed_is_suggested(wheel, bare):
    (bare / "g++").unlink()
    gnu(bare / "g++", 16)
    gnu(bare / "g++-13", 13)
    with pytest.raises(CompilerMissing, match=rf"CUDAHOSTCXX={bare}/g\+\+-13\."):
        compiler()


@pytest.mark.parametrize("variable", ["CUDAHOSTCXX", "NVCC_CCBIN"])
def test_the_host_compiler_can_be_chosen(wheel, bare, tmp_path, monkeypatch, variable):
    (bare / "g++").unlink()
    gnu(bare / "g++", 16)
    monkeypatch.setenv(variable, str(gnu(tmp_path / "older-g++", 14)))
    assert compiler().host.version == "14.1.0"
    monkeypatch.setenv(variable, "/nowhere/g++")
    with pytest.raises(CompilerMissing, match=f"{variable} names /nowhere/g"):
        compiler()


@pytest.mark.parametrize(("major", "accepted"), [(20, True), (21, False)])
def test_clang_has_a_limit_of_its_own(wheel, tmp_path, monkeypatch, major, accepted):
    macros = {"__GNUC__": 4, "__clang_major__": major, "__clang_minor__": 0, "__clang_patchlevel__": 0}
    monkeypatch.setenv("CUDAHOSTCXX", str(fake_host(tmp_path / f"clang{major}" / "clang++", macros)))
    if accepted:
        assert str(compiler().host) == "clang++ 20.0.0"
    else:
        with pytest.raises(CompilerMissing, match=r"clang\+\+ up to version 20, and .* is version 21"):
            compiler()


def test_importing_needs_no_tool_and_no_torch():
    code = "import sys, kernels.cuda, kernels.inspect; print(sorted({'torch', 'triton', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env={"PATH": ""})
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.nvcc
def test_the_real_limits_are_read_from_the_real_headers():
    found = compiler()
    home = found.nvcc.resolve().parents[1]
    if not (home / "include" / "crt" / "host_config.h").exists():
        pytest.skip("The toolkit's headers are not beside nvcc.")
    assert toolchain.host_limit(home / "include", "g++") >= 12
    assert toolchain.host_limit(home / "include", "clang++") >= 15


@pytest.mark.nvcc
def test_a_launcher_script_on_path_leads_to_the_same_headers(tmp_path):
    real = compiler()
    launcher = script(tmp_path / "nvcc", f'exec {real.nvcc} "$@"')
    found = toolchain._headers_of(launcher)
    assert found is not None and toolchain.host_limit(found, "g++") >= 12


# ---- CMake -----------------------------------------------------------------------------------------------------------


def configure(folder, python=sys.executable, **environment):
    if shutil.which("cmake") is None or shutil.which("c++") is None:
        pytest.skip("There is no CMake or no C++ compiler to configure with.")
    done = subprocess.run(
        ["cmake", "-S", ROOT, "-B", folder, f"-DKERNELS_PYTHON={python}"],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    return done.returncode, " ".join(done.stderr.split())


@pytest.mark.nvcc
def test_cmake_stops_with_both_versions(tmp_path):
    status, words = configure(tmp_path / "build", CUDAHOSTCXX=str(gnu(tmp_path / "g++", 99)))
    assert status != 0
    assert f"nvcc {compiler().version} accepts g++ up to version" in words and "is version 99.1.0" in words
    assert "CUDAHOSTCXX=" in words


def test_cmake_passes_on_why_there_is_no_compiler(tmp_path):
    python = script(tmp_path / "python", "echo 'There is no nvcc: a sentence from kernels.cuda.' >&2; exit 3")
    status, words = configure(tmp_path / "build", python)
    assert status != 0
    assert "There is no nvcc: a sentence from kernels.cuda." in words


def test_no_build_file_overrides_the_check():
    for path in [ROOT / "CMakeLists.txt", *(ROOT / "kernels" / "cuda").glob("*.py")]:
        assert "allow-unsupported" not in path.read_text(encoding="utf-8"), path
