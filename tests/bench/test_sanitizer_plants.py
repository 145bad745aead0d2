"""The planted faults, without a GPU: tensors that end early, PTX with a broken barrier, what a kernel has to see."""

import re
import subprocess
from types import SimpleNamespace

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

import torch

from kernels.bench.sanitizer import plants
from kernels.bench.sanitizer.worker import Launches, Planted, symbol

PTX = """.extern .shared .align 16 .b8 global_smem[];
.visible .entry _rows(.param .u64 _rows_param_0) {
mov.b32 %r2, global_smem;
ld.global.b32 %r1, [%rd1];
st.shared.b32 [%r2], %r1;
bar.sync \t0;
ld.shared.b32 %r3, [%r2];
bar.sync 1, 128;
ret;
}
"""


@pytest.mark.parametrize(
    "tensor",
    [torch.arange(12.0).reshape(3, 4), torch.arange(12.0).reshape(3, 4).t(), torch.arange(20.0).reshape(4, 5)[:, :3],
     torch.arange(24.0).reshape(2, 3, 4), torch.arange(5.0)],
    ids=["rows", "turned", "gaps", "three dimensions", "vector"],
)  # fmt: skip
def test_a_planted_tensor_has_the_values_and_strides_and_ends_before_its_last_element(tensor):
    made = plants.planted_tensor("memcheck", tensor)
    assert made.shape == tensor.shape and made.stride() == tensor.stride()
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    assert made.untyped_storage().nbytes() == last * 4
    whole = plants.planted_tensor("initcheck", tensor)
    assert whole.untyped_storage().nbytes() == (last + 1) * 4
    flat, expected = whole.reshape(-1), tensor.reshape(-1)
    assert flat[:-1].tolist() == expected[:-1].tolist()


def test_memory_never_ends_where_the_next_allocation_may_begin():
    for elements in (127, 128, 129, 130):
        size = plants.planted_tensor("memcheck", torch.ones(elements)).untyped_storage().nbytes()
        assert size % plants.ALLOCATION and (elements - 2) * 4 <= size < elements * 4


def test_the_last_element_is_never_written():
    tensor = torch.ones(4, 8)
    whole = plants.planted_tensor("initcheck", tensor)
    writes = []
    base = torch.zeros(32).as_strided((4, 8), (8, 1))
    plants._fill_but_last(base, tensor)
    writes = base.reshape(-1).tolist()
    assert writes == [1.0] * 31 + [0.0]
    assert whole.shape == (4, 8)


def test_the_first_tensor_or_descriptor_of_a_launch_is_planted():
    from triton.tools.tensor_descriptor import TensorDescriptor

    x, y = torch.ones(8, 8), torch.ones(8, 8)
    made = plants.planted_argument("memcheck", (None, x, y, 8))
    assert made[0] is None and made[1] is not x and made[2] is y
    descriptor = TensorDescriptor(x, [8, 8], [8, 1], [4, 4])
    (made,) = plants.planted_argument("memcheck", (descriptor,))
    assert made.block_shape == [4, 4] and made.base.untyped_storage().nbytes() == 63 * 4
    with pytest.raises(ValueError, match="no tensor to plant"):
        plants.planted_argument("memcheck", (1, None))


def test_what_a_kernel_has_is_read_from_its_ptx():
    assert plants.sees(PTX) == plants.Sees(shared=True, barrier=True, other_barrier=False, loads=True)
    bare = plants.sees(".visible .entry _k() { // bar.sync 0; .shared\n st.global.b32 [%rd1], %r1; ret; }")
    assert bare == plants.Sees(shared=False, barrier=False, other_barrier=False, loads=False)
    said = {tool: plants.nothing_to_see(tool, bare) for tool in plants.TOOLS}
    assert said["memcheck"] is None and "reads nothing" in said["initcheck"]
    assert "no shared memory" in said["racecheck"] and "no barrier" in said["synccheck"]
    waits = plants.sees("st.shared.b64 [%r1], %rd1; mbarrier.try_wait.parity.shared.b64 p, [%r1], %r2;")
    assert waits.other_barrier and not waits.barrier
    assert "mbarriers only" in plants.nothing_to_see("synccheck", waits)
    assert [plants.nothing_to_see(tool, plants.sees(PTX)) for tool in plants.TOOLS] == [None] * 4
    nvcc = plants.sees_in_sass(["LDG.E.64", "STS", "BAR.SYNC.DEFER_BLOCKING"])
    assert nvcc == plants.Sees(shared=True, barrier=True, other_barrier=False, loads=True)


def test_barriers_are_taken_out_or_left_out_by_one_thread():
    assert "bar.sync" not in plants.planted_ptx("racecheck", PTX)
    shares = PTX.replace("ld.global.b32 %r1, [%rd1];", "atom.global.gpu.relaxed.add.u32 %r1, [%rd1], 1;")
    kept = plants.planted_ptx("racecheck", shares)  # barriers behind a number that all threads get stay
    assert kept.count("bar.sync") == PTX.count("bar.sync") == 2
    hands = PTX.replace("ld.global.b32 %r1, [%rd1];", "mbarrier.arrive.shared.b64 _, [%r1];")
    kept = plants.planted_ptx("racecheck", hands)  # and those of warps that hand work to warps
    assert kept.count("bar.sync") == 2
    broken = plants.planted_ptx("synccheck", PTX)  # a new one, before anything else: the kernel's own stay
    assert broken.count("@%plant_p bar.sync") == 1 and broken.count("bar.sync") == 3
    assert broken.index("@%plant_p bar.sync") < broken.index("mov.b32 %r2")


@pytest.mark.parametrize(("threads", "writers"), [(128, [0, 32]), (64, [0, 32]), (32, list(range(32)))])
def test_two_warps_of_one_block_write_one_word_before_anything_else(threads, writers):
    ptx = PTX.replace("_param_0) {", f"_param_0)\n.reqntid {threads}, 1, 1\n{{")
    planted = plants.two_warps_write_one_word(ptx)
    assert planted.count("@%plant_p st.volatile.shared.b32 [%plant_a], %plant_t") == 1
    assert all(f"%ctaid.{axis}" in planted for axis in "xyz") and "setp.eq.s32 %plant_p, %plant_a, 0" in planted
    mask = int(re.search(r"and\.b32 %plant_a, %plant_t, (-?\d+);", planted)[1])
    assert [thread for thread in range(threads) if thread & mask == 0] == writers
    assert planted.index("st.volatile") < planted.index("mov.b32 %r2")
    added = planted[planted.index("\n{ .reg .pred %plant_p") : planted.index("%plant_t; }\n") + 12]
    assert planted.replace(added, "") == ptx
    with pytest.raises(ValueError, match="no shared memory named global_smem"):
        plants.two_warps_write_one_word(PTX.replace("global_smem", "elsewhere"))


def test_an_entry_is_renamed_wherever_it_stands():
    text = plants.renamed(PTX + '\n.file 1 "_rows_helper.py"', "_rows", "_rows__p3")
    assert ".visible .entry _rows__p3(" in text and "_rows_helper" in text
    with pytest.raises(ValueError, match="no entry named '_columns'"):
        plants.renamed(PTX, "_columns", "x")


def test_the_assembler_takes_what_was_planted(tmp_path):
    from triton import knobs

    from kernels.inspect.launches import launches, stage_text

    (launch,) = launches("softmax", (4096, 8192), "float32")
    ptx = plants.renamed(stage_text(launch, 90, "ptx"), launch.name, symbol(launch.name, 5))
    assert plants.nothing_to_see("synccheck", plants.sees(ptx)) is None
    for tool in plants.PTX_TOOLS:
        source = tmp_path / f"{tool}.ptx"
        source.write_text(plants.planted_ptx(tool, ptx))
        command = [knobs.nvidia.ptxas.path, "-arch=sm_90a", str(source), "-o", str(tmp_path / "out")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def launches(monkeypatch):
    """Launches of a tool's plants over a stand-in for Triton, which compiles PTX through the hook."""
    from triton import knobs
    from triton.runtime.jit import JITFunction

    def compile_and_run(function, *arguments, **keywords):
        text = PTX if function.fn.__name__ == "_rows" else PTX.replace("bar.sync 1, 128;", "")
        stages = {"ptx": lambda source, metadata: text.replace("_rows", metadata["name"])}
        knobs.runtime.add_stages_inspection_hook(None, stages, None, None, 90)
        metadata = {"name": function.fn.__name__}
        ran.append((function.hash, arguments))
        return SimpleNamespace(asm={"ptx": stages["ptx"]("", metadata)}, name=metadata["name"])

    ran = []
    monkeypatch.setattr(JITFunction, "run", compile_and_run)
    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", None)

    def make(tool, phase):
        made = Launches(tool, phase)
        made.ran = ran
        return made

    return make


def kernel(name):
    return SimpleNamespace(fn=SimpleNamespace(__name__=name), cache_key="key", hash=None, device_caches={0: 1})


class Function(SimpleNamespace):
    """As Triton's: its hash follows its text."""

    def __hash__(self):
        return hash(self.hash or self.cache_key)


def test_kernels_run_under_the_name_of_their_path_and_under_a_hash_of_their_own(launches):
    rows = Function(**vars(kernel("_rows")))
    watched = launches("racecheck", "clean")
    watched.begin(7, None)
    compiled = watched.run(rows, (torch.ones(4),), {})
    assert compiled.name == "_rows__p7" and "bar.sync" in compiled.asm["ptx"]
    assert watched.noted["_rows"]["symbol"] == "_rows__p7" and watched.noted["_rows"]["sees"]["barrier"]
    watched.begin(8, None)
    watched.run(rows, (torch.ones(4),), {})
    watched.begin(7, None)
    watched.run(rows, (torch.ones(4),), {})
    first, second, third = (text for text, _ in watched.ran)
    assert first != second and first == third and rows.device_caches == {}


@pytest.mark.parametrize("tool", plants.TOOLS)
def test_only_the_named_kernel_gets_the_fault_and_ends_the_path(launches, tool):
    rows, finish = Function(**vars(kernel("_rows"))), Function(**vars(kernel("_finish")))
    watched, x = launches(tool, "plant"), torch.ones(4)
    watched.begin(7, "_finish")
    watched.run(rows, (x,), {})
    assert watched.ran[0][1] == (x,)
    with pytest.raises(Planted):
        watched.run(finish, (x,), {})
    (given,) = watched.ran[1][1]
    assert (given is x) == (tool in plants.PTX_TOOLS)
    assert set(watched.noted) == {"_rows", "_finish"}
    assert watched.noted["_rows"]["sees"]["barrier"]
    assert watched.noted["_finish"]["sees"]["barrier"] == (tool != "racecheck")
