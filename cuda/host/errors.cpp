// What the numbers of cudaError_t are called and what they mean; and, where a launch was stopped, why.
#include <csignal>
#include <cstdio>

#include "runtime.h"

#define KH_INLINE inline __attribute__((always_inline))
#include "kh_vectors.h"

#define HIDDEN __attribute__((visibility("hidden")))

extern HIDDEN uint3 blockDim, gridDim;
extern "C" const char* kh_assertion();

namespace kh {
namespace {

const char* signal_name(std::uint64_t number) {
    switch (number) {
        case SIGSEGV: return "SIGSEGV";
        case SIGBUS: return "SIGBUS";
        case SIGFPE: return "SIGFPE";
        default: return "SIGILL";
    }
}

// After "was stopped: ".
void say_why(const Failure& failure, char* to, std::size_t room) {
    const Thread& thread = runtime.threads[failure.thread];
    const auto size = static_cast<unsigned long long>(failure.size);
    const auto address = static_cast<unsigned long long>(failure.address);
    switch (failure.stop) {
        case kDivergentBarrier:
            std::snprintf(to, room, "it waits at the barrier of line %d, which other threads of its block never reach",
                          thread.line);
            return;
        case kIncompleteWarp:
            std::snprintf(to, room,
                          "it waits in the warp operation of line %d for lanes of the mask 0x%08llx that never come",
                          thread.line, size);
            return;
        case kOutsideMask:
            std::snprintf(to, room, "it calls a warp operation with the mask 0x%08llx, which leaves it out", size);
            return;
        case kBadWidth:
            std::snprintf(to, room, "it shuffles with the width %llu, which is not 1, 2, 4, 8, 16 or 32", size);
            return;
        case kWild:
            std::snprintf(to, room, "its access of %llu bytes at address 0x%llx lies in no buffer", size, address);
            return;
        case kMisaligned:
            std::snprintf(to, room, "its access of %llu bytes at address 0x%llx is not at a multiple of its size", size,
                          address);
            return;
        case kTooLong: std::snprintf(to, room, "the launch used up the CPU time that it may have"); return;
        case kTooManyEvents: std::snprintf(to, room, "the launch made more accesses than are kept"); return;
        case kStackOverflow:
            std::snprintf(to, room, "it needs more than the %zu KB of stack that a thread has", kStackBytes / 1024);
            return;
        case kAssert:
            if (*kh_assertion()) std::snprintf(to, room, "it finds that `%s` is false", kh_assertion());
            else std::snprintf(to, room, "it calls __trap()");
            return;
        case kHeapFull:
            std::snprintf(to, room, "it asks for %llu bytes, more than the kernels' heap has left", size);
            return;
        case kCrash:
            if (size == SIGFPE) std::snprintf(to, room, "the processor refused its arithmetic (SIGFPE)");
            else std::snprintf(to, room, "the processor refused address 0x%llx (%s)%s", address, signal_name(size),
                               runtime.library ? "" : "; trace_cuda_launcher of kernels.trace.cuda names the line");
            return;
        default: std::snprintf(to, room, "the launcher made more launches or allocations than it may"); return;
    }
}

void say_coordinates(unsigned long long index, const uint3& extent, char* to, std::size_t room) {
    const unsigned long long x = extent.x ? extent.x : 1, y = extent.y ? extent.y : 1;
    std::snprintf(to, room, "(%llu, %llu, %llu)", index % x, index / x % y, index / x / y);
}

// The launch that was stopped, in one sentence without its full stop.
const char* stopped() {
    static char sentence[600];
    const Failure& failure = runtime.failure;
    if (failure.launch < 0) return "the launcher was given up: it made more launches or allocations than it may";
    char why[320], block[64], thread[64];
    say_why(failure, why, sizeof why);
    say_coordinates(failure.block, gridDim, block, sizeof block);
    say_coordinates(static_cast<unsigned long long>(failure.thread), blockDim, thread, sizeof thread);
    std::snprintf(sentence, sizeof sentence, "the kernel %s was stopped in block %s, thread %s: %s", kernel_name(), block,
                  thread, why);
    return sentence;
}

struct Meaning {
    int error;
    const char *name, *words;
};

constexpr Meaning kMeanings[] = {
    {0, "cudaSuccess", "no error"},
    {1, "cudaErrorInvalidValue", "an argument of the call is not one that it takes"},
    {2, "cudaErrorMemoryAllocation", "there is not as much memory left as the call asks for"},
    {9, "cudaErrorInvalidConfiguration", "the launch has no threads, or more threads, blocks or shared memory than it may"},
    {34, "cudaErrorStubLibrary", "the program was loaded with a stand-in for the CUDA driver"},
    {35, "cudaErrorInsufficientDriver", "the driver is older than this program's CUDA"},
    {100, "cudaErrorNoDevice", "there is no GPU that CUDA can use"},
    {209, "cudaErrorNoKernelImageForDevice", "the kernel was not compiled for this GPU"},
    {700, "cudaErrorIllegalAddress", "a kernel touched memory that is not allocated"},
    {702, "cudaErrorLaunchTimeout", "a kernel ran for too long"},
    {710, "cudaErrorAssert", "a kernel's own check failed"},
    {716, "cudaErrorMisalignedAddress", "a kernel made an access at an address that is not a multiple of its size"},
    {719, "cudaErrorLaunchFailure", "a kernel was stopped"},
    {801, "cudaErrorNotSupported", "the call is not supported here"},
};

const Meaning& meaning(int error) {
    static constexpr Meaning unknown = {999, "cudaErrorUnknown", "an error without a description"};
    for (const Meaning& one : kMeanings) {
        if (one.error == error) return one;
    }
    return unknown;
}

}  // namespace
}  // namespace kh

extern "C" HIDDEN const char* cudaGetErrorName(int error) { return kh::meaning(error).name; }

extern "C" HIDDEN const char* cudaGetErrorString(int error) {
    const kh::Stop stop = kh::runtime.failure.stop;
    return stop && kh::error_of(stop) == error ? kh::stopped() : kh::meaning(error).words;
}
