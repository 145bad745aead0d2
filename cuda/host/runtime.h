// What the three parts of the host build's runtime share: the block scheduler (runtime.cpp), the recorder of memory
// accesses (record.cpp) and the guard against crashes and endless kernels (guard.cpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "fiber.h"

namespace kh {

constexpr int kMaxThreads = 1024;
constexpr std::size_t kStackBytes = 64 * 1024;  // plus one page below it that may not be touched

// A fence's size is its scope: 0 the block, 1 the device. A compare-and-swap is an atomic, and is told apart. The end
// of an asynchronous copy is a write; its begin is no access yet.
enum Kind : std::uint8_t { kRead, kWrite, kAtomic, kBarrier, kWarpOp, kFence, kCompareAndSwap, kCopyBegin, kCopyEnd };

// Why a thread stands still.
enum State : std::int32_t { kReady, kReturned, kAtBarrier, kAtWarpOp, kAside };

// Why a launch was stopped. The numbers are mirrored in kernels/trace/cuda_library.py.
enum Stop : std::int32_t {
    kNone,
    kDivergentBarrier,  // the threads of a block cannot all reach the same barrier
    kIncompleteWarp,    // lanes named in a mask never arrive
    kOutsideMask,       // a lane calls a warp operation whose mask leaves it out
    kWild,              // an address in no buffer and in no guard band
    kMisaligned,        // a vector access at an address that is not a multiple of its size
    kTooLong,
    kTooManyEvents,
    kStackOverflow,
    kCrash,             // a signal from the processor: SIGSEGV, SIGBUS, SIGFPE
    kAssert,            // assert() or __trap() in a kernel
    kHeapFull,          // malloc or new in a kernel
    kTooManyAllocations,  // by the launcher, as the next: launch -1
    kTooManyLaunches,
    kExit,  // the launcher called exit()
    kBadWidth,  // of a shuffle
};

// Memory that kernels may touch. [low, high) includes the guard bands, [base, base + size) is the buffer itself.
struct Region {
    std::uintptr_t low, high, base;
    std::uint64_t size;
    std::int32_t shared;   // cleared with 0xff when a block begins
    std::int32_t dynamic;  // its size is the launch's third argument
};

struct Thread {
    Fiber fiber;
    State state;
    std::int32_t line;           // of the barrier or warp operation it waits at
    std::uint32_t pc;            // the same place as an address
    std::uint32_t interval;
    std::uint32_t warp_interval;
    // Warp operation that it has deposited.
    std::int32_t op, argument, width;
    std::uint32_t mask;
    std::uint64_t value;         // what it gives; then what it receives
    std::int32_t predicate;      // of a counting barrier; then its result
};

struct Failure {
    Stop stop;
    std::int32_t launch;
    std::int32_t thread;
    std::uint32_t block;
    std::uint32_t pc;
    std::int32_t kind;
    std::uint64_t address;
    std::uint64_t size;  // of the access; for kCrash the signal; for kIncompleteWarp and kOutsideMask the mask
    std::uint32_t last;  // the latest recorded access, for when pc is in library code
    std::uint32_t later;  // blocks that had not begun, if the thread waits for a value that stays the same
};

struct Runtime {
    int system_thread = 0;   // the one that runs the kernel; signals of others are not ours
    bool in_kernel = false;  // false while host code of a launcher runs: its accesses are not the kernel's
    std::uintptr_t library = 0;
    std::uintptr_t library_low = 0, library_high = 0;
    Thread threads[kMaxThreads];
    Thread* current = nullptr;
    int thread_count = 0;
    std::uint32_t block = 0;
    std::uint32_t blocks_left = 0;  // that have not begun
    int aside = 0;                  // threads that wait for a value until the others had their turn
    std::uint8_t launch = 0;
    Fiber scheduler;
    char* stacks = nullptr;
    std::size_t stack_stride = 0;
    std::uintptr_t stacks_low = 0, stacks_high = 0;
    std::uintptr_t arguments_low = 0, arguments_high = 0;  // the launch's own copy of its arguments
    std::uint32_t last_place = 0;  // the latest access, for faults that do not say where they happen
    volatile bool late = false;
    Failure failure{};
};

extern Runtime runtime __attribute__((visibility("hidden")));

inline std::uint32_t place(const void* return_address) {
    return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(return_address) - runtime.library);
}

inline bool in_library(std::uintptr_t address) {
    return address >= runtime.library_low && address < runtime.library_high;
}

inline int number(const Thread* thread) { return static_cast<int>(thread - runtime.threads); }

// Notes why and leaves the kernel for good. Returns only if no kernel runs.
void stop(Stop why, std::uint32_t pc, int kind = 0, std::uint64_t address = 0, std::uint64_t size = 0);

// The same for a condition that does not hold, in words.
void fail(const char* condition, const void* return_address);

// The same for the host function that makes the launches: its call returns at once. Returns if none runs.
void leave_launcher(Stop why, const void* return_address, int count, std::uint64_t bytes = 0);

int error_of(Stop stop);     // the cudaError_t that a launcher gets for it
const char* kernel_name();  // of the launch that was stopped; "" if none was

// Records an access of the running thread, or stops the launch before a harmful one is made.
void record(std::uintptr_t address, std::size_t size, Kind kind, const void* return_address);
void record_step(Kind kind, std::uint32_t pc, std::size_t size = 0);
bool release_active(int first, int last);  // threads of a warp that wait in __activemask
bool in_shared(std::uintptr_t address);     // memory of the running block alone
bool is_built_in(std::uintptr_t address);  // part of threadIdx, blockIdx, blockDim or gridDim
void poll(std::uintptr_t address, std::size_t size, std::uint32_t pc);  // before a read that may wait for a value
void reset_polls();   // when a block begins
std::uint32_t blocks_waited_for(const Thread& thread);
void find_module();   // sets runtime.library and what belongs to it
void reset_copies();  // when a block begins
bool has_copies(int thread);
void end_copies();  // those that the running thread has not waited for
void begin_regions(std::size_t dynamic_shared_bytes);
void clear_shared();

// While a Guard lives, signals of the processor and the clock stop the launch instead of the process.
class Guard {
public:
    Guard();
    ~Guard();
};

extern double cpu_seconds_left;

}  // namespace kh
