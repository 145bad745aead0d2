// Just enough of the CUDA runtime to run cuda/portfolio.cu on a CPU, so that the test program can itself be tested
// without a GPU. One thread of a block is one fiber; a fiber that must wait hands over to the next. The grown-up
// version, which records every access, is cuda/host; this one only has to give the right numbers.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#define __global__
#define __device__
#define __restrict__
#define __shared__ static  // blocks run one after another

struct float4 { float x, y, z, w; };
struct dim3 { unsigned x = 1, y = 1, z = 1; };
inline dim3 threadIdx, blockIdx, blockDim;

// ---- fibers ---------------------------------------------------------------------------------------------------------

struct Meeting {  // of all threads of a block, or of all lanes of a warp
    unsigned size = 0, arrived = 0, rounds = 0;
};
struct Fiber {
    ucontext_t start;
    jmp_buf resume;
    std::unique_ptr<char[]> stack{new char[65536]};
    bool started = false, done = false;
};
inline std::vector<Fiber> fibers;
inline std::vector<Meeting> meetings;  // one per warp, then one for the block
inline float slots[2][1024];
inline unsigned current;
inline bool progress;
inline jmp_buf scheduler;
inline std::function<void()> thread_body;

inline void meet(Meeting& meeting) {
    progress = true;
    const unsigned round = meeting.rounds;
    if (++meeting.arrived == meeting.size) {
        meeting.arrived = 0;
        ++meeting.rounds;
    }
    while (meeting.rounds == round) {
        if (_setjmp(fibers[current].resume) == 0) _longjmp(scheduler, 1);
    }
    progress = true;
}
inline void __syncthreads() { meet(meetings.back()); }
inline float __shfl_down_sync(unsigned, float value, int distance) {
    Meeting& warp = meetings[current / 32];
    const unsigned source = current % 32 + distance < 32 ? current + distance : current;
    float* slot = slots[warp.rounds % 2];  // a fast lane may already deposit its next value: that goes to the other row
    slot[current] = value;
    meet(warp);
    return slot[source];
}
inline void fiber_main() {
    thread_body();
    fibers[current].done = progress = true;
    _longjmp(scheduler, 1);
}

template <class Kernel, class... Arguments>
void cpu_launch(Kernel kernel, unsigned blocks, unsigned threads, Arguments... arguments) {
    blockDim.x = threads;
    thread_body = [=] { kernel(arguments...); };
    fibers.resize(threads);
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
        meetings.assign(threads / 32, Meeting{32});
        meetings.push_back(Meeting{threads});
        for (Fiber& fiber : fibers) fiber.started = fiber.done = false;
        static volatile unsigned left;  // static and volatile: _longjmp may lose a local variable
        for (left = threads; left > 0;) {
            progress = false;
            left = 0;
            for (current = 0; current < threads; ++current) {
                Fiber& fiber = fibers[current];
                if (fiber.done) continue;
                left = left + 1;
                threadIdx.x = current;
                if (_setjmp(scheduler) != 0) continue;
                if (fiber.started) _longjmp(fiber.resume, 1);
                fiber.started = true;
                getcontext(&fiber.start);
                fiber.start.uc_stack.ss_sp = fiber.stack.get();
                fiber.start.uc_stack.ss_size = 65536;
                fiber.start.uc_link = nullptr;
                makecontext(&fiber.start, fiber_main, 0);
                setcontext(&fiber.start);
            }
            if (left > 0 && !progress) {
                std::fprintf(stderr, "deadlock: some threads wait for others that have returned\n");
                std::exit(99);
            }
        }
    }
}

// ---- runtime --------------------------------------------------------------------------------------------------------

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorInsufficientDriver = 35,
    cudaErrorStubLibrary = 34,
    cudaErrorNoDevice = 100,
    cudaErrorNoKernelImageForDevice = 209,
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
enum cudaDeviceAttr { cudaDevAttrL2CacheSize };
using cudaStream_t = void*;
using cudaEvent_t = double*;
struct cudaDeviceProp {
    char name[32] = "A \"quoted\" CPU\\";
    int major = 0, minor = 0, l2CacheSize = 1 << 20;
};
#define CUDART_VERSION 13000

inline const char* cudaGetErrorName(cudaError_t) { return "an error"; }
inline const char* cudaGetErrorString(cudaError_t) { return "an error"; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaGetDeviceCount(int* count) {
    *count = 1;
    const char* failure = std::getenv("CPU_DEVICE_COUNT_ERROR");
    return failure ? static_cast<cudaError_t>(std::atoi(failure)) : cudaSuccess;
}
inline cudaError_t cudaMalloc(float** memory, size_t bytes) {
    *memory = static_cast<float*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
    return cudaSuccess;
}
inline cudaError_t cudaFree(void* memory) {
    std::free(memory);
    return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
    std::memcpy(to, from, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
    *value = 1 << 20;
    return cudaSuccess;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
    *properties = cudaDeviceProp();
    return cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int* version) { return *version = 13000, cudaSuccess; }
inline cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 13000, cudaSuccess; }
inline cudaError_t cudaEventCreate(cudaEvent_t* event) { return *event = new double, cudaSuccess; }
inline cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t event) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    *event = std::chrono::duration<double, std::milli>(now).count();
    return cudaSuccess;
}
inline cudaError_t cudaEventElapsedTime(float* elapsed_ms, cudaEvent_t begin, cudaEvent_t end) {
    *elapsed_ms = static_cast<float>(*end - *begin);
    return cudaSuccess;
}
