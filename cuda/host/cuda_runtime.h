// CUDA's vocabulary for the host compiler. The build in kernels/trace puts this directory before the toolkit's, so that
// `#include <cuda_runtime.h>` in cuda/*.cu means this file: the same kernels then run on the CPU, one fiber a thread,
// with every memory access reported to record.cpp. Nothing here is used when nvcc compiles.
#pragma once

#include <algorithm>
#include <cassert>
#include <cfloat>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>  // before __noinline__ is a macro: the library uses the word
#include <tuple>
#include <type_traits>
#include <utility>

#include <math.h>

#define KH_INLINE inline __attribute__((always_inline))

// Shared arrays are thread-local variables: the linker puts them all into one block, also those of templates, and the
// symbol table has their names. `extern __shared__` arrays are defined by the build, after it has seen their names.
// The build leaves a gap behind each (not on macOS), in which an index past the end is caught.
#define __shared__ __attribute__((aligned(256))) thread_local
#define __global__
#define __device__
#define __host__
#define __managed__
#define __constant__ __attribute__((used))
#define __forceinline__ KH_INLINE
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __restrict__ __restrict
#define __grid_constant__
#define CUDART_INF_F INFINITY
#define CUDART_NAN_F NAN
#define CUDART_CB

#include "kh_vectors.h"

// The build's marker, for the rare line that must differ.
#define KERNELS_HOST_BUILD 1

// Constant while a fiber runs, so the compiler may keep them in registers, and reading them is no memory access. That
// holds only for a plain structure, which dim3 is not: the last two are uint3 here.
extern const uint3 threadIdx __attribute__((visibility("hidden")));
extern const uint3 blockIdx __attribute__((visibility("hidden")));
extern const uint3 blockDim __attribute__((visibility("hidden")));
extern const uint3 gridDim __attribute__((visibility("hidden")));
constexpr int warpSize = 32;

#include "kh_api.h"
#include "kh_atomics.h"
#include "kh_launch.h"
#include "kh_math.h"
#include "kh_warp.h"

// Copies inside kernels are accesses too. The compiler would expand them unseen.
extern "C" void* kh_memcpy(void* to, const void* from, std::size_t bytes);
extern "C" void* kh_memset(void* to, int value, std::size_t bytes);
extern "C" void* kh_malloc(std::size_t bytes) noexcept;
extern "C" void kh_free(void* pointer) noexcept;
extern "C" [[noreturn]] void kh_exit(int status);
extern "C" void kh_trap();
#define __trap() kh_trap()
namespace std {
using ::kh_memcpy;
using ::kh_memset;
using ::kh_malloc;
using ::kh_free;
using ::kh_exit;
}  // namespace std
#define memcpy kh_memcpy
#define memmove kh_memcpy
#define memset kh_memset
#define malloc(bytes) kh_malloc(bytes)
#define free(pointer) kh_free(pointer)
#define exit(status) kh_exit(status)  // a launcher that gives up does not end the tracing process
