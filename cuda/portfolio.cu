// The test and timing program of the CUDA kernels. Build it with `make cuda` or with CMake, then run
//
//   build/cuda_portfolio --test-only      check every kernel
//   build/cuda_portfolio --bench          check, then write timings as JSON
//   build/cuda_portfolio                  check, then print timings as a table
//
// Exit status: 0 passed, 1 a kernel gave a wrong result, 2 wrong usage, 3 a CUDA call failed, 77 there is no GPU.

// Included, not linked: the compiler then checks the launchers' types, and the checks can use kThreads.
#include "fused.cu"
#include "grid_sum.cu"
#include "histogram.cu"
#include "kernels.cu"
#include "matmul.cu"
#include "matmul_wmma.cu"
#include "patterns.cu"
#include "reductions.cu"
#include "strided.cu"
#include "transposes.cu"

#include "check.cuh"
#include "portfolio_test.cuh"
#include "portfolio_groups.cuh"
#include "portfolio_products.cuh"
#include "portfolio_bench.cuh"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

static const char kUsage[] =
    "usage: cuda_portfolio [--test-only | --bench] [--output FILE] [--seed N]\n"
    "\n"
    "Checks the CUDA kernels against a double-precision reference on the first GPU, then times them.\n"
    "\n"
    "  --test-only      check, and time nothing\n"
    "  --bench          check, then write the timings as JSON to FILE, or to standard output\n"
    "  --output FILE    where --bench writes\n"
    "  --seed N         other random inputs (default 1)\n"
    "  --help           print this text\n"
    "\n"
    "Exit status: 0 passed, 1 wrong result, 2 wrong usage, 3 a CUDA call failed, 77 no GPU.\n";

struct Options {
    bool test_only = false;
    bool bench = false;
    std::string output;
    uint32_t seed = 1;
};

[[noreturn]] static void usage_error(const std::string& message) {
    std::fprintf(stderr, "cuda_portfolio: %s\n\n%s", message.c_str(), kUsage);
    std::exit(kExitUsage);
}

static Options parse(int count, char** arguments) {
    Options options;
    for (int i = 1; i < count; ++i) {
        const std::string flag = arguments[i];
        const auto value = [&]() -> std::string {
            if (i + 1 == count) {
                usage_error(flag + " needs a value after it.");
            }
            return arguments[++i];
        };
        if (flag == "--help" || flag == "-h") {
            std::fputs(kUsage, stdout);
            std::exit(kExitPassed);
        } else if (flag == "--test-only") {
            options.test_only = true;
        } else if (flag == "--bench") {
            options.bench = true;
        } else if (flag == "--output") {
            options.output = value();
        } else if (flag == "--seed") {
            const std::string text = value();
            char* end = nullptr;
            errno = 0;
            const unsigned long long seed = std::strtoull(text.c_str(), &end, 10);
            if (text.empty() || *end != '\0' || text[0] == '-' || errno != 0 || seed > 0xffffffffull) {
                usage_error("--seed " + text + " is not a whole number from 0 to 4294967295.");
            }
            options.seed = static_cast<uint32_t>(seed);
        } else {
            usage_error("there is no option " + flag + ".");
        }
    }
    if (options.test_only && options.bench) {
        usage_error("--test-only and --bench exclude each other; --bench checks first anyway.");
    }
    if (!options.output.empty() && !options.bench) {
        usage_error("--output says where --bench writes; add --bench.");
    }
    return options;
}

// Ends the program with its own status when there is no GPU: not run is neither passed nor failed.
static void require_gpu() {
    int devices = 0;
    const cudaError_t error = cudaGetDeviceCount(&devices);
    if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver || error == cudaErrorStubLibrary ||
        (error == cudaSuccess && devices == 0)) {
        std::fprintf(stderr,
                     "There is no GPU this program can use (%s), so nothing was checked.\n"
                     "Without one, run `pytest tests/cuda`: it compiles the kernels for several GPUs and steps\n"
                     "through them on the CPU. With one, look at `nvidia-smi`: the driver must support CUDA %d.%d.\n",
                     error == cudaSuccess ? "no device was found" : cudaGetErrorString(error), CUDART_VERSION / 1000,
                     CUDART_VERSION % 1000 / 10);
        std::exit(kExitNoGpu);
    }
    CHECK_CUDA(error);
    CHECK_CUDA(cudaSetDevice(0));
}

// Writes beside the file and renames, so a reader never sees half of it.
static void write_file(const std::string& path, const std::string& text) {
    const std::string partial = path + ".part";
    std::FILE* file = std::fopen(partial.c_str(), "wb");
    bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
    written = file != nullptr && std::fclose(file) == 0 && written;
    if (!written || std::rename(partial.c_str(), path.c_str()) != 0) {
        std::fprintf(stderr, "The timings could not be written to %s: %s.\n", path.c_str(), std::strerror(errno));
        std::remove(partial.c_str());
        std::exit(kExitUsage);
    }
}

int main(int count, char** arguments) {
    const Options options = parse(count, arguments);
    require_gpu();

    Report report;
    test_arguments(&report);
    test_vector_add(options.seed, &report);
    test_softmax(options.seed, &report);
    test_copies(options.seed, &report);
    test_transposes(options.seed, &report);
    test_reductions(options.seed, &report);
    test_histograms(options.seed, &report);
    test_fused(options.seed, &report);
    test_products(options.seed, &report);
    if (report.failures > 0) {
        std::fprintf(stderr, "CUDA correctness failed: %lld differences with seed %u.\n",
                     static_cast<long long>(report.failures), options.seed);
        return kExitMismatch;
    }
    // JSON on standard output must stay alone there.
    std::fprintf(options.bench && options.output.empty() ? stderr : stdout,
                 "CUDA correctness passed (%s cases)\n", report.cases().c_str());
    if (options.test_only) {
        return kExitPassed;
    }

    const std::vector<Timing> timings = bench();
    if (!options.bench) {
        std::fputs(to_table(timings).c_str(), stdout);
    } else if (options.output.empty()) {
        std::fputs(to_json(timings).c_str(), stdout);
    } else {
        write_file(options.output, to_json(timings));
    }
    return kExitPassed;
}
