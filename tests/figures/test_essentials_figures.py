"""Tables and plots of the Essentials' record, the sentence where there is none, and the numbers of the data sheets."""

import pytest

from kernels.bench.essentials import Found, Row, Topic
from kernels.bench.results import Provenance
from kernels.figures.essentials import (
    bandwidth_chart,
    drawn,
    latency_chart,
    measured_bars,
    measured_table,
    spoken,
    words,
)
from kernels.inspect.datasheets import A100, DATASHEETS, H100
from kernels.inspect.limits import shared_limit_bytes

WHERE = Provenance(
    gpu="NVIDIA H200",
    gpu_slug="h200",
    sm_count=132,
    l2_bytes=1,
    memory_bytes=1,
    python="3.12",
    command="x",
    utc="2026-11-30T00:00:00Z",
)


def found(*rows):
    return Found(Topic(what="x", hashes={}, rows=list(rows)), WHERE)


ROWS = found(
    Row(name="a <b>", settings={"where": "global", "bytes": 4096}, values={"cycles": 40.0, "gb_per_s": 3000.0}),
    Row(name="c", settings={"where": "l2", "bytes": 8192}, values={"cycles": 287.0, "gb_per_s": 900.0}),
    Row(name="d", settings={"where": "shared", "bytes": 4096}, values={"cycles": 30.5}),
)


def test_where_nothing_was_measured_one_sentence_stands():
    assert words(None, lambda f: "never") == "(not measured yet)"
    said = drawn(None, "latency", lambda f: "never")
    assert said.startswith("<p>Not measured yet") and "--topic latency" in said and said.count("<") == 2


def test_a_table_has_values_settings_and_what_is_made_of_a_row():
    table = measured_table(
        ROWS, ROWS.topic.rows, {"cycles": "cycles", "from": "where", "twice": lambda r: 2 * r.values["cycles"]}
    )
    assert "a &lt;b&gt;" in table and ">287<" in table and ">574<" in table and ">shared<" in table
    assert "NVIDIA H200, 2026-11-30" in table
    bars = measured_bars(ROWS, ROWS.topic.rows, "gb_per_s", "GB/s")
    assert "3,000" in bars and "—" in bars  # the third has no such value


def test_charts_have_a_line_for_each_way():
    for chart in (latency_chart(ROWS), bandwidth_chart(found(*ROWS.topic.rows[:2]))):
        assert "L1 may answer" in chart and "past the L1" in chart
    assert "shared memory" in latency_chart(ROWS) and ">287<" in latency_chart(ROWS)


def test_rates_of_data_sheets_follow_from_clocks_and_widths():
    assert A100.shared_tb_per_s == pytest.approx(19.5, abs=0.05)  # the number that is often quoted
    assert A100.float32_tflop_per_s == pytest.approx(19.5, abs=0.05)  # NVIDIA's peak, by another way
    assert H100.float32_tflop_per_s == pytest.approx(66.9, abs=0.05)
    for sheet in DATASHEETS:
        assert shared_limit_bytes(sheet.arch) < sheet.l1_kib * 1024
        assert sheet.register_mib == sheet.multiprocessors / 4


def test_a_rows_name_is_said_as_a_reader_would():
    assert spoken("1 blocks, 1 loads a thread") == "1 block, 1 load a thread"
    assert spoken("232448 bytes") == "232,448 bytes" and spoken("11 blocks of 4096") == "11 blocks of 4096"
    assert spoken("stride 1, 0.12345") == "stride 1, 0.12345"
