// Asynchronous copies by a single thread. `cuda::pipeline` and `nvcuda::experimental::pipeline` are not here.
#pragma once

#include "cuda_runtime.h"

extern "C" {
void kh_copy_begin(void* to, const void* from, std::size_t size, std::size_t zeros);
void kh_copy_commit();
void kh_copy_wait(std::size_t newest);
}

KH_INLINE void __pipeline_memcpy_async(void* shared_to, const void* global_from, std::size_t size, std::size_t zfill = 0) {
    assert((size == 4 || size == 8 || size == 16) && zfill <= size);
    kh_copy_begin(shared_to, global_from, size, zfill);
}
KH_INLINE void __pipeline_commit() { kh_copy_commit(); }
KH_INLINE void __pipeline_wait_prior(std::size_t newest) { kh_copy_wait(newest); }
