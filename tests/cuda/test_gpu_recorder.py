"""cuda/gpu_trace/: it compiles without a warning, and its program names every launch. Needs no GPU."""

import json
import subprocess

import pytest


@pytest.mark.nvcc
def test_the_driver_of_the_recorder_lists_every_launch_without_a_gpu(tmp_path):
    from kernels.cuda.recorder import build_driver

    done = subprocess.run([build_driver(tmp_path, 90), "--list"], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    kernels = {line["kernel"] for line in lines}
    assert {"vector_add", "softmax_online_scalar", "transpose_tile_33"} <= kernels and len(kernels) == 9
    assert len(lines) == 3 + 4 * 6 + 4 * 4
    assert lines[1]["shape"] == {"n": 257} and lines[1]["buffers"]["out"]["bytes"] == 1028


@pytest.mark.nvcc
def test_the_recorder_compiles_without_a_warning_where_the_sanitizer_api_is(tmp_path):
    from kernels.cuda.recorder import SanitizerMissing, build_recorder

    try:
        library, patches = build_recorder(tmp_path, 90)
    except SanitizerMissing as missing:
        pytest.skip(str(missing))
    assert library.stat().st_size > 0 and patches.stat().st_size > 0


@pytest.mark.nvcc
def test_a_missing_sanitizer_api_is_a_sentence(tmp_path, monkeypatch):
    from kernels.cuda.recorder import SanitizerMissing, build_recorder

    monkeypatch.setenv("SANITIZER_HOME", str(tmp_path))
    with pytest.raises(SanitizerMissing, match=r"no include/sanitizer\.h with a libsanitizer-public\.so"):
        build_recorder(tmp_path, 90)
