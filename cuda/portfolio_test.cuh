// The correctness checks of the test program. Include after kernels.cu.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "check.cuh"

// Counts what ran and reports what went wrong.
class Report {
  public:
    int64_t failures = 0;

    // A case of a group was checked.
    void ran(const std::string& group) {
        const auto same = [&](const std::pair<std::string, int>& one) { return one.first == group; };
        const auto found = std::find_if(groups_.begin(), groups_.end(), same);
        if (found == groups_.end()) {
            groups_.emplace_back(group, 1);
        } else {
            ++found->second;
        }
    }

    // "3 vector + 18 softmax", in the order in which the groups came.
    std::string cases() const {
        std::string text;
        for (const auto& [group, count] : groups_) {
            text += (text.empty() ? "" : " + ") + std::to_string(count) + " " + group;
        }
        return text;
    }

    // `what` is the kernel and its shape. One broken kernel can fail in every element and must not hide the next one,
    // so each `what` is shown a few times only.
    void fail(const std::string& what, const std::string& message) {
        constexpr int64_t kShown = 4;
        ++failures;
        const int64_t seen = ++seen_[what];
        if (seen <= kShown) {
            std::fprintf(stderr, "FAILED %s: %s\n", what.c_str(), message.c_str());
        }
        if (seen == kShown + 1) {
            std::fprintf(stderr, "FAILED %s: more, counted but not shown\n", what.c_str());
        }
    }

  private:
    std::map<std::string, int64_t> seen_;
    std::vector<std::pair<std::string, int>> groups_;
};

inline std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", value);
    return text;
}

// Compares a rows x columns result, whose rows are `stride` apart, with `expected` (dense). A float32 result may
// differ by `relative` times the expected value, and by `absolute`. Elements between the rows must still be poison.
inline void compare(const std::string& kernel, const DeviceBuffer& buffer, const std::vector<double>& expected,
                    int64_t rows, int64_t columns, int64_t stride, double relative, Report* report,
                    double absolute = 0.0) {
    const auto place = [](int64_t row, int64_t column) {
        return "row " + std::to_string(row) + ", column " + std::to_string(column);
    };
    int64_t stray = 0;
    const std::vector<float> got = buffer.read(&stray);
    if (stray != 0) {
        const int64_t row = stray < 0 ? -1 : stray / stride;
        report->fail(kernel, place(row, stray - row * stride) + " lies outside the output and must stay untouched");
    }
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < stride; ++column) {
            const float value = got[static_cast<size_t>(row * stride + column)];
            if (column >= columns) {
                if (!is_poison(value)) {
                    report->fail(kernel, place(row, column) + " lies between two rows and must stay untouched, got " +
                                             number(value));
                }
                continue;
            }
            const double want = expected[static_cast<size_t>(row * columns + column)];
            const bool equal =
                std::isnan(want) ? std::isnan(value) : std::fabs(value - want) <= relative * std::fabs(want) + absolute;
            if (is_poison(value)) {
                report->fail(kernel, place(row, column) + ": expected " + number(want) + ", but it was never written");
            } else if (!equal) {
                report->fail(kernel, place(row, column) + ": expected " + number(want) + ", got " + number(value));
            }
        }
    }
}

// ---- vector_add -----------------------------------------------------------------------------------------------------

inline void test_vector_add(uint32_t seed, Report* report) {
    const int64_t sizes[] = {
        1,               // one thread of one block has work
        kThreads + 1,    // one full block, and a second in which only thread 0 has work
        1000003,         // thousands of blocks and a prime size, so no block size divides it
    };
    for (const int64_t n : sizes) {
        std::mt19937 random(seed + static_cast<uint32_t>(n));
        std::uniform_real_distribution<float> uniform(-100.0f, 100.0f);
        std::vector<float> x(static_cast<size_t>(n));
        std::vector<float> y(x.size());
        std::vector<double> expected(x.size());
        for (size_t i = 0; i < x.size(); ++i) {
            x[i] = uniform(random);
            y[i] = uniform(random);
            expected[i] = x[i] + y[i];  // a float sum is exactly rounded: every correct kernel gets these very bits
        }
        const DeviceBuffer device_x(x);
        const DeviceBuffer device_y(y);
        const DeviceBuffer out(n);
        CHECK_CUDA(launch_vector_add(device_x.data(), device_y.data(), out.data(), n, nullptr));
        CHECK_CUDA(cudaDeviceSynchronize());
        compare("vector_add n=" + std::to_string(n), out, expected, 1, n, n, 0.0, report);
        report->ran("vector");
    }
}

// ---- softmax --------------------------------------------------------------------------------------------------------

using SoftmaxLauncher = cudaError_t (*)(const float*, float*, int64_t, int64_t, int64_t, int64_t, cudaStream_t);

struct SoftmaxForm {
    const char* name;
    SoftmaxLauncher launch;
};

struct SoftmaxKernel {
    std::vector<SoftmaxForm> forms;  // one kernel may exist in more than one form; a case checks all of them
};

inline const std::vector<SoftmaxKernel>& softmax_kernels() {
    static const std::vector<SoftmaxKernel> kernels = {
        {{{"softmax_serial", launch_softmax_serial}}},
        {{{"softmax_parallel", launch_softmax_parallel}}},
        {{{"softmax_online", launch_softmax_online}, {"softmax_online_scalar", launch_softmax_online_scalar}}},
    };
    return kernels;
}

enum class Scores {
    kRandom,  // rows around -100, 0 and +100: a missing maximum overflows, padding taken for a score shows
    kMasked,  // as before, with long stretches of -inf
    kDrift,   // one score is the maximum and all others give one and the same weight
};

struct SoftmaxShape {
    int64_t rows;
    int64_t columns;
    int64_t x_stride;
    int64_t out_stride;
    Scores scores;
};

inline const std::vector<SoftmaxShape>& softmax_shapes() {
    static const std::vector<SoftmaxShape> shapes = {
        {1, 1, 1, 1, Scores::kRandom},              // a single weight is 1
        {7, 33, 40, 36, Scores::kRandom},           // narrower than a block, one column past a warp, padded rows
        {300, 1023, 1023, 1023, Scores::kRandom},   // width not a multiple of four; more rows than a serial block
        {5, 1028, 1029, 1028, Scores::kRandom},     // width a multiple of four, but only every fourth row is aligned
        {6, 4096, 4096, 4100, Scores::kMasked},     // width a multiple of four, aligned, partly masked rows
        {2, 8192, 8192, 8192, Scores::kDrift},      // 8192 equal terms: a sum without compensation drifts
    };
    return shapes;
}

// Scores with `x_stride` per row. The padding holds 1e30: a kernel that read it would return zeros.
inline std::vector<float> make_scores(const SoftmaxShape& shape, uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0f, 3.0f);
    std::vector<float> x(static_cast<size_t>(shape.rows * shape.x_stride), 1e30f);
    for (int64_t row = 0; row < shape.rows; ++row) {
        const float center = 100.0f * static_cast<float>(row % 3 - 1);
        for (int64_t column = 0; column < shape.columns; ++column) {
            float score = center + normal(random);
            if (shape.scores == Scores::kDrift) {
                score = column == shape.columns / 2 ? 0.0f : -2.25f - 0.125f * static_cast<float>(row);
            }
            if (shape.scores == Scores::kMasked) {
                const bool masked = row == 0   ? column < shape.columns / 2        // the first scores of every thread
                                    : row == 1 ? column != shape.columns - 3       // all but one
                                    : row == 2 ? true                              // all: the row becomes NaN
                                    : row == 3 ? column % kThreads >= kThreads / 2  // half of the threads see no score
                                    : row == 4 ? column >= shape.columns / 3       // a causal mask
                                               : false;
                score = masked ? -std::numeric_limits<float>::infinity() : score;
            }
            x[static_cast<size_t>(row * shape.x_stride + column)] = score;
        }
    }
    return x;
}

// The definition, in double precision.
inline std::vector<double> softmax_reference(const std::vector<float>& x, const SoftmaxShape& shape) {
    std::vector<double> expected;
    for (int64_t row = 0; row < shape.rows; ++row) {
        const float* first = x.data() + row * shape.x_stride;
        const double row_max = *std::max_element(first, first + shape.columns);
        double sum = 0.0;
        for (int64_t column = 0; column < shape.columns; ++column) {
            sum += std::exp(first[column] - row_max);
        }
        for (int64_t column = 0; column < shape.columns; ++column) {
            expected.push_back(std::exp(first[column] - row_max) / sum);
        }
    }
    return expected;
}

inline void test_softmax(uint32_t seed, Report* report) {
    // Subtracting the maximum may round by half a unit of 24 bits; for scores 30 apart that is 1e-6 in the exponent,
    // and so in the weight. expf, the sum and the division add about 4e-7. Twice the total leaves a plain sum of the
    // drift shape, which is off by 2e-5 and more, outside.
    constexpr double kRelative = 3e-6;

    for (const SoftmaxKernel& kernel : softmax_kernels()) {
        for (const SoftmaxShape& shape : softmax_shapes()) {
            const std::vector<float> x = make_scores(shape, seed + static_cast<uint32_t>(shape.columns));
            const std::vector<double> expected = softmax_reference(x, shape);
            for (const SoftmaxForm& form : kernel.forms) {
                const DeviceBuffer device_x(x);
                const DeviceBuffer out(shape.rows * shape.out_stride);
                CHECK_CUDA(form.launch(device_x.data(), out.data(), shape.rows, shape.columns, shape.x_stride,
                                       shape.out_stride, nullptr));
                CHECK_CUDA(cudaDeviceSynchronize());
                const std::string name = std::string(form.name) + " " + std::to_string(shape.rows) + "x" +
                                         std::to_string(shape.columns) + " row stride " +
                                         std::to_string(shape.x_stride) + " to " + std::to_string(shape.out_stride);
                compare(name, out, expected, shape.rows, shape.columns, shape.out_stride, kRelative, report);
            }
            report->ran("softmax");
        }
    }
}

// ---- arguments ------------------------------------------------------------------------------------------------------

inline void expect(const std::string& what, cudaError_t want, cudaError_t got, Report* report) {
    if (got != want) {
        report->fail(what, std::string("expected ") + cudaGetErrorName(want) + ", got " + cudaGetErrorName(got));
    }
}

// Nothing here reaches a GPU: the pointers are null, so a launch would show as a fault.
inline void test_arguments(Report* report) {
    expect("vector_add n=0", cudaSuccess, launch_vector_add(nullptr, nullptr, nullptr, 0, nullptr), report);
    expect("vector_add n=-1", cudaErrorInvalidValue, launch_vector_add(nullptr, nullptr, nullptr, -1, nullptr), report);
    expect("vector_add past the largest grid", cudaErrorInvalidValue,
           launch_vector_add(nullptr, nullptr, nullptr, kMaxBlocks * kThreads + 1, nullptr), report);
    for (const SoftmaxKernel& kernel : softmax_kernels()) {
        for (const SoftmaxForm& form : kernel.forms) {
            const std::string name = form.name;
            const auto launch = [&](int64_t rows, int64_t columns, int64_t x_stride, int64_t out_stride) {
                return form.launch(nullptr, nullptr, rows, columns, x_stride, out_stride, nullptr);
            };
            expect(name + " without rows", cudaSuccess, launch(0, 5, 5, 5), report);
            expect(name + " without columns", cudaSuccess, launch(5, 0, 0, 0), report);
            expect(name + " with -1 rows", cudaErrorInvalidValue, launch(-1, 5, 5, 5), report);
            expect(name + " with overlapping output rows", cudaErrorInvalidValue, launch(2, 5, 5, 4), report);
            expect(name + " past the largest grid", cudaErrorInvalidValue,
                   launch(kMaxBlocks * kThreads + 1, 1, 1, 1), report);
        }
    }
    CHECK_CUDA(cudaDeviceSynchronize());
}
