"""Blocks of a page share a session unless they name one; what comes after a failure is not run, elsewhere it is."""

import os
import select
import sys

import pytest
from lessons_project import Project, fence, marks

from kernels.lessons import machine, runner


def test_the_default_session_is_shared_and_a_named_one_is_its_own(project):
    project.page(
        "index",
        "# P\n\n"
        + fence("n = 1\nprint(n)", "a")
        + fence("n = 100\nprint(n)", 'b session="other"')
        + fence("n += 1\nprint(n)", "c")
        + fence("print(n, 'm' in globals())", 'd session="other"')
        + "It is `#!value n`.\n",
    )
    project.page("second", "# S\n\n" + fence("print('n' in globals())", "e"))
    assert project.lessons("accept").status == 0
    texts = {name: data.decode() for name, data in project.accepted().items() if name.endswith("txt")}
    assert texts == {
        "index/a.txt": "1\n",
        "index/b.txt": "100\n",
        "index/c.txt": "2\n",
        "index/d.txt": "100 False\n",
        "index/inline.txt": "n => 2\n",
        "second/e.txt": "False\n",
    }


def test_after_a_failure_its_session_is_not_run_and_others_are(project):
    project.page(
        "index",
        "# P\n\n"
        + fence("raise ValueError('planted')", "a")
        + fence(marks("b"), "b")
        + fence(marks("c"), 'c session="other"')
        + fence(marks("d"), "d")
        + "And `#!value 1 + 1`.\n",
    )
    done = project.lessons("verify")
    assert done.status == 1 and project.ran() == ["c"]
    assert done.text.count("not run: block 'a'") == 1
    assert "    and 2 more blocks and values of index.md\n" in done.text
    assert "4 blocks on 1 page:" in done.text and "5 faults" in done.text
    assert "docs/index.md:4: failed [a]: ValueError: planted" in done.text
    assert "docs/index.md:6: failed [b]: not run: block 'a' before it failed" in done.text
    assert "failed [c]" not in done.text


def test_a_line_number_between_colons_is_no_emoji(project):
    project.page("index", "# P\n" + "\n" * 97 + fence("raise ValueError('planted')", "a"))
    assert "docs/index.md:100: failed [a]: ValueError: planted" in project.lessons("verify").text


def test_after_a_crash_the_rest_of_the_page_says_why_it_was_not_run(project):
    project.page(
        "index", "# P\n\n" + fence("import os; os._exit(3)", "a") + fence(marks("b"), "b") + "And `#!value 1 + 1`.\n"
    )
    project.page("other", "# O\n\n" + fence(marks("c"), "c"))
    done = project.lessons("verify")
    assert project.ran() == ["c"]
    assert "docs/index.md:3: failed [a]: the block ended the process with status 3" in done.text
    assert "docs/index.md:6: failed [b]: the block was not run: a stopped the page" in done.text
    assert "docs/index.md:9: failed: the inline value was not run: a stopped the page" in done.text


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no named pipes to hold open")
def test_what_a_block_leaves_running_does_not_outlive_the_page(project):
    """Each child holds a named pipe open, which is at its end when nobody does any more.

    The blocks open it themselves: a pipe that nobody has opened yet is not at its end."""
    for name in ("python", "shell"):
        os.mkfifo(project.root / name)
    reads = [os.open(project.root / name, os.O_RDONLY | os.O_NONBLOCK) for name in ("python", "shell")]
    code = "import subprocess\nsubprocess.Popen(['sleep', '1000'], stdout=open('python', 'w'))"
    project.page(
        "index", "# P\n\n" + fence(code, "a") + fence("exec 3> shell; (sleep 1001 >&3 &) ; echo started", "b", "bash")
    )
    try:
        done = project.lessons("verify")
        assert "0 failed" in done.text, done.text
        for descriptor in reads:
            look = select.poll()
            look.register(descriptor)
            assert look.poll(400_000) == [(descriptor, select.POLLHUP)], "the block's child is still running"
    finally:
        for descriptor in reads:
            os.close(descriptor)


def test_functions_of_a_page_have_a_source_with_the_pages_lines(project):
    code = (
        "import inspect, sys\n\ndef f(x):\n    return x + 1\n\n"
        "print(inspect.getsource(f), end='')\nprint(f.__code__.co_firstlineno, inspect.getfile(f).endswith('.md'))\n"
        "import pickle\nprint(pickle.loads(pickle.dumps(f))(1), sys.modules[f.__module__].f is f)"
    )
    shifted = "".join(f"    {line}\n" for line in fence(code, "inner").splitlines())
    project.page("index", f"---\ntitle: x\n---\n\n# P\n\n{fence(code, 'outer')}\n!!! note\n\n{shifted}\n")
    done = project.lessons("accept")
    assert done.status == 0, done.text
    lines = project.read("docs/index.md").splitlines()
    first = [number for number, line in enumerate(lines, 1) if line.strip() == "def f(x):"]
    for name, number in zip(("outer", "inner"), first):
        text = project.accepted()[f"index/{name}.txt"].decode()
        assert text == f"def f(x):\n    return x + 1\n{number} True\n2 True\n"


KERNEL = """\
import torch
import triton
import triton.language as tl

@triton.jit
def _double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=mask), mask=mask)
"""


@pytest.mark.triton
@pytest.mark.slow
def test_a_kernel_defined_on_a_page_runs_interpreted_and_compiles(project, monkeypatch):
    """The decorator reads the function's source: Triton must find it, in the page, also inside a list."""
    pytest.importorskip("triton")
    run = "x = torch.arange(5.0)\nout = torch.full((8,), -1.0)\n_double[(2,)](x, out, 5, BLOCK=4)\nprint(out.tolist())"
    # The worker of GPU blocks, where nothing is interpreted; compiling for a named GPU needs none.
    monkeypatch.setattr(machine.Machine, "gpu", machine.Ability(label="a named GPU"))
    compiled = (
        KERNEL + "from triton.backends.compiler import GPUTarget\n"
        "from triton.compiler import ASTSource\n"
        "signature = {'x_ptr': '*fp32', 'out_ptr': '*fp32', 'n': 'i32', 'BLOCK': 'constexpr'}\n"
        "source = ASTSource(_double, signature, constexprs={'BLOCK': 128})\n"
        "made = triton.compile(source, target=GPUTarget('cuda', 90, 32))\n"
        "print('.target sm_90' in made.asm['ptx'], 'def _double' in _double.src, 'compiled.md\":' in made.asm['ttir'])"
    )
    shifted = "".join(f"    {line}\n" for line in fence(KERNEL + run, 'run needs="triton"').splitlines())
    project.page("index", f"# P\n\n- item\n\n{shifted}\n")
    project.page("compiled", "# C\n\n" + fence(compiled, 'made needs="gpu"'))
    done = project.lessons("accept")
    assert done.status == 0, done.text
    assert project.accepted()["index/run.txt"] == b"[0.0, 2.0, 4.0, 6.0, 8.0, -1.0, -1.0, -1.0]\n"
    assert project.accepted()["compiled/made.txt"] == b"True True True\n"


def test_systems_without_fork_run_the_same(project: Project, monkeypatch):
    monkeypatch.setattr(runner, "_CAN_FORK", False)
    project.page(
        "index",
        "# P\n\n" + fence("import os\nprint(7)\nos.system('echo 8')", "a") + "`#!value 3 * 3`\n",
    )
    project.page("slow", "# P\n\n" + fence("import time\ntime.sleep(60)", 'a timeout="0.5"'))
    project.page("crash", "# P\n\n" + fence("import ctypes\nctypes.string_at(0)", "a"))
    done = project.lessons("accept")
    assert project.accepted()["index/a.txt"] == b"7\n8\n" and project.accepted()["index/inline.txt"] == b"3 * 3 => 9\n"
    assert "docs/slow.md:3: failed [a]: the block passed its time limit of 0.5 s" in done.text
    assert "docs/crash.md:3: failed [a]: the block was ended by SIGSEGV" in done.text


def test_what_one_session_does_to_the_process_no_other_sees(project):
    leaves = "import os, sys, io\nos.environ['LEAK'] = '1'\nos.chdir('docs')\nsys.stdout = io.StringIO()\nprint('lost')"
    look = "import os\nprint(os.environ.get('LEAK'), os.path.basename(os.getcwd()))"
    page = fence(leaves, 'a session="one"') + fence(look, 'b session="two"') + fence(look, 'c session="one"')
    project.page("index", "# P\n\n" + page)
    assert project.lessons("accept").status == 0
    texts = {name: data.decode() for name, data in project.accepted().items() if name.endswith("txt")}
    assert texts == {"index/a.txt": "\n", "index/b.txt": f"None {project.root.name}\n", "index/c.txt": "1 docs\n"}


def test_sessions_that_are_named_alike_have_modules_of_their_own(project):
    code = "import pickle\ndef f():\n    return {name!r}\nprint(f.__module__)"
    look = "print(pickle.loads(pickle.dumps(f))())"
    names = ("", "default", "a-b", "a_b", "plain")
    blocks = [(each, fence(code.format(name=each), f'made{n} session="{each}"')) for n, each in enumerate(names)]
    used = [fence(look, f'used{n} session="{each}"') for n, each in enumerate(names)]
    project.page("index", "# P\n\n" + "".join([text for _, text in blocks] + used))
    done = project.lessons("accept")
    assert done.status == 0, done.text
    texts = {name: data.decode() for name, data in project.accepted().items() if name.endswith("txt")}
    assert [texts[f"index/used{n}.txt"] for n in range(5)] == [f"{each}\n" for each in names]
    assert texts["index/made0.txt"] == "lesson_page_default\n" and texts["index/made4.txt"] == "lesson_page_plain\n"
