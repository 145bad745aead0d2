// Atomic functions. They live in atomics.cpp, so that the address they return to is the line that called them.
#pragma once

#define KH_BOTH(type)                                                                     \
    KH_ATOMIC(type, Add)                                                                  \
    KH_ATOMIC(type, Exch)
#define KH_INTEGER(type)                                                                  \
    KH_BOTH(type)                                                                         \
    KH_ATOMIC(type, Sub)                                                                  \
    KH_ATOMIC(type, Max)                                                                  \
    KH_ATOMIC(type, Min)                                                                  \
    KH_ATOMIC(type, And)                                                                  \
    KH_ATOMIC(type, Or)                                                                   \
    KH_ATOMIC(type, Xor)                                                                  \
    KH_CAS(type)
#define KH_ALL_ATOMICS                                                                    \
    KH_INTEGER(int)                                                                       \
    KH_INTEGER(unsigned)                                                                  \
    KH_INTEGER(long long)                                                                 \
    KH_INTEGER(unsigned long long)                                                        \
    KH_CAS(unsigned short)                                                                \
    KH_BOTH(float)                                                                        \
    KH_BOTH(double)                                                                       \
    KH_ATOMIC(unsigned, Inc)                                                              \
    KH_ATOMIC(unsigned, Dec)

#define KH_ATOMIC(type, name) type atomic##name(type* address, type value);
#define KH_CAS(type) type atomicCAS(type* address, type compare, type value);
KH_ALL_ATOMICS
#undef KH_ATOMIC
#undef KH_CAS
