// The checks of the ladder's rungs: c = a * b. Include after portfolio_groups.cuh.
#pragma once

#include <cuda_bf16.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "check.cuh"

struct ProductShape {
    int64_t M, N, K, padding;
};

inline const std::vector<ProductShape>& product_shapes() {
    static const std::vector<ProductShape> shapes = {
        {1, 1, 1, 0},        // one element of one tile
        {33, 65, 129, 3},    // ragged in all three, rows off the 16-byte boundary
        {130, 136, 72, 8},   // two tiles each way, whole pieces of 16 bytes, a k that no tile divides
        {3, 5, 330, 0},      // many tiles deep: every stage is used again and again
        {5, 7, 0, 0},        // empty sums are zero
    };
    return shapes;
}

using ProductLauncher = cudaError_t (*)(const float*, const float*, float*, int64_t, int64_t, int64_t, int64_t, int64_t,
                                        int64_t, cudaStream_t);

// The definition, and beside each element the sum of its terms' sizes, which its rounding errors are measured by.
inline std::vector<double> product_reference(const Rows& a, const Rows& b, std::vector<double>* sizes) {
    std::vector<double> expected;
    for (int64_t m = 0; m < a.rows; ++m) {
        for (int64_t n = 0; n < b.columns; ++n) {
            double sum = 0.0;
            double size = 0.0;
            for (int64_t k = 0; k < a.columns; ++k) {
                const double term = static_cast<double>(a.at(m, k)) * b.at(k, n);
                sum += term;
                size += std::fabs(term);
            }
            expected.push_back(sum);
            sizes->push_back(size);
        }
    }
    return expected;
}

// Compares `got`, M x N in rows of `stride`; what lies between the rows must still hold `untouched`.
template <typename Value, typename Untouched>
void compare_product(const std::string& name, const Value& got, const Untouched& untouched, int64_t M, int64_t N,
                     int64_t stride, const std::vector<double>& expected, const std::vector<double>& bound,
                     Report* report) {
    for (int64_t m = 0; m < M; ++m) {
        for (int64_t n = 0; n < stride; ++n) {
            const std::string place = "row " + std::to_string(m) + ", column " + std::to_string(n);
            if (n >= N) {
                if (!untouched(m * stride + n)) {
                    report->fail(name, place + " lies between two rows and must stay untouched");
                }
                continue;
            }
            const auto at = static_cast<size_t>(m * N + n);
            const double value = got(m * stride + n);
            if (!(std::fabs(value - expected[at]) <= bound[at])) {
                report->fail(name, place + ": expected " + number(expected[at]) + ", got " + number(value));
            }
        }
    }
}

// Two numbers of bfloat16 for each float, rounded by cutting: the reference gets the rounded ones.
inline std::vector<uint16_t> halve(Rows* x) {
    std::vector<uint16_t> halves;
    for (float& value : x->values) {
        uint32_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        bits &= 0xffff0000u;
        std::memcpy(&value, &bits, sizeof bits);
        halves.push_back(static_cast<uint16_t>(bits >> 16));
    }
    return halves;
}

inline std::vector<float> halves_in_floats(std::vector<uint16_t> halves) {
    halves.resize((halves.size() + 1) / 2 * 2);
    std::vector<float> floats(halves.size() / 2);
    if (!floats.empty()) {
        std::memcpy(floats.data(), halves.data(), halves.size() * sizeof(uint16_t));
    }
    return floats;
}

inline void test_products(uint32_t seed, Report* report) {
    struct Named {
        const char* name;
        ProductLauncher launch;
    };
    const Named kernels[] = {{"matmul_naive", launch_matmul_naive},
                             {"matmul_tiled", launch_matmul_tiled},
                             {"matmul_register_tiled", launch_matmul_register_tiled},
                             {"matmul_async_copy", launch_matmul_async_copy}};
    const auto name_of = [](const char* kernel, const ProductShape& shape) {
        return std::string(kernel) + " " + std::to_string(shape.M) + "x" + std::to_string(shape.N) + "x" +
               std::to_string(shape.K) + " padding " + std::to_string(shape.padding);
    };
    for (const ProductShape& shape : product_shapes()) {
        Rows a(shape.M, shape.K, shape.padding, seed);
        Rows b(shape.K, shape.N, shape.padding, seed + 1);
        const int64_t c_stride = shape.N + shape.padding;
        std::vector<double> bound;
        std::vector<double> expected = product_reference(a, b, &bound);
        for (double& one : bound) {
            one *= static_cast<double>(shape.K + 2) * std::ldexp(1.0, -24);  // each product and each sum may round once
        }
        const DeviceBuffer device_a(a.values);
        const DeviceBuffer device_b(b.values);
        for (const auto& kernel : kernels) {
            const std::string name = name_of(kernel.name, shape);
            const DeviceBuffer c(shape.M * c_stride);
            CHECK_CUDA(kernel.launch(device_a.data(), device_b.data(), c.data(), shape.M, shape.N, shape.K, a.stride,
                                     b.stride, c_stride, nullptr));
            CHECK_CUDA(cudaDeviceSynchronize());
            int64_t stray = 0;
            const std::vector<float> got = c.read(&stray);
            if (stray != 0) {
                report->fail(name, "element " + std::to_string(stray) + " lies outside the output and must stay untouched");
            }
            compare_product(
                name, [&](int64_t i) { return static_cast<double>(got[static_cast<size_t>(i)]); },
                [&](int64_t i) { return is_poison(got[static_cast<size_t>(i)]); }, shape.M, shape.N, c_stride, expected,
                bound, report);
            report->ran("matmul");
        }

        // bfloat16: factors are exact, sums float32, and the result is rounded to eight bits.
        const std::string name = name_of("matmul_wmma", shape);
        const DeviceBuffer half_a(halves_in_floats(halve(&a)));
        const DeviceBuffer half_b(halves_in_floats(halve(&b)));
        bound.clear();
        expected = product_reference(a, b, &bound);
        for (size_t i = 0; i < bound.size(); ++i) {
            // Tensor cores may cut off where they add: 2 units of 2^-24 for each term, and the one rounding.
            bound[i] = bound[i] * static_cast<double>(2 * shape.K + 2) * std::ldexp(1.0, -24) +
                       std::fabs(expected[i]) * std::ldexp(1.0, -8);
        }
        const DeviceBuffer half_c((shape.M * c_stride + 1) / 2);
        CHECK_CUDA(launch_matmul_wmma(reinterpret_cast<const __nv_bfloat16*>(half_a.data()),
                                      reinterpret_cast<const __nv_bfloat16*>(half_b.data()),
                                      reinterpret_cast<__nv_bfloat16*>(half_c.data()), shape.M, shape.N, shape.K, a.stride,
                                      b.stride, c_stride, nullptr));
        CHECK_CUDA(cudaDeviceSynchronize());
        int64_t stray = 0;
        const std::vector<float> pairs = half_c.read(&stray);
        if (stray != 0) {
            report->fail(name, "element " + std::to_string(2 * stray) + " lies outside the output and must stay untouched");
        }
        const auto half = [&](int64_t i) {
            uint32_t bits;
            std::memcpy(&bits, &pairs[static_cast<size_t>(i / 2)], sizeof bits);
            return static_cast<uint16_t>(bits >> i % 2 * 16);
        };
        compare_product(
            name,
            [&](int64_t i) {
                const uint32_t bits = static_cast<uint32_t>(half(i)) << 16;
                float value;
                std::memcpy(&value, &bits, sizeof value);
                return static_cast<double>(value);
            },
            [&](int64_t i) { return half(i) == static_cast<uint16_t>(kPoisonBits >> i % 2 * 16); }, shape.M, shape.N,
            c_stride, expected, bound, report);
        report->ran("matmul");
    }
}
