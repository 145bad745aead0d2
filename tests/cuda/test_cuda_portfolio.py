"""The test program: what it prints, how it ends, and that a broken kernel does not pass."""

import json
import re
import subprocess

import pytest

from kernels.cuda import build_portfolio, why_not

NEW_GROUPS = "16 copy + 16 transpose + 15 reduction + 9 histogram + 16 fused + 25 matmul"
PASSED = f"CUDA correctness passed (3 vector + 18 softmax + {NEW_GROUPS} cases)\n"
GUARD = "if (score == -INFINITY) {"


def run(program, *arguments, env=None):
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=500, env=env)


@pytest.fixture(scope="module")
def on_cpu(cpu_portfolio):
    return cpu_portfolio()


@pytest.fixture(scope="module")
def program():
    return build_portfolio()


# ---- run on the CPU: the program's own logic -------------------------------------------------------------------------


def test_all_kernels_pass_and_the_line_is_exact(on_cpu):
    done = run(on_cpu, "--test-only")
    assert (done.returncode, done.stdout, done.stderr) == (0, PASSED, "")


@pytest.mark.parametrize("seed", ["0", "20260729", "4294967295"])
def test_other_inputs_pass_too(on_cpu, seed):
    assert run(on_cpu, "--test-only", "--seed", seed).stdout == PASSED


def test_the_counts_are_counted(cpu_portfolio):
    program = cpu_portfolio(
        {
            "        kThreads + 1,    // one full block, and a second in which only thread 0 has work\n": "",
            "        {7, 33, 40, 36, Scores::kRandom}, ": "        //",
            "        {32, 64, 0},": "        //",  # of the shapes of copies, transposes and fused patterns
            "{5003, 256, Numbers::kSpread}, ": "",
            "        {130, 136, 72, 8},": "        //",
        }
    )
    fewer = "14 copy + 12 transpose + 15 reduction + 6 histogram + 12 fused + 20 matmul"
    assert run(program, "--test-only").stdout == f"CUDA correctness passed (2 vector + 15 softmax + {fewer} cases)\n"


def test_the_block_size_is_one_constant(cpu_portfolio):
    program = cpu_portfolio({"constexpr int kThreads = 256;": "constexpr int kThreads = 128;"})
    assert run(program, "--test-only").stdout == PASSED


TAIL = "columns; column += kThreads) {\n        out_row[column] = expf(x_row[column] - row_max) * inverse;"

# Name: what is exchanged in cuda/, and what must be reported. Mutants of one group are in different kernels.
MUTANTS = {
    "a masked score that is not guarded": (
        {"if (score == -INFINITY) {": "if (false) {"},
        r"FAILED softmax_online 6x4096 .*: row 0, column 0: expected 0, got -?nan",
    ),
    "a long sum without compensation": (
        {"expf(x_row[column] - row_max) - lost;": "expf(x_row[column] - row_max) - 0.0f * lost;"},
        r"FAILED softmax_serial 2x8192 .*: row 0, column 0: expected 0\.000121\d+, got 0\.000121",
    ),
    "a tail that is not masked": (
        {"if (i < n) {\n        out[i] = x[i] + y[i];": "if (i <= n) {\n        out[i] = x[i] + y[i];"},
        r"FAILED vector_add n=257: row 1, column 0 lies outside the output",
    ),
    "partials of warps that do not exist": (
        {"lane < kWarps ? scratch[lane] : neutral": "scratch[lane]"},
        r"FAILED softmax_parallel .*: row \d+, column \d+: expected",
    ),
    "a width of four taken for alignment": (
        {"columns % 4 == 0 && is_aligned_16(x_row) && is_aligned_16(out_row)": "columns >= 4"},
        r"FAILED softmax_online 7x33 .*: row 0, column \d+: expected",
    ),
    "an output row that begins at the input's stride": (
        {"out + row * out_stride": "out + row * x_stride"},
        r"FAILED softmax_serial 7x33 .*: row 1, column 0: expected \S+, but it was never written",
    ),
    "the scalar form alone": (
        {"out_row[column] = expf(x_row[column] - value.max) * inverse;": "out_row[column] = inverse;"},
        r"FAILED softmax_online_scalar 7x33 .*: row 0, column 0: expected",
    ),
    "a row that is written one column too far": (
        {f"column < {TAIL}": f"column <= {TAIL}"},
        r"FAILED softmax_parallel 7x33 .*: row 0, column 33 lies between two rows and must stay untouched, got",
    ),
    "a copy that begins at the first element": (
        {"out[i] = x[first + i * stride];": "out[i] = x[i * stride];"},
        r"FAILED copy_strided stride 8: row 0, column 0: expected",
    ),
    "a tile that is read in another order than it was written": (
        {"tile[threadIdx.x][line ^ threadIdx.x]": "tile[threadIdx.x][line]"},
        r"FAILED transpose_swizzled 33x65 .*: row 0, column 1: expected",
    ),
    "the first warp's sum, eight times": (
        {"warp_sum(lane < kBlockSumWarps ? warp_sums[lane]": "warp_sum(lane < kBlockSumWarps ? warp_sums[0]"},
        r"FAILED block_sums_shuffle n=1000: row 0, column \d: expected",
    ),
    "a number that counts twice": (
        {"atomicAdd(&out[value], 1ull);": "atomicAdd(&out[value], 2ull);"},
        r"FAILED histogram_plain n=5003 bins=256: bin 0: expected",
    ),
    "a negative sum that passes": (
        {"(value < 0.0f ? 0.0f : value) * scale": "value * scale"},
        r"FAILED fused_bias_relu_scale_float4 32x64 .*: row \d+, column \d+: expected 0, got -",
    ),
    "a column of c that two tiles share": (
        {"sum += a_tile[y][k] * b_tile[k][x];": "sum += a_tile[y][k] * b_tile[k][x & 30];"},
        r"FAILED matmul_tiled 33x65x129 .*: row 0, column 1: expected",
    ),
    "two neighbours that change places": (
        {"__floats2bfloat162_rn(near.x, near.y)": "__floats2bfloat162_rn(near.y, near.x)"},
        r"FAILED matmul_wmma 130x136x72 .*: row 0, column 0: expected",
    ),
}
GROUPS = [list(MUTANTS)[:4], list(MUTANTS)[4:8], list(MUTANTS)[8:]]


@pytest.mark.parametrize("group", GROUPS, ids=["first", "second", "new groups"])
def test_each_broken_kernel_is_named_with_row_and_column(cpu_portfolio, group):
    done = run(cpu_portfolio({old: new for name in group for old, new in MUTANTS[name][0].items()}), "--test-only")
    assert (done.returncode, done.stdout) == (1, "")
    for name in group:
        assert re.search(MUTANTS[name][1], done.stderr), f"{name} went unseen:\n{done.stderr}"
    assert done.stderr.count("FAILED softmax_parallel 7x33") <= 5


def test_a_plain_sum_fails_the_drift_row_by_far(cpu_portfolio):
    """The 8192-wide rows alone: off by more than ten times what the other kernels may be."""
    program = cpu_portfolio(
        {
            "expf(x_row[column] - row_max) - lost;": "expf(x_row[column] - row_max);",
            "kRelative = 3e-6": "kRelative = 2.5e-5",
        }
    )
    done = run(program, "--test-only")
    failures = re.findall(r"^FAILED (\S+ \S+)", done.stderr, re.M)
    assert done.returncode == 1 and set(failures) == {"softmax_serial 2x8192"}


def test_a_thread_that_returns_before_a_barrier_is_no_pass(cpu_portfolio):
    start = "    float thread_max = -INFINITY;"
    program = cpu_portfolio({start: f"    if (threadIdx.x >= columns) return;\n{start}"})
    done = run(program, "--test-only")
    assert done.returncode == 3 and "failed with cudaErrorLaunchFailure: the kernel softmax_parallel" in done.stderr
    assert "for lanes of the mask 0xffffffff that never come" in done.stderr


# ---- the command line ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["--tests"],
        ["--seed"],
        ["--seed", "x"],
        ["--seed", "-1"],
        ["--seed", "4294967296"],
        ["--output", "f.json"],
        ["--test-only", "--bench"],
    ],
)
def test_wrong_usage_ends_with_two_and_the_usage(on_cpu, arguments):
    done = run(on_cpu, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "usage: cuda_portfolio" in done.stderr


def test_help_goes_to_standard_output(on_cpu):
    done = run(on_cpu, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: cuda_portfolio")


@pytest.mark.parametrize(("error", "status"), [("100", 77), ("35", 77), ("34", 77), ("209", 3)])
def test_no_gpu_has_a_status_of_its_own(on_cpu, error, status):
    done = run(on_cpu, "--test-only", env={"CPU_DEVICE_COUNT_ERROR": error})
    assert (done.returncode, done.stdout) == (status, "")
    assert ("pytest tests/cuda" in done.stderr) == (status == 77)


SMALL_BENCH = {
    "{int64_t{1} << 20, int64_t{1} << 24, int64_t{1} << 27}": "{int64_t{1} << 10}",
    "{4096, 1000, 1000, 1000, Scores::kRandom}, ": "{2, 1000, 1000, 1000, Scores::kRandom}};  //",
    "{4096, 1001,": "const SoftmaxShape unused[] = {{1, 1001,",
    "kSamples = 31": "kSamples = 4",
}


def check_bench(document):
    assert document["schema"] == "cuda_portfolio/1"
    assert document["gpu"]
    for record in document["records"]:
        samples = sorted(record["samples_us"])
        middle = (samples[(len(samples) - 1) // 2] + samples[len(samples) // 2]) / 2
        assert record["median_us"] == pytest.approx(middle, rel=1e-7)
        assert record["gb_per_s"] == pytest.approx(record["traffic_bytes"] / middle / 1e3, rel=1e-7)
        assert record["buffers"] >= 2 and record["launches_per_sample"] >= 1 and samples[0] > 0


def refuse(name):
    raise AssertionError(f"{name} is no JSON")


def test_bench_writes_strict_json(cpu_portfolio, tmp_path):
    program = cpu_portfolio(SMALL_BENCH)
    document = run(program, "--bench", "--output", tmp_path / "bench.json")
    assert (document.returncode, document.stdout) == (0, PASSED)
    document = json.loads((tmp_path / "bench.json").read_text(), parse_constant=refuse)
    check_bench(document)
    assert document["gpu"] == 'A "quoted" CPU\\'
    names = [record["kernel"] for record in document["records"]]
    assert names == ["vector_add", "softmax_serial", "softmax_parallel", "softmax_online", "softmax_online_scalar"]
    assert [path.name for path in tmp_path.iterdir()] == ["bench.json"]

    alone = run(program, "--bench")
    check_bench(json.loads(alone.stdout, parse_constant=refuse))
    assert alone.stderr == PASSED


# ---- the program that nvcc builds ------------------------------------------------------------------------------------


@pytest.mark.nvcc
def test_without_a_gpu_the_real_program_says_what_to_run_instead(program):
    if why_not() is None:
        pytest.skip("This machine has a GPU, so the program does not end early.")
    done = run(program, "--test-only")
    assert (done.returncode, done.stdout) == (77, "")
    assert "pytest tests/cuda" in done.stderr and "nothing was checked" in done.stderr


@pytest.mark.gpu
@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_the_gpu_passes(program, seed):
    done = run(program, "--test-only", "--seed", seed)
    assert (done.returncode, done.stdout, done.stderr) == (0, PASSED, "")


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name in MUTANTS if "alignment" not in name and "warps" not in name])
def test_a_broken_kernel_fails_on_the_gpu(name):
    """Without the two that read where nothing is: there a GPU faults, or finds what an earlier kernel left."""
    replace, expected = MUTANTS[name]
    done = run(build_portfolio(replace=replace), "--test-only")
    assert done.returncode == 1, done.stdout
    assert re.search(expected, done.stderr), done.stderr


@pytest.mark.gpu
def test_a_misaligned_access_ends_the_program_and_names_the_call():
    """On a GPU this mutant is a fault; a CPU just reads."""
    replace, _ = MUTANTS["a width of four taken for alignment"]
    done = run(build_portfolio(replace=replace), "--test-only")
    assert done.returncode == 3
    assert "cudaDeviceSynchronize() failed with cudaErrorMisalignedAddress" in done.stderr


@pytest.mark.gpu
@pytest.mark.slow
def test_bench_on_the_gpu(program, tmp_path):
    done = run(program, "--bench", "--output", tmp_path / "bench.json")
    assert done.returncode == 0, done.stderr
    check_bench(json.loads((tmp_path / "bench.json").read_text(), parse_constant=refuse))
