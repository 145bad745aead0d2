// Runs every kernel of kernels.cu and patterns.cu once on each of its test shapes, for the recorder and for ncu to watch,
// and prints one line of JSON a launch: the kernel, the shape, and where each buffer lies.
//
//   gpu_trace_driver            all launches, in a fixed order
//   gpu_trace_driver --first    only vector_add on 257 elements
//   gpu_trace_driver --list     print the launches and make none (needs no GPU)
#include "../kernels.cu"
#include "../patterns.cu"

#include "../portfolio_test.cuh"

#include <cstdio>
#include <cstring>
#include <vector>

struct Pattern {
    const char* name;
    SoftmaxLauncher launch;  // the same parameters as a softmax
    bool transposes;
};

static const Pattern kPatterns[] = {
    {"copy_rows", launch_copy_rows, false},
    {"copy_columns", launch_copy_columns, false},
    {"transpose_tile_32", launch_transpose_tile_32, true},
    {"transpose_tile_33", launch_transpose_tile_33, true},
};

struct PatternShape {
    int64_t rows;
    int64_t columns;
    int64_t padding;  // unused elements after each row of x and of out
};

static const PatternShape kPatternShapes[] = {
    {1, 1, 0},     // one lane of one warp
    {31, 33, 3},   // one row short of a tile, one column more than a tile, odd row starts
    {257, 65, 0},  // many tiles, one row and one column over
    {64, 96, 0},   // whole tiles, every row on a sector's edge
};

static bool list_only = false;

// Bytes at the start of a block's shared memory that belong to the system: the first shared array begins after them.
static int reserved_shared() {
    int bytes = 0;
    if (!list_only) {
        CHECK_CUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrReservedSharedMemoryPerBlock, 0));
    }
    return bytes;
}

static void print_buffer(const char* name, const DeviceBuffer* buffer, int64_t elements) {
    std::printf("%s\"%s\": {\"address\": %llu, \"bytes\": %lld}", std::strcmp(name, "x") == 0 ? "" : ", ", name,
                buffer == nullptr ? 0ull
                                  : static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(buffer->data())),
                static_cast<long long>(elements * 4));
}

static void run_vector_add(int64_t n) {
    std::printf("{\"kernel\": \"vector_add\", \"source\": \"cuda/kernels.cu\", \"reserved_shared\": %d, "
                "\"shape\": {\"n\": %lld}, \"buffers\": {",
                reserved_shared(), static_cast<long long>(n));
    if (list_only) {
        for (const char* name : {"x", "y", "out"}) {
            print_buffer(name, nullptr, n);
        }
    } else {
        const std::vector<float> values(static_cast<size_t>(n), 1.5f);
        const DeviceBuffer x(values), y(values), out(n);
        print_buffer("x", &x, n);
        print_buffer("y", &y, n);
        print_buffer("out", &out, n);
        CHECK_CUDA(launch_vector_add(x.data(), y.data(), out.data(), n, nullptr));
        CHECK_CUDA(cudaDeviceSynchronize());
    }
    std::printf("}}\n");
    std::fflush(stdout);
}

static void run_matrix(const char* source, const char* name, SoftmaxLauncher launch, const std::vector<float>& values,
                       int64_t rows, int64_t columns, int64_t x_stride, int64_t out_stride, int64_t out_rows) {
    std::printf("{\"kernel\": \"%s\", \"source\": \"%s\", \"reserved_shared\": %d, \"shape\": {\"rows\": %lld, "
                "\"columns\": %lld, \"x_stride\": %lld, \"out_stride\": %lld}, \"buffers\": {",
                name, source, reserved_shared(), static_cast<long long>(rows), static_cast<long long>(columns),
                static_cast<long long>(x_stride), static_cast<long long>(out_stride));
    if (list_only) {
        print_buffer("x", nullptr, rows * x_stride);
        print_buffer("out", nullptr, out_rows * out_stride);
    } else {
        const DeviceBuffer x(values), out(out_rows * out_stride);
        print_buffer("x", &x, rows * x_stride);
        print_buffer("out", &out, out_rows * out_stride);
        CHECK_CUDA(launch(x.data(), out.data(), rows, columns, x_stride, out_stride, nullptr));
        CHECK_CUDA(cudaDeviceSynchronize());
    }
    std::printf("}}\n");
    std::fflush(stdout);
}

int main(int count, char** arguments) {
    const char* option = count == 2 ? arguments[1] : "";
    list_only = std::strcmp(option, "--list") == 0;
    const bool first_only = std::strcmp(option, "--first") == 0;
    if (count > 2 || (count == 2 && !list_only && !first_only)) {
        std::fprintf(stderr, "usage: gpu_trace_driver [--first | --list]\n");
        return kExitUsage;
    }
    if (first_only) {
        run_vector_add(kThreads + 1);
        return kExitPassed;
    }
    for (const int64_t n : {int64_t{1}, int64_t{kThreads + 1}, int64_t{1000003}}) {  // as in test_vector_add
        run_vector_add(n);
    }
    for (const SoftmaxKernel& kernel : softmax_kernels()) {
        for (const SoftmaxForm& form : kernel.forms) {
            for (const SoftmaxShape& s : softmax_shapes()) {
                run_matrix("cuda/kernels.cu", form.name, form.launch, make_scores(s, 1), s.rows, s.columns, s.x_stride,
                           s.out_stride, s.rows);
            }
        }
    }
    for (const Pattern& pattern : kPatterns) {
        for (const PatternShape& s : kPatternShapes) {
            const int64_t x_stride = s.columns + s.padding;
            const int64_t height = pattern.transposes ? s.columns : s.rows;
            const int64_t width = pattern.transposes ? s.rows : s.columns;
            run_matrix("cuda/patterns.cu", pattern.name, pattern.launch,
                       std::vector<float>(static_cast<size_t>(s.rows * x_stride), 1.5f), s.rows, s.columns, x_stride,
                       width + s.padding, height);
        }
    }
    return kExitPassed;
}
