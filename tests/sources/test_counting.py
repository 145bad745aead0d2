"""Lines of code: what counts, and what a symbol reaches."""

import pytest

from kernels.sources import code_lines, lines_reached

PYTHON = '''
    # a comment
    def add(x, y):
        """A docstring

        of three lines."""
        text = """a string
        that is code"""

        return x + y  # with a comment
'''
CUDA = """
// a comment
__global__ void add(int n) {  // another
  /* a comment
     of two lines */
  if (n > 0) { /* here */ return; }

}
"""


def test_comments_docstrings_and_blank_lines_do_not_count():
    assert code_lines(PYTHON) == 4
    assert code_lines(CUDA, "cuda") == 3
    assert code_lines("") == 0 and code_lines("", "cuda") == 0
    with pytest.raises(SyntaxError):
        code_lines("def (")


def test_a_symbol_counts_with_what_it_reaches_and_kernels_apart_from_the_rest():
    kernels, rest = (lines_reached("kernels.ops.add:_launch", only) for only in (True, False))
    assert kernels == 9 + 11  # of each two lines of decorator and signature; seven and nine of the body
    assert lines_reached("kernels.ops.add:_launch") == kernels + rest
    assert lines_reached("cuda/kernels.cu:vector_add") == lines_reached("cuda/kernels.cu:vector_add", True) > 5
    assert lines_reached("cuda/kernels.cu:vector_add", False) == 0


def test_names_that_one_statement_binds_are_one_line():
    from kernels.sources import explain

    assert {"kernels.ops.add:BLOCK_SIZE", "kernels.ops.add:NUM_WARPS"} <= set(explain("kernels.ops.add:_launch"))
    assert lines_reached("kernels.ops.add:_launch", False) == 7  # two constants in one line and one more, the launcher
