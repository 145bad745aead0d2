"""A kernel whose file turns Triton's interpreter on by itself."""

import os

os.environ["TRITON_INTERPRET"] = "1"

import triton
import triton.language as tl


@triton.jit
def one(out_ptr):
    tl.store(out_ptr, 1.0)
