"""Operators as PyTorch knows them: one schema, one launcher, a gradient, and a direct way for calls that need neither.

An operator is registered once, by `register`, from a Python function whose annotations are its schema. Where kernels
are compiled it becomes a `torch.library.triton_op`, which torch.compile opens, so that Inductor sees the kernels
inside; where Triton interprets it becomes a `torch.library.custom_op`, which stays closed, because interpreted kernels
cannot be wrapped. Either way `opcheck` passes, torch.compile makes one graph of it, and autograd records it.

All of that costs tens of microseconds of the host's time. A call on plain tensors with no gradient to record needs none
of it, so a public function asks `direct` first and then launches by itself:

    def softmax(x):
        if torch.compiler.is_compiling():
            return _softmax(x)  # the registered operator; its forward checks the arguments
        checks.require_tensor("x", x, differentiable=True)
        return _forward(x) if direct(x) else _softmax(x)

and the function that was registered launches with `launch(wrap_triton(_kernel), grid, arguments, **constants)`. The
words wrap_triton(_kernel) stand there because torch reads the source for them: a compiled graph's cache key then holds
the kernel's text, and an edited kernel is never taken from an old cache.
"""

from collections.abc import Callable, Sequence

import torch
import triton
from torch.autograd import forward_ad
from triton.runtime.jit import JITFunction

NAMESPACE = "kernel_lessons"
INTERPRETED = bool(triton.knobs.runtime.interpret)
PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter)
MAX_READY = 4096  # prepared launches; all are forgotten when there are more

_ready: dict[tuple, tuple] = {}


def register(
    name: str,
    forward: Callable,
    fake: Callable,
    *,
    save: Callable | None = None,
    backward: Callable | None = None,
) -> Callable:
    """Register `forward` as the operator kernel_lessons::<name> and return what calls it.

    forward: annotated with the types of torch's schemas (Tensor, Tensor | None, int, float, bool; one Tensor or a tuple
    of them comes back). It checks its arguments, allocates its outputs, and returns neither an input nor a view of one.
    It runs on fake tensors too while torch.compile opens it: no values, and sizes that may be symbols.
    fake: same arguments; returns empty outputs with the shapes, dtypes and strides that forward returns.
    save: `setup_context(ctx, inputs, output)` of torch.library.register_autograd, for calls that record a gradient.
    backward: `backward(ctx, *gradients)`; a gradient has any layout, zero strides of expand() included.
    Without it, asking for a gradient raises NotImplementedError with a sentence: an operator that computes a gradient
    is registered without one, and so refuses the second derivative.
    """
    make = torch.library.custom_op if INTERPRETED else torch.library.triton_op
    operator = make(f"{NAMESPACE}::{name}", forward, mutates_args=())
    operator.register_fake(fake)
    operator.register_autograd(backward or _refusal(name), setup_context=save)
    return operator


def _refusal(name: str) -> Callable:
    def refuse(ctx, *_gradients):
        of = f"the gradient that {name.removesuffix('_backward')} computed" if name.endswith("_backward") else name
        raise NotImplementedError(
            f"{of} has no derivative of its own here; expected one backward pass without create_graph=True, "
            f"or the same formula in PyTorch operations, which can be differentiated again."
        )

    return refuse


def direct(*tensors: torch.Tensor | None) -> bool:
    """Whether a call on these tensors may launch by itself: plain tensors, no gradient to record, nobody watching.

    Watching are torch.compile, a dispatch mode (fake tensors, make_fx, a counter of calls), torch.func and
    forward-mode differentiation. About a microsecond.
    """
    recording = torch.is_grad_enabled()
    for tensor in tensors:
        if tensor is not None and (type(tensor) not in PLAIN_TYPES or (recording and tensor.requires_grad)):
            return False
    return not (
        torch._C._len_torch_dispatch_stack()
        or torch._C._functorch.peek_interpreter_stack() is not None
        or forward_ad._current_level >= 0
        or torch.compiler.is_compiling()
    )


def wrap_triton(kernel: object) -> object:
    """torch.library.wrap_triton where somebody traces; otherwise, and for an interpreted kernel, the kernel itself.

    A wrapped kernel goes through a higher-order operator, which takes 0.15 ms of the host's time.
    """
    if isinstance(kernel, JITFunction) and (torch._C._len_torch_dispatch_stack() or torch.compiler.is_compiling()):
        return torch.library.wrap_triton(kernel)
    return kernel


def launch(kernel: object, grid: tuple[int, ...], arguments: Sequence, **constants: object) -> Callable | None:
    """Launch on the GPU of the first argument, which need not be the current one.

    kernel: what `wrap_triton` returned. arguments: tensors, numbers and None in the kernel's order, without its
    constants; tensors come first. constants: its tl.constexpr parameters, and num_warps or num_stages.

    A launch like an earlier one (the same kernel, device, dtypes, alignment, numbers and constants) skips Triton's own
    look-up, which costs more time than a small kernel runs. It returns a function of tensors that makes the same launch
    with them in the place of the ones here; they must be on the same GPU, of the same dtypes and as well aligned. The
    first launch of its kind, and one that is interpreted or traced, returns None.
    """
    if not isinstance(kernel, JITFunction):  # interpreted, or being traced
        kernel[grid](*arguments, **constants)
        return None
    device = arguments[0].get_device()
    if device != torch.cuda.current_device():
        with torch.cuda.device(device):
            return _launch_here(kernel, grid, arguments, constants, device)
    return _launch_here(kernel, grid, arguments, constants, device)


def _launch_here(
    kernel: JITFunction, grid: tuple, arguments: Sequence, constants: dict, device: int
) -> Callable | None:
    described = [(each.dtype, each.data_ptr() % 16) if isinstance(each, torch.Tensor) else each for each in arguments]
    key = (id(kernel), device, *described, *constants.values())
    ready = _ready.get(key)
    if ready is None:
        compiled = kernel[grid](*arguments, **constants)
        if compiled is not None:
            if len(_ready) >= MAX_READY:
                _ready.clear()
            rest = tuple(constants[name] for name in kernel.arg_names[len(arguments) :])
            _ready[key] = (kernel, compiled, rest)  # the kernel is kept: its id stays its own
        return None
    _, compiled, rest = ready
    run = compiled[(*grid, 1, 1)[:3]]
    run(*arguments, *rest)
    rest = (*(each for each in arguments if not isinstance(each, torch.Tensor)), *rest)

    def again(*tensors: torch.Tensor) -> None:
        if device != torch.cuda.current_device():
            with torch.cuda.device(device):
                run(*tensors, *rest)
        else:
            run(*tensors, *rest)

    return again
