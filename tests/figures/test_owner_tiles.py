"""A large matrix whose owners have a tile each: all tiles are drawn, and each says whose it is."""

import re
from itertools import pairwise

import numpy as np
import pytest

from kernels.figures import MASKED, NOBODY, ownership_grid
from kernels.figures.owner_tiles import LEAST, tiles


def owners(rows: int, columns: int, high: int, wide: int) -> np.ndarray:
    """Tiles numbered along a row of tiles, then the next row."""
    row, column = np.indices((rows, columns))
    return row // high * -(-columns // wide) + column // wide


def described(html: str) -> list[str]:
    return re.search(r"<desc[^>]*>(.*?)</desc>", html).group(1).split("; ")


def test_every_owner_is_drawn_and_described():
    html = ownership_grid(owners(70, 100, 32, 32), "c", "block")
    inside = re.search(r'<g class="kl-t kl-t--m">(.*?)</g>', html).group(1)
    assert re.findall(r">(\d+)<", inside) == [str(block) for block in range(12)]
    assert len(re.findall('<rect class="kl-own', html)) == 12
    said = described(html)
    assert len(said) == 12 and said[7] == "block 7: rows 32–63, columns 96–99"
    assert "70 × 100: 7,000 elements owned by 12 blocks. Colours repeat after 8 blocks." in html
    assert "not drawn" not in html and "more rows" not in html


def test_boxes_lie_side_by_side_and_have_room_for_their_numbers():
    html = ownership_grid(owners(33, 2049, 32, 1024), "c")
    boxes = [
        [float(v) for v in box]
        for box in re.findall(r'<rect class="kl-own [^"]*" x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)"', html)
    ]
    assert len(boxes) == 6
    assert min(min(wide, high) for *_, wide, high in boxes) >= LEAST - 2
    for (x, y, _, high), (right, below, *_) in zip(boxes[:3], boxes[3:], strict=True):
        assert (x, below) == (right, pytest.approx(y + high + 2, abs=0.2))
    for (x, _, wide, _), (after, *_) in pairwise(boxes[:3]):
        assert after == pytest.approx(x + wide + 2, abs=0.2)
    assert "Thin tiles are drawn larger than to scale." in html
    assert "row 32, column 2048" in described(html)[-1]
    width = float(re.search(r'<svg [^>]* width="(\S+)"', html).group(1))
    assert max(x + wide for x, _, wide, _ in boxes) < width < 340  # the whole of it, on a phone


def test_what_no_one_owns_is_a_tile_too():
    grid = owners(40, 60, 20, 30)
    grid[20:, 30:] = MASKED
    grid[:20, 30:] = NOBODY
    html = ownership_grid(grid, "c")
    assert described(html)[1] == "nobody: rows 0–19, columns 30–59"
    assert described(html)[3] == "masked off: rows 20–39, columns 30–59"
    assert len(re.findall('<rect class="kl-masked" fill="url', html)) == 1
    assert "1,200 elements owned by 2 programs, 600 masked off, 600 owned by nobody." in html


@pytest.mark.parametrize(
    ("name", "grid"),
    [
        ("a program a row has no columns of tiles", owners(40, 60, 1, 60)),
        ("owners that come back", owners(40, 60, 20, 20) % 2),
        ("more tiles than can be told apart", owners(100, 100, 2, 2)),
        ("one owner", np.zeros((40, 60), int)),
        ("a small one shows its elements", owners(8, 8, 4, 4)),
    ],
)
def test_others_are_drawn_by_their_rows(name, grid):
    assert described(ownership_grid(grid, "c"))[0].startswith("row 0: 0"), name


def test_owners_that_overlap_are_no_tiles():
    both = [(0,)] * 2399 + [(0, 1)]
    assert "programs 0 and 1" in ownership_grid(owners(40, 60, 20, 30), "c", everyone=both)


def test_an_empty_matrix_has_no_tiles():
    assert tiles(np.zeros((0, 0), int)) == tiles(np.zeros((3, 0), int)) == []


def test_colours_that_repeat_are_said_of_strips_too():
    from kernels.figures import ownership_strip

    assert "Colours repeat after 8 programs." in ownership_strip(np.arange(18) // 2)
    assert "Colours repeat" not in ownership_strip(np.arange(16) // 2)
