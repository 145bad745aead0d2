"""Tables and plots about operators, on records made here."""

import re

import pytest

from kernels.bench.compare import rows
from kernels.bench.contracts import Contract
from kernels.bench.results import Record, complete
from kernels.bench.targets import Target, judge
from kernels.figures import comparison_table, contract_table, limit_chart, overview_table, plan_table, roofline
from kernels.inspect.launches import Launch


def timed(median: float, name: str = "triton", shape=(64, 1024), share=None, **changes) -> Record:
    values = {
        "op": "softmax",
        "implementation": name,
        "ours": name == "triton",
        "shape": list(shape),
        "dtype": "float32",
        "status": "ok",
        "bytes_moved": 8 * shape[0] * shape[-1],
        "flops": 5 * shape[0] * shape[-1],
        "timing": "graph",
        "cache": "cold",
        "samples_us": [median - 0.1, median, median + 0.1],
    }
    made = complete(Record(**{**values, **changes}))
    made.fraction_of_limit = share
    return made


def text_of(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_lost_rows_stay_and_are_marked():
    found = rows(
        [
            timed(10.0, share=0.9),
            timed(20.0, "torch"),
            timed(30.0, shape=(8, 4096), share=0.5),
            timed(15.0, "torch.compile", shape=(8, 4096)),
        ]
    )
    html = comparison_table(found)
    text = text_of(html)
    assert "64 × 1,024 10 0.10 90% torch 20 2.00 ×" in text
    assert "8 × 4,096 30 0.10 50% torch.compile 15 loses 0.50 ×" in text
    assert "geometric mean of peer / ours over 2 rows with a peer: 1.00 × shape" in text
    assert html.count("kl-mark--bad") == 1


def test_a_row_that_loses_by_little_shows_its_third_decimal():
    found = rows([timed(10.0, samples_us=[10.0] * 3), timed(9.97, "torch", samples_us=[9.97] * 3)])
    text = text_of(comparison_table(found))
    assert "loses 0.997 ×" in text and "1.00 × —" not in text
    won = rows([timed(9.97, samples_us=[9.97] * 3), timed(10.0, "torch", samples_us=[10.0] * 3)])
    assert "1.00 × —" in text_of(comparison_table(won))


def test_missed_demands_are_marked_and_met_ones_are_not():
    found = rows([timed(10.0, share=0.9)])
    missed = {0: judge(found[0], [Target("softmax", None, at_least_of_limit=0.95)])}
    met = {0: judge(found[0], [Target("softmax", None, at_most_us=10.0)])}
    assert "missed ≥ 95% of limit" in text_of(comparison_table(found, missed))
    assert "≤ 10 µs, met" in text_of(comparison_table(found, met))


def test_a_row_without_a_time_says_why():
    found = rows([timed(1.0, status="wrong", reason="2 of 3 elements <are> wrong"), timed(5.0, "torch")])
    html = comparison_table(found)
    assert "2 of 3 elements &lt;are&gt; wrong" in html
    assert "geometric mean" not in html


def test_nothing_measured_is_said():
    assert "nothing to show" in comparison_table([])
    text = text_of(overview_table([{"name": "add", "rows": [], "stale": 0, "met": 0, "demanded": 0}]))
    assert text.rstrip().endswith("0 no record yet") and "add" in text


def test_the_overview_counts():
    found = rows([timed(10.0), timed(5.0, "torch")])
    html = overview_table([{"name": "softmax", "rows": found, "stale": 0, "met": 1, "demanded": 3}])
    assert "softmax 0.50 × 1 1 of 3 1 fresh" in text_of(html)
    assert 'href="#op-softmax"' in html
    stale = overview_table([{"name": "softmax", "rows": found, "stale": 1, "met": 1, "demanded": 3}])
    assert "kl-badge--stale" in stale


def test_the_share_of_the_limit_over_the_width():
    cases = [timed(10.0, share=0.5), timed(12.0, "torch", share=0.4)]
    cases += [timed(10.0, shape=(64, 4096), share=0.9), timed(9.0, shape=(1024, 4096), share=0.7)]
    html = limit_chart(rows(cases), "float32")
    text = text_of(html)
    assert "1,024 50 40" in text
    assert "4,096 70" in text  # of two shapes with one width, the one that moves more
    assert "<title" in html and "<desc" in html
    assert limit_chart(rows(cases), "bfloat16") == ""


def test_data_in_the_cache_is_not_drawn():
    assert limit_chart(rows([timed(10.0, share=0.5, in_l2=True)]), "float32") == ""


def test_the_roofline_says_how_far_below_its_roof_each_point_is():
    html = roofline({"softmax": (0.5, 1.0), "matmul": (100.0, 33.5)}, 4000.0, 67.0, "peak", "Under the roof")
    text = text_of(html)
    assert "softmax 0.500 1 2 50%" in text  # 0.5 operations a byte at 4000 GB/s are 2 TFLOP/s
    assert "matmul 100 33.5 67 50%" in text
    assert "softmax reaches 50% of its roof" in html
    assert html == roofline({"softmax": (0.5, 1.0), "matmul": (100.0, 33.5)}, 4000.0, 67.0, "peak", "Under the roof")
    assert "style=" not in html and "#" not in re.sub(r'"[^"]*"', "", html)


def test_the_slanted_roof_meets_the_flat_one_where_it_should():
    html = roofline({"a": (1.0, 1.0)}, 1000.0, 10.0, "peak")
    corners = re.search(
        r'class="kl-axisline" stroke-width="2" d="M([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)L([\d.]+) ([\d.]+)"', html
    )
    (x0, y0, x1, y1, x2, y2) = map(float, corners.groups())
    assert x0 < x1 < x2 and y0 > y1 == y2


@pytest.mark.parametrize("roofs", [(0.0, 1.0), (1.0, -1.0), (float("nan"), 1.0)])
def test_a_roof_is_above_zero(roofs):
    with pytest.raises(ValueError, match="a roof is above 0"):
        roofline({"a": (1.0, 1.0)}, *roofs)


def test_no_point_no_picture():
    assert "No point to show" in roofline({}, 1.0, 1.0)


def test_the_contract_is_escaped_and_shows_code_as_code():
    html = contract_table(Contract("s.", ("a < b    c = d",), {"Shapes": "as `plan` says, <any>"}, ()))
    assert "<code>a &lt; b</code><br><code>c = d</code>" in html
    assert "as <code>plan</code> says, &lt;any&gt;" in html


def test_remarks_of_a_formula_are_words():
    lines = ("in every split s:   m = max x      l = sum x     the state, of a split", "merged:  a = b")
    html = contract_table(Contract("s.", (*lines, "merged:    c = d", "+ e[m]"), {}, ()))
    wanted = "in every split s: <code>m = max x</code><br><code>l = sum x</code>, the state, of a split<br>"
    assert wanted in html and "merged: <code>c = d</code><br><code>+ e[m]</code></p>" in html


def test_attention_has_the_tile_that_its_descriptors_say():
    described = {"q_desc": "tensordesc<bf16[1, 64, 128],NV()>", "k_desc": "tensordesc<bf16[1, 128, 128],NV()>"}
    for more, tile in (({"GROUPS": 2}, "M=128, N=128"), ({"GROUPS": 3}, "M=192, N=128")):
        launch = Launch("kernels.ops.x:_ring", described | more, (132, 1, 1), 4, 3)
        assert f"_ring 132 128 {tile}" in text_of(plan_table([((4, 16), "bfloat16", [launch])]))


def test_a_plan_row_for_each_launch():
    launch = Launch("kernels.ops.x:_rows", {"BLOCK_M": 2, "BLOCK_N": 512, "N": 7}, (3, 2, 1), 4, 3)
    text = text_of(plan_table([((7, 500), "float32", [launch, launch]), ((0,), "float16", [])]))
    assert text.count("7 × 500, float32 _rows 6 128 M=2, N=512") == 2
    assert "0, float16 nothing — —" in text
