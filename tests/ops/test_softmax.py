import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.ops import softmax as module
from kernels.ops.softmax import OP, launch_softmax, softmax

from .shared import Framed, assert_matches, views, whole_storage

# The interpreter of Triton 3.6 reads a run-time loop bound in a way that numpy deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array with ndim:DeprecationWarning")

CASES = [pytest.param(case.shape, id="x".join(map(str, case.shape))) for case in OP.checks]
PATHS = [
    pytest.param({"path": "block"}, id="block"),
    pytest.param({"path": "looped", "block": 16}, id="looped"),
    pytest.param({"path": "twice"}, id="twice"),
    pytest.param({"path": "split", "block": 16}, id="split"),
]
if torch.cuda.is_available():  # programs of the interpreter cannot wait for one another
    PATHS.append(pytest.param({"path": "joint", "block": 16}, id="joint"))
INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("dtype", OP.dtypes)
@pytest.mark.parametrize("shape", CASES)
def test_matches_the_reference_and_leaves_its_input_alone(shape, dtype, device, poisoned):
    inputs = OP.inputs(shape, dtype, device, seed=1)
    before = whole_storage(inputs[0])
    assert_matches(OP, softmax(*inputs), inputs, dtype)
    assert torch.equal(whole_storage(inputs[0]), before)


@pytest.mark.parametrize("choice", PATHS)
@pytest.mark.parametrize("dtype", OP.dtypes)
@pytest.mark.parametrize("width", [1, 15, 16, 17, 100])  # around the looped kernel's chunk, and several chunks
def test_both_kernels_fill_their_output_and_nothing_else(width, dtype, choice, device):
    (x,) = OP.inputs((5, width), dtype, device, seed=2)
    framed = Framed(5, width, x.dtype, device)
    assert launch_softmax(x, framed.out, **choice) is framed.out
    assert_matches(OP, framed.out.contiguous(), (x,), dtype)
    framed.assert_frame_untouched()


@pytest.mark.parametrize("num_warps", [1, 4, 8, 32])
@pytest.mark.parametrize("block", [128, 512, 2048])
def test_every_launch_parameter_gives_the_same_weights(block, num_warps, device):
    (x,) = OP.inputs((3, 100), "float32", device, seed=3)
    for path in ("block", "looped", "twice"):
        out = launch_softmax(x, torch.full((3, 100), NAN, device=device), path=path, block=block, num_warps=num_warps)
        assert_matches(OP, out, (x,), "float32")


@pytest.mark.parametrize("choice", PATHS)
@pytest.mark.parametrize("name", views("cpu"))
def test_any_strides(name, choice, device, poisoned):
    x = views(device)[name]
    assert_matches(OP, softmax(x), (x,), "float32")
    rows = x.reshape(-1, x.shape[-1]) if x.dim() != 2 else x
    out = launch_softmax(rows, torch.full(rows.shape, NAN, device=device), **choice)
    assert_matches(OP, out, (rows,), "float32")


SPECIAL_ROWS = {
    "one masked element": [1.0, -INF, 2.0],
    "first chunk masked": [-INF] * 16 + [1.0, 2.0],
    "last chunk masked": [1.0, 2.0] + [-INF] * 31,
    "two chunks masked, then one element": [-INF] * 32 + [-5.0],
    "fully masked": [-INF] * 33,
    "fully masked, one element": [-INF],
    "plus infinity": [1.0, INF, 2.0],
    "plus infinity late": [1.0] * 17 + [INF],
    "plus and minus infinity": [INF, -INF, 0.0],
    "NaN": [1.0, NAN, 2.0],
    "NaN first, then a chunk": [NAN] + [1.0] * 20,
    "NaN last": [1.0] * 20 + [NAN],
    "NaN only": [NAN] * 16,
    "NaN among masked": [-INF] * 17 + [NAN],
    "largest finite": [65504.0, 65504.0, -65504.0],
    "equal": [3.0] * 20,
}


@pytest.mark.parametrize("choice", PATHS)
@pytest.mark.parametrize("dtype", OP.dtypes)
@pytest.mark.parametrize("name", SPECIAL_ROWS)
def test_special_values_as_pytorch(name, dtype, choice, device):
    row = torch.tensor(SPECIAL_ROWS[name], dtype=getattr(torch, dtype), device=device)
    x = torch.stack([torch.zeros_like(row), row, torch.zeros_like(row)])  # its neighbours must not notice
    out = launch_softmax(x, torch.full_like(x, 9.0), **choice)
    expected = torch.softmax(x, dim=-1)
    assert torch.equal(out.isnan(), expected.isnan())
    rtol, atol = OP.tolerance(dtype, x.shape)
    torch.testing.assert_close(out.double(), expected.double(), rtol=2 * rtol, atol=atol, equal_nan=True)
    assert (out[x == -INF].nan_to_num(nan=0.0) == 0).all()


def test_the_whole_range_of_float32(device):
    # A rewrite as exp2(x * log2(e) - m * log2(e)) overflows here: inf - inf.
    x = torch.tensor([[3.0e38, 3.0e38, -3.0e38]], device=device)
    assert softmax(x).tolist() == [[0.5, 0.5, 0.0]]


@settings(deadline=None, max_examples=25, derandomize=True)
@given(
    rows=st.integers(1, 9),
    width=st.integers(1, 90),
    scale=st.sampled_from([0.01, 1.0, 30.0]),
    shift=st.floats(-1000, 1000),
    seed=st.integers(0, 10**6),
    looped=st.booleans(),
)
def test_rows_sum_to_one_and_a_shift_changes_nothing(device, rows, width, scale, shift, seed, looped):
    choice = {"path": "looped", "block": 32} if looped else {}
    generator = torch.Generator(device).manual_seed(seed)
    # Multiples of 1/64 and a whole shift: x + shift is exact, so both sides see the same differences.
    x = (torch.randn(rows, width, generator=generator, device=device) * scale * 64).round() / 64
    out = launch_softmax(x, torch.full_like(x, NAN), **choice)
    shifted = launch_softmax(x + round(shift), torch.full_like(x, NAN), **choice)
    rtol, atol = OP.tolerance("float32", (rows, width))
    assert (out >= 0).all()
    torch.testing.assert_close(out.double().sum(-1), torch.ones(rows, device=device).double(), rtol=rtol, atol=0)
    assert torch.equal(out, shifted)
    torch.testing.assert_close(out.double(), OP.reference(x), rtol=rtol, atol=atol)


@settings(deadline=None, max_examples=15, derandomize=True)
@given(st.permutations(range(20)))
def test_weights_follow_their_columns(device, order):
    (x,) = OP.inputs((2, 20), "float32", device, seed=6)
    rtol, atol = OP.tolerance("float32", (2, 20))
    torch.testing.assert_close(softmax(x[:, order]), softmax(x)[:, order], rtol=2 * rtol, atol=atol)


@pytest.mark.parametrize("shape", [(0, 8), (8, 0), (0,), (2, 0, 5), (3, 4, 0)])
def test_empty_input_launches_nothing(shape, device, monkeypatch):
    monkeypatch.setattr(module, "_launch", None)
    out = softmax(torch.empty(shape, device=device))
    assert out.shape == shape and out.dtype == torch.float32


@pytest.mark.parametrize("choice", PATHS)
@pytest.mark.parametrize("shape,strides", [((3, 8), (2**30, 1)), ((2, 3), (1, 2**30))], ids=["rows", "columns"])
def test_offsets_past_2_to_the_31(shape, strides, choice, device):
    # 2 * 2**30 is -2**31 in 32 bits. On a CPU only the pages that are touched take memory.
    if device == "cuda" and torch.cuda.mem_get_info()[0] < 6e9:
        pytest.skip("needs 6 GB of free GPU memory")
    try:
        buffer = torch.empty(2**31 + 8, dtype=torch.bfloat16, device=device)
    except RuntimeError:
        pytest.skip("cannot reserve 4.3 GB of address space")
    x = buffer.as_strided(shape, strides)
    for i in range(3):
        x.select(strides.index(2**30), i).fill_(i + 1)
    out = launch_softmax(x, torch.full(shape, NAN, dtype=torch.bfloat16, device=device), **choice)
    assert_matches(OP, out, (x,), "bfloat16")
    if strides[0] == 2**30:
        assert out.tolist() == [[0.125] * 8] * 3


def test_a_tensor_on_another_gpu_than_the_current_one():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    with torch.cuda.device(0):
        inputs = OP.inputs((3, 31), "float32", "cuda:1", seed=7)
        assert_matches(OP, softmax(*inputs), inputs, "float32")


class Recorder:
    """Stands for a kernel: keeps the grid and the constants of the launch, and computes nothing."""

    def __init__(self, name: str, launches: list):
        self.name, self.launches = name, launches

    def __getitem__(self, grid):
        return lambda *arguments, **constants: self.launches.append((self.name, grid, constants))


@pytest.mark.parametrize(
    "choice,launches",
    [
        ({}, [("_softmax_rows", (3,), {"BLOCK_M": 8, "BLOCK_N": 128, "num_warps": 2})]),
        ({"block": 2048}, [("_softmax_rows", (17,), {"BLOCK_M": 1, "BLOCK_N": 2048, "num_warps": 4})]),
        ({"num_warps": 8}, [("_softmax_rows", (3,), {"BLOCK_M": 8, "BLOCK_N": 128, "num_warps": 8})]),
        ({"path": "looped"}, [("_softmax_looped", (17,), {"BLOCK_N": 128, "num_warps": 2})]),
        ({"path": "twice"}, [("_softmax_twice", (17,), {"BLOCK_N": 128, "num_warps": 2})]),
        ({"path": "twice", "block": 4096}, [("_softmax_twice", (17,), {"BLOCK_N": 4096, "num_warps": 8})]),
        (
            {"path": "looped", "block": 32, "num_warps": 1},
            [("_softmax_looped", (17,), {"BLOCK_N": 32, "num_warps": 1})],
        ),
        (
            {"path": "split", "block": 32},
            [
                ("_softmax_parts", (68,), {"BLOCK_M": 1, "BLOCK_N": 32, "num_warps": 2}),
                ("_softmax_finish", (68,), {"ALL_PARTS": 4, "BLOCK_M": 1, "BLOCK_N": 32, "num_warps": 2}),
            ],
        ),
    ],
)
def test_the_launch_is_the_one_that_was_chosen(choice, launches, device, monkeypatch):
    seen = []
    for name in ("rows", "looped", "twice", "parts", "finish", "joint", "words"):
        name = f"_softmax_{name}"
        monkeypatch.setattr(module, name, Recorder(name, seen))
    x = torch.ones(17, 100, device=device)
    launch_softmax(x, torch.empty_like(x), **choice)
    assert seen == launches


def test_a_prepared_launch_is_made_again_for_the_same_kind_of_rows(device, monkeypatch):
    again = []
    monkeypatch.setattr(module, "_ready", {})
    monkeypatch.setattr(module, "_launch", lambda x, out: lambda *tensors: again.append(tensors))
    x = torch.ones(4, 6, device=device)
    softmax(x)
    assert again == []
    out = softmax(x)
    assert again[0][0] is x and again[0][1] is out and out.is_contiguous()
    # The same kind by its numbers alone: what stands in the way of a launch still does.
    with pytest.raises(ValueError, match="negates on reading"):
        softmax(torch._neg_view(x))
    assert softmax(x.detach().requires_grad_()).requires_grad
    assert len(again) == 1
    # Not the same kind: a shape, strides, a dtype, an alignment; and a batch that had to be copied first.
    other = [x[:3], x.t(), x.half(), torch.ones(25, device=device)[1:].view(4, 6), x.expand(3, 4, 6).transpose(0, 1)]
    for each in other:
        softmax(each)
    assert len(again) == 1 and len(module._ready) == 5


@pytest.mark.parametrize("shape", [(2, 200), (20, 30)], ids=["few wide rows", "side by side"])
def test_the_same_input_gives_the_same_bits(shape, device):
    for choice in PATHS:
        (x,) = OP.inputs(shape[::-1], "float32", device, seed=5, padding=0)
        for rows in (x.t(), x.t().contiguous()):
            (options,) = choice.values
            first, again = (launch_softmax(rows, torch.empty_like(rows.contiguous()), **options) for _ in range(2))
            assert torch.equal(first, again)


@pytest.mark.parametrize(
    "choice,message",
    [
        ({"path": "loop"}, 'path is \'loop\'; expected "block", "twice", "joint", "split", "looped" or None.'),
        ({"block": 100}, "block is 100; expected a power of two from 1 to 32768."),
        ({"block": 65536}, "block is 65536; expected a power of two from 1 to 32768."),
        ({"block": 64}, 'block is 64 for rows of 100 elements; expected at least 100, or path="looped".'),
        ({"num_warps": 3}, "num_warps is 3; expected a power of two from 1 to 32."),
        ({"num_warps": 64}, "num_warps is 64; expected a power of two from 1 to 32."),
    ],
)
def test_launch_softmax_refuses_a_choice(choice, message, device, monkeypatch):
    monkeypatch.setattr(module, "_launch", None)
    x = torch.ones(2, 100, device=device)
    with pytest.raises(ValueError) as error:
        launch_softmax(x, torch.empty_like(x), **choice)
    assert str(error.value) == message


def test_a_single_block_refuses_a_row_that_is_too_wide(device, monkeypatch):
    monkeypatch.setattr(module, "_launch", None)
    x = torch.ones(1, 32769, device=device)
    with pytest.raises(ValueError, match="block is 32768 for rows of 32769 elements; expected at least 32769"):
        launch_softmax(x, torch.empty_like(x), path="block")
