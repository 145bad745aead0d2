"""What `lessons check custom_op` looks at."""

from kernels.exercises import Exercise, close, equal, fail
from kernels.ops.error_budget import budget

EXERCISE = Exercise(
    lesson="lessons/10-custom-op.md#exercise",
    task="Make a PyTorch operator of a kernel: forward pass, fake, gradient, and their registration.",
    needs="triton",
    imports=("torch._dynamo", "torch.testing._internal.optests"),
    hints=(
        "Begin with forward and check it: torch.empty for the result, one launch, return. Then write fake: it is the "
        "first line of forward, and nothing else.",
        "A number in shift is subtracted in every row, so its gradient is minus the sum over the rows, and both "
        "gradients carry the scale. backward sees dout alone: save keeps ctx.scale = inputs[2].",
        'operator = torch.library.custom_op("lessons::shift_scale", forward, mutates_args=()), then '
        "operator.register_fake(fake) and operator.register_autograd(backward, setup_context=save). dout may be any "
        "view, and scaled goes through memory from end to end: scaled(dout.contiguous(), ctx.scale).",
    ),
    explain=(
        "torch.compile never runs a kernel to find out what it returns. It asks the *fake*, so the fake must name the "
        "shape, the dtype and the strides that the kernel really gives: `torch.empty(x.shape, ...)` is contiguous, "
        "while `torch.empty_like(x)` keeps the strides of a transposed `x`. The schema promises that no input changes "
        "and that the result has memory of its own, and a compiled graph relies on that. A gradient "
        "arrives as autograd made it: that of a `sum()` has strides of 0. And a number that was broadcast to every row "
        "gets the sum of what comes back from the rows, once."
    ),
)


def matrices(dtype="float32", rows=5, columns=7):
    """(words, x) for each way in which a matrix may lie in memory."""
    import torch

    generator = torch.Generator().manual_seed(10 * rows + columns)
    x = torch.randn(columns, 2 * rows, generator=generator).to(getattr(torch, dtype))
    return (
        ("x contiguous", x[:, :rows].t().contiguous()),
        ("x transposed", x[:, :rows].t()),
        ("x every second column", x.t().reshape(rows, 2 * columns)[:, ::2]),
    )


def shift_for(x):
    """A shift of its own for each column."""
    import torch

    return torch.linspace(-2.0, 3.0, x.shape[1], dtype=x.dtype)


def exact(x, shift, scale):
    """The formula in float64."""
    return (x.double() - shift.double()) * scale


def allowed(dtype, terms, largest):
    """The error that `terms` additions in float32 and one rounding to the dtype may make of numbers up to `largest`."""
    return budget(dtype, max(2, terms), magnitude=largest).allows(largest)


def compare(out, x, shift, scale, given):
    """`out` against the formula, with a tolerance for two operations and one rounding."""
    import torch

    if not isinstance(out, torch.Tensor):
        fail(f"forward returned {type(out).__name__}; it returns the tensor that it wrote.", given=given)
    expected = exact(x, shift, scale)
    equal(tuple(out.shape), tuple(x.shape), given=f"the shape of the result, {given}")
    largest = float(expected.abs().max()) if expected.numel() else 0.0
    close(out, expected, allowed(str(x.dtype)[6:], 2, largest), given=given)


@EXERCISE.check("the forward pass", cause="The result is not the formula.", anchor="#the-code")
def result(answer):
    for words, x in matrices():
        compare(answer.forward(x.clone(), shift_for(x), 1.5), x, shift_for(x), 1.5, f"{words}, scale 1.5")


@EXERCISE.check(
    "the inputs stay as they are",
    cause="The schema says mutates_args=(): no argument changes. The kernel wrote to one.",
    hint="torch.empty gives the result memory of its own.",
    anchor="#what-the-schema-promises",
)
def inputs(answer):
    import torch

    for words, x in matrices():
        shift = shift_for(x)
        before = {"x": x.clone(), "shift": shift.clone()}
        answer.forward(x, shift, 1.5)
        for name, tensor in (("x", x), ("shift", shift)):
            if not torch.equal(tensor, before[name]):
                fail(
                    f"{name} was changed by the forward pass, and the schema promises that no argument is.",
                    given=words,
                    at=f"{name}[0]" if name == "shift" else f"{name}[0, 0]",
                    expected=before[name].flatten()[0].item(),
                    got=tensor.flatten()[0].item(),
                )
            equal(tensor.tolist(), before[name].tolist(), given=f"{name}, {words}")


@EXERCISE.check(
    "the result has memory of its own",
    cause="A compiled graph may write to a result, and to an input, without asking whether they are one.",
    hint="Also where nothing is to be done, a copy comes back.",
    anchor="#what-the-schema-promises",
)
def apart(answer):
    import torch

    for scale, shifted in ((1.5, True), (1.0, False), (0.0, True)):
        for words, x in matrices():
            shift = shift_for(x) if shifted else torch.zeros(x.shape[1])
            out = answer.forward(x, shift, scale)
            compare(out, x, shift, scale, f"{words}, scale {scale}")
            for name, tensor in (("x", x), ("shift", shift)):
                if out.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr():
                    given = f"{words}, scale {scale}, shift {'of numbers' if shifted else 'of zeros'}"
                    fail(f"The result lies in the memory of {name}: it is an alias of an input.", given=given)


@EXERCISE.check(
    "the fake tells what forward returns",
    cause="torch.compile plans memory by what the fake says; where the kernel does otherwise, numbers are mixed up.",
    anchor="#the-fake",
)
def told(answer):
    import torch

    for dtype in ("float32", "float16"):
        for words, x in (*matrices(dtype), ("no rows", torch.empty(0, 7, dtype=getattr(torch, dtype)))):
            shift = shift_for(x)
            out = answer.forward(x, shift, 2.0)
            thought = answer.fake(x.to("meta"), shift.to("meta"), 2.0)
            given = f"{words}, {dtype}"
            for what in ("shape", "dtype", "strides", "device"):
                asked = {
                    "shape": lambda tensor: tuple(tensor.shape),
                    "dtype": lambda tensor: str(tensor.dtype),
                    "strides": lambda tensor: tensor.stride(),
                    "device": lambda tensor: "where x is" if tensor.device.type in ("cpu", "meta") else tensor.device,
                }[what]
                if what == "device" and thought.device.type != "meta":
                    fail(
                        "The fake allocates memory on the CPU, whatever device x is on.",
                        given=given,
                        got=thought.device,
                    )
                real, said = asked(out), asked(thought)
                if real != said:
                    sentence = f"The fake says {what} {said}, and forward returns {what} {real}."
                    fail(sentence, given=given, at=f"the {what} of the result", expected=real, got=said)
                equal(said, real, given=f"{what}, {given}")


def gradients(answer, x, upstream, given, scale=2.5):
    """Both gradients against those of the formula in float64."""
    shift = shift_for(x)
    leaves = [each.detach().clone().requires_grad_() for each in (x, shift)]
    out = answer.make()(*leaves, scale)
    compare(out.detach(), leaves[0].detach(), shift, scale, f"through the operator, {given}")
    out.backward(upstream)
    rows = x.shape[0]
    for name, leaf, expected, terms in (
        ("x", leaves[0], upstream.double() * scale, 1),
        ("shift", leaves[1], -(upstream.double() * scale).sum(dim=0), rows),
    ):
        if leaf.grad is None:
            fail(f"{name} got no gradient: backward returned None for it.", given=given)
        largest = float((upstream.double() * scale).abs().sum(dim=0).max()) if name == "shift" else 0.0
        largest = largest or float(expected.abs().max())
        given_all = f"the gradient of {name}, scale {scale}, {given}"
        close(leaf.grad, expected, allowed("float32", terms, largest), given=given_all)


@EXERCISE.check(
    "the gradients",
    cause="The derivative of (x - shift) * scale is scale for x, and minus scale for shift, in every row.",
    anchor="#the-gradient",
    seconds=90,
)
def gradient(answer):
    import torch

    x = matrices()[0][1]
    upstream = torch.randn(x.shape, generator=torch.Generator().manual_seed(3))
    gradients(answer, x, upstream, "an upstream gradient that is contiguous")


@EXERCISE.check(
    "upstream gradients with any strides",
    cause="scaled goes through the memory of dout from end to end, and a view does not lie there in order.",
    hint="Ask dout for a contiguous copy, or use PyTorch operations, which read any strides.",
    anchor="#the-gradient",
    seconds=90,
)
def strided(answer):
    import torch

    x = matrices()[0][1]
    rows, columns = x.shape
    numbers = torch.randn(columns, rows, generator=torch.Generator().manual_seed(4))
    gradients(answer, x, numbers.t(), "an upstream gradient that is transposed")
    row = torch.randn(rows * columns, generator=torch.Generator().manual_seed(5))[:columns]
    gradients(answer, x, row.expand(rows, columns), "an upstream gradient with a row stride of 0, as of expand()")


@EXERCISE.check(
    "torch.compile makes one graph of it",
    cause="The compiler cannot look into the operator. Without a fake it has nobody to ask what comes out.",
    hint="operator.register_fake(fake)",
    anchor="#one-graph",
    seconds=120,
)
def graph(answer):
    import torch

    operator = answer.make()
    graphs = []

    def count(graph, examples):
        graphs.append(graph)
        return graph.forward

    def function(x, shift):
        return operator(torch.relu(x), shift, 2.0) + 1.0

    torch._dynamo.reset()
    for words, x in matrices()[:2]:
        graphs.clear()
        try:
            out = torch.compile(function, backend=count)(x, shift_for(x))
        except Exception as error:
            if "no fake impl" in str(error):
                fail("torch.compile gives up: the operator has no fake.", given=words, expected="1 graph", got="none")
            raise
        equal(len(graphs), 1, given=f"graphs, {words}")
        expected = exact(torch.relu(x), shift_for(x), 2.0) + 1.0
        close(out, expected, allowed("float32", 3, float(expected.abs().max())), given=f"compiled, {words}")


@EXERCISE.check(
    "opcheck",
    cause="torch.library.opcheck tries what schema, fake and gradient promise; backward runs without numbers, too.",
    hint="A kernel that is launched in backward has to be inside of an operator as well: scaled is one.",
    anchor="#opcheck",
    seconds=120,
)
def opcheck(answer):
    import torch

    operator = answer.make()
    for words, x in matrices():
        arguments = (x.detach().clone().requires_grad_(), shift_for(x).requires_grad_(), 2.0)
        try:
            found = torch.library.opcheck(operator, arguments)
        except Exception as error:
            # What it says of its own arguments, and of a trace that nobody sees here, is left out.
            text = " ".join(str(error).split()).replace("opcheck(op, ...): ", "").partition(" (scroll up")[0]
            fail(text[:400], given=words)
        else:
            equal(set(found.values()), {"SUCCESS"}, given=f"opcheck, {words}")


def timed(answer, device):
    """What `lessons scratch` times: forward and backward of rows of 1000, 4096 of them on a GPU, else 8."""
    import torch

    operator = answer.make()
    x = torch.randn(4096 if device == "cuda" else 8, 1000, device=device, requires_grad=True)
    shift = torch.randn(1000, device=device, requires_grad=True)

    def both():
        out = operator(x, shift, 0.5)
        torch.autograd.grad(out.sum(), (x, shift))
        return out

    return both
