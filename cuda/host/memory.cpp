// Device memory that a launcher allocates itself: plain memory between guard bands, known to the recorder.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "runtime.h"

#define HIDDEN __attribute__((visibility("hidden")))

extern "C" int kh_region(std::uintptr_t base, std::uint64_t size, std::uint64_t guard, int shared, int dynamic);

namespace {
constexpr int kMaxAllocations = 64;
constexpr std::size_t kGuard = 4096;
void* allocations[kMaxAllocations];
std::uint64_t sizes[kMaxAllocations];
int count = 0;
}  // namespace

extern "C" {

HIDDEN int cudaMalloc(void** pointer, std::size_t bytes) {
    *pointer = nullptr;
    if (bytes == 0) return 0;
    if (count == kMaxAllocations) return 2;
    void* memory = std::aligned_alloc(4096, (bytes + 2 * kGuard + 4095) / 4096 * 4096);
    if (!memory) return 2;
    std::memset(memory, 0xff, bytes + 2 * kGuard);
    char* base = static_cast<char*>(memory) + kGuard;
    if (kh_region(reinterpret_cast<std::uintptr_t>(base), bytes, kGuard, 0, 0) < 0) {
        std::free(memory);
        return 2;
    }
    allocations[count] = memory;
    sizes[count++] = bytes;
    *pointer = base;
    return 0;
}

// The memory itself stays until the trace has been read, so that a later access is still seen as one to it.
HIDDEN int cudaFree(void*) { return 0; }

HIDDEN int cudaMemcpy(void* to, const void* from, std::size_t bytes, int) { return std::memmove(to, from, bytes), 0; }
HIDDEN int cudaMemset(void* to, int value, std::size_t bytes) { return std::memset(to, value, bytes), 0; }

// Sizes of the allocations, in order; their regions follow those that Python added.
__attribute__((visibility("default"))) int kh_allocations(const std::uint64_t** bytes) { return *bytes = sizes, count; }

__attribute__((visibility("default"))) void kh_free_allocations() {
    while (count > 0) std::free(allocations[--count]);
}

}
