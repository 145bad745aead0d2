// What a CUDA test program needs around its kernels: checked API calls, and device memory that notices strays.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

// Exit statuses of the program. 77 is what test runners read as "skipped".
constexpr int kExitPassed = 0;
constexpr int kExitMismatch = 1;
constexpr int kExitUsage = 2;
constexpr int kExitCudaError = 3;
constexpr int kExitNoGpu = 77;

inline void check_cuda(cudaError_t error, const char* call, const char* file, int line) {
    if (error == cudaSuccess) {
        return;
    }
    std::fprintf(stderr, "%s:%d: %s failed with %s: %s.\n", file, line, call, cudaGetErrorName(error),
                 cudaGetErrorString(error));
    if (error == cudaErrorNoKernelImageForDevice) {
        std::fprintf(stderr, "The program holds no code for this GPU; build it again on this machine.\n");
    }
    std::exit(kExitCudaError);
}

// A failed call ends the program and names the call: an error that is not looked at surfaces later, somewhere else.
#define CHECK_CUDA(call) check_cuda((call), #call, __FILE__, __LINE__)

// A NaN that arithmetic does not produce. An element still holding it was never written, even where NaN is expected.
constexpr uint32_t kPoisonBits = 0x7fc0deadu;

inline float poison() {
    float value;
    std::memcpy(&value, &kPoisonBits, sizeof value);
    return value;
}

inline bool is_poison(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits == kPoisonBits;
}

// `size` floats on the device, between two guard bands. The bands are a multiple of 16 bytes, so data() is as well
// aligned as the allocation.
class DeviceBuffer {
  public:
    // An output: everything starts as poison, and read() looks for strays in the bands.
    explicit DeviceBuffer(int64_t size) : size_(size) { allocate(poison()); }

    // An input: the bands hold 1e30, which shows in any result that read it. Not poison: NaN plus NaN can be poison
    // again, and would look untouched.
    explicit DeviceBuffer(const std::vector<float>& values) : size_(static_cast<int64_t>(values.size())) {
        allocate(1e30f);
        CHECK_CUDA(cudaMemcpy(data(), values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
    }
    ~DeviceBuffer() { cudaFree(memory_); }  // an error here would repeat one that was reported already
    DeviceBuffer(const DeviceBuffer&) = delete;
    DeviceBuffer& operator=(const DeviceBuffer&) = delete;

    float* data() const { return memory_ + kGuard; }

    // The contents of an output, without the bands. Sets `first_stray` to the offset from data() of a band element
    // that was overwritten (negative: before the data), or to 0 when both bands are whole.
    std::vector<float> read(int64_t* first_stray) const {
        std::vector<float> all(total());
        CHECK_CUDA(cudaMemcpy(all.data(), memory_, total() * sizeof(float), cudaMemcpyDeviceToHost));
        *first_stray = 0;
        for (int64_t i = 0; i < kGuard; ++i) {
            // Nearest to the data first: that is where an index that is off by one lands.
            if (!is_poison(all[kGuard + size_ + i])) {
                *first_stray = size_ + i;
                break;
            }
            if (!is_poison(all[kGuard - 1 - i])) {
                *first_stray = -1 - i;
                break;
            }
        }
        return std::vector<float>(all.begin() + kGuard, all.begin() + kGuard + size_);
    }

  private:
    static constexpr int64_t kGuard = 1024;
    size_t total() const { return static_cast<size_t>(size_ + 2 * kGuard); }

    void allocate(float value) {
        const std::vector<float> fill(total(), value);
        CHECK_CUDA(cudaMalloc(&memory_, total() * sizeof(float)));
        CHECK_CUDA(cudaMemcpy(memory_, fill.data(), total() * sizeof(float), cudaMemcpyHostToDevice));
    }

    int64_t size_;
    float* memory_ = nullptr;
};
