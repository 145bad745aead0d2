// bfloat16: types, conversions, arithmetic, after NVIDIA's "CUDA Math API", chapter "Bfloat16 Precision".
#pragma once

#include "cuda_runtime.h"
#include "kh_float16_ops.h"

KH16_TYPES(__nv_bfloat16, __nv_bfloat162, __nv_bfloat16_raw, kh16::Bfloat)
#define KH16_FORMAT kh16::Bfloat
KH16_NAMES(__nv_bfloat16, __nv_bfloat162, bfloat16, bfloat162)
#undef KH16_FORMAT
KH_INLINE short __bfloat16_as_short(__nv_bfloat16 v) { return static_cast<short>(kh16_bits(v)); }
KH_INLINE unsigned short __bfloat16_as_ushort(__nv_bfloat16 v) { return kh16_bits(v); }

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;
#define CUDART_INF_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x7f80))
#define CUDART_NAN_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x7fff))
#define CUDART_ONE_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x3f80))
#define CUDART_ZERO_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x0000))

unsigned short kh_atomic_bfloat16(void* address, unsigned short value);
unsigned kh_atomic_bfloat162(void* address, unsigned value);
KH_INLINE __nv_bfloat16 atomicAdd(__nv_bfloat16* address, __nv_bfloat16 value) {
    return KH16_BITS(__nv_bfloat16, kh_atomic_bfloat16(address, kh16_bits(value)));
}
KH_INLINE __nv_bfloat162 atomicAdd(__nv_bfloat162* address, __nv_bfloat162 value) {
    return kh_bits<__nv_bfloat162>(kh_atomic_bfloat162(address, kh_bits<unsigned>(value)));
}
