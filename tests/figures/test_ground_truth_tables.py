"""Tables that put a GPU's accesses and counters beside the trace."""

import re

from kernels.figures import access_table, counter_table, reason_table
from kernels.figures.ground_truth import GLOBAL, SHARED
from kernels.trace.counters import METRICS, CounterDifference, apart
from kernels.trace.gpu_record import Origin
from kernels.trace.ground_truth import Compared, Difference, Mismatch

ORIGIN = Origin(gpu="NVIDIA <H200>", driver="580.1", compiler="nvcc 13.0.88", flags="", tool="ncu 1",
                commit="abcdef0123", dirty=True, command="", utc="2026-11-29T10:00:00Z")  # fmt: skip
MISMATCH = Mismatch("k", "n 1", "global", "x", "read", "other", "x, reads: once")
N, PADDED = {"n": 1025}, {"rows": 7, "columns": 33, "x_stride": 40, "out_stride": 36}


def launch(kernel, shape, hardware=None, mismatches=()):
    traced = {name: 1000 + place for place, name in enumerate(METRICS)}
    counted = traced | (hardware or {})
    counts = {("global", "read"): 514, ("shared", "write"): 3}
    return Compared(kernel, shape, counts, list(mismatches), traced, counted,
                    apart(kernel, shape, traced, counted), ORIGIN, ORIGIN)  # fmt: skip


def rows_of(table):
    found = []
    for row in re.findall(r"<tr.*?</tr>", table, re.S):
        found.append([re.sub("<.*?>", "", cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.S)])
    return found


def test_accesses_are_summed_by_kernel_and_differences_are_counted():
    table = access_table([launch("k", N), launch("k", PADDED, mismatches=[MISMATCH]), launch("m", N)])
    heads, first, second = rows_of(table)
    assert heads == [
        "kernel",
        "launches",
        "global reads",
        "global writes",
        "shared reads",
        "shared writes",
        "differences",
    ]
    assert first == ["k", "2", "1,028", "0", "0", "6", "1"]
    assert second == ["m", "1", "514", "0", "0", "3", "0"]
    assert "NVIDIA &lt;H200&gt;, driver 580.1, nvcc 13.0.88, ncu 1, 2026-11-29, commit abcdef0, with changes" in table


def test_a_counter_stands_alone_where_both_agree_and_beside_the_trace_where_not():
    table = counter_table([launch("k", N), launch("k", PADDED, {"global_load_sectors": 1002})], GLOBAL)
    _, name, first, second = rows_of(table)
    assert name == ["k"]
    assert first == ["1,025", "1,000", "1,001", "1,002", "1,003"]
    assert second == ["7 × 33 (40, 36)", "1,000", "1,001/1,002", "1,002", "1,003"]
    marked = [row for row in re.findall(r"<tr.*?</tr>", table, re.S) if "kl-marked" in row]
    assert len(marked) == 1 and "1,001/1,002" in marked[0]


def test_shared_memory_has_a_table_without_the_kernels_that_use_none():
    none = launch("m", N)
    for name in SHARED.values():
        none.traced[name] = none.counted[name] = 0
    table = counter_table([launch("k", N, {"global_load_sectors": 5}), none], SHARED)
    assert rows_of(table)[1:] == [["k"], ["1,025", "1,004", "1,005", "1,006", "1,007", "1,008", "1,009"]]
    assert "kl-marked" not in table  # what differs stands in the other table
    none.counted["shared_load_requests"] = 1  # the hardware saw what the trace did not
    assert ["1,025", "0/1", "0", "0", "0", "0", "0"] in rows_of(counter_table([none], SHARED))


def test_a_counter_that_the_profiler_lacked_is_not_passed_over():
    assert "1,000/—" in counter_table([launch("k", N, {"global_load_requests": None})], GLOBAL)


def test_every_counter_has_a_column():
    assert {*GLOBAL.values(), *SHARED.values()} == set(METRICS)


def test_reasons_stand_over_what_they_explain():
    listed = [
        CounterDifference("k", 1023, (*GLOBAL.values(),)[:3], "<because>"),
        CounterDifference("m", 7, ("global_store_sectors",), "<because>"),
    ]
    heads = ["kernel", "where", "what differs"]
    table = reason_table([Difference("k", "global", "x", "read", "fewer", "kept")], listed)
    assert rows_of(table) == [
        heads,
        ["k", "x, reads", "fewer"],
        heads,
        ["k", "1023 columns", "requests of loads and stores, sectors of loads"],
        ["m", "7 columns", "sectors of stores"],
    ]
    assert re.findall("<caption><span>(.*?)</span>", table) == ["kept", "&lt;because&gt;"]
