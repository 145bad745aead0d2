"""Banks, divergence and barriers: what the figures say and draw."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from test_figures import Reader, phone, wide

from kernels.figures import bank_figure, bank_tile, divergence_figure, ownership_grid, ownership_strip, timeline
from kernels.figures.banks import passes
from kernels.figures.ownership import runs
from kernels.trace import Buffer, Launch, Recorder
from kernels.trace.model import ATOMIC, READ, WRITE


def shared(elements, width=32, size=4, threads=None, space="shared", rows=32, what=READ):
    recorder = Recorder()
    recorder.launch(Launch("k", (1, 1, 1), (32, 1, 1), "cuda"))
    recorder.buffer(Buffer("tile", 4, (rows, width), space=space))
    elements = np.asarray(elements)
    threads = np.arange(len(elements)) if threads is None else threads
    site = recorder.site("k.cu", 7)
    recorder.add(launch=0, block=0, thread=threads, what=what, buffer=0, element=elements, size=size, site=site)
    return recorder.trace()


def column(width):
    return shared(np.arange(32) * width, width)


def marked(html, name="kl-asked-bank"):
    return sum(d.count("M") for d in re.findall(rf'class="{name}" d="([^"]*)"', html))


@pytest.mark.parametrize(("width", "degree", "banks"), [(32, 32, 1), (33, 1, 32), (34, 2, 16), (40, 8, 4)])
def test_a_column_of_a_tile_by_its_width(width, degree, banks):
    trace = column(width)
    request = trace.requests()[0]
    turns = passes(request)
    assert len(turns) == request.wavefronts == degree
    assert sorted(lane for turn in turns for _, lanes in turn.values() for lane in lanes) == list(range(32))
    assert len({bank for turn in turns for bank in turn}) == banks
    html = bank_figure(request)
    assert f"in {degree} pass{'es' * (degree > 1)}" in html
    assert (f"conflict degree {degree}" in html) == (degree > 1)
    assert ("no bank is asked for two different words" in html) == (degree == 1)
    for drawn in wide(html), phone(html):
        assert marked(drawn) == 32 and marked(drawn, "kl-idle") == 32 * degree - 32
    assert len(re.findall(r">pass \d+<", wide(html))) == degree
    assert re.findall(r'x="334" y="\d+">(\d+)<', phone(html)) == [str(len(turn)) for turn in turns]
    tile = bank_tile(request, trace.buffer("tile"))
    assert f"the 32 marked elements, which lie in {banks} bank{'s' * (banks > 1)}." in tile
    assert marked(wide(tile)) == marked(phone(tile)) == 32 and len(tile.encode()) < 70_000
    assert re.findall(r'x="334" y="\d+">(\d+)<', phone(tile)) == [str(width * row % 32) for row in range(32)]
    strong = re.findall(r'<g class="kl-t kl-t--small kl-t--m" transform[^>]*><text x="67">(\d+)</text></g>', tile)
    assert [int(bank) for bank in strong] == [width * row % 32 for row in range(32)]


def test_lanes_that_share_a_word_share_a_pass():
    request = shared(np.zeros(32, int)).requests()[0]
    html = bank_figure(request)
    assert passes(request) == [{0: (0, list(range(32)))}]
    assert "×32" in html and "lanes that ask for the same one share it" in html
    assert "pass 1: bank 0 serves lanes 0–31" in html


def test_atomics_on_one_word_take_turns():
    request = shared(np.zeros(32, int), what=ATOMIC).requests()[0]
    assert len(passes(request)) == request.wavefronts == 32
    assert "in 32 passes; one bank takes 32 turns" in bank_figure(request)


def test_wide_accesses_go_in_phases():
    request = shared(np.arange(124, -1, -4), size=16).requests()[0]
    assert len(passes(request)) == request.wavefronts == 4
    lanes = [sorted({lane for _, served in turn.values() for lane in served}) for turn in passes(request)]
    assert lanes == [list(range(first, first + 8)) for first in (0, 8, 16, 24)]


def test_what_has_no_banks_is_refused():
    with pytest.raises(ValueError, match="'tile' lies in global memory, which has sectors and no banks"):
        bank_figure(shared(np.arange(32), space="global").requests()[0])
    with pytest.raises(ValueError, match="3 elements of a whole program"):
        bank_figure(shared([0, 1, 2], threads=-1).requests()[0])
    with pytest.raises(ValueError, match="the request is to 'tile', but the buffer is 'other'"):
        bank_tile(column(32).requests()[0], Buffer("other", 4, (8,)))


def test_a_large_tile_says_what_is_drawn():
    trace = shared(np.arange(32), width=128, rows=64)
    html = bank_tile(trace.requests()[0], trace.buffer("tile"))
    assert "The first 40 rows and 40 columns are drawn." in html and len(html.encode()) < 60_000


def halves(extra=0):
    """A warp whose even lanes take one line and whose odd lanes another, then all a third."""
    recorder = Recorder()
    recorder.launch(Launch("k", (1, 1, 1), (48, 1, 1), "cuda"))
    recorder.buffer(Buffer("x", 4, (64,)))
    lanes = np.arange(32)
    for line, who in ((5, lanes[::2]), (7, lanes[1::2]), *[(9, lanes)] * (1 + extra)):
        recorder.add(
            launch=0, block=0, thread=who, what=WRITE, buffer=0, element=who, size=4, site=recorder.site("k.cu", line)
        )
    return recorder.trace()


def test_divergence_draws_lanes_by_passes():
    html = divergence_figure(halves())
    text = Reader(html).text
    assert "Block 0, warp 0: 3 passes, 64 of 96 lane slots used (66.7%)." in text
    for drawn in wide(html), phone(html):
        assert marked(drawn, "kl-lane") == 64 and marked(drawn, "kl-idle") == 32
    assert "line 5 writes x: lanes 0, 2, 4" in text and "line 9 writes x: lanes 0–31" in text
    assert "1 pass, 16 of 32 lane slots used (50%)" in divergence_figure(halves(), line=7)


def test_divergence_of_a_part_of_a_warp_and_of_many_passes():
    assert "No access" in divergence_figure(halves(), warp=1)
    html = divergence_figure(halves(extra=60))
    assert "63 passes" in html and "The first 48 lines are drawn." in html and len(html.encode()) < 70_000
    with pytest.raises(ValueError, match="warp=2, but a block of 48 threads has 2"):
        divergence_figure(halves(), warp=2)
    with pytest.raises(ValueError, match="does not show threads"):
        divergence_figure(shared([1], threads=-1))


def test_barriers_are_named_by_their_line_and_who_is_missing():
    cells = [{"warp": 0, "interval": i, "reads": 1, "writes": 0, "atomics": 0} for i in range(3)]
    barriers = [SimpleNamespace(interval=0, line=169, threads=256), SimpleNamespace(interval=1, line=177, threads=33)]
    text = Reader(timeline(cells, barriers=barriers, threads=256)).text
    assert "before barrier 1 after barrier 1 line 169 after barrier 2 line 177, 33 of 256 threads 0" in text
    assert "line" not in Reader(timeline(cells)).text


def test_two_owners_are_one_run_of_its_own():
    both = [(0,), (0, 1), (0, 1), (1,)]
    assert [(r.first, r.last, r.state, r.owners) for r in runs([0, 0, 1, 1], everyone=both)] == [
        (0, 0, "owned", ()), (1, 2, "several", (0, 1)), (3, 3, "owned", ()),
    ]  # fmt: skip
    strip = Reader(ownership_strip([0, 1, 1, 1], label="out", who="block", everyone=both)).text
    assert "blocks 0 and 1 out[1–2] 2 elements" in strip
    assert "out: 2 elements owned by 2 blocks, 2 owned by several blocks." in strip
    grid = ownership_grid([[0, 1], [1, 1]], "out", "block", everyone=both)
    assert marked(grid, "kl-own kl-several") == 2 and "row 1: 0 blocks 0 and 1, 1 block 1" in grid
    assert "2 elements owned by 2 blocks, 2 owned by several blocks." in grid
    with pytest.raises(ValueError, match="there are 4 elements, but the owners of 1"):
        ownership_strip([0, 1, 1, 1], everyone=[(0,)])


def test_owners_of_rows_with_padding_behind_them():
    recorder = Recorder()
    recorder.launch(Launch("k", (2, 1, 1), (32, 1, 1), "cuda"))
    recorder.buffer(Buffer("out", 4, (2, 3), (5, 1)))
    for block, elements in ((0, [0, 1, 2]), (1, [5, 7])):
        recorder.add(
            launch=0, block=block, thread=0, what=WRITE, buffer=0, element=np.array(elements), size=4,
            site=recorder.site("k.cu", 1),
        )  # fmt: skip
    html = ownership_grid(recorder.trace().owners("out"), "out", "block")
    assert "row 0: 0–2 block 0; row 1: 0 block 1, 1 nobody, 2 block 1" in html
    assert "out, 2 × 3: 5 elements owned by 2 blocks, 1 owned by nobody." in html
