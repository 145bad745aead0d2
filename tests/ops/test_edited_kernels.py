"""Edits of what a kernel calls or reads, with one cache folder kept: the old machine code must not come back."""

import os
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("triton")

KERNEL = """
    import sys
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    FACTOR = tl.constexpr(3)
    PLAIN = 3

    @triton.jit
    def scaled(x):
        return x * 5

    @triton.jit
    def shifted(x):
        return x + 70

    @triton.jit
    def kernel(x_ptr, WAY: tl.constexpr):
        x = tl.load(x_ptr)
        if WAY == "scaled":
            x = scaled(x)
        else:
            x = shifted(x)
        tl.store(x_ptr, x + FACTOR)

    source = ASTSource(kernel, {"x_ptr": "*i32", "WAY": "constexpr"}, {"WAY": sys.argv[1]})
    print(triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ttir"])
"""


def compiled(tmp_path, text: str, way: str = "scaled") -> subprocess.CompletedProcess[str]:
    (tmp_path / "edited.py").write_text(textwrap.dedent(text))
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    return subprocess.run(
        [sys.executable, str(tmp_path / "edited.py"), way],
        env=environment | {"TRITON_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


def numbers(done: subprocess.CompletedProcess[str]) -> set[int]:
    """The integers that the compiled kernel holds."""
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line for line in done.stdout.splitlines() if "arith.constant" in line and "i32" in line]
    return {int(line.split("arith.constant")[1].split()[0].removeprefix("dense<").partition(">")[0]) for line in lines}


def test_an_edited_helper_and_an_edited_constant_are_compiled_anew(tmp_path):
    assert numbers(compiled(tmp_path, KERNEL)) == {5, 3}
    assert numbers(compiled(tmp_path, KERNEL.replace("x * 5", "x * 9"))) == {9, 3}
    assert numbers(compiled(tmp_path, KERNEL.replace("constexpr(3)", "constexpr(11)"))) == {5, 11}
    assert numbers(compiled(tmp_path, KERNEL.replace("x + 70", "x + 80"), "shifted")) == {83}  # the sum of both, folded
    assert numbers(compiled(tmp_path, KERNEL, "shifted")) == {73}
    assert numbers(compiled(tmp_path, KERNEL)) == {5, 3}  # and back: what was kept for this text


def test_a_plain_global_is_refused_by_the_compiler(tmp_path):
    done = compiled(tmp_path, KERNEL.replace("x + FACTOR", "x + PLAIN"))
    assert done.returncode != 0 and "Cannot access global variable PLAIN" in done.stderr
