"""The Triton kernels that `torch.compile` writes for a formula, without a GPU and without running them.

    python lessons_src/examples/inductor_code.py kernels.ops.softmax:_library 4096x1024 bfloat16

TorchInductor turns a traced formula into Triton source before anything is compiled, and what it asks of the GPU on
that way are properties that a data sheet has. They are answered here with those of an H200. This goes through parts
of PyTorch that are no public interface: it is written for torch 2.11 and may need a change with another.
"""

import importlib
import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

H200 = {"major": 9, "minor": 0, "multi_processor_count": 132, "regs_per_multiprocessor": 65536, "warp_size": 32,
        "max_threads_per_multi_processor": 2048, "shared_memory_per_block_optin": 232448, "name": "NVIDIA H200",
        "total_memory": 150109880320, "L2_cache_size": 62914560}  # fmt: skip


def written(requests: list[tuple[str, list[list[int]], str]]) -> list[list[str]]:
    """For each (formula as "module:function", shapes of its arguments, dtype), the source of every kernel.

    It works in a process of its own, since it changes what PyTorch believes of this machine, and without Triton's
    interpreter. RuntimeError with the end of what that process said where PyTorch cannot be asked in this way.
    """
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    asked = [sys.executable, "-m", "lessons_src.examples.inductor_code", json.dumps(requests)]
    ran = subprocess.run(asked, env=environment, capture_output=True, text=True)
    if ran.returncode:
        last = (ran.stderr.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"TorchInductor did not write code without a GPU: {last}; torch 2.11 does.")
    return json.loads(ran.stdout)


def _pretend() -> None:
    """Let PyTorch ask for the properties of a GPU that is not there."""
    import torch
    from torch._dynamo.device_interface import CudaInterface
    from torch._inductor.runtime.hints import DeviceProperties
    from torch._subclasses import fake_tensor
    from torch.utils import _triton

    properties = SimpleNamespace(**H200)
    known = {name: H200[name] for name in ("major", "multi_processor_count", "regs_per_multiprocessor", "warp_size")}
    hints = DeviceProperties(type="cuda", index=0, cc=90, max_threads_per_multi_processor=2048, **known)
    DeviceProperties.create = classmethod(lambda cls, device: hints)
    CudaInterface.Worker.get_device_properties = staticmethod(lambda device=None: properties)
    fake_tensor.init_gpu_context = lambda device: None
    _triton.triton_hash_with_backend = lambda: ""
    cuda: Any = torch.cuda
    cuda.is_available, cuda.current_device = lambda: True, lambda: 0
    cuda.get_device_properties, cuda.get_device_capability = lambda *_: properties, lambda *_: (9, 0)


def kernels_of(formula: str, shapes: list[list[int]], dtype: str) -> list[str]:
    """The kernels of one formula. Call `_pretend` first."""
    import torch
    from torch._inductor.debug import DebugContext
    from torch._inductor.decomposition import select_decomp_table
    from torch._inductor.fx_passes.post_grad import post_grad_passes
    from torch._inductor.graph import GraphLowering
    from torch._inductor.virtualized import V
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    module, _, name = formula.partition(":")
    function = getattr(importlib.import_module(module), name)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        given = [torch.empty(shape, dtype=getattr(torch, dtype), device="cuda:0") for shape in shapes]
    traced = make_fx(function, tracing_mode="fake", decomposition_table=select_decomp_table())(*given)
    with V.set_debug_handler(DebugContext()), V.set_fake_mode(mode):
        post_grad_passes(traced, is_inference=True)
        graph = GraphLowering(traced, example_inputs=given, is_inference=True)
        with V.set_graph_handler(graph):
            graph.run(*given)
            code, _ = graph.codegen()
    text = code if isinstance(code, str) else code.value
    return re.findall(r"@triton\.jit\n(def .*?)\n'''", text, flags=re.DOTALL)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        wanted = json.loads(sys.argv[1])
    else:
        shape = [int(extent) for extent in sys.argv[2].split("x")]
        wanted = [(sys.argv[1], [shape], sys.argv[3])]
    _pretend()
    found = [kernels_of(*request) for request in wanted]
    print(json.dumps(found) if len(sys.argv) == 2 else "\n\n".join(found[0]))
