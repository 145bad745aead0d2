"""A count that a page prints agrees with its noun: no "1 blocks"."""

from __future__ import annotations

import contextlib
import io
import textwrap
from types import SimpleNamespace

import pytest
from typed_commands import ROOT, fences

from kernels.inspect.occupancy import occupancy


def printed(page: str, block: str, **names: object) -> str:
    """What a block of a page prints where the names hold what earlier blocks gave them."""
    text = (ROOT / page).read_text(encoding="utf-8")
    code = next(body for _, head, body in fences(text) if f'id="{block}"' in head)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(textwrap.dedent(code), names)
    return out.getvalue()


@pytest.mark.parametrize(("registers", "said"), [(162, ": 1 block by registers"), (96, ": 2 blocks by registers")])
def test_the_ladders_exercise_counts_blocks(registers, said):
    facts = {"matmul_async_copy": SimpleNamespace(registers=registers)}
    assert said in printed("docs/essentials/4-gemm-ladder.md", "exercise", FACTS=facts)


def test_blocks_that_fit_are_counted():
    lines = printed("docs/essentials/2-more-shared-memory.md", "fits", occupancy=occupancy, KIB=1024).splitlines()
    assert [" 1 block," in line for line in lines] == [False] * 7 + [True] * 2, lines
    assert all(" 1 blocks" not in line for line in lines)
