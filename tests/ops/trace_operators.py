"""Trace a registered operator with fake tensors; print which kernels torch found in it.

Run by test_library.py in a process of its own, since an interpreted kernel cannot be wrapped.
"""

import torch
from functorch.compile import aot_function
from torch._library.triton import get_triton_kernels_for_op
from torch._subclasses import FakeTensorMode

from tests.ops.test_library import scaled

names = [kernel.fn.__name__ for kernel in get_triton_kernels_for_op("kernel_lessons::test_scaled")]
print("kernels named:", names)

graphs = []


def keep(graph, _inputs):
    graphs.append(graph)
    return graph


with FakeTensorMode():
    aot_function(scaled, keep, keep)(torch.empty(5, 6, requires_grad=True)).sum().backward()
nodes = [node for graph in graphs for node in graph.graph.nodes if "triton_kernel_wrapper" in str(node.target)]
print("kernels in the graphs:", len(nodes))
