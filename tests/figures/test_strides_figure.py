"""The figure of a view: in which cell each element lies, and that it is PyTorch's own answer."""

import re

import pytest
from test_figures import EVIL, Reader, phone, wide

from kernels.figures import view_figure
from kernels.figures.strides import cells_of


def described(html):
    return re.search(r"<desc[^>]*>(.*?)</desc>", html).group(1)


def boxes(html, name):
    return sum(d.count("M") for d in re.findall(rf'class="kl-own {name}" d="([^"]*)"', html))


def test_a_crop_says_where_each_element_lies():
    html = view_figure((2, 3), (8, 1), 10, size=24, label="crop")
    assert described(html) == "row 0: cells 10, 11, 12; row 1: cells 18, 19, 20"
    assert "One step down is 8 cells on, one step right is 1 cell on. 6 elements in 6 of 24 cells." in Reader(html).text
    for drawn in wide(html), phone(html):
        assert (boxes(drawn, "kl-c0"), boxes(drawn, "kl-c1"), boxes(drawn, "kl-none")) == (6, 6, 18)
        inside = "".join(re.findall(r'<g class="kl-t (?:kl-t--small )?kl-t--m">(.*?)</g>', drawn))
        found = re.findall(">([^<]+)</text>", inside)
        assert found == ["10", "11", "12", "18", "19", "20", "0,0", "0,1", "0,2", "1,0", "1,1", "1,2"]


def test_a_line_of_storage_that_a_phone_does_not_hold_is_halved():
    html = view_figure((4, 8), (16, 1), label="x", line=16)
    assert re.findall(r">cell (\d+) →<", wide(html)) == ["0", "16", "32", "48"]
    assert re.findall(r">cell (\d+) →<", phone(html)) == ["0", "8", "16", "24", "32", "40", "48"]
    assert "kl-narrow" not in view_figure((1, 20), (20, 1)), "a view of so many columns is scrolled"


def test_a_transpose_steps_the_other_way():
    assert described(view_figure((3, 2), (1, 3))) == "row 0: cells 0, 3; row 1: cells 1, 4; row 2: cells 2, 5"


def test_several_elements_in_one_cell_are_counted():
    html = view_figure((2, 3), (0, 1))
    assert html.count(">×2<") == 3 and "Some cells hold several elements." in html
    assert "6 elements in 3 of 3 cells." in html


@pytest.mark.parametrize("view", ["whole", "crop", "transpose", "column", "expand", "every other"])
def test_cells_are_those_of_torch(view):
    torch = pytest.importorskip("torch")
    storage = torch.arange(24.0)
    whole = storage.reshape(4, 6)
    tensor = {
        "whole": whole,
        "crop": whole[1:3, 2:5],
        "transpose": whole.t(),
        "column": whole[:, 2],
        "expand": whole[0].expand(3, 6),
        "every other": whole[::2, 1::2],
    }[view]
    cells = cells_of(tensor.shape, tensor.stride(), tensor.storage_offset())
    assert cells == tensor.reshape(-1, tensor.shape[-1]).tolist()


def test_one_dimension_and_no_element():
    html = view_figure((3,), (2,), 1, size=6)
    assert described(html) == "row 0: cells 1, 3, 5" and "One step right is 2 cells on." in html
    assert "0 elements in 0 of 4 cells." in view_figure((0, 3), (3, 1), size=4)
    Reader(view_figure((0, 3), (3, 1)))


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="element 1,2 of crop would lie in cell 8, but there are 8 cells"):
        view_figure((2, 3), (6, 1), 0, size=8, label="crop")
    with pytest.raises(ValueError, match="element 1 of x would lie in cell -1"):
        view_figure((2,), (-1,), 0, size=8)
    with pytest.raises(ValueError, match="must both have one entry, or both two"):
        view_figure((2, 3), (1,))
    with pytest.raises(ValueError, match="too large to draw; at most 16 rows, 24 columns and 256 cells"):
        view_figure((17, 2), (2, 1))


def test_same_bytes_and_nothing_from_outside_becomes_markup():
    html = view_figure((2, 2), (2, 1), label=EVIL, caption=EVIL)
    assert html == view_figure((2, 2), (2, 1), label=EVIL, caption=EVIL)
    assert "<script" not in html and "script" not in Reader(html).tags and "\n\n" not in html
    assert len(set(Reader(html).ids)) == len(Reader(html).ids)
