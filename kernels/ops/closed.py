"""Registration of operators that torch.compile does not open; those of `kernels.ops.library.register` it does.

For kernels whose arguments cannot be traced, such as descriptors, and around which there is nothing to fuse.
"""

from collections.abc import Callable

import torch

from kernels.ops.library import NAMESPACE, _refusal


def register_closed(
    name: str, forward: Callable, fake: Callable, *, save: Callable | None = None, backward: Callable | None = None
) -> Callable:
    """As `kernels.ops.library.register`, but a `custom_op` everywhere: one node of a compiled graph."""
    operator = torch.library.custom_op(f"{NAMESPACE}::{name}", forward, mutates_args=())
    operator.register_fake(fake)
    operator.register_autograd(backward or _refusal(name), setup_context=save)
    return operator
