"""The operators by name: one line each. Importing this imports torch and Triton."""

from importlib import import_module

from kernels.ops.op import Op

NAMES = (
    "add",
    "row_sum",
    "softmax",
    "softmax_backward",
)

OPS: dict[str, Op] = {name: import_module(f"kernels.ops.{name}").OP for name in NAMES}


def get(name: str) -> Op:
    """The operator of that name; KeyError with a sentence that lists the names there are."""
    if name not in OPS:
        raise KeyError(f"There is no operator named {name!r}; there are {', '.join(OPS)}.")
    return OPS[name]
