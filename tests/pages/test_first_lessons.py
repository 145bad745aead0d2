"""The code that Lessons 1 and 2 show: right where the page says so, wrong where the page says so."""

import random

import pytest

from lessons_src.examples.programs_in_python import add, add_program


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 1000])
@pytest.mark.parametrize("block", [1, 4, 256, 1024])
def test_programs_in_python_add_in_any_order(n, block):
    x, y = [float(i * i) for i in range(n)], [0.5] * n
    expected = [a + b for a, b in zip(x, y, strict=True)]
    out = [None] * n
    programs = add(x, y, out, block)
    assert out == expected and programs == -(-n // block)
    order = list(range(programs))
    random.Random(n).shuffle(order)
    again = [None] * n
    for program in order:
        add_program(program, x, y, again, n, block)
    assert again == expected


@pytest.fixture
def views():
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    if torch.cuda.is_available():
        pytest.skip("the kernels of this page are launched on CPU tensors, in Triton's interpreter")
    x = torch.arange(32.0).reshape(4, 8)
    return {
        "contiguous": x,
        "crop": x[1:3, 2:5],
        "transpose": x.t(),
        "every other column": x[:, ::2],
        "one row, twice": x[:1].expand(2, 8),
        "empty": x[:0],
        "one column": x[:, 3:4],
    }


def test_copy_view_follows_any_strides_on_both_sides(views):
    import torch

    from lessons_src.examples.copy_view import copy_view

    for name, view in views.items():
        rows, columns = view.shape
        for out in (torch.full((rows, columns + 3), -1.0)[:, :columns], torch.full((columns, rows), -1.0).t()):
            copy_view(view, out)
            assert torch.equal(out, view), name
            whole = out._base
            assert whole is None or int((whole == -1).sum()) == whole.numel() - view.numel(), name


def test_the_kernel_without_strides_is_right_on_contiguous_rows_and_wrong_on_a_crop(views):
    import torch

    from lessons_src.examples.copy_view import copy_view_by_shape

    for name, right in (("contiguous", True), ("crop", False)):
        out = torch.full(views[name].shape, float("nan"))
        copy_view_by_shape(views[name], out)
        assert torch.equal(out, views[name]) == right, name


def test_copy_view_refuses_shapes_that_differ(views):
    from lessons_src.examples.copy_view import copy_view

    with pytest.raises(ValueError, match=r"x is \(4, 8\) and out is \(2, 3\); both must be one matrix shape"):
        copy_view(views["contiguous"], views["crop"])
