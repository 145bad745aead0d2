"""The Gluon product, by what its compiler says alone: nothing interprets it. On a GPU, test_matmul.py runs it."""

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
def facts() -> dict[str, dict]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_")}
    script = Path(__file__).with_name("compile_gluon.py")
    root = str(script.parents[2])
    environment["PYTHONPATH"] = os.pathsep.join([root, environment.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, cwd=root)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_every_way_compiles_fits_and_spills_nothing():
    assert len(facts()) >= 10
    for name, fact in facts().items():
        assert fact["spills"] == 0 and fact["registers"] <= 168, name
        assert fact["shared_bytes"] <= shared_limit_bytes(90), name
        assert re.search(r"\.target sm_90a", fact["ptx"])
        # ptxas says so where it cannot leave wgmma asynchronous
        assert "Potential Performance Loss" not in fact["log"], name


def test_one_warp_fetches_and_two_groups_multiply():
    ptx = facts()["plain"]["ptx"]
    assert ".reqntid 384" in ptx and "setmaxnreg" in ptx
    assert ptx.count("wgmma.mma_async.sync.aligned.m64n256k16") == 4  # BLOCK_K is four times 16
    assert ptx.count("cp.async.bulk.tensor.2d.shared") == 5 and ptx.count("cp.async.bulk.tensor.2d.global") == 2


def test_two_consumers_are_a_warp_group_each():
    fact = facts()["two consumers"]
    assert ".reqntid 384" in fact["ptx"] and "bar.sync \t0, 256" not in fact["ptx"]
    assert fact["ptx"].count("wgmma.mma_async.sync.aligned.m64n128k16") == 16  # two, of 128 rows and four times 16 each
    assert fact["ptx"].count("cp.async.bulk.tensor.2d.global") == 2


def test_two_halves_are_a_warp_group_each_that_never_meets_the_other():
    ptx = facts()["two halves"]["ptx"]
    assert ".reqntid 384" in ptx
    # Of 64 rows and 256 columns, four times 16 deep, for each half; a is fetched in two boxes, b in four.
    assert ptx.count("wgmma.mma_async.sync.aligned.m64n256k16") == 8
    assert ptx.count("cp.async.bulk.tensor.2d.shared") == 6
    assert ptx.count("cp.async.bulk.tensor.2d.global") == 8  # each leaves in four parts
    assert ptx.count("cp.async.bulk.wait_group.read \t1;") == 8  # until the part before the last has left its buffer


def test_gelu_asks_no_number_how_large_it_is():
    ptx = facts()["two halves, bias and gelu"]["ptx"]
    assert ptx.count("ex2.approx.ftz.f32") == ptx.count("rsqrt.approx.ftz.f32") == 256
    assert "div.full" not in ptx


def test_a_launch_that_is_set_up_early_waits_for_the_one_before_it():
    for name, fact in facts().items():
        early = "set up early" in name
        assert ("griddepcontrol.wait" in fact["ptx"]) == fact["launch_pdl"] == early, name
    ptx = facts()["set up early"]["ptx"]
    assert ptx.index("griddepcontrol.wait") < ptx.index("cp.async.bulk.tensor")


def test_a_turned_operand_is_read_in_place():
    """Both operands come by the copy engine whichever way they lie, and the tensor cores are told which way that is."""
    ways = {}
    for name in ("plain", "a turned", "b turned", "both turned"):
        ptx = facts()[name]["ptx"]
        assert ptx.count("wgmma.mma_async") == 4 and "ld.global" not in ptx, name
        ways[name] = re.search(r"wgmma\.mma_async.*?%p\d+, 1, 1, ([01], [01]);", ptx, re.S)[1]
    assert ways == {"plain": "0, 1", "a turned": "1, 1", "b turned": "0, 0", "both turned": "1, 0"}


def test_the_next_product_begins_before_the_last_one_ends_and_a_slot_is_handed_back_by_all():
    ptx = facts()["plain"]["ptx"]
    loop = ptx[ptx.index("wgmma.mma_async") :]
    # One product stays under way, and both warp groups have waited for theirs before the slot is free again.
    steps = re.findall(r"wgmma\.wait_group\.sync\.aligned 1|bar\.sync \t0, 256|mbarrier\.arrive\.shared", loop)
    assert steps[:3] == ["wgmma.wait_group.sync.aligned 1", "bar.sync \t0, 256", "mbarrier.arrive.shared"]


def test_what_the_plan_takes_has_the_consumers_and_the_parts_that_it_says():
    for name in ("planned: turns", "planned: turns, both turned", "planned: turns, bias and gelu"):
        ptx = facts()[name]["ptx"]
        assert ptx.count("wgmma.mma_async.sync.aligned.m64n128k16") == 16, name
        assert ptx.count("cp.async.bulk.tensor.2d.global") == 8, name  # each of two consumers writes four parts
    short = facts()["planned: turns, a short sum, bias and gelu"]["ptx"]
    assert short.count("wgmma.mma_async.sync.aligned.m64n128k16") == 16
    assert short.count("cp.async.bulk.tensor.2d.global") == 2
    once = facts()["planned: one round, set up early"]["ptx"]
    assert once.count("wgmma.mma_async.sync.aligned.m64n128k16") == 8 and ".reqntid 256" in once


def test_who_chooses_anything_else_gets_a_plan_without_the_ring(monkeypatch):
    from kernels.ops import matmul_launch

    monkeypatch.setattr(matmul_launch, "_may_describe", lambda _: True)
    monkeypatch.setattr(matmul_launch, "_may_ring", lambda _: True)
    monkeypatch.setattr(matmul_launch, "_matmul_tiles", object.__new__(matmul_launch.JITFunction))
    monkeypatch.setattr(matmul_launch, "sm_count", lambda _: 132)
    x = torch.empty((1, 1, 4096, 4096), dtype=torch.bfloat16, device="meta")

    def plan(**choices):
        return matmul_launch.plan_for(x, x, x[0, 0], "ieee", choices)

    assert plan().path == plan(path=None, splits=None).path == plan(path="ring").path == "ring"
    assert matmul_launch.plan_for(x, x, x[0, 0], "ieee", {}, residual=x[0, 0]).path == "persistent"
    assert (plan(splits=2).path, plan(splits=2).splits) == ("persistent", 2)
    assert (plan(block_n=64).path, plan(path="persistent").block_n) == ("persistent", 256)
    assert (plan(path="tiles").num_stages, plan(path="tiles").subtiles) == (3, 1)


@pytest.mark.parametrize("N", [64, 72, 60, 63])
@pytest.mark.parametrize("offset", [0, 1])
def test_only_whole_pieces_of_16_bytes_leave_by_the_copy_engine(N, offset, monkeypatch):
    """The copy engine writes all of a piece: rows that end inside one, or begin there, are written by pointers."""
    from kernels.ops import matmul_launch

    found = []
    monkeypatch.setattr(matmul_launch, "_may_describe", lambda _: True)
    monkeypatch.setattr(matmul_launch, "_may_ring", lambda _: True)
    monkeypatch.setattr(matmul_launch, "launch", lambda *_, **__: None)
    monkeypatch.setattr(matmul_launch, "_launch_described", lambda _k, _g, arguments, *_, **__: found.append(arguments))
    a, b = torch.empty(64, 64).bfloat16(), torch.empty(64, N).bfloat16()
    out = torch.empty(64 * N + offset).bfloat16()[offset:].view(64, N)
    assert out.data_ptr() % 16 == 2 * offset
    matmul_launch.launch_product(a, b, out, "ieee", choices={"path": "persistent", "splits": 1, "turned": False})
    described = found[0][2] is not None
    assert described == matmul_launch._out_describable(out) == (N % 8 == 0 and not offset)


@pytest.mark.gpu
@pytest.mark.parametrize("path", ["persistent", "ring"])
@pytest.mark.parametrize("shape", [(300, 264, 128), (130, 1032, 64), (300, 260, 128), (257, 1023, 64)], ids=str)
def test_nothing_is_written_beside_the_output(shape, path):
    from kernels.ops.matmul import inputs, launch_matmul, reference, sum_tolerance

    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("needs a GPU of compute capability 9.0: no other runs the kernel, and nothing interprets it")
    M, N, K = shape
    if path == "ring" and N % 8:
        path = None  # the plan's own, which the ring refuses
    a, b = inputs(shape, "bfloat16", "cuda", seed=1, padding=8)
    band = 4096
    around = torch.full((M * N + 2 * band,), 7.0, dtype=torch.bfloat16, device="cuda")
    out = around[band : band + M * N].view(M, N)
    launch_matmul(a, b, out, path=path, splits=1)
    rtol, atol = sum_tolerance("bfloat16", K)
    torch.testing.assert_close(out.double(), reference(a, b), rtol=rtol, atol=atol)
    assert (around[:band] == 7).all() and (around[band + M * N :] == 7).all()


def test_the_launcher_refuses_what_the_ring_cannot_write(monkeypatch):
    from kernels.ops import matmul_launch

    monkeypatch.setattr(matmul_launch, "_may_describe", lambda _: True)
    monkeypatch.setattr(matmul_launch, "_may_ring", lambda _: True)
    monkeypatch.setattr(matmul_launch, "_launch_described", lambda *_, **__: pytest.fail("it was launched"))

    def launch(N, residual=False, dtype=torch.bfloat16, **choices):
        a, b, out = (torch.empty(size, dtype=dtype, device="meta") for size in ((64, 64), (64, N), (64, N)))
        more = {"residual": out} if residual else {}
        matmul_launch.launch_product(a, b, out, "ieee", choices={"path": "ring", **choices}, **more)

    with pytest.raises(ValueError, match=r'block_m is 64 for path="ring" with consumers="halves"; expected'):
        launch(64, block_m=64, consumers="halves")
    with pytest.raises(ValueError, match=r'subtiles is 4; expected 1 or 2, or path="ring"'):
        launch(64, path="persistent", subtiles=4)
    for wrong in ({"N": 60}, {"N": 64, "residual": True}, {"N": 64, "dtype": torch.float32}):
        with pytest.raises(ValueError, match=r'path is "ring"; expected compute capability 9\.0, a two-byte dtype'):
            launch(**wrong)
