// The compiler's -fsanitize=thread calls one of these functions before every memory access that is not to a register
// or to a private local. The real run-time library is never linked: these definitions write the access down instead.
#include <link.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "runtime.h"

#define HIDDEN __attribute__((visibility("hidden")))
#define PUBLIC extern "C" __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)

namespace kh {
namespace {

constexpr int kMaxRegions = 256;
Region regions[kMaxRegions];
int region_count = 0, last_region = 0;
std::uint64_t dynamic_bytes = 0;

Event* events = nullptr;
std::size_t event_count = 0, event_limit = 0;
int keep_events = 1;

int find_region(std::uintptr_t address) {
    const Region& last = regions[last_region];
    if (address >= last.low && address < last.high) return last_region;
    for (int i = 0; i < region_count; ++i) {
        if (address >= regions[i].low && address < regions[i].high) return last_region = i;
    }
    return -1;
}

inline void write_down(std::uint32_t pc, int region, Kind kind, std::int64_t offset, std::size_t size) {
    if (!keep_events) return;
    if (event_count == event_limit) {
        stop(kTooManyEvents, pc, kind);
        return;
    }
    const Thread& self = *runtime.current;
    events[event_count++] = {pc, runtime.block, static_cast<std::uint16_t>(number(&self)),
                             static_cast<std::uint16_t>(region), static_cast<std::uint16_t>(self.warp_interval), kind,
                             runtime.launch, offset, static_cast<std::uint32_t>(size), self.interval};
}

int note_module(dl_phdr_info* info, std::size_t, void*) {
    const auto own = reinterpret_cast<std::uintptr_t>(&note_module);
    std::uintptr_t low = ~std::uintptr_t(0), high = 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& part = info->dlpi_phdr[i];
        if (part.p_type != PT_LOAD) continue;
        const std::uintptr_t start = info->dlpi_addr + part.p_vaddr;
        if (start < low) low = start;
        if (start + part.p_memsz > high) high = start + part.p_memsz;
    }
    if (own < low || own >= high) return 0;
    runtime.library = info->dlpi_addr;
    runtime.library_low = low;
    runtime.library_high = high;
    return 1;
}

}  // namespace

HIDDEN void begin_regions(std::size_t dynamic_shared_bytes) {
    dynamic_bytes = dynamic_shared_bytes;
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
    if (runtime.in_kernel) write_down(pc, 0xffff, kind, 0, size);
}

HIDDEN void record(std::uintptr_t address, std::size_t size, Kind kind, const void* caller) {
    if (!runtime.in_kernel || size == 0) return;
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
    write_down(pc, region, kind, static_cast<std::int64_t>(address - regions[region].base), size);
    if (address + size > regions[region].high) stop(kWild, pc, kind, address, size);
}

// One instruction moves `size` bytes, so the GPU insists on their alignment.
static inline void record_aligned(std::uintptr_t address, std::size_t size, Kind kind, const void* caller) {
    if (address % size == 0) {
        record(address, size, kind, caller);
    } else if (runtime.in_kernel && !(address >= runtime.stacks_low && address < runtime.stacks_high)) {
        record(address, size, kind, caller);
        stop(kMisaligned, place(caller), kind, address, size);
    }
}

}  // namespace kh

using namespace kh;

PUBLIC int kh_begin(std::uint64_t limit, int keep, double cpu_seconds) {
    if (!runtime.library) dl_iterate_phdr(note_module, nullptr);
    region_count = last_region = 0;
    regions[0] = {};
    event_count = 0;
    runtime.last_place = 0;
    keep_events = keep;
    cpu_seconds_left = cpu_seconds;
    if (events && event_limit != limit) {
        munmap(events, event_limit * sizeof(Event));
        events = nullptr;
    }
    event_limit = limit;
    if (!events && limit) {
        void* memory = mmap(nullptr, limit * sizeof(Event), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) return 0;
        events = static_cast<Event*>(memory);
    }
    return 1;
}

// Adds memory that kernels may touch; returns its number, or -1 when there is no room.
PUBLIC int kh_region(std::uintptr_t base, std::uint64_t size, std::uint64_t guard, int shared, int dynamic) {
    if (region_count == kMaxRegions) return -1;
    regions[region_count] = {base - guard, base + size + guard, base, size, shared, dynamic};
    return region_count++;
}

PUBLIC const void* kh_events(std::uint64_t* count) { return *count = event_count, events; }
PUBLIC std::uintptr_t kh_library() { return runtime.library; }

PUBLIC void kh_forget_events() {
    if (events) munmap(events, event_limit * sizeof(Event));
    events = nullptr;
    event_count = 0;
}

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
    HIDDEN void __tsan_volatile_read##size(std::uintptr_t a) { record_aligned(a, size, kRead, CALLER); }             \
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
