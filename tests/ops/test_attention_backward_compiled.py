"""What the compiler makes of the kernels of attention's backward pass, on a machine without a GPU too."""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.inspect.limits import shared_limit_bytes

pytestmark = pytest.mark.triton


def test_products_are_asynchronous_and_next_to_nothing_is_spilled():
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_")}
    script = Path(__file__).with_name("compile_attention_backward.py")
    root = str(script.parents[2])
    environment["PYTHONPATH"] = os.pathsep.join([root, environment.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, cwd=root)
    assert done.returncode == 0, done.stderr[-2000:]
    facts = json.loads(done.stdout)
    assert set(facts) == {"keys 64", "keys 128", "queries 64", "queries 128"}
    for name, fact in facts.items():
        assert fact["wgmma"] and not fact["mma"], name
        assert fact["shared_bytes"] <= shared_limit_bytes(90), name
        # 14 numbers of a thread at most. With scores as queries by keys it is 122 in the kernel of the keys.
        assert fact["stack_bytes"] <= 56, f"{name}: {fact['stack_bytes']} bytes lie in local memory"


@pytest.mark.parametrize(
    "kernel", ["attention:_attention_queries", "attention_backward:_attention_keys", "attention_backward:_attention_dq"]
)
def test_a_graph_that_passes_the_scale_as_float64_compiles_to_the_same_arithmetic(kernel):
    """torch.compile types a Python float so; loops over float32 would not compile with it."""
    from kernels.inspect import TritonRequest, compile_triton_many

    module = importlib.import_module(f"kernels.ops.{kernel.partition(':')[0]}")
    names = getattr(module, kernel.partition(":")[2]).arg_names
    constants = {"D": 64, "CAUSAL": True, "WINDOW": 0, "RAGGED": False, "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_D": 64}
    floats = ("lse_ptr", "delta_ptr")

    def request(number):
        arguments = {}
        for name in names:
            if name in constants:
                arguments[name] = constants[name]
            elif name in ("scale", "factor"):
                arguments[name] = number
            elif name.endswith("_ptr"):
                arguments[name] = "*fp32" if name in floats else "*i32" if name == "lengths_ptr" else "*bf16"
            else:
                arguments[name] = 1 if name == "group" else 4096
        return TritonRequest(f"kernels.ops.{kernel}", arguments, 90, 4)

    double, single = compile_triton_many([request("fp64"), request("fp32")])
    assert double.instructions("DADD") == double.instructions("DMUL") == double.instructions("DFMA") == 0
    assert double.instructions("HGMMA") == single.instructions("HGMMA") > 0


def test_the_distance_of_two_blocks_of_keys_is_multiplied_in_64_bits():
    """A position stride times 64 keys leaves 32 bits from 2**25 elements on. The interpreter would not wrap."""
    from kernels.inspect.launches import Launch, stage_text
    from kernels.ops.attention import _attention_queries

    constants = {"D": 64, "CAUSAL": False, "WINDOW": 0, "RAGGED": False, "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_D": 64}
    arguments = {name: constants.get(name, "i32") for name in _attention_queries.arg_names} | {"scale": "fp32"}
    arguments |= dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "out_ptr"), "*bf16")
    arguments |= {"lse_ptr": "*fp32", "lengths_ptr": "*i32"}
    text = stage_text(Launch("kernels.ops.attention:_attention_queries", arguments, (1, 1, 1), 4, 3), 90, "ttir")
    products = [line for line in text.splitlines() if "arith.muli" in line and re.search(r"%[kv]_stride_n\b", line)]
    assert [line for line in products if re.search(r": i32\b", line)] == []
    assert {"%k_stride_n", "%v_stride_n"} <= set(re.findall(r"arith\.extsi (%[kv]_stride_n)\b", text))
