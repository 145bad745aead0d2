"""cuda/patterns.cu on a GPU, through the compiled library; tests/trace/test_patterns.py checks it without one."""

import pytest

from kernels.cuda import patterns

TRANSPOSES = ("transpose_tile_32", "transpose_tile_33")
KERNELS = ("copy_rows", "copy_columns", *TRANSPOSES)


@pytest.mark.gpu
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (31, 33), (257, 65), (64, 96), (0, 5), (5, 0)])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_padded_matrix_arrives_whole(kernel, rows, columns):
    import torch

    x = torch.randn(rows, columns + 3, device="cuda")[:, :columns]
    got = getattr(patterns, kernel)(x)
    assert torch.equal(got, x.T if kernel in TRANSPOSES else x)


@pytest.mark.gpu
def test_what_is_no_matrix_of_rows_is_refused_in_words():
    import torch

    with pytest.raises(ValueError, match="copy_rows works on a matrix, and x has 1 dimensions"):
        patterns.copy_rows(torch.ones(4, device="cuda"))
    with pytest.raises(ValueError, match="neighbouring columns side by side"):
        patterns.transpose_tile_33(torch.ones(4, 5, device="cuda").T)
