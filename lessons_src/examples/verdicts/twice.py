import triton
import triton.language as tl


@triton.jit
def twice(x_ptr, out_ptr, reach, kept, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < reach) if MASKED else tl.load(x_ptr + i)
    tl.store(out_ptr + i, 2 * x, mask=i < kept)
