"""The Gluon product, by what its compiler says alone: no GPU has run it, and nothing interprets it."""

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import torch

from kernels.inspect.limits import shared_limit_bytes

pytestmark = pytest.mark.triton


@cache
def facts(stages: int) -> dict:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_")}
    script = Path(__file__).with_name("compile_gluon.py")
    root = str(script.parents[2])
    environment["PYTHONPATH"] = os.pathsep.join([root, environment.get("PYTHONPATH", "")])
    command = [sys.executable, script, str(stages)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=root)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_it_compiles_fits_and_spills_nothing():
    fact = facts(4)
    assert fact["spills"] == 0 and fact["registers"] <= 168
    assert fact["shared_bytes"] <= shared_limit_bytes(90)
    assert re.search(r"\.target sm_90a", fact["ptx"])
    assert "Potential Performance Loss" not in fact["log"]  # ptxas says so where it cannot leave wgmma asynchronous


def test_one_warp_fetches_and_two_groups_multiply():
    ptx = facts(4)["ptx"]
    assert ".reqntid 384" in ptx and "setmaxnreg" in ptx
    assert ptx.count("wgmma.mma_async.sync.aligned.m64n256k16") == 4  # BLOCK_K is four times 16
    assert ptx.count("cp.async.bulk.tensor.2d.shared") == 5 and ptx.count("cp.async.bulk.tensor.2d.global") == 2


def test_the_next_product_begins_before_the_last_one_ends_and_a_slot_is_handed_back_by_all():
    ptx = facts(4)["ptx"]
    loop = ptx[ptx.index("wgmma.mma_async") :]
    # One product stays under way, and both warp groups have waited for theirs before the slot is free again.
    steps = re.findall(r"wgmma\.wait_group\.sync\.aligned 1|bar\.sync \t0, 256|mbarrier\.arrive\.shared", loop)
    assert steps[:3] == ["wgmma.wait_group.sync.aligned 1", "bar.sync \t0, 256", "mbarrier.arrive.shared"]


def test_refuses_what_it_cannot_read_before_any_launch():
    from kernels.ops.matmul_gluon import launch_ring

    good = torch.empty(16, 16, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match=r"b has shape .* contiguous, at a multiple of 16 bytes"):
        launch_ring(good, good[:, :15], torch.empty(16, 15, dtype=torch.bfloat16))
    with pytest.raises(ValueError, match="a has shape"):
        launch_ring(good.t()[:, ::2], good[::2], good)
    with pytest.raises(ValueError, match="expected one of two bytes"):
        launch_ring(good.float(), good.float(), good.float())
