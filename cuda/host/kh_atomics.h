// Atomic functions. They live in atomics.cpp, so that the address they return to is the line that called them.
#pragma once

// Exactly the types that CUDA has: what does not compile here does not compile there.
#define KH_BITWISE(type)                                                                  \
    KH_ATOMIC(type, Max)                                                                  \
    KH_ATOMIC(type, Min)                                                                  \
    KH_ATOMIC(type, And)                                                                  \
    KH_ATOMIC(type, Or)                                                                   \
    KH_ATOMIC(type, Xor)
#define KH_WHOLE(type)                                                                    \
    KH_BITWISE(type)                                                                      \
    KH_ATOMIC(type, Add)                                                                  \
    KH_ATOMIC(type, Exch)                                                                 \
    KH_CAS(type)
#define KH_ALL_ATOMICS                                                                    \
    KH_WHOLE(int)                                                                         \
    KH_WHOLE(unsigned)                                                                    \
    KH_WHOLE(unsigned long long)                                                          \
    KH_BITWISE(long long)                                                                 \
    KH_ATOMIC(int, Sub)                                                                   \
    KH_ATOMIC(unsigned, Sub)                                                              \
    KH_CAS(unsigned short)                                                                \
    KH_ATOMIC(float, Add)                                                                 \
    KH_ATOMIC(float, Exch)                                                                \
    KH_ATOMIC(double, Add)                                                                \
    KH_ATOMIC(float2, Add)                                                                \
    KH_ATOMIC(float4, Add)                                                                \
    KH_ATOMIC(unsigned, Inc)                                                              \
    KH_ATOMIC(unsigned, Dec)

#define KH_ATOMIC(type, name) type atomic##name(type* address, type value);
#define KH_CAS(type) type atomicCAS(type* address, type compare, type value);
KH_ALL_ATOMICS
#undef KH_ATOMIC
#undef KH_CAS

// A scope says which threads an atomic is one for; here they all are.
#ifndef KH_RUNTIME
#define atomicAdd_block atomicAdd
#define atomicAdd_system atomicAdd
#define atomicSub_block atomicSub
#define atomicSub_system atomicSub
#define atomicExch_block atomicExch
#define atomicExch_system atomicExch
#define atomicMin_block atomicMin
#define atomicMin_system atomicMin
#define atomicMax_block atomicMax
#define atomicMax_system atomicMax
#define atomicInc_block atomicInc
#define atomicInc_system atomicInc
#define atomicDec_block atomicDec
#define atomicDec_system atomicDec
#define atomicCAS_block atomicCAS
#define atomicCAS_system atomicCAS
#define atomicAnd_block atomicAnd
#define atomicAnd_system atomicAnd
#define atomicOr_block atomicOr
#define atomicOr_system atomicOr
#define atomicXor_block atomicXor
#define atomicXor_system atomicXor
#endif
