"""An implementation has one colour, one mark and one kind of dashes in every plot."""

import re

import pytest

from kernels.figures.charts import line_chart, numbered


@pytest.mark.parametrize(
    ("names", "numbers"),
    [
        (["ours, Triton", "torch", "eager", "torch.compile"], [0, 1, 4, 2]),
        (["ours, Triton", "torch.compile"], [0, 2]),
        (["PyTorch", "triton", "CUDA"], [1, 0, 3]),
        (["softmax_serial", "torch", "softmax_online"], [5, 1, 6]),
        (["1,024", "4,096"], [0, 1]),
        (["triton", "triton, warps 8"], [0, 5]),
    ],
)
def test_names_of_implementations_have_numbers_of_their_own(names, numbers):
    assert list(numbered(names).values()) == numbers


def test_a_line_has_the_colour_of_its_name_in_the_plot_and_in_its_legend():
    for others in (["torch"], ["torch", "torch.compile"]):
        series = {name: [(1, 1.0), (2, 2.0)] for name in ["ours, Triton", *others, "eager"]}
        drawn = line_chart(series, "n", "y")
        assert set(re.findall(r'kl-end (kl-c\d)"[^>]*>eager<', drawn)) == {"kl-c4"}
        key = re.search(r'<path class="kl-point (kl-c\d)" d="[^"]*"/></svg> eager</li>', drawn)
        assert key and key[1] == "kl-c4"
        assert len(re.findall(r'class="kl-line kl-c4 kl-dash', drawn)) == 3  # wide, narrow, legend


def test_two_points_at_one_x_are_no_line():
    with pytest.raises(ValueError, match="'cublas' has two points at 1,024; a line has one"):
        line_chart({"cublas": [(1024, 1.0), (2048, 3.0), (1024, 2.0)]}, "n", "y")
