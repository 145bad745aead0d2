"""Builds matmul_ext ahead of time: run `pip install --no-build-isolation .` in this folder."""

from pathlib import Path

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

HERE = Path(__file__).resolve().parent

setup(
    name="matmul_ext",
    version="1",
    ext_modules=[
        CUDAExtension(
            "matmul_ext",
            [str(HERE / "matmul_ext.cu")],
            include_dirs=[str(HERE.parents[2] / "cuda")],
            extra_compile_args={"cxx": ["-O2"], "nvcc": ["-O3", "-lineinfo"]},
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
