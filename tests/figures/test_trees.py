"""A reduction drawn from a tree that ran: lanes, padding, who adds whom, what rounding took."""

import re

import pytest
from test_figures import Reader, phone, wide

from kernels.figures import reduction_tree
from lessons_src.examples import sums

FIVE = (3.0, 1.0, 4.0, 1.0, 5.0)
CANCELLING = (1e8, 1.0, -1e8)


def boxes(html):
    """(x, y, whether it is padding) of every box."""
    found = re.findall(r'<rect class="(kl-masked|kl-own)[^"]*"[^>]*? x="([\d.]+)" y="([\d.]+)"', html)
    return [(float(x), float(y), name == "kl-masked") for name, x, y in found]


def test_every_partial_result_has_a_box_and_padding_is_hatched():
    levels = sums.halves(FIVE, 8)
    html = reduction_tree(levels, 5)
    for drawn in wide(html), phone(html):
        assert len(boxes(drawn)) == 8 + 4 + 2 + 1
        lanes = sorted({y for _, y, _ in boxes(drawn)})
        assert len(lanes) == 4, "one row a level"
        assert [padding for _, y, padding in boxes(drawn) if y == lanes[0]] == [False] * 5 + [True] * 3
        assert not any(padding for _, y, padding in boxes(drawn) if y > lanes[0]), "padding met a value at once"
        assert drawn.count("<path") == 2 * 7, "two parents for each of seven sums"


def test_a_partial_result_of_padding_alone_is_padding():
    html = wide(reduction_tree(sums.neighbours(FIVE, 8), 5))
    assert sum(padding for _, _, padding in boxes(html)) == 3 + 1
    assert "lane 6 holds padding 0 from lanes 6 and 7" in html


def test_the_text_says_what_the_picture_shows():
    html = reduction_tree(sums.halves(FIVE, 8), 5, caption="Five of eight")
    reader = Reader(html)
    description = re.search(r"<desc[^>]*>(.*?)</desc>", html).group(1)
    assert description.startswith("lanes: lane 0 holds 3, lane 1 holds 1,")
    assert "lane 5 holds padding 0" in description
    assert "level 1: lane 0 holds 8 from lanes 0 and 4" in description
    assert description.endswith("level 3: lane 0 holds 14 from lanes 0 and 1")
    assert "Five of eight" in reader.text


def test_what_rounding_took_stands_at_the_sum_that_lost_it():
    serial, tree = (reduction_tree(way(CANCELLING, 4), 3) for way in (sums.one_by_one, sums.halves))
    assert "rounding changed it by −1" in serial and ">−1<" in serial and "In red" in serial
    assert "rounding" not in tree


def test_a_sum_that_was_rounded_up_says_so():
    html = reduction_tree(sums.halves((2.0**24, 3.0), 2), 2)  # 16777219 lies between two numbers, and goes to the next
    assert "rounding changed it by +1" in html


def test_what_waits_is_a_line_and_no_box():
    html = wide(reduction_tree(sums.one_by_one(FIVE, 5), 5))
    assert len(boxes(html)) == 5 + 4
    assert len({x for x, y, _ in boxes(html) if y > min(y for _, y, _ in boxes(html))}) == 1, "all in the first lane"


def test_a_value_that_counts_twice_or_never_is_refused():
    lanes = sums.lanes_of((1.0, 2.0), 2)
    with pytest.raises(ValueError, match="place 0 of level 0 is used 2 times"):
        reduction_tree([lanes, [sums.add(lanes, 0, 0)]], 2)
    with pytest.raises(ValueError, match="uses place 2; the level above has 2"):
        reduction_tree([lanes, [sums.add(lanes, 0, 1), (0.0, (2,), 0.0)]], 2)
    with pytest.raises(ValueError, match="5 lanes are said to hold values; the tree has 2"):
        reduction_tree([lanes, [sums.add(lanes, 0, 1)]], 5)


def test_lanes_too_many_for_a_phone_scroll():
    assert "kl-narrow" not in reduction_tree(sums.halves(FIVE, 16), 5)


def test_a_phone_s_numbers_leave_room_between_them():
    values = [0.36787944, 0.082085, 0.286505, 0.0497871, 1.0, 0.135335, 0.22313, 0.6065307]
    drawn = reduction_tree(sums.halves(values, 8), 8)
    narrow = drawn[drawn.index("kl-narrow") :]
    shown = re.findall(r'<text class="kl-t[^"]*kl-t--m"[^>]*>([^<]+)<', narrow)
    assert "0.368" in shown and "0.0821" in shown and "0.08208" not in shown
    assert ">0.3679<" in drawn[: drawn.index("kl-narrow")]


def test_the_same_tree_is_the_same_figure_and_another_is_not():
    first, again, other = (reduction_tree(sums.halves(row, 8), 5) for row in (FIVE, FIVE, FIVE[::-1]))
    assert first == again != other
    assert not set(Reader(first).ids) & set(Reader(other).ids), "both may stand on one page"
