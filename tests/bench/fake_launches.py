"""Prints, as JSON, which kernels each kernel path launches, with no GPU: run in a process of its own by a test."""

import json
import warnings

from torch._subclasses.fake_tensor import FakeTensorMode

from kernels.inspect.launches_worker import stand_ins

recorder, card = stand_ins()
launched: list[str] = []


def note(kernel, grid, arguments, keywords):
    while not hasattr(kernel, "params"):
        kernel = kernel.fn
    launched.append(f"{kernel.fn.__module__}:{kernel.fn.__name__}")


recorder.note = note

import torch  # noqa: E402

from kernels.bench.sanitizer.paths import kernel_paths  # noqa: E402

card.name, card.multi_processor_count, card.major, card.minor = "sm_90", 132, 9, 0
found = []
for path in kernel_paths():
    if path.cuda:
        continue
    launched.clear()
    tensors = path.inputs()
    with FakeTensorMode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fakes = [torch.empty_strided(t.size(), t.stride(), dtype=t.dtype, device="cuda:0") for t in tensors]
        try:
            path.call(*fakes)
            error = None
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}"
    found.append({"op": path.op, "way": path.way, "dtype": path.dtype, "kernels": list(launched), "error": error})
print(json.dumps(found))
