// The device half of the recorder: functions that the Sanitizer API calls before each memory instruction of a patched
// kernel, once for every thread that executes it. Build them as tool patches (see scripts/gpu_trace.py).
#include <sanitizer_patching.h>

#include "access.h"

static __device__ __forceinline__ SanitizerPatchResult record(void* userdata, uint64_t pc, void* pointer, uint32_t size,
                                                              uint32_t flags, uint8_t space) {
    Log* log = static_cast<Log*>(userdata);
    if (log == nullptr) {
        return SANITIZER_PATCH_SUCCESS;  // a launch that is not being recorded
    }
    const unsigned long long place = atomicAdd(&log->asked, 1ull);
    if (place >= log->capacity) {
        return SANITIZER_PATCH_SUCCESS;  // counted; the host reports the overflow
    }
    const bool reads = (flags & SANITIZER_MEMORY_DEVICE_FLAG_READ) != 0;
    const bool writes = (flags & SANITIZER_MEMORY_DEVICE_FLAG_WRITE) != 0;
    uint8_t kind = writes ? kWrite : kRead;
    if ((reads && writes) || (flags & SANITIZER_MEMORY_DEVICE_FLAG_ATOMSYS) != 0) {
        kind = kAtomic;
    }
    if ((flags & SANITIZER_MEMORY_DEVICE_FLAG_PREFETCH) != 0) {
        kind = kPrefetch;
    }
    Access& access = log->accesses[place];
    access.address = reinterpret_cast<uint64_t>(pointer);
    access.pc = pc;
    access.block_x = blockIdx.x;
    access.block_y = static_cast<uint16_t>(blockIdx.y);
    access.block_z = static_cast<uint16_t>(blockIdx.z);
    access.thread_x = static_cast<uint16_t>(threadIdx.x);
    access.thread_y = static_cast<uint16_t>(threadIdx.y);
    access.thread_z = static_cast<uint16_t>(threadIdx.z);
    access.size = static_cast<uint8_t>(size);
    access.what = static_cast<uint8_t>(kind + 16 * space);
    return SANITIZER_PATCH_SUCCESS;
}

extern "C" __device__ __noinline__ SanitizerPatchResult RecordGlobal(void* userdata, uint64_t pc, void* pointer,
                                                                     uint32_t size, uint32_t flags, const void*) {
    return record(userdata, pc, pointer, size, flags, kGlobal);
}

extern "C" __device__ __noinline__ SanitizerPatchResult RecordShared(void* userdata, uint64_t pc, void* pointer,
                                                                     uint32_t size, uint32_t flags, const void*) {
    return record(userdata, pc, pointer, size, flags, kShared);
}

extern "C" __device__ __noinline__ SanitizerPatchResult RecordLocal(void* userdata, uint64_t pc, void* pointer,
                                                                    uint32_t size, uint32_t flags, const void*) {
    return record(userdata, pc, pointer, size, flags, kLocal);
}
