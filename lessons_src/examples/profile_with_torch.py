"""What PyTorch's own profiler says of ten calls of our softmax: `python lessons_src/examples/profile_with_torch.py`.

It needs no other program. On a machine with a GPU it times the kernels; on the CPU, where kernels are interpreted, it
shows only what PyTorch itself ran.
"""

import os

import torch
from torch.profiler import ProfilerActivity, profile, record_function

GPU = torch.cuda.is_available()
if not GPU:
    os.environ["TRITON_INTERPRET"] = "1"

from kernels.ops.softmax import softmax  # noqa: E402 (Triton looks at the variable when it is imported)

CALLS = 10


def main() -> None:
    x = torch.randn((4096, 1024) if GPU else (4, 64), device="cuda" if GPU else "cpu")
    softmax(x), torch.softmax(x, -1)  # compiling is no part of the profile
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if GPU else [])]) as seen:
        for _ in range(CALLS):
            with record_function("ours"):
                softmax(x)
            with record_function("PyTorch's"):
                torch.softmax(x, -1)
        if GPU:
            torch.cuda.synchronize()
    order = "self_device_time_total" if GPU else "self_cpu_time_total"
    print(f"{'name':<44}{'calls':>6}{'host µs a call':>16}{'GPU µs a call':>15}")
    for row in sorted(seen.key_averages(), key=lambda row: -getattr(row, order))[:8]:
        host, device = row.cpu_time_total / row.count, row.self_device_time_total / row.count
        print(f"{row.key[:42]:<44}{row.count:>6}{host:>16.1f}{device:>15.2f}")


if __name__ == "__main__":
    main()
