"""Parts of a results document to build tests from."""

from kernels.bench.results import Clocks, Provenance, Record


def provenance(gpu: str = "NVIDIA H200") -> Provenance:
    return Provenance(
        gpu=gpu,
        gpu_slug="h200",
        sm_count=132,
        l2_bytes=60 * 2**20,
        memory_bytes=141 * 10**9,
        clocks_before=Clocks(sm_mhz=1980.0),
        python="3.12.3",
        command="kernel-bench --op add",
        utc="2026-11-29T12:00:00Z",
    )


def record(**changes: object) -> Record:
    made = {
        "op": "add",
        "implementation": "triton",
        "ours": True,
        "shape": [257],
        "dtype": "float32",
        "status": "ok",
        "bytes_moved": 3084,
        "flops": 257,
        "timing": "graph",
        "cache": "cold",
        "samples_us": [2.0, 2.5, 3.0],
    }
    return Record(**{**made, **changes})
