"""The reports of the guide on profiling: what is kept of a tool that spoke, of one that failed, of a missing one."""

import sys
from pathlib import Path

import pytest
from documents import provenance

from kernels.bench import tool_reports
from kernels.bench.results import ResultsError, hash_today
from kernels.bench.tool_reports import TOOLS, Report, Tool, ToolReports, cleaned, look, read

ROOT = Path(__file__).resolve().parents[2]


def asked(command: str, **named) -> Tool:
    return Tool(**{"key": "k", "name": "n", "program": "", "shows": "s", "command": command, **named})


def test_what_a_command_wrote_is_kept_in_the_order_in_which_it_came(tmp_path):
    code = "import sys; print('first', flush=True); print('second', file=sys.stderr)"
    report = look(asked(f'python -c "{code}"'), root=tmp_path)
    assert (report.status, report.exit_status, report.text) == ("ok", 0, "first\nsecond")
    assert report.seconds > 0


def test_a_failure_and_a_command_that_takes_too_long_are_reports(tmp_path):
    failed = look(asked("echo no such counter; exit 9"), root=tmp_path)
    assert (failed.status, failed.exit_status, failed.text) == ("failed", 9, "no such counter")
    slow = look(asked("echo begun; sleep 1000 | cat", limit_s=5), root=tmp_path)
    assert (slow.status, slow.exit_status, slow.text) == ("too_long", None, "begun")
    assert slow.seconds < 1000  # what the command had started holds its output no longer


@pytest.mark.parametrize(("errors", "status"), [(2, "ok"), (0, "failed")])
def test_a_program_may_end_with_the_fault_that_the_sanitizer_found(tmp_path, errors, status):
    command = f"echo ERROR SUMMARY: {errors} errors; exit 1"
    tool = asked(command, program="compute-sanitizer")
    report = look(tool, find=lambda name: Path(sys.executable), root=tmp_path)
    assert (report.status, report.exit_status) == (status, 1)


def test_a_missing_tool_is_named_and_nothing_is_run(tmp_path):
    report = look(asked("touch ran", program="nsys"), find=lambda name: None, root=tmp_path)
    assert report.status == "missing" and "nsys" in report.text and report.version is None
    assert not (tmp_path / "ran").exists()
    both = asked("nvcc x.cu && compute-sanitizer x", program="compute-sanitizer")
    report = look(both, find=lambda name: None if name == "nvcc" else Path(sys.executable), root=tmp_path)
    assert report.status == "missing" and report.text.startswith("nvcc:")


def test_no_place_of_the_machine_is_kept():
    text = f"{ROOT}/kernels/ops/add.py:7\n\x1b[31mat /usr/lib/python3/site-packages/triton/x.so\x1b[0m 3/4 of a/b"
    assert cleaned(text, ROOT) == "kernels/ops/add.py:7\nat …/x.so 3/4 of a/b"


def test_the_middle_of_a_long_report_is_left_out_and_counted():
    lines = cleaned("\n".join(map(str, range(100))), kept=20).split("\n")
    assert lines[:2] == ["0", "1"] and lines[-1] == "99" and lines[15] == "… 80 lines left out …"
    assert len(lines) == 21


def test_a_document_is_read_as_it_was_written_and_a_changed_kernel_is_stale(tmp_path):
    source = "kernels.ops.softmax:_softmax_rows"
    same = Report(key="a", name="A", shows="s", command="c", status="ok", source=source, source_hash=hash_today(source))
    other = Report(key="b", name="B", shows="s", command="c", status="ok", source=source, source_hash="0" * 16)
    path = tmp_path / "reports.json"
    path.write_bytes(tool_reports.encode(ToolReports(provenance=provenance(), reports=[same, other])))
    found = read(path)
    assert (found.of("a").stale, found.of("b").stale) == (False, True)
    with pytest.raises(KeyError, match="there are a, b"):
        found.of("c")
    path.write_text('{"schema_version": 1}')
    with pytest.raises(ResultsError, match="tool reports"):
        read(path)
    assert read(tmp_path / "none.json") is None


def test_every_command_runs_something_that_is_there():
    assert len({each.key for each in TOOLS}) == len(TOOLS)
    for each in TOOLS:
        for word in each.command.split():
            if word.endswith((".py", ".cu")):
                assert (ROOT / word).is_file(), word
        if each.source:
            assert hash_today(each.source), each.source
