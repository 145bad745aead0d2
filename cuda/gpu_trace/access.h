// What the patched kernels write and the recorder saves: one Access for each thread that runs a load, store or atomic.
#pragma once

#include <cstdint>

enum AccessKind : uint8_t { kRead = 0, kWrite = 1, kAtomic = 2, kPrefetch = 3 };
enum AccessSpace : uint8_t { kGlobal = 0, kShared = 1, kLocal = 2 };

// 32 bytes, little-endian; scripts/gpu_trace.py reads these very fields.
struct Access {
    uint64_t address;  // in global memory, or the offset in the block's shared (the thread's local) window
    uint64_t pc;       // of the instruction
    uint32_t block_x;
    uint16_t block_y, block_z;
    uint16_t thread_x, thread_y, thread_z;
    uint8_t size;        // bytes
    uint8_t what;        // kind + 16 * space
};
static_assert(sizeof(Access) == 32, "the file format counts on 32 bytes an access");

// One for each launch, in device memory. `asked` counts every access, also those that found no room.
struct Log {
    unsigned long long asked;
    unsigned long long capacity;
    Access* accesses;
};

// A launch in the file: this header, `name_bytes` bytes of name, `recorded` accesses.
struct LaunchHeader {
    char magic[8];  // "KLAUNCH1"
    uint32_t grid[3];
    uint32_t block[3];
    uint64_t asked;
    uint64_t recorded;
    uint64_t function_pc;  // where the kernel's code begins, or 0 if that could not be found out
    uint32_t name_bytes;
    uint32_t access_bytes;
};
static_assert(sizeof(LaunchHeader) == 64, "the file format counts on 64 bytes a header");
