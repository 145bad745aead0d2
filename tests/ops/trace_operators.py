"""Trace a registered operator with fake tensors; print which kernels torch found in it.

Run by test_library.py in a process of its own, since an interpreted kernel cannot be wrapped.
"""

import torch
from functorch.compile import aot_function
from torch._dynamo.backends.common import aot_autograd
from torch._library.triton import get_triton_kernels_for_op
from torch._subclasses import FakeTensorMode

from kernels.ops import checks
from kernels.ops.attention import attention
from kernels.ops.histogram import histogram
from kernels.ops.row_sum import row_sum
from kernels.ops.split_softmax import split_softmax
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

opened = []


def count(graph, _inputs):
    """Stands for a compiler: remembers the graph, and answers without the kernels."""
    opened.append(graph)
    wanted = graph.graph.output_node().args[0]

    def answer(*values):
        # Without a GPU torch cannot tell what a kernel writes, and takes x for an output too.
        x = next(each for each in values if isinstance(each, torch.Tensor))
        known = {1: x.sum(-1), 2: x}
        return [known[node.meta["val"].dim()] if hasattr(node.meta["val"], "dim") else len(x) for node in wanted]

    return answer


checks.require_runnable = lambda *_: None  # nothing runs
torch._dynamo.reset()
summed = torch.compile(row_sum, fullgraph=True, backend=aot_autograd(fw_compiler=count), dynamic=True)
for rows in (8, 9, 300, 5):
    assert summed(torch.ones(rows, 24)).tolist() == [24.0] * rows
targets = [str(node.target) for graph in opened for node in graph.graph.nodes]
print("graphs for four numbers of rows:", len(opened), sum("triton_kernel_wrapper" in name for name in targets))


def shapes(graph, _inputs):
    """Stands for a compiler as well: answers with zeros of the right shapes."""
    opened.append(graph)
    wanted = [node.meta["val"] for node in graph.graph.output_node().args[0]]
    return lambda *_values: [torch.zeros([int(n) for n in each.shape], dtype=each.dtype) for each in wanted]


x, heads = torch.ones(3, 40), torch.ones(1, 2, 8, 16)
counted = torch.arange(40)
CALLS = {
    "bins": lambda number: histogram(counted, number),
    "splits": lambda number: split_softmax(x, splits=number),
    "window": lambda number: attention(heads, heads, heads, causal=True, window=number),
}
for name, call in CALLS.items():
    opened.clear()
    torch._dynamo.reset()
    compiled = torch.compile(call, fullgraph=True, backend=aot_autograd(fw_compiler=shapes))
    for number in (3, 5, 6, 5):
        compiled(number)
    print(f"graphs for three numbers of {name}:", len(opened))
