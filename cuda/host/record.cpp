// The compiler's -fsanitize=thread calls one of these functions before every memory access that is not to a register
// or to a private local. The real run-time library is never linked: these definitions write the access down instead.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "runtime.h"

#define HIDDEN __attribute__((visibility("hidden")))
#define PUBLIC extern "C" __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)

namespace kh {
namespace {

constexpr int kNoRegion = 0xffff;
constexpr int kMaxRegions = 256;
Region regions[kMaxRegions];
int region_count = 0;
std::uint64_t dynamic_bytes = 0;

// One access, barrier arrival, warp operation or fence. What stays the same until another thread runs, or a barrier
// opens, stands in the turn that the event belongs to.
struct Event {
    std::uint32_t pc;      // return address minus the library's base
    std::uint16_t region;  // kNoRegion for what is no access
    std::uint8_t kind;
    std::uint8_t unused;
    std::int64_t place;    // bytes from the region's first, times 2^24, plus the size in bytes
};
static_assert(sizeof(Event) == 16 && kMaxRegions < kNoRegion, "Python reads events as 16-byte records");

// Events in a row that one thread makes between the same two barriers.
struct Turn {
    std::uint64_t first;  // number of its first event
    std::uint32_t block;
    std::uint32_t interval;       // barriers that the thread has passed
    std::uint32_t warp_interval;  // __syncwarp calls that it has passed since the last barrier
    std::uint16_t thread;
    std::uint16_t launch;
};
static_assert(sizeof(Turn) == 24, "Python reads turns as 24-byte records");

constexpr int kSizeBits = 24;
constexpr std::size_t kMostBytes = 1 << 23;  // of one event; a longer copy is several

Event* events = nullptr;
Turn* turns = nullptr;
std::size_t event_limit = 0;
int keep_events = 1;

// The next event goes to *next. Where nothing is kept, both are null.
Event *next = nullptr, *end = nullptr;
Turn* next_turn = nullptr;
const Thread* turn_thread = nullptr;  // what the latest turn was for; null: a new one begins with the next event
std::uint32_t turn_block = 0, turn_interval = 0, turn_warp_interval = 0;

// A line of the source mostly touches one buffer. By the low bits of the return address: the region it touched last.
std::uint8_t region_of_site[1024];

void begin_turn(const Thread& self) {
    turn_thread = &self;
    turn_block = runtime.block;
    turn_interval = self.interval;
    turn_warp_interval = self.warp_interval;
    *next_turn++ = {static_cast<std::uint64_t>(next - events), turn_block, turn_interval, turn_warp_interval,
                    static_cast<std::uint16_t>(number(&self)), runtime.launch};
}

inline __attribute__((always_inline)) void write_down(std::uint32_t pc, int region, Kind kind, std::int64_t offset,
                                                      std::size_t size) {
    if (__builtin_expect(next == end, 0)) {
        if (keep_events) stop(kTooManyEvents, pc, kind);
        return;
    }
    const Thread& self = *runtime.current;
    if (__builtin_expect(&self != turn_thread || self.interval != turn_interval || runtime.block != turn_block ||
                         self.warp_interval != turn_warp_interval, 0)) {
        begin_turn(self);
    }
    *next++ = {pc, static_cast<std::uint16_t>(region), kind, 0,
               offset * (std::int64_t(1) << kSizeBits) + static_cast<std::int64_t>(size)};
}

int find_region(std::uintptr_t address) {
    for (int i = 0; i < region_count; ++i) {
        if (address >= regions[i].low && address < regions[i].high) return i;
    }
    return -1;
}

void* reserve(std::size_t bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
#ifdef MADV_HUGEPAGE
    madvise(memory, bytes, MADV_HUGEPAGE);  // only as much as is written takes memory, in larger steps where it can
#endif
    return memory;
}

void forget() {
    if (events) munmap(events, event_limit * sizeof(Event));
    if (turns) munmap(turns, event_limit * sizeof(Turn));
    events = next = end = nullptr;
    turns = next_turn = nullptr;
}

}  // namespace

HIDDEN bool in_shared(std::uintptr_t address) {
    const int region = find_region(address);
    return region >= 0 && regions[region].shared;
}

HIDDEN void begin_regions(std::size_t dynamic_shared_bytes) {
    dynamic_bytes = dynamic_shared_bytes;
    turn_thread = nullptr;
    for (int i = 0; i < region_count; ++i) {
        if (regions[i].dynamic) regions[i].size = dynamic_shared_bytes;
    }
}

// Shared memory is not initialised on a GPU. All bits set reads as NaN, so a forgotten write shows.
HIDDEN void clear_shared() {
    for (int i = 0; i < region_count; ++i) {
        if (regions[i].shared) std::memset(reinterpret_cast<void*>(regions[i].base), 0xff, regions[i].size);
    }
}

HIDDEN void record_step(Kind kind, std::uint32_t pc, std::size_t size) {
    if (runtime.in_kernel && runtime.library) write_down(pc, kNoRegion, kind, 0, size);
}

HIDDEN void record(std::uintptr_t address, std::size_t size, Kind kind, const void* caller) {
    if (!runtime.in_kernel || size == 0 || !runtime.library) return;  // no library: a program, and nothing is recorded
    const std::uint32_t pc = runtime.last_place = place(caller);
    if (address >= runtime.stacks_low && address < runtime.stacks_high) return;  // a thread's own locals
    if (address >= runtime.arguments_low && address < runtime.arguments_high) return;
    const int region = find_region(address);
    if (region < 0) {
        // clang++ also reports what g++ does not: built-in variables, and literals that the compiler keeps in memory.
        if (is_built_in(address) || (kind == kRead && in_library(address))) return;
        stop(kWild, pc, kind, address, size);
        return;
    }
    region_of_site[pc % sizeof region_of_site] = static_cast<std::uint8_t>(region);
    const auto offset = static_cast<std::int64_t>(address - regions[region].base);
    for (std::size_t done = 0; done < size; done += kMostBytes) {
        write_down(pc, region, kind, offset + static_cast<std::int64_t>(done),
                   size - done < kMostBytes ? size - done : kMostBytes);
    }
    if (address + size > regions[region].high) stop(kWild, pc, kind, address, size);
}

// One instruction moves `size` bytes, so the GPU insists on their alignment.
static __attribute__((noinline)) void record_slowly(std::uintptr_t address, std::size_t size, Kind kind,
                                                    const void* caller) {
    record(address, size, kind, caller);
    if (address % size == 0 || !runtime.in_kernel) return;
    if (address < runtime.stacks_low || address >= runtime.stacks_high) {
        stop(kMisaligned, place(caller), kind, address, size);
    }
}

// What nearly every access is: aligned, whole, and to the region that its line touched last.
static inline __attribute__((always_inline)) void record_aligned(std::uintptr_t address, std::size_t size, Kind kind,
                                                                 const void* caller) {
    const std::uint32_t pc = place(caller);
    const int region = region_of_site[pc % sizeof region_of_site];
    const Region& there = regions[region];
    if (__builtin_expect(address % size != 0 || !runtime.in_kernel || address < there.low || address >= there.high ||
                         address + size > there.high, 0)) {
        record_slowly(address, size, kind, caller);
        return;
    }
    runtime.last_place = pc;
    write_down(pc, region, kind, static_cast<std::int64_t>(address - there.base), size);
}

}  // namespace kh

using namespace kh;

PUBLIC int kh_begin(std::uint64_t limit, int keep, double cpu_seconds) {
    if (!runtime.library) find_module();
    region_count = 0;
    std::memset(regions, 0, sizeof regions);
    std::memset(region_of_site, 0, sizeof region_of_site);
    runtime.last_place = 0;
    keep_events = keep;
    cpu_seconds_left = cpu_seconds;
    forget();
    turn_thread = nullptr;
    event_limit = limit;
    if (!keep) return 1;
    events = static_cast<Event*>(reserve(limit * sizeof(Event)));
    turns = static_cast<Turn*>(reserve(limit * sizeof(Turn)));  // a turn has one event or more
    if (!events || !turns) return forget(), 0;
    next = events;
    end = events + limit;
    next_turn = turns;
    return 1;
}

// Adds memory that kernels may touch; returns its number, or -1 when there is no room.
PUBLIC int kh_region(std::uintptr_t base, std::uint64_t size, std::uint64_t guard, int shared, int dynamic) {
    if (region_count == kMaxRegions) return -1;
    regions[region_count] = {base - guard, base + size + guard, base, size, shared, dynamic};
    return region_count++;
}

PUBLIC const void* kh_events(std::uint64_t* count) {
    *count = static_cast<std::uint64_t>(next - events);
    return events;
}

PUBLIC const void* kh_turns(std::uint64_t* count) {
    *count = static_cast<std::uint64_t>(next_turn - turns);
    return turns;
}

// The sizes of the two records that Python reads, for it to check.
PUBLIC unsigned kh_record_bytes() { return sizeof(Event) << 16 | sizeof(Turn); }

PUBLIC std::uintptr_t kh_library() { return runtime.library; }
PUBLIC void kh_forget_events() { forget(); }

extern "C" {

HIDDEN void* kh_memcpy(void* to, const void* from, std::size_t bytes) {
    record(reinterpret_cast<std::uintptr_t>(from), bytes, kRead, CALLER);
    record(reinterpret_cast<std::uintptr_t>(to), bytes, kWrite, CALLER);
    return std::memmove(to, from, bytes);
}

HIDDEN void* kh_memset(void* to, int value, std::size_t bytes) {
    record(reinterpret_cast<std::uintptr_t>(to), bytes, kWrite, CALLER);
    return std::memset(to, value, bytes);
}

HIDDEN void* __tsan_memcpy(void* to, const void* from, std::size_t bytes) {
    record(reinterpret_cast<std::uintptr_t>(from), bytes, kRead, CALLER);
    record(reinterpret_cast<std::uintptr_t>(to), bytes, kWrite, CALLER);
    return std::memcpy(to, from, bytes);
}
HIDDEN void* __tsan_memmove(void* to, const void* from, std::size_t bytes) {
    record(reinterpret_cast<std::uintptr_t>(from), bytes, kRead, CALLER);
    record(reinterpret_cast<std::uintptr_t>(to), bytes, kWrite, CALLER);
    return std::memmove(to, from, bytes);
}
HIDDEN void* __tsan_memset(void* to, int value, std::size_t bytes) {
    record(reinterpret_cast<std::uintptr_t>(to), bytes, kWrite, CALLER);
    return std::memset(to, value, bytes);
}

HIDDEN void __tsan_init() {}
HIDDEN void __tsan_func_entry(void*) {}
HIDDEN void __tsan_func_exit() {}
HIDDEN void __tsan_vptr_update(void**, void*) {}
HIDDEN void __tsan_vptr_read(void**) {}

#define KH_ACCESS(size)                                                                                              \
    HIDDEN void __tsan_read##size(std::uintptr_t a) { record_aligned(a, size, kRead, CALLER); }                      \
    HIDDEN void __tsan_write##size(std::uintptr_t a) { record_aligned(a, size, kWrite, CALLER); }                    \
    HIDDEN void __tsan_volatile_read##size(std::uintptr_t a) {                                                       \
        poll(a, size, place(CALLER));                                                                                \
        record_aligned(a, size, kRead, CALLER);                                                                      \
    }                                                                                                                \
    HIDDEN void __tsan_volatile_write##size(std::uintptr_t a) { record_aligned(a, size, kWrite, CALLER); }           \
    HIDDEN void __tsan_unaligned_read##size(std::uintptr_t a) { record(a, size, kRead, CALLER); }                    \
    HIDDEN void __tsan_unaligned_write##size(std::uintptr_t a) { record(a, size, kWrite, CALLER); }                  \
    HIDDEN void __tsan_unaligned_volatile_read##size(std::uintptr_t a) { record(a, size, kRead, CALLER); }           \
    HIDDEN void __tsan_unaligned_volatile_write##size(std::uintptr_t a) { record(a, size, kWrite, CALLER); }         \
    HIDDEN void __tsan_read_write##size(std::uintptr_t a) {                                                          \
        record_aligned(a, size, kRead, CALLER);                                                                      \
        record_aligned(a, size, kWrite, CALLER);                                                                     \
    }
KH_ACCESS(1)
KH_ACCESS(2)
KH_ACCESS(4)
KH_ACCESS(8)
KH_ACCESS(16)

HIDDEN void __tsan_read_range(std::uintptr_t a, std::size_t size) { record(a, size, kRead, CALLER); }
HIDDEN void __tsan_write_range(std::uintptr_t a, std::size_t size) { record(a, size, kWrite, CALLER); }

}  // extern "C"
