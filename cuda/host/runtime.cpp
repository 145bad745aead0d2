// Runs the blocks of a launch one after another, and the threads of a block as fibers: each runs until it returns or
// waits for others. When nobody can go on, the threads' states say why.
#include "runtime.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#define KH_INLINE inline __attribute__((always_inline))
#include "kh_vectors.h"

#define HIDDEN __attribute__((visibility("hidden")))
#define CALLER __builtin_return_address(0)
#define PUBLIC extern "C" __attribute__((visibility("default")))

HIDDEN uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace kh {

HIDDEN Runtime runtime;

namespace {

struct LaunchRecord {
    char name[128];
    std::int32_t line;
    std::uint32_t grid[3], block[3];
    std::uint64_t shared_bytes;
    std::int32_t refused;
};

constexpr int kMaxLaunches = 250;
LaunchRecord launches[kMaxLaunches];
int launch_count = 0;
int backwards = 0;
int last_error = 0;
jmp_buf launcher_exit;
bool in_launcher = false;
int refused_launches = 0;
char assertion[200];

void (*thread_function)(void*);
void* thread_arguments;

void leave() { switch_fiber(runtime.current->fiber, runtime.scheduler); }

void thread_entry() {
    thread_function(thread_arguments);
    runtime.current->state = kReturned;
    leave();
    end_copies();  // continued only if it had copies on their way: they end with the block, and nobody sees them sooner
    leave();
    __builtin_trap();  // a fiber that has returned is never continued
}

int guarded_stacks = 0;

// Room for every thread that a block may have; a guard page below the stacks of the threads that this block has.
bool make_stacks(int threads) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    if (!runtime.stacks) {
        runtime.stack_stride = kStackBytes + page;
        const std::size_t total = runtime.stack_stride * kMaxThreads;
        void* memory = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) return false;
        runtime.stacks = static_cast<char*>(memory);
        runtime.stacks_low = reinterpret_cast<std::uintptr_t>(memory);
        runtime.stacks_high = runtime.stacks_low + total;
        guarded_stacks = 0;
    }
    for (; guarded_stacks < threads; ++guarded_stacks) {
        mprotect(runtime.stacks + guarded_stacks * runtime.stack_stride, page, PROT_NONE);
    }
    return true;
}

void run_thread(Thread& thread) {
    const unsigned index = static_cast<unsigned>(number(&thread));
    runtime.current = &thread;
    threadIdx.x = index % blockDim.x;
    threadIdx.y = index / blockDim.x % blockDim.y;
    threadIdx.z = index / (blockDim.x * blockDim.y);
    switch_fiber(runtime.scheduler, thread.fiber);
    runtime.current = nullptr;
}

// Opens the barrier if the whole block waits at one; false if it cannot be opened.
bool open_barrier() {
    const int count = runtime.thread_count;
    int total = 0, line = runtime.threads[0].line;
    for (int i = 0; i < count; ++i) {
        const Thread& thread = runtime.threads[i];
        if (thread.state != kAtBarrier || thread.line != line || thread.op != runtime.threads[0].op) return false;
        total += thread.predicate != 0;
    }
    const int what = runtime.threads[0].op;
    const int result = what == 1 ? total : what == 2 ? total == count : total > 0;
    for (int i = 0; i < count; ++i) {
        Thread& thread = runtime.threads[i];
        thread.predicate = result;
        thread.state = kReady;
        ++thread.interval;
        thread.warp_interval = 0;
    }
    return true;
}

void report_late(const Thread& thread) {
    runtime.failure = {kTooLong, runtime.launch, number(&thread), runtime.block, runtime.last_place, 0, 0, 0,
                       runtime.last_place, blocks_waited_for(thread)};
}

void report_standstill() {
    Failure& failure = runtime.failure;
    const Thread* first = nullptr;
    for (int i = 0; i < runtime.thread_count; ++i) {
        const Thread& thread = runtime.threads[i];
        if (thread.state == kAtWarpOp && (!first || first->state != kAtWarpOp)) first = &thread;
        if (thread.state == kAtBarrier && !first) first = &thread;
    }
    failure.stop = first->state == kAtWarpOp ? kIncompleteWarp : kDivergentBarrier;
    failure.thread = number(first);
    failure.pc = first->pc;
    failure.block = runtime.block;
    failure.launch = runtime.launch;
    failure.size = first->mask;
}

void run_block() {
    for (int i = 0; i < runtime.thread_count; ++i) {
        Thread& thread = runtime.threads[i];
        const std::size_t page = runtime.stack_stride - kStackBytes;
        prepare(thread.fiber, runtime.stacks + i * runtime.stack_stride + page, kStackBytes, thread_entry);
        thread.state = kReady;
        thread.interval = thread.warp_interval = 0;
    }
    reset_copies();
    reset_polls();
    runtime.aside = 0;
    const int warps = (runtime.thread_count + 31) / 32;
    for (;;) {
        int returned = 0;
        for (int w = 0; w < warps; ++w) {
            const int first = (backwards ? warps - 1 - w : w) * 32;
            const int last = first + 32 < runtime.thread_count ? first + 32 : runtime.thread_count;
            for (bool moved = true; moved;) {  // a finished shuffle makes lanes of this warp ready again
                moved = false;
                for (int k = 0; k < last - first; ++k) {
                    Thread& thread = runtime.threads[backwards ? last - 1 - k : first + k];
                    if (thread.state != kReady) continue;
                    run_thread(thread);
                    if (runtime.late && !runtime.failure.stop) report_late(thread);
                    if (runtime.failure.stop) return;
                    moved = true;
                }
                if (!moved) moved = release_active(first, last);
            }
            for (int i = first; i < last; ++i) returned += runtime.threads[i].state == kReturned;
        }
        if (returned == runtime.thread_count) {
            for (int i = 0; i < returned && !runtime.failure.stop; ++i) {
                if (has_copies(i)) run_thread(runtime.threads[i]);
            }
            return;
        }
        if (runtime.aside) {
            for (int i = 0; i < runtime.thread_count; ++i) {
                if (runtime.threads[i].state == kAside) runtime.threads[i].state = kReady;
            }
            runtime.aside = 0;
            continue;
        }
        if (!open_barrier()) {
            report_standstill();
            return;
        }
    }
}

}  // namespace

HIDDEN int error_of(Stop stop) {
    switch (stop) {
        case kNone: return 0;
        case kWild: return 700;
        case kMisaligned: return 716;
        case kTooLong: case kTooManyEvents: return 702;
        case kAssert: return 710;
        case kHeapFull: return 2;
        default: return 719;
    }
}

HIDDEN const char* kernel_name() { return runtime.failure.launch < 0 ? "" : launches[runtime.failure.launch].name; }

HIDDEN bool is_built_in(std::uintptr_t address) {
    for (const uint3* variable : {&threadIdx, &blockIdx, &blockDim, &gridDim}) {
        if (address - reinterpret_cast<std::uintptr_t>(variable) < sizeof(uint3)) return true;
    }
    return false;
}

HIDDEN void stop(Stop why, std::uint32_t pc, int kind, std::uint64_t address, std::uint64_t size) {
    if (!runtime.in_kernel || !runtime.current) return;
    Failure& failure = runtime.failure;
    failure = {why, runtime.launch, number(runtime.current), runtime.block, pc, kind, address, size,
               runtime.last_place, why == kTooLong || why == kTooManyEvents ? blocks_waited_for(*runtime.current) : 0};
    leave();
}

HIDDEN void fail(const char* condition, const void* return_address) {
    std::snprintf(assertion, sizeof assertion, "%s", condition);
    stop(kAssert, place(return_address));
}

HIDDEN void leave_launcher(Stop why, const void* return_address, int count, std::uint64_t bytes) {
    if (!in_launcher || runtime.in_kernel) return;
    runtime.failure = {why, -1, count, 0, place(return_address), 0, 0, bytes, 0, 0};
    last_error = 2;
    _longjmp(launcher_exit, 1);
}

}  // namespace kh

using namespace kh;

// A launcher that goes on and on after its kernel failed.
static void abandon_launcher() {
    if (in_launcher && !runtime.in_kernel) _longjmp(launcher_exit, 1);
}

// Around a launcher's call: where leave_launcher goes, and that it may.
extern "C" HIDDEN jmp_buf* kh_launcher(int begins) {
    in_launcher = begins;
    return &launcher_exit;
}

extern "C" HIDDEN int kh_syncthreads(int line, int what, int predicate) {
    Thread& self = *runtime.current;
    self.pc = place(__builtin_return_address(0));
    self.line = line;
    self.op = what;
    self.predicate = predicate;
    self.state = kAtBarrier;
    record_step(kBarrier, self.pc);
    leave();
    return self.predicate;
}

// Registers a launch; the caller's arguments stay valid until it returns.
extern "C" HIDDEN void kh_run(const char* name, int line, void (*thread)(void*), void* arguments,
                              std::size_t arguments_bytes, const unsigned* grid, const unsigned* block,
                              std::size_t shared_bytes) {
    if (!runtime.library) launch_count = 0;  // a program of its own: nobody asks for its launches
    if (runtime.failure.stop || launch_count == kMaxLaunches) {
        last_error = 719;
        refused_launches = refused_launches < kMaxLaunches ? refused_launches + 1 : refused_launches;
        if (!runtime.failure.stop) leave_launcher(kTooManyLaunches, CALLER, launch_count);
        if (refused_launches == kMaxLaunches) abandon_launcher();  // the verdict of the first failure stays
        return;
    }
    LaunchRecord& launch = launches[launch_count];
    launch = {};
    std::snprintf(launch.name, sizeof launch.name, "%s", name);
    launch.line = line;
    launch.shared_bytes = shared_bytes;
    std::uint64_t threads = 1, blocks = 1;
    for (int axis = 0; axis < 3; ++axis) {
        launch.grid[axis] = grid[axis];
        launch.block[axis] = block[axis];
        threads *= block[axis];
        blocks *= grid[axis];
    }
    runtime.launch = static_cast<std::uint8_t>(launch_count++);
    const bool valid = threads >= 1 && threads <= kMaxThreads && block[2] <= 64 && blocks >= 1 &&
                       grid[0] <= 2147483647u && grid[1] <= 65535u && grid[2] <= 65535u && shared_bytes <= 227 * 1024;
    if (!valid || !make_stacks(static_cast<int>(threads))) {
        launch.refused = 1;
        last_error = valid ? 2 : 9;
        return;
    }
    thread_function = thread;
    thread_arguments = arguments;
    runtime.thread_count = static_cast<int>(threads);
    runtime.arguments_low = reinterpret_cast<std::uintptr_t>(arguments);
    runtime.arguments_high = runtime.arguments_low + arguments_bytes;
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    begin_regions(shared_bytes);
    {
        Guard guard;
        runtime.in_kernel = true;
        for (std::uint64_t turn = 0; turn < blocks && !runtime.failure.stop; ++turn) {
            const std::uint64_t b = backwards ? blocks - 1 - turn : turn;
            runtime.block = static_cast<std::uint32_t>(b);
            runtime.blocks_left = static_cast<std::uint32_t>(blocks - 1 - turn);
            blockIdx.x = static_cast<unsigned>(b % grid[0]);
            blockIdx.y = static_cast<unsigned>(b / grid[0] % grid[1]);
            blockIdx.z = static_cast<unsigned>(b / grid[0] / grid[1]);
            clear_shared();
            run_block();
        }
        runtime.in_kernel = false;
    }
    if (runtime.failure.stop) last_error = error_of(runtime.failure.stop);
    std::fflush(stdout);  // what kernels printed appears before the launch returns
}

// What assert() calls; this definition stands in for the C library's.
extern "C" HIDDEN void __assert_fail(const char* expression, const char* file, unsigned line, const char* function) {
    fail(expression, CALLER);
    std::fprintf(stderr, "%s:%u: %s: assertion `%s` failed\n", file, line, function, expression);
    std::abort();
}

extern "C" HIDDEN void kh_exit(int status) {
    if (runtime.failure.stop) abandon_launcher();
    leave_launcher(kExit, CALLER, status);
    std::exit(status);
}

#ifdef __APPLE__
extern "C" HIDDEN void __assert_rtn(const char* function, const char* file, int line, const char* expression) {
    std::snprintf(assertion, sizeof assertion, "%s", expression);
    stop(kAssert, place(CALLER));
    std::fprintf(stderr, "%s:%d: %s: assertion `%s` failed\n", file, line, function, expression);
    std::abort();
}
#endif

extern "C" HIDDEN void kh_trap() {
    assertion[0] = 0;
    stop(kAssert, place(__builtin_return_address(0)));
    std::abort();
}

PUBLIC const char* kh_assertion() { return assertion; }

extern "C" HIDDEN int cudaPeekAtLastError() { return last_error; }

extern "C" HIDDEN int cudaGetLastError() {
    const int error = last_error;
    if (!runtime.failure.stop) last_error = 0;  // a fault inside a kernel stays: the real context is lost, too
    return error;
}

PUBLIC void kh_reset_launches(int run_backwards) {
    backwards = run_backwards;
    launch_count = last_error = refused_launches = 0;
    runtime.failure = {};
}

PUBLIC int kh_launch_count() { return launch_count; }
PUBLIC const void* kh_launches() { return launches; }
PUBLIC const void* kh_failure() { return &runtime.failure; }
PUBLIC int kh_last_error() { return last_error; }

// Gives the threads' stacks back. Every guard page is a mapping of its own, and a process may hold only so many: the
// stacks of some thirty libraries would use them all up.
PUBLIC void kh_free_stacks() {
    if (!runtime.stacks) return;
    munmap(runtime.stacks, runtime.stack_stride * kMaxThreads);
    runtime.stacks = nullptr;
    runtime.stacks_low = runtime.stacks_high = 0;
}

// state, line and address of every thread of the block that was running last; returns how many there are.
PUBLIC int kh_thread_states(std::int32_t* state, std::int32_t* line, std::uint32_t* pc) {
    for (int i = 0; i < runtime.thread_count; ++i) {
        state[i] = runtime.threads[i].state;
        line[i] = runtime.threads[i].line;
        pc[i] = runtime.threads[i].pc;
    }
    return runtime.thread_count;
}
