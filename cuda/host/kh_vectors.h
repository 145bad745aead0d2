// Built-in vector types with the alignments that CUDA gives them, and dim3.
#pragma once

#define KH_VECTORS(type, name)                                                                                   \
    struct name##1 { type x; };                                                                                  \
    struct alignas(sizeof(type) * 2) name##2 { type x, y; };                                                     \
    struct name##3 { type x, y, z; };                                                                            \
    struct alignas(sizeof(type) * 4 > 16 ? 16 : sizeof(type) * 4) name##4 { type x, y, z, w; };                  \
    KH_INLINE name##1 make_##name##1(type x) { return {x}; }                                                     \
    KH_INLINE name##2 make_##name##2(type x, type y) { return {x, y}; }                                          \
    KH_INLINE name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }                               \
    KH_INLINE name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

KH_VECTORS(signed char, char)
KH_VECTORS(unsigned char, uchar)
KH_VECTORS(short, short)
KH_VECTORS(unsigned short, ushort)
KH_VECTORS(int, int)
KH_VECTORS(unsigned int, uint)
KH_VECTORS(long, long)
KH_VECTORS(unsigned long, ulong)
KH_VECTORS(long long, longlong)
KH_VECTORS(unsigned long long, ulonglong)
KH_VECTORS(float, float)
KH_VECTORS(double, double)
#undef KH_VECTORS

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};
