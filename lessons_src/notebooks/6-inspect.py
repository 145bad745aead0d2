# %% [markdown]
# # Lab 6 as a notebook: profile, inspect, explain
#
# The bench beside [Lab 6](../../docs/labs/6-profile.md). What did the compiler make of a kernel? This needs no
# GPU: Triton's own compiler runs here and compiles for an H200. The reference for the tools is the guide to
# [profiling](../../docs/guides/profiling.md).

# %% id="setup" needs="triton"
from kernels.inspect import TritonRequest, compile_triton_many
from kernels.lessons.show import show

ARCH = 90  # the H200's compute capability without its dot
print("compiling for sm_90")

# %% [markdown]
# ## Predict
#
# The addition, with 1,024 elements to a program and 4 or 8 warps. How many elements has a thread, and how many
# instructions load them? More warps: more registers to a thread, or fewer?

# %% id="warps" needs="triton" html="1" evidence="compile" timeout="120"
from kernels.figures import compile_table


def request(kernel="kernels.ops.add:_add", dtype="fp32", n=1 << 20, block=1024, warps=4):
    pointers = dict.fromkeys(("x_ptr", "y_ptr", "out_ptr"), f"*{dtype}")
    return TritonRequest(kernel, {**pointers, "n": n, "BLOCK_SIZE": block}, ARCH, warps)


WARPS = (1, 2, 4, 8)
facts = compile_triton_many([request(warps=warps) for warps in WARPS])
show(compile_table(facts, caption=f"The addition with {', '.join(map(str, WARPS))} warps"))

# %% [markdown]
# ## The length that costs
#
# Now the length alone changes, from a multiple of 16 to one that is not.

# %% id="odd" needs="triton" evidence="compile" timeout="120"
from kernels.inspect.launches import count_instructions

for n, fact in zip((1 << 20, (1 << 20) + 7), compile_triton_many([request(n=1 << 20), request(n=(1 << 20) + 7)])):
    print(f"n = {n:,}: loads by bits {dict(count_instructions(fact).global_loads)}, {fact.registers} registers")

# %% [markdown]
# Same source, same result, another program. The case study on [what the compiler
# knows](../../docs/guides/case-studies/specialization.md) asks what that is worth.
#
# ## Observation and hypothesis
#
# *Observation*: with an odd length the compiled kernel has more load instructions. *Hypothesis*: it is slower.
# The second does not follow from the first. Look for the record that decides it:

# %% id="decide" needs="triton" html="1" evidence="measure"
from kernels.bench.results import records
from kernels.figures import result_table

near = [r for r in records("add") if 90_000_000 < r.shape[0] < 110_000_000 and r.implementation == "triton"]
show(result_table(near))

# %% [markdown]
# Does that decide it? Look at which kernel was measured. For long vectors of odd length the operator launches
# `_add_long`, which keeps the ragged end apart, and not the `_add` that was compiled above. A record answers for
# the kernel that ran. Compile that one as well before you conclude anything:

# %% id="long" needs="triton" html="1" evidence="compile" timeout="120"
long = [request(kernel, n=98_765_431) for kernel in ("kernels.ops.add:_add", "kernels.ops.add:_add_long")]
show(compile_table(compile_triton_many(long), caption="Two kernels on the same odd length"))

# %% [markdown]
# ## Your turn
#
# Ask for the same facts of a kernel of yours: put it into a file below lessons_src, and write its place as the
# request's kernel, as in lessons_src.examples.first_kernels and a name. Then write five sentences: what you
# observed, what you conclude, what would refute it, what you did, what came of it.
