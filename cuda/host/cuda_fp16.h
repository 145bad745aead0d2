// Half precision (binary16): types, conversions, arithmetic, after NVIDIA's "CUDA Math API", chapter "Half Precision".
#pragma once

#include "cuda_runtime.h"
#include "kh_float16_ops.h"

KH16_TYPES(__half, __half2, __half_raw, kh16::Half)
#define KH16_FORMAT kh16::Half
KH16_NAMES(__half, __half2, half, half2)
#undef KH16_FORMAT
KH_INLINE short __half_as_short(__half v) { return static_cast<short>(kh16_bits(v)); }
KH_INLINE unsigned short __half_as_ushort(__half v) { return kh16_bits(v); }

typedef __half half;
typedef __half2 half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;
#define CUDART_INF_FP16 __ushort_as_half(static_cast<unsigned short>(0x7c00))
#define CUDART_NAN_FP16 __ushort_as_half(static_cast<unsigned short>(0x7fff))
#define CUDART_ONE_FP16 __ushort_as_half(static_cast<unsigned short>(0x3c00))
#define CUDART_ZERO_FP16 __ushort_as_half(static_cast<unsigned short>(0x0000))
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half(static_cast<unsigned short>(0x7bff))
#define CUDART_MIN_DENORM_FP16 __ushort_as_half(static_cast<unsigned short>(0x0001))

unsigned short kh_atomic_half(void* address, unsigned short value);
unsigned kh_atomic_half2(void* address, unsigned value);
KH_INLINE __half atomicAdd(__half* address, __half value) {
    return KH16_BITS(__half, kh_atomic_half(address, kh16_bits(value)));
}
KH_INLINE __half2 atomicAdd(__half2* address, __half2 value) {
    return kh_bits<__half2>(kh_atomic_half2(address, kh_bits<unsigned>(value)));
}
