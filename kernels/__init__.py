"""GPU kernels in Triton and CUDA C++, and the site that teaches them."""

__version__ = "1.0.0"
