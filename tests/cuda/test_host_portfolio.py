"""The cases of `cuda_portfolio` in the traced host build: every access checked, every result as close as on a GPU."""

import ctypes
import re
from collections import Counter

import numpy as np
import pytest

from kernels.cuda.building import sources_of, substitute
from kernels.sources import project_root
from kernels.trace import cuda, cuda_build, cuda_library
from kernels.trace.cuda_memory import pack
from kernels.trace.cuda_translate import translate

pytestmark = pytest.mark.skipif(cuda.why_not() is not None, reason=str(cuda.why_not()))
CASES = """extern "C" int portfolio_cases(uint32_t seed, int* counts) {
    Report report;
    test_arguments(&report);
    test_vector_add(seed, &report);
    test_softmax(seed, &report);
    return std::sscanf(report.cases().c_str(), "%d vector + %d softmax", &counts[0], &counts[1]) != 2
               ? -1
               : static_cast<int>(report.failures);
}

int main("""

# What vector_add and softmax need none of: the program would be compiled three times as long.
OTHERS = re.compile(
    r'#include "(?!kernels|check|portfolio_test|portfolio_bench)[a-z_]+\.cuh?"\n'
    r"|    test_(?!arguments|vector|softmax)\w+\(.*\n"
)


def run_cases(seed=1, replace=None):
    """Failures, the counts of the program, the launches by kernel, and why the run was stopped. Accesses are checked
    against the buffers, as in every trace; they are too many to keep."""
    sources = sources_of(project_root() / "cuda" / "portfolio.cu")
    sources["portfolio.cu"], left_out = OTHERS.subn("", sources["portfolio.cu"])
    assert left_out == 11 + 6  # files and calls
    sources = substitute(sources, {"int main(": CASES} | (replace or {}))
    kept = ("portfolio.cu", "kernels.cu", "check.cuh", "portfolio_test.cuh", "portfolio_bench.cuh")
    sources = {name: text for name, text in sources.items() if name in kept}
    main = sources.pop("portfolio.cu")
    translation = translate(main, "portfolio.cu", headers=tuple(sorted(sources.items())))
    path = cuda_build.build(translation.text, "portfolio.cu", translated=translation.headers)
    library = cuda_library.load(path, "portfolio.cu")
    number = [function.name for function in translation.functions].index("portfolio_cases")
    counts = np.full(2, -1, np.int32)
    function = translation.functions[number]
    table, buffers, kept = pack(function.name, function.parameters, library.signature(number), [seed, counts])
    calls = library.calls
    assert calls.kh_begin(0, 0, 120.0)
    calls.kh_reset_launches(0)
    try:
        cuda.regions_of(library, translation, buffers)
        run = getattr(calls, f"kh_host_{number}")
        run.restype = ctypes.c_longlong
        failures = run(table)
        for buffer in buffers:
            buffer.copy_out()
        launches = Counter(record["name"].decode() for record in library.launches() if not record["refused"])
        return failures, counts.tolist(), launches, int(library.failure()["stop"])
    finally:
        calls.kh_free_allocations()
        calls.kh_free_stacks()
        calls.kh_forget_events()
        del kept


def test_all_21_cases_pass_for_every_kernel():
    failures, counts, launches, stopped = run_cases()
    assert (failures, counts, stopped) == (0, [3, 18], 0)
    assert sum(launches.values()) == 3 + 18 + 6  # the online softmax has two forms
    assert len(launches) >= 4 and launches["vector_add"] == 3, launches
    assert {name: n for name, n in launches.items() if "softmax" in name and n % 6} == {}, launches


@pytest.mark.parametrize(
    ("replace", "words"),
    [
        ({"if (i < n) {": "if (i <= n) {"}, "FAILED vector_add n=257: row 1, column 0 lies outside the output"),
        ({"expf(x_row[column] - row_max) - lost;": "expf(x_row[column] - row_max);"}, "FAILED softmax_serial 2x8192"),
    ],
    ids=["tail", "plain sum"],
)
def test_a_wrong_kernel_fails_them(replace, words, capfd):
    failures, counts, _, _ = run_cases(replace=replace)
    assert failures > 0 and counts == [3, 18]
    assert words in capfd.readouterr().err
