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
    return (n + block - 1) // block
    # --- end ---


def program_offsets(program, block):
    """The offsets that program number `program` owns: a list of `block` neighbouring numbers."""
    # --- fill in ---
    # Program 0 begins at 0. Where does program 1 begin? Those past the end of the vector are in the list, too.
    return [program * block + lane for lane in range(block)]
    # --- end ---


def in_bounds(offsets, n):
    """The mask: for each offset, True where it is one of n elements, else False."""
    # --- fill in ---
    # The elements are numbered from 0. What is the number of the last one?
    return [offset < n for offset in offsets]
    # --- end ---


def difference_program(program, x, out, n, block):
    """One program: out[i] = x[i + 1] - x[i] for its offsets i. x has n + 1 elements, out has n."""
    # --- fill in ---
    # Take the offsets and the mask from the functions above. Then two loads and a store, each with the mask.
    # The loads are from x: one at the offsets, one a step further on.
    offsets = program_offsets(program, block)
    mask = in_bounds(offsets, n)
    here = load(x, offsets, mask)
    after = load(x, [offset + 1 for offset in offsets], mask)
    store(out, offsets, [b - a for a, b in zip(here, after, strict=True)], mask)
    # --- end ---


def differences(x, out, n, block):
    """The launch: every program once."""
    for program in range(program_count(n, block)):
        difference_program(program, x, out, n, block)
