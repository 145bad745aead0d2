// A thread that asks for the same value again and again waits for another one. It steps aside, so that the others of its
// block run; what it waits for in a block that has not begun cannot come, since blocks run one after another.
#include <cstring>

#include "runtime.h"

#define HIDDEN __attribute__((visibility("hidden")))

namespace kh {
namespace {

constexpr std::uint32_t kPatience = 256;  // times that a place finds one address unchanged before its thread steps aside
constexpr int kPlaces = 4;                // that a thread may ask at in turn, by the low bits of the place

struct Poll {
    std::uint32_t place, repeats;
    std::uintptr_t address;
    std::uint64_t value;
};
Poll polls[kMaxThreads][kPlaces];
int used = 0;  // one more than the highest thread that asked since the last reset

std::uint64_t value_at(std::uintptr_t address, std::size_t size) {
    std::uint64_t value = 0;
    std::memcpy(&value, reinterpret_cast<const void*>(address), size < sizeof value ? size : sizeof value);
    return value;
}

}  // namespace

HIDDEN void reset_polls() {
    std::memset(polls, 0, sizeof polls[0] * static_cast<std::size_t>(used));
    used = 0;
}

// Before the access is recorded: what the others write while this thread stands aside, they write before it.
HIDDEN void poll(std::uintptr_t address, std::size_t size, std::uint32_t pc) {
    if (!runtime.in_kernel || !runtime.current) return;
    if (address >= runtime.stacks_low && address < runtime.stacks_high) return;  // nobody else writes there
    Thread& self = *runtime.current;
    const int index = number(&self);
    if (used <= index) used = index + 1;
    Poll& at = polls[index][(pc ^ pc >> 2 ^ pc >> 4) % kPlaces];
    if (at.place != pc || at.address != address) {  // not read yet: it may be in no buffer
        at = {pc, 0, address, 0};
        return;
    }
    const std::uint64_t value = value_at(address, size);
    if (at.repeats && value != at.value) at.repeats = 0;
    at.value = value;
    if (++at.repeats < kPatience) return;
    at.repeats = kPatience;
    self.state = kAside;
    ++runtime.aside;
    switch_fiber(self.fiber, runtime.scheduler);
    if (value_at(address, size) != at.value) at.repeats = 0;
}

// How many blocks have not begun while this thread waits for a value that they may change; 0 if it does not wait.
HIDDEN std::uint32_t blocks_waited_for(const Thread& thread) {
    for (const Poll& at : polls[number(&thread)]) {
        if (at.repeats >= kPatience && !in_shared(at.address)) return runtime.blocks_left;
    }
    return 0;
}

}  // namespace kh
