"""Exercise of Lesson 1: the differences between neighbours, out[i] = x[i + 1] - x[i], in blocks.

    lessons check offsets

x has one element more than out. Edit only what lies between the marks. Everything is plain Python: a program is the
function `difference_program`, called once for each program number.
"""


def load(memory, offsets, mask, other=0.0):
    """The elements at the offsets. Where the mask is False, memory is left alone and `other` stands in."""
    return [memory[offset] if inside else other for offset, inside in zip(offsets, mask, strict=True)]


def store(memory, offsets, values, mask):
    """Write the values at the offsets. Where the mask is False, memory is left alone."""
    for offset, value, inside in zip(offsets, values, mask, strict=True):
        if inside:
            memory[offset] = value


def program_count(n, block):
    """How many programs cover n results, when each owns `block` offsets; 0 for n = 0."""
    # --- fill in ---
    # As few as possible, and every result has a program: the last ones too, where block does not divide n.
    raise NotImplementedError("return the number of programs")
    # --- end ---


def program_offsets(program, block):
    """The offsets that program number `program` owns: a list of `block` neighbouring numbers."""
    # --- fill in ---
    # Program 0 begins at 0. Where does program 1 begin? Those past the end of the vector are in the list, too.
    raise NotImplementedError("return the list of offsets")
    # --- end ---


def in_bounds(offsets, n):
    """The mask: for each offset, True where it is one of n elements, else False."""
    # --- fill in ---
    # The elements are numbered from 0. What is the number of the last one?
    raise NotImplementedError("return the list of True and False")
    # --- end ---


def difference_program(program, x, out, n, block):
    """One program: out[i] = x[i + 1] - x[i] for its offsets i. x has n + 1 elements, out has n."""
    # --- fill in ---
    # Take the offsets and the mask from the functions above. Then two loads and a store, each with the mask.
    # The loads are from x: one at the offsets, one a step further on.
    raise NotImplementedError("load twice, subtract, store")
    # --- end ---


def differences(x, out, n, block):
    """The launch: every program once."""
    for program in range(program_count(n, block)):
        difference_program(program, x, out, n, block)
