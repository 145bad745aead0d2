"""An output that lies on an input would be read after it was written: refused before any launch."""

import pytest
import torch

from kernels.ops.add import launch_add
from kernels.ops.softmax import launch_softmax


def test_add_may_write_over_an_input_but_not_beside_it(device):
    buffer = torch.arange(9.0, device=device)
    y = torch.ones(8, device=device)
    with pytest.raises(ValueError, match=r"out overlaps x in memory \(bytes 4 to 36 and 0 to 32"):
        launch_add(buffer[:8], y, buffer[1:])
    with pytest.raises(ValueError, match="out overlaps y"):
        launch_add(y, buffer[:8], buffer[1:])
    assert torch.equal(buffer, torch.arange(9.0, device=device))  # nothing was launched
    same = launch_add(buffer[:8], y, buffer[:8])
    assert torch.equal(same, torch.arange(8.0, device=device) + 1)


def test_softmax_refuses_overlapping_outputs(device):
    buffer = torch.randn(4, 16, device=device)
    for out in (buffer[:, :8], buffer[:, 4:12]):
        with pytest.raises(ValueError, match="out overlaps x in memory"):
            launch_softmax(buffer[:, :8], out)
    with pytest.raises(ValueError, match="row stride of 0 for rows of 8 elements"):
        launch_softmax(buffer[:, :8], torch.empty(8, device=device).expand(4, 8))


def test_softmax_may_write_beside_its_input(device):
    """Two halves of one buffer, and two buffers: apart."""
    buffer = torch.randn(4, 16, device=device)
    wanted = torch.softmax(buffer[:, :8], dim=1)
    torch.testing.assert_close(launch_softmax(buffer[:, :8], buffer[:, 8:]), wanted)
    torch.testing.assert_close(launch_softmax(buffer[:, :8], torch.empty(4, 8, device=device)), wanted)


@pytest.mark.parametrize("shape", [(0, 8), (8, 0), (0, 0)])
def test_an_empty_launch_returns_its_output(device, shape):
    out = torch.empty(shape, device=device)
    assert launch_softmax(torch.empty(shape, device=device), out) is out
