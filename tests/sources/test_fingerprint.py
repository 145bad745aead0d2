"""A fingerprint changes with what a symbol reaches, and with nothing else."""

from pathlib import Path

import pytest

from kernels.sources import Sources, source_of

HELPER = '''"""Docs."""
SCALE = 2

def double(x):
    """Twice."""
    return x * SCALE  # a comment

def neighbour(x):
    return x
'''
OPERATOR = """from kernels.ops.helper import double
import kernels.ops.helper as helper

def launch(x):
    return double(x)

def through_module(x):
    return helper.double(x)

def unrelated(x):
    return x + 1

def native(x):
    return call("launch_add_one", x)
"""
CUDA = """// The file's comment.
constexpr int kThreads = 256;
static_assert(kThreads % 32 == 0, "whole warps");

// Adds one.
__device__ float plus(float x) { return x + 1.0f; }
__global__ void add_one(float* x) { x[threadIdx.x % kThreads] = plus(x[0]); }
__global__ void neighbour(float* x) { x[0] = 0; }
extern "C" {
int launch_add_one(float* x) { add_one<<<1, kThreads>>>(x); return 0; }
}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for path, text in {
        "kernels/__init__.py": "",
        "kernels/ops/__init__.py": "",
        "kernels/ops/helper.py": HELPER,
        "kernels/ops/operator.py": OPERATOR,
        "cuda/kernels.cu": CUDA,
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def edit(project: Path, path: str, old: str, new: str) -> None:
    file = project / path
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def all_fingerprints(project: Path) -> dict[str, str]:
    names = ["launch", "through_module", "unrelated", "native"]
    references = [f"kernels.ops.operator:{name}" for name in names]
    references += ["cuda/kernels.cu:add_one", "cuda/kernels.cu:neighbour"]
    return {each.rpartition(":")[2]: Sources(project).fingerprint([each]) for each in references}


@pytest.mark.parametrize(
    ("path", "old", "new", "changed"),
    [
        ("kernels/ops/helper.py", "# a comment", "# another comment", set()),
        ("kernels/ops/helper.py", '"""Twice."""', '"""Two times."""', set()),
        ("kernels/ops/helper.py", "    return x\n", "    return -x\n", set()),  # the neighbour
        ("kernels/ops/helper.py", "SCALE = 2", "SCALE = 3", {"launch", "through_module"}),
        ("kernels/ops/helper.py", "x * SCALE", "SCALE + x", {"launch", "through_module"}),
        ("kernels/ops/operator.py", "x + 1", "x + 2", {"unrelated"}),
        ("cuda/kernels.cu", "// Adds one.", "// Adds 1.", set()),
        ("cuda/kernels.cu", "x[0] = 0;", "x[0] = 1;", {"neighbour"}),
        ("cuda/kernels.cu", "x + 1.0f", "x + 2.0f", {"add_one", "native"}),
        ("cuda/kernels.cu", "kThreads = 256", "kThreads = 128", {"add_one", "native"}),
        ("cuda/kernels.cu", "<<<1, kThreads>>>", "<<<2, kThreads>>>", {"add_one", "native"}),
        ("cuda/kernels.cu", '"whole warps"', '"whole warps!"', {"add_one", "native"}),
    ],
)
def test_exactly_the_dependents_change(project, path, old, new, changed):
    before = all_fingerprints(project)
    edit(project, path, old, new)
    after = all_fingerprints(project)
    assert {name for name in before if before[name] != after[name]} == changed


def test_a_name_of_another_file_is_not_what_a_file_defines_itself(project):
    before = all_fingerprints(project)
    (project / "cuda/other.cu").write_text(
        "constexpr int kThreads = 64;\n__device__ int plus(int x) { return x - 1; }\n"
    )
    assert all_fingerprints(project) == before


def test_page_code_reaches_what_it_imports_and_calls(project):
    sources = Sources(project)
    reached = sources.explain_code("from kernels.ops.operator import launch\nprint(launch(1))")
    assert set(reached) == {"kernels.ops.operator:launch", "kernels.ops.helper:double", "kernels.ops.helper:SCALE"}
    dotted = sources.explain_code("import kernels.ops.operator\nkernels.ops.operator.unrelated(1)")
    assert set(dotted) == {"kernels.ops.operator:unrelated"}
    assert "cuda/kernels.cu:plus" in sources.explain_code("compile_cuda('add_one')")


def test_a_module_that_the_text_never_leads_to_counts_whole(project):
    code = "import importlib\nimportlib.import_module('kernels.ops.' + 'helper')"
    reached = Sources(project).explain_code(code, modules=["kernels", "kernels.ops", "kernels.ops.helper"])
    assert {"kernels.ops.helper:double", "kernels.ops.helper:neighbour"} <= set(reached)


def test_imported_only_through_a_reached_module_does_not_count_whole(project):
    modules = ["kernels.ops.operator", "kernels.ops.helper"]
    reached = Sources(project).explain_code("from kernels.ops.operator import unrelated\nunrelated(1)", modules)
    assert set(reached) == {"kernels.ops.operator:unrelated"}


def test_unknown_references_name_what_there_is(project):
    with pytest.raises(KeyError, match=r"defines no 'gone'.*launch"):
        Sources(project).fingerprint(["kernels.ops.operator:gone"])
    with pytest.raises(KeyError, match=r"defines no 'gone'.*add_one"):
        Sources(project).fingerprint(["cuda/kernels.cu:gone"])
    with pytest.raises(KeyError, match="no project module"):
        Sources(project).fingerprint(["numpy:array"])


def test_a_snippet_is_the_symbol_with_the_comment_above_it(project):
    snippet = source_of("cuda/kernels.cu:plus", project)
    assert snippet.text.splitlines()[0] == "// Adds one."
    assert snippet.text.splitlines()[-1].startswith("__device__ float plus")
    assert (snippet.path, snippet.first_line, snippet.last_line) == ("cuda/kernels.cu", 5, 6)
    python = source_of("kernels.ops.helper:double", project)
    assert python.text.startswith("def double") and python.language == "python" and python.first_line == 4


def test_a_snippet_of_a_name_that_was_bound_beside_others(project):
    text = "# Both are tuned.\nROWS, (WARPS, *REST) = 4, (8, 1)\nBIAS: float = 0.5\n"
    (project / "kernels" / "tile.py").write_text(text)
    for name in ("ROWS", "WARPS", "REST"):
        assert source_of(f"kernels.tile:{name}", project).text == "# Both are tuned.\nROWS, (WARPS, *REST) = 4, (8, 1)"
    assert source_of("kernels.tile:BIAS", project).text == "BIAS: float = 0.5"


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("kernels.ops.operator:double", r"`from kernels\.ops\.helper import double`; name the module that defines it"),
        ("kernels.ops.operator:helper", r"`import kernels\.ops\.helper as helper`"),
        ("kernels.ops.operator:launch,double", "does not define 'double'"),
        ("kernels.choice:FAST", "inside another statement"),
        ("kernels.ops.operator:", "names no symbol"),
        ("cuda/kernels.cu:", "names no symbol"),
        ("kernels.nothing:", "names no symbol"),
        ("kernels.latin:x", "not UTF-8"),
        ("kernels/latin.py", "not UTF-8"),
    ],
)
def test_a_snippet_that_cannot_be_taken_is_a_sentence(project, reference, said):
    (project / "kernels" / "choice.py").write_text("if True:\n    FAST = 1\n")
    (project / "kernels" / "latin.py").write_bytes(b"x = '\xe9'\n")
    with pytest.raises(KeyError, match=said):
        source_of(reference, project)


def test_windows_line_ends_change_nothing(project):
    before = all_fingerprints(project)
    for path in ("cuda/kernels.cu", "kernels/ops/helper.py", "kernels/ops/operator.py"):
        file = project / path
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert all_fingerprints(project) == before


def test_a_fingerprint_is_the_same_under_every_python(project):
    """Records are taken under one version and judged under others. This text was 3.11's, 3.12's and 3.13's."""
    assert Sources(project).fingerprint(["kernels.ops.operator:launch"]) == "3fad736978438337"


def test_a_name_that_a_module_only_passes_on_has_a_fingerprint(project):
    (project / "kernels/ops/__init__.py").write_text("from kernels.ops.operator import launch\n")
    assert Sources(project).explain(["kernels.ops:launch"]) == Sources(project).explain(["kernels.ops.operator:launch"])


def test_what_an_earlier_block_imported_by_name_does_not_count_whole_for_a_later_one(project):
    codes = ["from kernels.ops.operator import unrelated", "print(unrelated(1))"]
    modules = ["kernels.ops", "kernels.ops.helper", "kernels.ops.operator"]
    sources = Sources(project)
    assert sources.unexplained(codes, modules) == []
    assert sources.unexplained(codes[1:], modules) == modules  # by itself, its text leads nowhere
    assert sources.explain_code(codes[1]) == {}


def test_shell_code_reaches_what_it_names(project):
    sources = Sources(project)
    assert "cuda/kernels.cu:plus" in sources.explain_shell("make it  # stands on cuda/kernels.cu:add_one")
    assert "kernels.ops.operator:unrelated" in sources.explain_shell("python -m kernels.ops.operator --quick")
    (project / "tool.py").write_text("from kernels.ops.operator import launch\nlaunch(1)\n")
    (project / "data.txt").write_text("1")
    before = sources.explain_shell("python tool.py <data.txt")
    assert {"kernels.ops.helper:double", "file data.txt"} <= set(before)
    (project / "data.txt").write_text("2")
    assert Sources(project).explain_shell("python tool.py <data.txt") != before
    assert sources.explain_shell("echo hi; ls nowhere.py") == {}


def test_a_program_stands_on_the_commands_of_the_application_that_it_starts(project):
    (project / "kernels/command.py").write_text(
        "from kernels.ops.operator import unrelated\n\napp = object()\n\n\n"
        "@app.command()\ndef main():\n    unrelated()\n\n\ndef of_nobody():\n    pass\n"
    )
    (project / "tool.py").write_text("from kernels.command import app\n\napp()\n")
    found = Sources(project).explain_shell("python tool.py --quick")
    assert {"kernels.command:app", "kernels.command:main", "kernels.ops.operator:unrelated"} <= found.keys()
    assert "kernels.command:of_nobody" not in found
