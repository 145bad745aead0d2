"""What the compiler makes of the kernels of attention's backward pass, on a machine without a GPU too."""

import json
import os
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
