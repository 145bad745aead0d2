"""What is looked at in grid_stride_add: every access of every program, then the sums."""

from kernels.exercises import Exercise, equal, fail, traced

EXERCISE = Exercise(
    lesson="labs/1-vector-add.md#exercise",
    task="Let a fixed number of programs add two vectors of any length, each taking several blocks.",
    needs="triton",
    hints=(
        "How far apart are the blocks of one program, if all programs together take one round at a time?",
        "`tl.num_programs(0)` says how many programs there are. `range(start, stop, step)` works in a kernel, too.",
        "`for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK)`, around the starter's lines.",
    ),
    explain="""
In one round, all programs together take `tl.num_programs(0) * BLOCK` elements. So a program that begins at
`program_id * BLOCK` and goes on in steps of that size meets each block exactly once: its blocks and those of the other
programs never coincide, and none is left out. A program whose first block begins at `n` or later has nothing to do, and
`range` is empty for it. The last block may be ragged, which only the mask takes care of.
""",
)
BLOCK = 256


def added(answer, n, programs):
    """Run the answer under the trace on n elements, and compare the sums."""
    import torch

    generator = torch.Generator().manual_seed(n)
    x, y = torch.randn(n, generator=generator), torch.randn(n, generator=generator)
    out = torch.full_like(x, float("nan"))
    given = f"n = {n}, programs = {programs}, BLOCK = {BLOCK}"

    def launch():
        answer._add_grid_stride[(programs,)](x, y, out, n, BLOCK=BLOCK)

    trace = traced(launch, {"x": x, "y": y, "out": out}, outputs=["out"], given=given)
    for name in ("x", "y"):
        twice = (trace.counts(name, "read") > 1).nonzero()[0]
        if len(twice):
            first = int(twice[0])
            fail(
                f"{name}[{first}] is read more than once, which is traffic for nothing.",
                given=given,
                at=f"{name}[{first}]",
                expected="one read",
                got=f"{trace.counts(name, 'read')[first]} reads",
                owner=f"program {trace.owners(name, what='read')[first]}",
            )
    equal(out, x + y, given=given, owner=lambda i: trace.owners("out")[i])
    return trace


@EXERCISE.check("one program, one full block", cause="Both vectors are added, element by element.")
def one_block(answer):
    added(answer, 256, 1)


@EXERCISE.check("one element alone", cause="Where n is no multiple of BLOCK, only a mask keeps the last block inside.")
def one_element(answer):
    added(answer, 1, 1)


@EXERCISE.check("two programs, a ragged end", cause="Each load and each store needs the mask of its own round.")
def ragged(answer):
    added(answer, 257, 2)


@EXERCISE.check("more programs than blocks", cause="A program whose first block begins behind the end has no work.")
def idle(answer):
    added(answer, 300, 8)


@EXERCISE.check("more blocks than programs", cause="The step of the loop is what all programs take in one round.")
def rounds(answer):
    added(answer, 1000, 3)
    trace = added(answer, 4096, 4)
    busy = sorted({int(program) for program in trace.owners("out")})
    cause = "The blocks are not shared out: a program has nothing to do while another has several."
    equal(busy, [0, 1, 2, 3], given="n = 4096, programs = 4, BLOCK = 256: the programs that write", cause=cause)


def timed(answer, device):
    """What `lessons scratch` times: 2**26 elements for 1056 programs on a GPU, 5000 for 4 in the interpreter."""
    import torch

    n, programs = (1 << 26, 1056) if device == "cuda" else (5000, 4)
    x, y = (torch.randn(n, device=device) for _ in range(2))
    out = torch.empty_like(x)

    def launch():
        answer._add_grid_stride[(programs,)](x, y, out, n, BLOCK=BLOCK)
        return out

    return launch
