"""The vector addition of Lesson 1 in plain Python: one function, called once for each program number.

    python lessons_src/examples/programs_in_python.py

`load` and `store` do to a list what `tl.load` and `tl.store` do to the memory of a GPU.
"""


def load(memory, offsets, mask, other=0.0):
    """The elements at the offsets. Where the mask is False, memory is left alone and `other` stands in."""
    return [memory[offset] if inside else other for offset, inside in zip(offsets, mask, strict=True)]


def store(memory, offsets, values, mask):
    """Write the values at the offsets. Where the mask is False, memory is left alone."""
    for offset, value, inside in zip(offsets, values, mask, strict=True):
        if inside:
            memory[offset] = value


def add_program(program, x, y, out, n, block):
    """One program: it owns `block` neighbouring offsets, and adds those that are elements."""
    offsets = [program * block + lane for lane in range(block)]
    mask = [offset < n for offset in offsets]
    left, right = load(x, offsets, mask), load(y, offsets, mask)
    store(out, offsets, [a + b for a, b in zip(left, right, strict=True)], mask)


def add(x, y, out, block=256):
    """The launch: as many programs as cover all elements. Returns their number."""
    n = len(x)
    programs = (n + block - 1) // block
    for program in range(programs):
        add_program(program, x, y, out, n, block)
    return programs


if __name__ == "__main__":
    x, y = [float(i) for i in range(257)], [1.0] * 257
    out = [None] * 257
    programs = add(x, y, out)
    print(f"{programs} programs, right in every element: {out == [a + b for a, b in zip(x, y, strict=True)]}")
