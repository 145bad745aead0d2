// Device memory: what a launcher allocates by cudaMalloc, and the heap from which kernels take theirs. Plain memory
// between guard bands, known to the recorder.
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "runtime.h"

#define HIDDEN __attribute__((visibility("hidden")))
#define CALLER __builtin_return_address(0)

extern "C" int kh_region(std::uintptr_t base, std::uint64_t size, std::uint64_t guard, int shared, int dynamic);

namespace {

constexpr int kMaxAllocations = 128;
constexpr std::uint64_t kMaxBytes = std::uint64_t{2} << 30;  // of all allocations of a launcher together
constexpr std::size_t kGuard = 4096;
void* allocations[kMaxAllocations];
std::uint64_t sizes[kMaxAllocations];
int count = 0;
std::uint64_t total = 0;
int refusals = 0;

// What the launcher itself filled or copied to: nobody's access, and yet the elements have a value.
struct Filled {
    std::uintptr_t address;
    std::uint64_t bytes;
};
std::vector<Filled> filled;

void* note(void* to, std::size_t bytes) {
    if (kh::runtime.library && bytes) filled.push_back({reinterpret_cast<std::uintptr_t>(to), bytes});
    return to;
}

// The heap of kernels, as large as a GPU's is by default. Blocks lie one after another, each behind its size; one that
// is given back is used again by the next that fits into it.
constexpr std::size_t kHeapBytes = 8 << 20;
struct Block {
    std::size_t size;
    Block* next;
};
static_assert(sizeof(Block) == 16, "what follows it is aligned to 16 bytes");
char* heap = nullptr;
std::size_t heap_used = 0;
Block* given_back = nullptr;

bool in_heap(const void* pointer) {
    return heap && static_cast<const char*>(pointer) >= heap && static_cast<const char*>(pointer) < heap + kHeapBytes;
}

bool make_heap() {
    if (count == kMaxAllocations) return false;
    void* memory = mmap(nullptr, kHeapBytes + 2 * kGuard, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    heap = static_cast<char*>(memory) + kGuard;
    heap_used = 0;
    given_back = nullptr;
    allocations[count] = nullptr;
    sizes[count++] = kHeapBytes;
    return kh_region(reinterpret_cast<std::uintptr_t>(heap), kHeapBytes, kGuard, 0, 0) >= 0;
}

void* take(std::size_t bytes, const void* caller) {
    const std::size_t size = (bytes + 15) / 16 * 16 + (bytes == 0 ? 16 : 0);
    if (!heap && !make_heap()) return nullptr;
    for (Block** link = &given_back; *link; link = &(*link)->next) {
        if ((*link)->size < size) continue;
        Block* found = *link;
        *link = found->next;
        return found + 1;
    }
    if (bytes > kHeapBytes || heap_used + sizeof(Block) + size > kHeapBytes) {
        kh::stop(kh::kHeapFull, kh::place(caller), 0, 0, bytes);
        return nullptr;
    }
    auto* block = reinterpret_cast<Block*>(heap + heap_used);
    heap_used += sizeof(Block) + size;
    block->size = size;
    return block + 1;
}

void give_back(void* pointer) {
    auto* block = static_cast<Block*>(pointer) - 1;
    block->next = given_back;
    given_back = block;
}

void* allocate(std::size_t bytes, const void* caller) {
    if (!kh::runtime.in_kernel || !kh::runtime.current) return std::malloc(bytes ? bytes : 1);
    kh::runtime.last_place = kh::place(caller);
    return take(bytes, caller);
}

void release(void* pointer, const void* caller) {
    if (!pointer) return;
    if (in_heap(pointer)) return give_back(pointer);
    if (kh::runtime.in_kernel && kh::runtime.current) kh::fail("the freed pointer came from malloc or new", caller);
    std::free(pointer);
}

}  // namespace

extern "C" {

HIDDEN int cudaMalloc(void** pointer, std::size_t bytes) {
    *pointer = nullptr;
    if (bytes == 0) return 0;
    if (!kh::runtime.library) {  // a program of its own: nothing is recorded
        *pointer = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
        return *pointer ? 0 : 2;
    }
    if (count == kMaxAllocations || refusals == 1000) kh::leave_launcher(kh::kTooManyAllocations, CALLER, count, total);
    if (count == kMaxAllocations || bytes > kMaxBytes - total) return ++refusals, 2;
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
    total += bytes;
    *pointer = base;
    return 0;
}

// The memory itself stays until the trace has been read, so that a later access is still seen as one to it.
HIDDEN int cudaFree(void* pointer) {
    if (!kh::runtime.library) std::free(pointer);
    return 0;
}

HIDDEN int cudaMemcpy(void* to, const void* from, std::size_t bytes, int) {
    return std::memmove(note(to, bytes), from, bytes), 0;
}
HIDDEN int cudaMemset(void* to, int value, std::size_t bytes) { return std::memset(note(to, bytes), value, bytes), 0; }

// What malloc and free are in a kernel's source; outside kernels they are the C library's.
HIDDEN void* kh_malloc(std::size_t bytes) noexcept { return allocate(bytes, CALLER); }
HIDDEN void kh_free(void* pointer) noexcept { release(pointer, CALLER); }

// Sizes of the allocations, in order; their regions follow those that Python added.
__attribute__((visibility("default"))) int kh_allocations(const std::uint64_t** bytes) { return *bytes = sizes, count; }

// Pieces of memory that the launcher filled, in order: address and bytes of each.
__attribute__((visibility("default"))) int kh_filled(const Filled** pieces) {
    *pieces = filled.data();
    return static_cast<int>(filled.size());
}

__attribute__((visibility("default"))) void kh_free_allocations() {
    filled.clear();
    while (count > 0) std::free(allocations[--count]);
    if (heap) munmap(heap - kGuard, kHeapBytes + 2 * kGuard);
    heap = nullptr;
    total = 0;
    refusals = 0;
}

}

void* operator new(std::size_t bytes) {
    void* memory = allocate(bytes, CALLER);
    if (!memory) std::abort();
    return memory;
}
void* operator new[](std::size_t bytes) {
    void* memory = allocate(bytes, CALLER);
    if (!memory) std::abort();
    return memory;
}
void operator delete(void* pointer) noexcept { release(pointer, CALLER); }
void operator delete[](void* pointer) noexcept { release(pointer, CALLER); }
void operator delete(void* pointer, std::size_t) noexcept { release(pointer, CALLER); }
void operator delete[](void* pointer, std::size_t) noexcept { release(pointer, CALLER); }
