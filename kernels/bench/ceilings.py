"""What a card computes at most outside its matrix units: from its multiprocessors and its highest clock."""

# The highest clock in MHz that the driver reports for the card, and float32 lanes of one multiprocessor.
_HIGHEST_MHZ = {"NVIDIA H200": 1980, "NVIDIA H100 80GB HBM3": 1980, "NVIDIA A100-SXM4-80GB": 1410}
_LANES = {"NVIDIA H200": 128, "NVIDIA H100 80GB HBM3": 128, "NVIDIA A100-SXM4-80GB": 64}


def vector_peak(gpu: str, sm_count: int) -> tuple[float, str]:
    """TFLOP/s in float32, a fused multiply-add being two operations, and words that say what it is.

    Raises:
        ValueError: the card is not in the table.
    """
    if gpu not in _LANES:
        raise ValueError(f"The float32 peak of {gpu} is not known here; {', '.join(_LANES)} are.")
    return 2e-6 * sm_count * _LANES[gpu] * _HIGHEST_MHZ[gpu], "float32 without matrix units"
