"""The operators by name: one line a file. Importing this imports torch and Triton."""

from importlib import import_module

from kernels.ops.op import Op

NAMES = (
    "add",
    "row_sum",
    "softmax",
    "softmax_backward",
    "rmsnorm",
    "rmsnorm_backward",
    "bias_act",
    "bias_act_backward",
    "histogram",
    "matmul",
    "fused_gemm",
    "matmul_train",
    "attention",
    "attention_backward",
    "split_softmax",
)


def _records(name: str) -> tuple[Op, ...]:
    """A file's record, and those of the same kernel with another constant."""
    module = import_module(f"kernels.ops.{name}")
    return module.OP, *getattr(module, "MORE", ())


OPS: dict[str, Op] = {record.name: record for name in NAMES for record in _records(name)}


def get(name: str) -> Op:
    """The operator of that name; KeyError with a sentence that lists the names there are."""
    if name not in OPS:
        raise KeyError(f"There is no operator named {name!r}; there are {', '.join(OPS)}.")
    return OPS[name]
