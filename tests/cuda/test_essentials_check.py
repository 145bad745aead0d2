"""The check of all the Essentials' kernels: on the CPU through the trace, on a GPU as it is."""

import numpy as np
import pytest

from kernels.bench import essentials_check
from kernels.sources import Sources
from kernels.trace.cuda import trace_cuda_launcher, why_not

torch = pytest.importorskip("torch")
FILES = {f"launch_{name}": file for file, names in essentials_check.SOURCES.items() for name in names}


@pytest.fixture
def on_cpu(monkeypatch):
    """What would be launched on a GPU runs under the trace, on CPU tensors; `broken` exchanges text in the sources."""
    if why_not() is not None:
        pytest.skip(str(why_not()))
    from torch.overrides import TorchFunctionMode

    from kernels.cuda import essentials

    class Here(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            kwargs = dict(kwargs or {})
            if str(kwargs.get("device")) == "cuda":
                kwargs["device"] = "cpu"
            if getattr(function, "__name__", "") == "cuda":
                return args[0]
            return function(*args, **kwargs)

    broken: dict[str, str] = {}

    def run(root_file, launcher, tensors, numbers):
        arrays = [tensor.detach().numpy() for tensor in tensors]
        file = FILES[launcher]
        text = (Sources().root / file).read_text(encoding="utf-8")
        replace = {old: new for old, new in broken.items() if old in text}
        trace = trace_cuda_launcher(launcher, [*arrays, *numbers], source=file, replace=replace)
        assert trace.result == 0, launcher

    def nothing(*args, **named):
        return None

    chase = essentials.chase

    def follow(following, steps, where="global"):
        out = following.new_empty(1)
        run(essentials.ESSENTIALS, f"launch_chase_{where}", (following, out), (following.numel(), steps))
        return out

    assert chase is not follow
    monkeypatch.setattr(essentials, "run_launcher", run)
    monkeypatch.setattr(essentials, "_check", nothing)
    monkeypatch.setattr(essentials, "check_matrix", nothing)
    monkeypatch.setattr(essentials, "chase", follow)
    with Here():
        yield broken


def test_every_launcher_of_the_essentials_is_checked():
    files = Sources().cuda_files()
    included = {f"cuda/{name}" for name in files["cuda/essentials.cu"].includes}
    assert included == set(essentials_check.SOURCES)
    exported = {
        n for f in included for n, symbol in files[f].symbols.items() if symbol.exported and n.startswith("launch")
    }
    assert exported == set(FILES)


def test_right_kernels_pass_and_wrong_ones_are_named(on_cpu):
    assert essentials_check.wrong() == []
    on_cpu["value * -0.5f + 3.0f"] = "value * -0.5f + 3.01f"
    on_cpu["tile[line][threadIdx.x ^ line]"] = "tile[line][threadIdx.x]"
    found = essentials_check.wrong()
    assert {sentence.split()[0] for sentence in found} == {"two_paths", "transpose_swizzled"}


@pytest.mark.gpu
def test_on_the_gpu_everything_is_right():
    assert essentials_check.wrong() == []


def test_inputs_are_the_same_every_time(on_cpu):
    first = [got.clone() for _, got, _ in essentials_check.results()]
    again = [got for _, got, _ in essentials_check.results()]
    assert all(np.array_equal(a.numpy(), b.numpy(), equal_nan=True) for a, b in zip(first, again, strict=True))
