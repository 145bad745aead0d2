"""Launches that begin before the kernel in front of them has ended: programmatic dependent launch.

Between two kernels of a stream a GPU stands still for about a microsecond: the second one's programs start when the
first one has ended. From compute capability 9.0 on, a launch with `launch_pdl` may start its programs once every
program of the kernel in front has started and said so, or ended. They must not touch memory yet: `begin_early` says
that the next kernel may start in turn, and waits until the one in front has ended and what it wrote can be seen.

So a short kernel has a twin that begins early and then does the same work. Nothing else differs.
"""

import functools

import torch
import triton
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait
from triton.runtime.jit import JITFunction


@triton.jit
def begin_early():
    """Let the next kernel start, and wait for the one in front; to be called before any memory is touched."""
    gdc_launch_dependents()
    gdc_wait()


@functools.cache
def has_early_starts(device: torch.device) -> bool:
    """Whether the device is a GPU of compute capability 9.0 or more."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 9


def starts_early(kernel: object, device: torch.device) -> bool:
    """Whether a launch of `kernel` may begin early on the device; not while torch traces it, nor interpreted."""
    return isinstance(kernel, JITFunction) and has_early_starts(device)
