// Warp operations: a lane deposits what it gives and waits; the last lane of the mask to arrive computes what each
// lane receives. Semantics of shuffles after "shfl.sync" in the PTX manual.
#include <cstring>

#include "runtime.h"

namespace kh {
namespace {

enum Op {  // those of kh_warp.h
    kSync, kIndex, kUp, kDown, kXor, kBallot, kAny, kAll, kMatchAny, kMatchAll,
    kAdd, kMin, kMax, kAnd, kOr, kXorBits, kActive
};

constexpr int kMaxLaneFaults = 256;
struct LaneFault {
    std::uint32_t pc, block;
    std::int32_t thread, source, launch, line;
};
LaneFault lane_faults[kMaxLaneFaults];
int lane_fault_count = 0;

int source_lane(int lane, int op, int argument, int width) {
    const int segment = lane & ~(width - 1);
    const int last = segment + width - 1;
    switch (op) {
        case kIndex: return segment + (argument & (width - 1));
        case kUp: return lane - argument < segment ? lane : lane - argument;
        case kDown: return lane + argument > last ? lane : lane + argument;
        default: return (lane ^ argument) > last ? lane : (lane ^ argument) & 31;
    }
}

std::uint64_t reduced(int op, std::uint64_t a, std::uint64_t b) {
    switch (op) {
        case kAdd: return a + b;
        case kMin: return static_cast<std::int64_t>(a) < static_cast<std::int64_t>(b) ? a : b;
        case kMax: return static_cast<std::int64_t>(a) > static_cast<std::int64_t>(b) ? a : b;
        case kAnd: return a & b;
        case kOr: return a | b;
        default: return a ^ b;
    }
}

void finish(Thread* warp, std::uint32_t mask, int op) {
    std::uint64_t given[32] = {}, received[32] = {};
    std::uint32_t ballot = 0;
    bool first = true, equal = true;
    std::uint64_t total = 0;
    for (int lane = 0; lane < 32; ++lane) {
        if (!(mask >> lane & 1)) continue;
        given[lane] = warp[lane].value;
        if (given[lane]) ballot |= 1u << lane;
        equal = equal && (first || given[lane] == total);
        total = first ? given[lane] : op >= kAdd ? reduced(op, total, given[lane]) : total;
        first = false;
    }
    for (int lane = 0; lane < 32; ++lane) {
        if (!(mask >> lane & 1)) continue;
        const Thread& thread = warp[lane];
        if (op == kBallot) {
            received[lane] = ballot;
        } else if (op == kAny) {
            received[lane] = ballot != 0;
        } else if (op == kAll) {
            received[lane] = ballot == mask;
        } else if (op >= kAdd) {
            received[lane] = total;
        } else if (op == kMatchAll) {
            received[lane] = equal ? mask : 0;
        } else if (op == kMatchAny) {
            for (int other = 0; other < 32; ++other) {
                if ((mask >> other & 1) && given[other] == given[lane]) received[lane] |= 1u << other;
            }
        } else if (op != kSync) {
            const int source = source_lane(lane, op, thread.argument, thread.width);
            if (mask >> source & 1) {
                received[lane] = given[source];
            } else {  // undefined on the GPU; NaN or -1 here, and a verdict
                received[lane] = ~std::uint64_t(0);
                if (lane_fault_count < kMaxLaneFaults) {
                    lane_faults[lane_fault_count] = {thread.pc, runtime.block, number(&thread), source, runtime.launch,
                                                     thread.line};
                }
                ++lane_fault_count;
            }
        }
    }
    for (int lane = 0; lane < 32; ++lane) {
        if (!(mask >> lane & 1)) continue;
        warp[lane].value = received[lane];
        warp[lane].state = kReady;
        if (op == kSync) ++warp[lane].warp_interval;  // a shuffle moves registers and orders no memory
    }
}

}  // namespace
}  // namespace kh

using namespace kh;

static std::uint64_t meet(std::uint32_t pc, int line, int op, unsigned mask, std::uint64_t value, int argument,
                          int width) {
    Thread& self = *runtime.current;
    const int index = number(&self);
    self.pc = pc;
    self.line = line;
    record_step(kWarpOp, pc);
    if (!(mask >> (index % 32) & 1)) stop(kOutsideMask, pc, kWarpOp, 0, mask);
    if (op >= kIndex && op <= kXor && (width < 1 || width > 32 || (width & (width - 1)))) {
        stop(kBadWidth, pc, kWarpOp, 0, static_cast<std::uint64_t>(std::int64_t{width}));
    }
    self.op = op;
    self.argument = argument;
    self.width = width;
    self.mask = mask;
    self.value = value;
    self.state = kAtWarpOp;
    Thread* warp = runtime.threads + index / 32 * 32;
    for (int lane = 0; lane < 32; ++lane) {
        if (!(mask >> lane & 1)) continue;
        const bool exists = index / 32 * 32 + lane < runtime.thread_count;
        const Thread& other = warp[lane];
        if (!exists || other.state != kAtWarpOp || other.op != op || other.mask != mask) {
            switch_fiber(self.fiber, runtime.scheduler);
            return self.value;
        }
    }
    finish(warp, mask, op);
    return self.value;
}

extern "C" __attribute__((visibility("hidden"))) std::uint64_t kh_warp_op(int line, int op, unsigned mask,
                                                                          std::uint64_t value, int argument, int width) {
    return meet(place(__builtin_return_address(0)), line, op, mask, value, argument, width);
}

// Each lane learns an address of every other one's. What lies there stays until they meet again.
extern "C" __attribute__((visibility("hidden"))) void kh_warp_gather(int line, const void* mine, const void** all) {
    static const void* given[kMaxThreads];
    const int index = number(runtime.current);
    given[index] = mine;
    meet(place(__builtin_return_address(0)), line, kAny, 0xffffffffu, 0, 0, 32);
    std::memcpy(all, given + index / 32 * 32, 32 * sizeof *all);
}

extern "C" __attribute__((visibility("hidden"))) void kh_fence(int scope) {
    record_step(kFence, place(__builtin_return_address(0)), static_cast<std::size_t>(scope));
}

// The lanes that run together are not defined on a GPU; here: those that wait at the same place of the source when no
// lane of the warp can go on without them.
extern "C" __attribute__((visibility("hidden"))) unsigned kh_active_mask() {
    Thread& self = *runtime.current;
    self.pc = place(__builtin_return_address(0));
    self.op = kActive;
    self.state = kAtWarpOp;
    self.mask = 0;
    switch_fiber(self.fiber, runtime.scheduler);
    return static_cast<unsigned>(self.value);
}

// Lets go the lanes of a warp that ask who is active, those of one place; false if there are none.
__attribute__((visibility("hidden"))) bool kh::release_active(int first, int last) {
    const Thread* chosen = nullptr;
    std::uint32_t mask = 0;
    for (int i = first; i < last; ++i) {
        const Thread& thread = runtime.threads[i];
        if (thread.state != kAtWarpOp || thread.op != kActive) continue;
        if (!chosen) chosen = &thread;
        if (thread.pc == chosen->pc) mask |= 1u << (i - first);
    }
    for (int i = first; i < last; ++i) {
        if (!(mask >> (i - first) & 1)) continue;
        runtime.threads[i].value = mask;
        runtime.threads[i].state = kReady;
    }
    return mask != 0;
}

extern "C" __attribute__((visibility("default"))) int kh_lane_faults(const void** faults, int reset) {
    if (reset) lane_fault_count = 0;
    *faults = lane_faults;
    return lane_fault_count;
}
