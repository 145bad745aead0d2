"""What `lessons check triton_add` looks at."""

from kernels.exercises import Exercise, close, equal, fail, read_whole, traced

EXERCISE = Exercise(
    lesson="lessons/8-first-triton-kernels.md#exercise-add",
    task="Add two vectors in Triton: one kernel, and the launch that covers every element.",
    needs="triton",
    hints=(
        "Write the Python function of one program first, as in Lesson 1. Each of its lines becomes one line of the "
        "kernel, and the loop over the offsets is gone: tl.arange(0, BLOCK) is all of them at once.",
        "offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), and an offset exists where offsets < n. Both loads "
        "and the store need that mask. How many programs? n / BLOCK, rounded up: triton.cdiv(n, BLOCK).",
        "_add[(triton.cdiv(n, BLOCK),)](x, y, out, n, BLOCK=BLOCK) launches. In the kernel: tl.load(x_ptr + offsets, "
        "mask=mask), the same for y, then tl.store(out_ptr + offsets, x + y, mask=mask).",
    ),
    explain=(
        "A program owns `BLOCK` neighbouring offsets, from `tl.program_id(0) * BLOCK` on, and holds all of them at "
        "once. The last program may own fewer elements than it has offsets; the mask keeps the rest away from memory, "
        "in each load as well as in the store. `n / BLOCK` rounded *up* programs cover every element, and none is "
        "without work."
    ),
)


def added(answer, n, dtype="float32", begin=0):
    """Runs the answer on n elements that lie `begin` elements into larger tensors, and compares. Returns the trace."""
    import torch

    generator = torch.Generator().manual_seed(n + begin)
    x, y = (torch.randn(n + begin, generator=generator).to(getattr(torch, dtype))[begin:] for _ in range(2))
    out = torch.full_like(torch.empty(n + begin, dtype=x.dtype), float("nan"))[begin:]
    place = f", views that begin {begin} elements into a tensor" if begin else ""
    given = f"n = {n}, {dtype}{place}"
    trace = traced(lambda: answer.add(x, y, out), {"x": x, "y": y, "out": out}, outputs=["out"], given=given)
    expected = x.double() + y.double()
    roundoff = 2.0**-11 if dtype == "float16" else 2.0**-24  # one rounding of the exact sum
    tolerance = 2 * roundoff * float(expected.abs().max())
    owners = trace.owners("out")
    unread = [name for name in ("x", "y") if not (trace.counts(name, "read") > 0).all()]
    cause = f"no program reads all of {' and '.join(unread)}" if unread else ""
    close(out, expected, tolerance, given=given, owner=lambda i: f"program {owners[i]}", cause=cause)
    read_whole(trace, ("x", "y"), given=given)
    return trace


@EXERCISE.check(
    "one whole block",
    cause="The sum itself is off, or the program does not begin at element 0.",
    hint="Program 0 owns the offsets 0 to BLOCK - 1; it loads both blocks, adds them and stores the result.",
    anchor="#exercise-add",
)
def whole_block(answer):
    added(answer, 256)


@EXERCISE.check(
    "half-precision vectors",
    cause="The dtype of the tensors decides; nothing needs to be converted.",
    anchor="#exercise-add",
)
def half(answer):
    added(answer, 256, "float16")


@EXERCISE.check(
    "a last program with less than a block",
    cause="The tail: a mask that is missing or wrong, or a program that is missing.",
    hint="257 elements take two programs of 256. The second one owns a single element: which of its offsets exist?",
    anchor="#exercise-add",
)
def ragged(answer):
    for n in (257, 1000, 1):
        added(answer, n)


@EXERCISE.check(
    "views that begin anywhere",
    cause="A pointer points to the first element of the view, wherever that lies.",
    anchor="#pointers-and-strides",
)
def views(answer):
    for n, begin in ((300, 1), (513, 7)):
        added(answer, n, begin=begin)


@EXERCISE.check(
    "every program has work",
    cause="A program is not a thread: it owns a whole block of elements, so n / BLOCK rounded up is enough.",
    anchor="#a-program-is-not-a-thread",
)
def work(answer):
    for n in (512, 256, 600):
        trace = added(answer, n)
        busy = {int(program) for program in trace.select(what="write", active=True).columns["block"]}
        programs = sum(launch.blocks for launch in trace.launches)
        idle = [program for program in range(programs) if program not in busy]
        if idle:
            fail(
                f"{programs} programs were launched, and {len(busy)} of them wrote something: program {idle[0]} "
                f"{'is the first that has' if len(idle) > 1 else 'has'} nothing to do.",
                given=f"n = {n}",
                expected=f"{len(busy)} programs",
                got=f"{programs} programs",
                owner=f"program {idle[0]}",
                hint="Where BLOCK divides n, the last full program ends at n, and no element is left for another.",
            )


@EXERCISE.check(
    "nothing to add", cause="0 elements take 0 programs, and 0 rounded up is still 0.", anchor="#exercise-add"
)
def nothing(answer):
    import torch

    from kernels.trace.triton import trace_triton

    x, y, out = torch.empty(3, 0)
    trace = trace_triton(lambda: answer.add(x, y, out), {"x": x, "y": y, "out": out})
    equal(sum(launch.blocks for launch in trace.launches), 0, given="the number of programs for n = 0")


def timed(answer, device):
    """What `lessons scratch` times: two vectors, of 2**26 elements on a GPU and of 5000 in the interpreter."""
    import torch

    x, y = (torch.randn(1 << 26 if device == "cuda" else 5000, device=device) for _ in range(2))
    out = torch.empty_like(x)
    return lambda: answer.add(x, y, out) or out
