"""A Python float is float64 under torch.compile and float32 in a plain launch: kernels reckon in float32 with both."""

import re
from dataclasses import replace

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

from kernels.inspect.launches import launches
from kernels.inspect.triton import compile_triton_many

CASES = [
    ("bias_act", (64, 1024)),
    ("bias_gelu", (64, 1024)),
    ("bias_act_backward", (64, 1024)),
    ("bias_gelu_backward", (64, 1024)),
    ("rmsnorm", (64, 1024)),
    ("rmsnorm", (64, 131072)),
]
ARITHMETIC = re.compile(r"\b(?:add|sub|mul|fma|div|rcp|sqrt|max|min|neg)(?:\.\w+)*\.f64\b")


def test_no_kernel_reckons_in_float64_with_a_float64_argument():
    asked = []
    for op, shape in CASES:
        for launch in launches(op, shape, "float32"):
            floats = [name for name, kind in launch.signature.items() if isinstance(kind, float)]
            if floats:
                as_compiled = {**launch.signature, **dict.fromkeys(floats, "fp64")}
                asked.append((op, launch.name, replace(launch, signature=as_compiled).request(90)))
    assert {op for op, *_ in asked} == {op for op, _ in CASES}
    compiled = compile_triton_many([request for *_, request in asked])
    found = {(op, name): ARITHMETIC.findall(facts.ptx) for (op, name, _), facts in zip(asked, compiled, strict=True)}
    assert {key: hits[:3] for key, hits in found.items() if hits} == {}
