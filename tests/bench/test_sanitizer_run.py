"""The run of the sanitizers over stand-ins: verdicts, plants, hangs, deaths, time; the reader of the tools' text."""

import json
import stat
import sys
import time
from pathlib import Path

import pytest

from kernels.bench.sanitizer.paths import KernelPath
from kernels.bench.sanitizer.plants import TOOLS
from kernels.bench.sanitizer.record import UNREPORTED
from kernels.bench.sanitizer.reports import is_finding, read_log
from kernels.bench.sanitizer.run import NO_TIME, NOT_ASKED, Attempt, Limits, _lane, _shards, run, settle, tool_command

STAND_INS = Path(__file__).with_name("sanitizer_stand_ins.py")
PATHS = [
    KernelPath("softmax", "block", "float32", tuple, tuple, "source:a"),
    KernelPath("softmax", "split", "float32", tuple, tuple, "source:a"),
    KernelPath("add", "flat", "float32", tuple, tuple, "source:b"),
    KernelPath("CUDA", "softmax_online", "float32", tuple, tuple, "source:c", cuda="softmax_online"),
]


@pytest.fixture
def sanitizer(tmp_path):
    path = tmp_path / "compute-sanitizer"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STAND_INS}" tool "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def play(monkeypatch, tmp_path, sanitizer, scenario, total=250.0, stall=60.0, **more):
    monkeypatch.setenv("SCENARIO", json.dumps(scenario))
    limits = Limits(total=total, stall=stall, start=100.0, jobs=2, worker=(sys.executable, str(STAND_INS), "worker"))
    records, other = run(PATHS, range(len(PATHS)), sanitizer, limits, lambda _: "hash", tmp_path / "logs", **more)
    return {(r.way, c.tool): c for r in records for c in r.checks}, records, other


def test_clean_paths_whose_plants_were_reported(monkeypatch, tmp_path, sanitizer):
    checks, records, other = play(monkeypatch, tmp_path, sanitizer, {})
    assert other == dict.fromkeys(TOOLS, 0)
    assert records[1].kernels == ["_parts", "_finish"]
    for tool in TOOLS:
        for way in ("block", "split", "softmax_online"):
            assert checks[way, tool].state == "proved", (way, tool, checks[way, tool])
        assert [plant.state for plant in checks["split", tool].plants] == ["reported", "reported"]
    assert checks["flat", "memcheck"].state == "proved"
    assert checks["flat", "racecheck"].state == "nothing to see"
    assert checks["flat", "racecheck"].plants[0].reason == "The kernel has no shared memory."
    assert checks["block", "racecheck"].plants[0].report.startswith("Error: Race reported between Write access")


def test_a_report_on_a_path_and_a_plant_that_is_missed(monkeypatch, tmp_path, sanitizer):
    scenario = {"racecheck clean": [[0, "report"]], "memcheck plant": [[1, "blind"]], "none warm": [[2, "error"]]}
    checks, _, _ = play(monkeypatch, tmp_path, sanitizer, scenario)
    assert checks["block", "racecheck"].state == "no" and "Race reported" in checks["block", "racecheck"].reports[0]
    assert checks["block", "memcheck"].state == "proved"
    assert checks["split", "memcheck"].state == "blind"
    assert {plant.reason for plant in checks["split", "memcheck"].plants} == {UNREPORTED}
    assert checks["flat", "memcheck"].state == "not run" and checks["flat", "memcheck"].reason == "RuntimeError: no"


def test_only_the_checks_that_were_asked_for_are_run(monkeypatch, tmp_path, sanitizer):
    checks, _, _ = play(
        monkeypatch, tmp_path, sanitizer, {}, asked=lambda path, tool: (path.way, tool) == ("split", "synccheck")
    )
    assert checks["split", "synccheck"].state == "proved"
    assert {(c.clean, c.reason) for key, c in checks.items() if key != ("split", "synccheck")} == {
        ("not run", NOT_ASKED)
    }
    ran = {folder.name.rpartition("-")[0] for folder in (tmp_path / "logs").iterdir()}
    assert ran == {"none-warm", "synccheck-clean", "synccheck-plant"}
    for file in (tmp_path / "logs").glob("synccheck-*/*/tasks.json"):
        assert {place for place, _ in json.loads(file.read_text())} == {1}


def test_a_path_that_hangs_or_ends_its_process_does_not_stop_the_others(monkeypatch, tmp_path, sanitizer):
    scenario = {"synccheck clean": [[0, "hang"]], "initcheck plant": [[1, "die"]]}
    checks, _, _ = play(monkeypatch, tmp_path, sanitizer, scenario, stall=8.0)
    assert checks["block", "synccheck"].state == "not run"
    assert "said nothing for" in checks["block", "synccheck"].reason
    assert {plant.state for plant in checks["split", "initcheck"].plants} == {"not run"}
    for way in ("split", "softmax_online"):
        assert checks[way, "synccheck"].state == "proved"
    assert checks["block", "initcheck"].state == "proved"


def test_what_the_time_did_not_suffice_for_is_not_run(monkeypatch, tmp_path, sanitizer):
    everything = [[place, "hang"] for place in range(4)]
    scenario = {f"{tool} clean": everything for tool in TOOLS}
    checks, _, _ = play(monkeypatch, tmp_path, sanitizer, scenario, total=6.0)
    assert {check.state for check in checks.values()} == {"not run"}
    assert checks["flat", "memcheck"].reason == NO_TIME


def test_a_tool_that_does_not_start_is_not_a_pass(monkeypatch, tmp_path):
    tool = tmp_path / "compute-sanitizer"
    tool.write_text("#!/bin/sh\necho Device not supported\nexit 1\n")
    tool.chmod(0o755)
    checks, _, _ = play(monkeypatch, tmp_path, str(tool), {})
    assert {check.state for check in checks.values()} == {"not run"}
    assert "Device not supported" in checks["block", "memcheck"].reason


def test_the_command_asks_for_every_report():
    command, other = (tool_command("compute-sanitizer", "memcheck", Path("log")) for _ in range(2))
    assert command[command.index("--port") + 1] != other[other.index("--port") + 1]
    words = " ".join(command)
    assert "--tool memcheck" in words and "--print-limit 0" in words and "--destroy-on-device-error kernel" in words


TEXT = """========= COMPUTE-SANITIZER
loading
========= Invalid __global__ write of size 4 bytes
=========     at _add__p12+0x350 in add.py:44
=========     by thread (0,0,0) in block (1,0,0)
=========     Access at 0x7f2c7de00bfc is out of bounds
=========
========= Error: Race reported between Write access at void block_reduce<float>(float)+0x90 in kernels.cu:169
=========     and Read access at void block_reduce<float>(float)+0xa0 in kernels.cu:177 [2048 hazards]
=========         Device Frame: softmax_parallel(const float *, float *, long)+0x400 in kernels.cu:190
=========
========= Info: Race reported between Write access at _rows__p1+0x90 in a.py:1
=========
========= Barrier error detected. Divergent thread(s) in warp.
=========     at _rows__p1+0xb0 in a.py:20
========= Uninitialized __global__ memory read of size 4 bytes
=========     at _rows__p10+0x70 in a.py:41
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call
========= ERROR SUMMARY: 5 errors
"""


def test_reports_are_told_apart_and_name_their_kernels():
    log = read_log(TEXT)
    assert log.complete and log.summary == 5
    assert [report.headline.split()[0] for report in log.reports] == [
        "Invalid", "Error:", "Info:", "Barrier", "Uninitialized", "Program"
    ]  # fmt: skip
    first, race, info, barrier, uninitialized, _ = log.reports
    assert first.names("_add__p12") and not first.names("_add__p1")
    assert race.names("softmax_parallel") and not race.names("softmax")
    assert not is_finding(info) and is_finding(race)
    assert barrier.names("_rows__p1") and uninitialized.names("_rows__p10") and not uninitialized.names("_rows__p1")


def test_a_text_that_was_cut_off_has_no_summary():
    assert not read_log(TEXT.partition("========= ERROR")[0]).complete
    assert read_log("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n").summary == 0


def test_in_a_text_that_was_cut_off_only_reports_count():
    def done(place, kernel):
        return {"launched": {}, "error": None}

    tasks = [(0, None), (1, None), (2, None)]
    body = "========= Barrier error detected. Divergent thread(s) in warp.\n=========     at _rows__p1+0xb0\n"
    made = Attempt(done={task: done(*task) for task in tasks[:2]}, current=(2, None), log=read_log(body))
    known, again, other = settle("synccheck", made, tasks, lambda task: [f"_rows__p{task[0]}"])
    assert again == [(0, None)] and other == 0
    assert known[1, None].reports and known[2, None].reason == made.why
    made.log = read_log(body + "========= ERROR SUMMARY: 1 error\n")
    known, again, other = settle("synccheck", made, tasks, lambda task: [f"_plain__p{task[0]}"])
    assert again == [] and other == 1 and not known[0, None].reports


def test_a_report_of_a_function_within_a_kernel_is_the_kernels_unless_two_planted_ones_share_it():
    body = "========= Error: Race reported between Write access at float block_sum<Add>(float *)+0x10 in k.cu:5\n"
    log = read_log(body + "========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n")
    functions = {0: ["softmax", "block_sum"], 1: ["scale"], 2: ["rmsnorm", "block_sum"]}

    def settled(*tasks):
        made = Attempt(done={task: {"launched": {}, "error": None} for task in tasks}, log=log)
        known, _, other = settle("racecheck", made, tasks, lambda task: list(functions[task[0]]))
        return [bool(known[task].reports) for task in tasks], other

    assert settled((0, "softmax"), (1, "scale")) == ([True, False], 0)
    assert settled((0, "softmax"), (2, "rmsnorm")) == ([False, False], 1)
    assert settled((0, None), (2, None)) == ([True, True], 0)  # nothing was planted: neither is clean
    functions[0].append("block_sum")  # said twice of one kernel, it is shared by no other
    assert settled((0, "softmax"), (1, "scale")) == ([True, False], 0)


def test_kernels_that_share_a_function_are_dealt_to_different_hands():
    functions = {"a": ["a", "shared"], "c": ["c"], "b": ["b", "shared"], "d": ["d"]}
    tasks = [(place, kernel) for place, kernel in enumerate(functions)]
    hands = _shards(tasks, 2, 0, lambda task: functions[task[1]])
    assert sorted(task for hand in hands for task in hand) == tasks
    assert not any({(0, "a"), (2, "b")} <= set(hand) for hand in hands)
    unplanted = [(place, None) for place in range(4)]  # nothing has to be told apart: dealt out evenly
    assert [len(hand) for hand in _shards(unplanted, 2, 3, lambda task: ["shared"])] == [2, 2]


def test_only_silence_makes_the_next_process_less_patient(monkeypatch, tmp_path):
    seen = []

    def made(tool, phase, tasks, folder, sanitizer, limits, until):
        folder.mkdir(parents=True)
        seen.append(limits.stall)
        return Attempt(current=tasks[0], silent=len(seen) == 2)

    monkeypatch.setattr("kernels.bench.sanitizer.run.attempt", made)
    tasks = [(place, "_rows") for place in range(3)]
    _lane("memcheck", "plant", tasks, tmp_path, "tool", Limits(stall=30.0), time.monotonic() + 20, lambda task: ["x"])
    assert seen == [30.0, 30.0, 15.0]
