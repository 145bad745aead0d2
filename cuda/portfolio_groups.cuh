// The checks of copies, transposes, sums, histograms and fused patterns. Include after portfolio_test.cuh.
//
// A case is one kernel on one input. Whatever a kernel of one group gets, its siblings get too, and each result is compared
// with the definition, computed here in double precision. Copies, transposes and counts must be exact.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "check.cuh"

// A matrix in rows of `stride` floats; what lies between the rows is 1e30, as in the bands of a DeviceBuffer.
struct Rows {
    int64_t rows, columns, stride;
    std::vector<float> values;

    Rows(int64_t rows, int64_t columns, int64_t padding, uint32_t seed)
        : rows(rows), columns(columns), stride(columns + padding), values(static_cast<size_t>(rows * stride), 1e30f) {
        std::mt19937 random(seed + static_cast<uint32_t>(rows * 1009 + columns));
        std::uniform_real_distribution<float> uniform(-2.0f, 2.0f);
        for (int64_t row = 0; row < rows; ++row) {
            for (int64_t column = 0; column < columns; ++column) {
                values[static_cast<size_t>(row * stride + column)] = uniform(random);
            }
        }
    }
    float at(int64_t row, int64_t column) const { return values[static_cast<size_t>(row * stride + column)]; }
};

inline std::string sizes(const Rows& x) {
    return std::to_string(x.rows) + "x" + std::to_string(x.columns) + " row stride " + std::to_string(x.stride);
}

struct MatrixShape {
    int64_t rows, columns, padding;
};

// Tiles have 32 x 32 elements, and a block of the fused patterns 256 columns or 1024.
inline const std::vector<MatrixShape>& matrix_shapes() {
    static const std::vector<MatrixShape> shapes = {
        {1, 1, 0},      // one element of one tile
        {33, 65, 3},    // one row and one column past a tile; rows off the 16-byte boundary
        {32, 64, 0},    // whole tiles
        {3, 1028, 4},   // wider than a block of float4; rows on the boundary, with room between them
    };
    return shapes;
}

// ---- copies ---------------------------------------------------------------------------------------------------------

using MatrixLauncher = cudaError_t (*)(const float*, float*, int64_t, int64_t, int64_t, int64_t, cudaStream_t);

struct NamedMatrixLauncher {
    const char* name;
    MatrixLauncher launch;
};

inline void test_copies(uint32_t seed, Report* report) {
    const NamedMatrixLauncher kernels[] = {{"copy_rows", launch_copy_rows}, {"copy_columns", launch_copy_columns}};
    for (const auto& kernel : kernels) {
        for (const MatrixShape& shape : matrix_shapes()) {
            const Rows x(shape.rows, shape.columns, shape.padding, seed);
            const int64_t out_stride = x.columns + 1;
            std::vector<double> expected;
            for (int64_t row = 0; row < x.rows; ++row) {
                for (int64_t column = 0; column < x.columns; ++column) {
                    expected.push_back(x.at(row, column));
                }
            }
            const DeviceBuffer device_x(x.values);
            const DeviceBuffer out(x.rows * out_stride);
            CHECK_CUDA(kernel.launch(device_x.data(), out.data(), x.rows, x.columns, x.stride, out_stride, nullptr));
            CHECK_CUDA(cudaDeviceSynchronize());
            compare(kernel.name + (" " + sizes(x)), out, expected, x.rows, x.columns, out_stride, 0.0, report);
            report->ran("copy");
        }
    }
    for (const int64_t stride : {0, 1, 8, 33}) {  // one element, coalesced, a sector a lane, neither
        constexpr int64_t kCount = 1001;
        constexpr int64_t kFirst = 5;
        const Rows x(1, kFirst + (kCount - 1) * stride + 1, 0, seed);
        std::vector<double> expected;
        for (int64_t i = 0; i < kCount; ++i) {
            expected.push_back(x.at(0, kFirst + i * stride));
        }
        const DeviceBuffer device_x(x.values);
        const DeviceBuffer out(kCount);
        CHECK_CUDA(launch_copy_strided(device_x.data(), out.data(), kCount, stride, kFirst, nullptr));
        CHECK_CUDA(cudaDeviceSynchronize());
        compare("copy_strided stride " + std::to_string(stride), out, expected, 1, kCount, kCount, 0.0, report);
        report->ran("copy");
    }
    for (const int64_t n : {1, 4, 1023, 4096}) {  // tails of one and three, and none
        const Rows x(1, n, 0, seed);
        const DeviceBuffer device_x(x.values);
        const DeviceBuffer out(n);
        CHECK_CUDA(launch_copy_float4(device_x.data(), out.data(), n, nullptr));
        CHECK_CUDA(cudaDeviceSynchronize());
        compare("copy_float4 n=" + std::to_string(n), out, std::vector<double>(x.values.begin(), x.values.end()), 1, n, n,
                0.0, report);
        report->ran("copy");
    }
}

// ---- transposes -----------------------------------------------------------------------------------------------------

inline void test_transposes(uint32_t seed, Report* report) {
    const NamedMatrixLauncher kernels[] = {{"transpose_direct", launch_transpose_direct},
                                           {"transpose_tile_32", launch_transpose_tile_32},
                                           {"transpose_tile_33", launch_transpose_tile_33},
                                           {"transpose_swizzled", launch_transpose_swizzled}};
    for (const auto& kernel : kernels) {
        for (const MatrixShape& shape : matrix_shapes()) {
            const Rows x(shape.rows, shape.columns, shape.padding, seed);
            const int64_t out_stride = x.rows + 1;
            std::vector<double> expected;
            for (int64_t column = 0; column < x.columns; ++column) {
                for (int64_t row = 0; row < x.rows; ++row) {
                    expected.push_back(x.at(row, column));
                }
            }
            const DeviceBuffer device_x(x.values);
            const DeviceBuffer out(x.columns * out_stride);
            CHECK_CUDA(kernel.launch(device_x.data(), out.data(), x.rows, x.columns, x.stride, out_stride, nullptr));
            CHECK_CUDA(cudaDeviceSynchronize());
            compare(kernel.name + (" " + sizes(x)), out, expected, x.columns, x.rows, out_stride, 0.0, report);
            report->ran("transpose");
        }
    }
}

// ---- sums -----------------------------------------------------------------------------------------------------------

// Small whole numbers: float32 holds every partial sum of them, so every order of adding gives these very bits.
inline std::vector<float> whole_numbers(int64_t n, uint32_t seed) {
    std::mt19937 random(seed + static_cast<uint32_t>(n));
    std::uniform_int_distribution<int> uniform(-8, 8);
    std::vector<float> x(static_cast<size_t>(n));
    std::generate(x.begin(), x.end(), [&] { return static_cast<float>(uniform(random)); });
    return x;
}

inline double sum_of(const std::vector<float>& x, int64_t first, int64_t count) {
    double sum = 0.0;
    for (int64_t i = first; i < first + count && i < static_cast<int64_t>(x.size()); ++i) {
        sum += x[static_cast<size_t>(i)];
    }
    return sum;
}

inline void test_reductions(uint32_t seed, Report* report) {
    struct BlockSums {
        const char* name;
        cudaError_t (*launch)(const float*, float*, int64_t, int64_t, cudaStream_t);
    };
    const BlockSums kernels[] = {{"block_sums_shuffle", launch_block_sums_shuffle},
                                 {"block_sums_shared", launch_block_sums_shared},
                                 {"block_sums_atomic", launch_block_sums_atomic}};
    const int64_t lengths[] = {1, kBlockSumThreads, 1000};  // one thread, one block, a last block that is not full
    for (const auto& kernel : kernels) {
        for (const int64_t n : lengths) {
            const std::vector<float> x = whole_numbers(n, seed);
            std::vector<double> expected;
            for (int64_t first = 0; first < n; first += kBlockSumThreads) {
                expected.push_back(sum_of(x, first, kBlockSumThreads));
            }
            const auto blocks = static_cast<int64_t>(expected.size());
            const DeviceBuffer device_x(x);
            const DeviceBuffer out(blocks);
            CHECK_CUDA(kernel.launch(device_x.data(), out.data(), n, 1, nullptr));
            CHECK_CUDA(cudaDeviceSynchronize());
            compare(std::string(kernel.name) + " n=" + std::to_string(n), out, expected, 1, blocks, blocks, 0.0, report);
            report->ran("reduction");
        }
    }
    for (const int64_t argument : {1, 31}) {  // row 1 of the result: beyond lane 31 a lane keeps its own value
        const int64_t n = 96;
        const std::vector<float> x = whole_numbers(n, seed);
        std::vector<double> expected(static_cast<size_t>(4 * n));
        for (int64_t i = 0; i < n; ++i) {
            const int64_t warp = i / 32 * 32;
            const int64_t lane = i % 32;
            const int64_t from[] = {argument, lane + argument < 32 ? lane + argument : lane, lane ^ argument};
            for (int64_t row = 0; row < 3; ++row) {
                expected[static_cast<size_t>(row * n + i)] = x[static_cast<size_t>(warp + from[row])];
            }
            expected[static_cast<size_t>(3 * n + i)] = sum_of(x, warp, 32);
        }
        const DeviceBuffer device_x(x);
        const DeviceBuffer out(4 * n);
        CHECK_CUDA(launch_warp_exchanges(device_x.data(), out.data(), n, argument, nullptr));
        CHECK_CUDA(cudaDeviceSynchronize());
        compare("warp_exchanges " + std::to_string(argument), out, expected, 4, n, n, 0.0, report);
        report->ran("reduction");
    }
    for (const bool last_block : {false, true}) {
        for (const int64_t n : {1, 3333}) {
            constexpr int64_t kBlocks = 5;
            const std::vector<float> x = whole_numbers(n, seed);
            const DeviceBuffer device_x(x);
            const DeviceBuffer partials(kBlocks);
            const DeviceBuffer tickets(1);
            const DeviceBuffer out(1);
            CHECK_CUDA(last_block ? launch_grid_sum_last_block(device_x.data(), partials.data(),
                                                               reinterpret_cast<unsigned*>(tickets.data()), out.data(), n,
                                                               kBlocks, nullptr)
                                  : launch_grid_sum_two_launches(device_x.data(), partials.data(), out.data(), n, kBlocks,
                                                                 nullptr));
            CHECK_CUDA(cudaDeviceSynchronize());
            compare(std::string(last_block ? "grid_sum_last_block" : "grid_sum_two_launches") + " n=" + std::to_string(n),
                    out, {sum_of(x, 0, n)}, 1, 1, 1, 0.0, report);
            report->ran("reduction");
        }
    }
}

// ---- histograms -----------------------------------------------------------------------------------------------------

using HistogramLauncher = cudaError_t (*)(const int*, unsigned long long*, int64_t, int64_t, int64_t, cudaStream_t);

enum class Numbers {
    kSpread,   // every bin, and numbers below 0 and past the last bin, which count nowhere
    kHot,      // nearly all in one bin
    kNothing,  // no numbers: every count is zero
};

inline void test_histograms(uint32_t seed, Report* report) {
    struct Named {
        const char* name;
        HistogramLauncher launch;
    };
    const Named kernels[] = {{"histogram_plain", launch_histogram_plain},
                             {"histogram_shared", launch_histogram_shared},
                             {"histogram_replicated", launch_histogram_replicated}};
    struct Input {
        int64_t n, bins;
        Numbers numbers;
    };
    const Input inputs[] = {{5003, 256, Numbers::kSpread}, {4097, 7, Numbers::kHot}, {0, 3, Numbers::kNothing}};
    for (const auto& kernel : kernels) {
        for (const auto& [n, bins, numbers] : inputs) {
            std::mt19937 random(seed + static_cast<uint32_t>(n));
            std::uniform_int_distribution<int> spread(-3, static_cast<int>(bins) + 3);
            std::vector<double> expected(static_cast<size_t>(bins));
            std::vector<float> bits(static_cast<size_t>(n));  // of int32
            for (int64_t i = 0; i < n; ++i) {
                const int value = numbers == Numbers::kHot && i % 64 != 0 ? 3 : spread(random);
                std::memcpy(&bits[static_cast<size_t>(i)], &value, sizeof value);
                if (value >= 0 && value < bins) {
                    ++expected[static_cast<size_t>(value)];
                }
            }
            const std::string name = std::string(kernel.name) + " n=" + std::to_string(n) + " bins=" + std::to_string(bins);
            const DeviceBuffer x(bits);
            const DeviceBuffer out(2 * bins);  // counts of 64 bits
            CHECK_CUDA(kernel.launch(reinterpret_cast<const int*>(x.data()), reinterpret_cast<unsigned long long*>(out.data()),
                                     n, bins, 2, nullptr));
            CHECK_CUDA(cudaDeviceSynchronize());
            int64_t stray = 0;
            const std::vector<float> halves = out.read(&stray);
            if (stray != 0) {
                report->fail(name, "element " + std::to_string(stray) + " lies outside the counts and must stay untouched");
            }
            for (int64_t bin = 0; bin < bins; ++bin) {
                unsigned long long count;
                std::memcpy(&count, &halves[static_cast<size_t>(2 * bin)], sizeof count);
                if (static_cast<double>(count) != expected[static_cast<size_t>(bin)]) {
                    report->fail(name, "bin " + std::to_string(bin) + ": expected " +
                                           number(expected[static_cast<size_t>(bin)]) + ", got " + std::to_string(count));
                }
            }
            report->ran("histogram");
        }
    }
}

// ---- fused patterns -------------------------------------------------------------------------------------------------

inline void test_fused(uint32_t seed, Report* report) {
    constexpr float kScale = 0.5f;
    struct Named {
        const char* name;
        bool gelu;
        bool float4;
    };
    const Named kernels[] = {{"fused_bias_relu_scale", false, false},
                             {"fused_bias_relu_scale_float4", false, true},
                             {"fused_bias_gelu", true, false},
                             {"fused_bias_gelu_float4", true, true}};
    for (const auto& kernel : kernels) {
        for (const MatrixShape& shape : matrix_shapes()) {
            const Rows x(shape.rows, shape.columns, shape.padding, seed);
            const Rows bias(1, x.columns, 0, seed + 1);
            const std::string name = kernel.name + (" " + sizes(x));
            std::vector<double> expected;
            for (int64_t row = 0; row < x.rows; ++row) {
                for (int64_t column = 0; column < x.columns; ++column) {
                    const double sum = x.at(row, column) + bias.at(0, column);  // float32, as in the kernel
                    const double inner = 0.7978845608028654 * (sum + 0.044715 * sum * sum * sum);  // sqrt(2 / pi)
                    expected.push_back(kernel.gelu ? 0.5 * sum * (1.0 + std::tanh(inner)) : std::max(sum, 0.0) * kScale);
                }
            }
            const DeviceBuffer device_x(x.values);
            const DeviceBuffer device_bias(bias.values);
            const DeviceBuffer out(x.rows * x.stride);
            const float* in = device_x.data();
            const float* b = device_bias.data();
            const cudaError_t got =
                kernel.gelu
                    ? (kernel.float4 ? launch_fused_bias_gelu_float4 : launch_fused_bias_gelu)(
                          in, b, out.data(), x.rows, x.columns, x.stride, x.stride, nullptr)
                    : (kernel.float4 ? launch_fused_bias_relu_scale_float4 : launch_fused_bias_relu_scale)(
                          in, b, out.data(), x.rows, x.columns, x.stride, x.stride, kScale, nullptr);
            // float4 wants rows that begin at multiples of 16 bytes and have a multiple of four columns.
            if (kernel.float4 && (x.columns % 4 != 0 || x.stride % 4 != 0)) {
                expect(name, cudaErrorInvalidValue, got, report);
            } else {
                CHECK_CUDA(got);
                CHECK_CUDA(cudaDeviceSynchronize());
                // 1 + tanh cancels for negative sums. What float32 loses there is a few units of 2^-24 of the sum itself,
                // which is at most four.
                compare(name, out, expected, x.rows, x.columns, x.stride, kernel.gelu ? 2e-6 : 0.0, report,
                        kernel.gelu ? 1e-6 : 0.0);
            }
            report->ran("fused");
        }
    }
}
