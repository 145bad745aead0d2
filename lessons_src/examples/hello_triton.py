"""A first Triton program: it adds two vectors, and every program signs what it owns.

    python lessons_src/examples/hello_triton.py [--n 257] [--block 256]

With an NVIDIA GPU the kernel is compiled and runs there. Without one, or with
TRITON_INTERPRET=1, Triton's interpreter runs it on the CPU: slowly, and with the same result.
"""

import argparse
import importlib.util
import os

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("triton") is None:
    raise SystemExit("This program needs torch and triton: run `make install` in the project's folder first.")

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before the import, which reads it

import triton
import triton.language as tl


@triton.jit
def _add_and_sign(x_ptr, y_ptr, out_ptr, owner_ptr, n, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    offsets = program * BLOCK + tl.arange(0, BLOCK)  # BLOCK numbers at once
    mask = offsets < n
    total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, total, mask=mask)
    tl.store(owner_ptr + offsets, program, mask=mask)


def main(n: int = 257, block: int = 256) -> None:
    """Add two vectors of n elements, `block` to a program, and print who wrote which."""
    interpreted = triton.knobs.runtime.interpret
    device = "cpu" if interpreted else "cuda"
    print(
        "runs on",
        "the CPU, in Triton's interpreter" if interpreted else torch.cuda.get_device_name(),
    )

    generator = torch.Generator(device).manual_seed(0)
    x = torch.randn(n, generator=generator, device=device)
    y = torch.randn(n, generator=generator, device=device)
    out = torch.full_like(x, float("nan"))  # an element that nobody writes stays NaN
    owner = torch.full((n,), -1, dtype=torch.int32, device=device)

    programs = triton.cdiv(n, block)  # n / block, rounded up
    _add_and_sign[(programs,)](x, y, out, owner, n, BLOCK=block)

    print(f"{n} elements in blocks of {block}: {programs} programs")
    for program in range(programs):
        owned = (owner == program).nonzero().flatten().tolist()
        which = f"element {owned[0]}" if len(owned) == 1 else f"elements {owned[0]} to {owned[-1]}"
        print(f"  program {program} wrote {which}: {len(owned)} of its {block} offsets")
    print("right in every element:", torch.equal(out, x + y))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Add two vectors with Triton and see which program wrote what.")
    parser.add_argument("--n", type=int, default=257, help="elements, at least 1 (default 257)")
    parser.add_argument("--block", type=int, default=256, help="offsets a program, a power of two (default 256)")
    chosen = parser.parse_args()
    if chosen.n < 1 or chosen.block < 1 or chosen.block & (chosen.block - 1):
        parser.error(f"--n {chosen.n} --block {chosen.block}: n is at least 1, and block a power of two from 1 up")
    main(chosen.n, chosen.block)
