// The timings of the test program. Include after portfolio_test.cuh.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "check.cuh"

struct Timing {
    std::string kernel;
    std::vector<int64_t> shape;
    int64_t traffic_bytes;  // by formula: every input element read once, every output element written once
    int buffers;
    int launches;  // per sample
    std::vector<double> samples_us;

    double median_us() const {
        std::vector<double> sorted = samples_us;
        std::sort(sorted.begin(), sorted.end());
        const size_t middle = sorted.size() / 2;
        return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
    }
    double gb_per_s() const { return static_cast<double>(traffic_bytes) / median_us() / 1e3; }
};

// How many sets of buffers the launches rotate through: enough that a set has left the L2 cache when its turn comes
// again. Without this, a small case would be timed on cached data, which no real use would find there.
inline int buffer_sets(int64_t set_bytes) {
    int l2_bytes = 0;
    CHECK_CUDA(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, 0));
    const int64_t sets = 1 + (2 * static_cast<int64_t>(l2_bytes) + set_bytes - 1) / set_bytes;
    return static_cast<int>(std::clamp<int64_t>(sets, 2, 256));
}

// Times launch(0), launch(1), ... launch(sets - 1), launch(0), ... with a pair of events around each sample. A sample
// holds enough launches that the events' own resolution (about half a microsecond) is below one percent.
inline void measure(const std::function<void(int)>& launch, int sets, Timing* timing) {
    constexpr int kSamples = 31;
    constexpr double kSampleUs = 200.0;

    cudaEvent_t begin;
    cudaEvent_t end;
    CHECK_CUDA(cudaEventCreate(&begin));
    CHECK_CUDA(cudaEventCreate(&end));
    int next = 0;
    const auto sample_us = [&](int launches) {
        CHECK_CUDA(cudaEventRecord(begin));
        for (int i = 0; i < launches; ++i) {
            launch(next);
            next = (next + 1) % sets;
        }
        CHECK_CUDA(cudaEventRecord(end));
        CHECK_CUDA(cudaEventSynchronize(end));
        float elapsed_ms = 0.0f;
        CHECK_CUDA(cudaEventElapsedTime(&elapsed_ms, begin, end));
        return 1e3 * static_cast<double>(elapsed_ms) / launches;
    };

    sample_us(sets);  // the first pass loads the code and touches every buffer
    timing->buffers = sets;
    timing->launches = static_cast<int>(std::clamp(std::ceil(kSampleUs / sample_us(sets)), 1.0, 1000.0));
    for (int i = 0; i < kSamples; ++i) {
        timing->samples_us.push_back(sample_us(timing->launches));
    }
    CHECK_CUDA(cudaEventDestroy(begin));
    CHECK_CUDA(cudaEventDestroy(end));
}

inline std::vector<Timing> bench() {
    std::vector<Timing> timings;

    for (const int64_t n : {int64_t{1} << 20, int64_t{1} << 24, int64_t{1} << 27}) {
        Timing timing = {"vector_add", {n}, 3 * n * 4, 0, 0, {}};
        const int sets = buffer_sets(timing.traffic_bytes);
        std::vector<std::unique_ptr<DeviceBuffer>> x;
        std::vector<std::unique_ptr<DeviceBuffer>> y;
        std::vector<std::unique_ptr<DeviceBuffer>> out;
        const std::vector<float> ones(static_cast<size_t>(n), 1.0f);
        for (int i = 0; i < sets; ++i) {
            x.push_back(std::make_unique<DeviceBuffer>(ones));
            y.push_back(std::make_unique<DeviceBuffer>(ones));
            out.push_back(std::make_unique<DeviceBuffer>(n));
        }
        measure([&](int i) { CHECK_CUDA(launch_vector_add(x[i]->data(), y[i]->data(), out[i]->data(), n, nullptr)); },
                sets, &timing);
        timings.push_back(timing);
    }

    const SoftmaxShape shapes[] = {
        {4096, 1000, 1000, 1000, Scores::kRandom},      // every row can be read 16 bytes at a time
        {4096, 1001, 1001, 1001, Scores::kRandom},      // none can, apart from every fourth by its address
        {4096, 4096, 4096, 4096, Scores::kRandom},
        {512, 32768, 32768, 32768, Scores::kRandom},    // few long rows
        {65536, 64, 64, 64, Scores::kRandom},           // many short rows: three quarters of a block own nothing
    };
    for (const SoftmaxShape& shape : shapes) {
        const int64_t elements = shape.rows * shape.columns;
        const int sets = buffer_sets(2 * elements * 4);
        const std::vector<float> scores = make_scores(shape, 1);
        std::vector<std::unique_ptr<DeviceBuffer>> x;
        std::vector<std::unique_ptr<DeviceBuffer>> out;
        for (int i = 0; i < sets; ++i) {
            x.push_back(std::make_unique<DeviceBuffer>(scores));
            out.push_back(std::make_unique<DeviceBuffer>(elements));
        }
        for (const SoftmaxKernel& kernel : softmax_kernels()) {
            for (const SoftmaxForm& form : kernel.forms) {
                Timing timing = {form.name, {shape.rows, shape.columns}, 2 * elements * 4, 0, 0, {}};
                measure(
                    [&](int i) {
                        CHECK_CUDA(form.launch(x[i]->data(), out[i]->data(), shape.rows, shape.columns, shape.x_stride,
                                               shape.out_stride, nullptr));
                    },
                    sets, &timing);
                timings.push_back(timing);
            }
        }
    }
    return timings;
}

// ---- output ---------------------------------------------------------------------------------------------------------

inline std::string json_string(const std::string& text) {
    std::ostringstream out;
    out << '"';
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out << '\\' << c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            char escaped[8];
            std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
            out << escaped;
        } else {
            out << c;
        }
    }
    out << '"';
    return out.str();
}

// JSON has no word for infinity or NaN, so a time that is neither positive nor finite ends the program.
inline std::string json_number(double value) {
    if (!std::isfinite(value) || value <= 0) {
        std::fprintf(stderr, "A measurement came out as %g; times and rates are positive and finite.\n", value);
        std::exit(kExitCudaError);
    }
    return number(value);
}

template <typename Item, typename Format>
std::string json_list(const std::vector<Item>& items, const std::string& separator, Format format) {
    std::string text;
    for (const Item& item : items) {
        text += (text.empty() ? "" : separator) + format(item);
    }
    return "[" + text + "]";
}

inline std::string to_json(const std::vector<Timing>& timings) {
    cudaDeviceProp properties;
    int driver = 0;
    int runtime = 0;
    CHECK_CUDA(cudaGetDeviceProperties(&properties, 0));
    CHECK_CUDA(cudaDriverGetVersion(&driver));
    CHECK_CUDA(cudaRuntimeGetVersion(&runtime));

    std::ostringstream out;
    out << "{\n  \"schema\": \"cuda_portfolio/1\",\n"
        << "  \"gpu\": " << json_string(properties.name) << ",\n"
        << "  \"compute_capability\": \"" << properties.major << '.' << properties.minor << "\",\n"
        << "  \"l2_bytes\": " << properties.l2CacheSize << ",\n"
        << "  \"driver_cuda_version\": " << driver << ",\n"
        << "  \"runtime_cuda_version\": " << runtime << ",\n"
        << "  \"threads_per_block\": " << kThreads << ",\n"
        << "  \"dtype\": \"float32\",\n"
        << "  \"records\": "
        << json_list(timings, ",\n    ",
                     [](const Timing& timing) {
                         std::ostringstream record;
                         record << "{\"kernel\": " << json_string(timing.kernel) << ", \"shape\": "
                                << json_list(timing.shape, ", ", [](int64_t n) { return std::to_string(n); })
                                << ", \"traffic_bytes\": " << timing.traffic_bytes
                                << ", \"buffers\": " << timing.buffers
                                << ", \"launches_per_sample\": " << timing.launches
                                << ", \"median_us\": " << json_number(timing.median_us())
                                << ", \"gb_per_s\": " << json_number(timing.gb_per_s())
                                << ", \"samples_us\": " << json_list(timing.samples_us, ", ", json_number) << "}";
                         return record.str();
                     })
        << "\n}\n";
    return out.str();
}

inline std::string to_table(const std::vector<Timing>& timings) {
    std::string text = "kernel                 shape           median us      GB/s\n";
    for (const Timing& timing : timings) {
        std::string shape;
        for (const int64_t extent : timing.shape) {
            shape += (shape.empty() ? "" : "x") + std::to_string(extent);
        }
        char line[128];
        std::snprintf(line, sizeof line, "%-22s %-14s %10.2f %9.1f\n", timing.kernel.c_str(), shape.c_str(),
                      timing.median_us(), timing.gb_per_s());
        text += line;
    }
    return text;
}
