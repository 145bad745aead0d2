"""profile_kernel: ncu's table read, explained and kept, on recorded output; and what it says where there is no ncu."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from kernels.bench import profiling
from kernels.bench.profile_metrics import METRICS, STALLS, Profile, ProfileError, explain, number, parse, requested

ROOT = Path(__file__).resolve().parents[2]
RECORDED = (Path(__file__).parent / "recorded" / "ncu_launches.csv").read_text(encoding="utf-8")


def made(**values: str) -> str:
    """A table as ncu writes it, with one launch that has these values for the metrics named in `METRICS`."""
    columns = {"ID": "0", "Kernel Name": "k", "Grid Size": "(1, 1, 1)", "Block Size": "(32, 1, 1)"}
    columns |= {metric.ncu: values.get(metric.name, "n/a") for metric in METRICS}
    columns |= {
        f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio": values.get(name, "0") for name in STALLS
    }
    rows = [columns.keys(), ["" for _ in columns], columns.values()]
    return "==PROF== Connected\n" + "\n".join(",".join(f'"{cell}"' for cell in row) for row in rows)


def test_a_recorded_table():
    first, second, third = parse(RECORDED)
    assert [k.kernel.partition("(")[0] for k in (first, second, third)] == ["softmax_serial"] * 2 + ["vector_add"]
    assert first.values["duration_us"] == pytest.approx(2.496)
    assert second.values["duration_us"] == pytest.approx(6.272)
    assert (first.values["registers"], third.values["registers"]) == (32, 16)
    assert first.values["shared_bytes"] == 1024
    assert first.values["dram_gb_per_s"] is None  # was not asked for then
    assert first.block == "(256, 1, 1)"


def test_units():
    (kernel,) = parse(made(duration_us="139,400", dram_gb_per_s="3,852,000,000,000", dram_percent="78.3"))
    assert kernel.values["duration_us"] == pytest.approx(139.4)
    assert kernel.values["dram_gb_per_s"] == pytest.approx(3852.0)
    assert kernel.values["dram_percent"] == pytest.approx(78.3)


@pytest.mark.parametrize(
    ("text", "value"), [("1,234.5", 1234.5), ("n/a", None), ("", None), ("nan", None), ("inf", None)]
)
def test_cells(text, value):
    assert number(text) == value


def test_the_explanation_names_the_longest_waits_first_and_what_memory_moved():
    values = {"dram_read_bytes": "300", "dram_write_bytes": "100", "long_scoreboard": "7.5", "barrier": "9.25"}
    text = explain(parse(made(**values)), bytes_moved=200)
    assert text.index("9.25  barrier") < text.index("7.50  long_scoreboard")
    assert "data from global or local memory" in text
    assert "2.000 x" in text
    assert text.count("not counted") == len(METRICS) - 2
    for metric in METRICS:
        assert metric.meaning in text


@pytest.mark.parametrize(
    "text", ["", "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n", "no table here"]
)
def test_no_launch_is_an_error_with_ncus_words(text):
    with pytest.raises(
        ProfileError, match=r"showed no launch[^§]*" + (text.strip().split()[-1] if text else "nothing")
    ):
        parse(text)


def test_what_is_asked_is_what_is_read():
    assert len(requested()) == len(set(requested())) == len(METRICS) + len(STALLS)
    command = profiling.ncu_command(Path("/x/ncu"), Path("/x/log"), ["program"])
    assert command[command.index("--clock-control") + 1] == "none"
    assert command[command.index("--profile-from-start") + 1] == "off"
    assert set(command[command.index("--metrics") + 1].split(",")) == set(requested())
    assert command[-1] == "program"


def profile(**changes) -> Profile:
    values = {
        "op": "softmax",
        "implementation": "triton",
        "shape": [4096, 1024],
        "dtype": "float32",
        "gpu": "NVIDIA H200",
        "commit": None,
        "utc": "2026-11-29T00:00:00Z",
        "command": "profile_kernel.py --op softmax",
        "ncu": "2025.3",
        "source": "",
        "source_hash": "",
        "bytes_moved": 1,
        "kernels": parse(RECORDED),
    }
    return Profile(**{**values, **changes})


def test_the_file_is_strict_json_and_comes_back():
    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    data = profiling.encode(profile())
    assert json.loads(data, parse_constant=refuse)["kernels"][0]["values"]["registers"] == 32
    assert profiling.decode(data) == profile()
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        profiling.decode(data.replace(b'"op"', b'"operator"'))


def stand_in(folder: Path, body: str) -> Path:
    path = folder / "ncu"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.mark.skipif(os.name != "posix", reason="needs sh")
def test_a_stand_in_for_ncu(tmp_path):
    (tmp_path / "table.csv").write_text(RECORDED)
    works = 'while [ $# -gt 0 ]; do [ "$1" = --log-file ] && cp ' + f'{tmp_path}/table.csv "$2"; shift; done'
    assert len(profiling.run_ncu(stand_in(tmp_path, works), ["program"])) == 3
    with pytest.raises(ProfileError, match="exit status 9"):
        profiling.run_ncu(stand_in(tmp_path, "exit 9"), ["program"])
    with pytest.raises(ProfileError, match="no launch"):
        profiling.run_ncu(stand_in(tmp_path, "exit 0"), ["program"])


@pytest.mark.skipif(profiling.tool("ncu") is not None, reason="this machine has ncu")
def test_without_ncu_a_sentence_and_status_3():
    command = [sys.executable, "scripts/profile_kernel.py", "--op", "softmax"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 3
    assert "There is no ncu" in done.stderr and done.stdout == ""
