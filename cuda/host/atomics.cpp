// Atomic functions of kernels, and the compiler's own atomics (std::atomic, __atomic builtins) under -fsanitize=thread.
// One thread runs at a time, so plain arithmetic is atomic here; each is recorded as one access of its own kind.
#include <cstdint>

#include "kh_float16.h"
#include "runtime.h"

#define KH_INLINE inline __attribute__((always_inline))
#include "kh_vectors.h"

#define HIDDEN __attribute__((visibility("hidden"), noinline))

namespace {

void note(const volatile void* address, std::size_t size, const void* caller, kh::Kind kind = kh::kAtomic) {
    const auto a = reinterpret_cast<std::uintptr_t>(address);
    kh::poll(a, size, kh::place(caller));
    kh::record(a, size, kind, caller);
    if (a % size != 0) kh::stop(kh::kMisaligned, kh::place(caller), kh::kAtomic, a, size);
}

struct Add {
    template <class T> T operator()(T a, T b) const { return a + b; }
    float2 operator()(float2 a, float2 b) const { return {a.x + b.x, a.y + b.y}; }
    float4 operator()(float4 a, float4 b) const { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }
};
struct Sub { template <class T> T operator()(T a, T b) const { return a - b; } };
struct Exch { template <class T> T operator()(T, T b) const { return b; } };
struct Max { template <class T> T operator()(T a, T b) const { return a < b ? b : a; } };
struct Min { template <class T> T operator()(T a, T b) const { return b < a ? b : a; } };
struct And { template <class T> T operator()(T a, T b) const { return a & b; } };
struct Or { template <class T> T operator()(T a, T b) const { return a | b; } };
struct Xor { template <class T> T operator()(T a, T b) const { return a ^ b; } };
struct Inc { unsigned operator()(unsigned a, unsigned b) const { return a >= b ? 0 : a + 1; } };
struct Dec { unsigned operator()(unsigned a, unsigned b) const { return a == 0 || a > b ? b : a - 1; } };

}  // namespace

#include "kh_atomics.h"

#define KH_ATOMIC(type, name)                                 \
    HIDDEN type atomic##name(type* address, type value) {     \
        note(address, sizeof(type), __builtin_return_address(0)); \
        const type old = *address;                            \
        *address = name()(old, value);                        \
        return old;                                           \
    }
#define KH_CAS(type)                                                      \
    HIDDEN type atomicCAS(type* address, type compare, type value) {      \
        note(address, sizeof(type), __builtin_return_address(0), kh::kCompareAndSwap); \
        const type old = *address;                                        \
        if (old == compare) *address = value;                             \
        return old;                                                       \
    }
KH_ALL_ATOMICS

// Sums of 16-bit numbers; a pair is one access of four bytes.
template <class F>
static std::uint16_t sum16(std::uint16_t a, std::uint16_t b) {
    return kh16::narrow<F>(double(kh16::widen<F>(a)) + double(kh16::widen<F>(b)));
}
template <class F>
static std::uint16_t add16(void* address, std::uint16_t value, const void* caller) {
    note(address, 2, caller);
    auto& target = *static_cast<std::uint16_t*>(address);
    const std::uint16_t old = target;
    target = sum16<F>(old, value);
    return old;
}
template <class F>
static unsigned add16x2(void* address, unsigned value, const void* caller) {
    note(address, 4, caller);
    auto& target = *static_cast<unsigned*>(address);
    const unsigned old = target;
    const auto part = [&](int shift) {
        return unsigned(sum16<F>(std::uint16_t(old >> shift), std::uint16_t(value >> shift))) << shift;
    };
    target = part(0) | part(16);
    return old;
}
#define CALLER __builtin_return_address(0)
HIDDEN unsigned short kh_atomic_half(void* a, unsigned short v) { return add16<kh16::Half>(a, v, CALLER); }
HIDDEN unsigned kh_atomic_half2(void* a, unsigned v) { return add16x2<kh16::Half>(a, v, CALLER); }
HIDDEN unsigned short kh_atomic_bfloat16(void* a, unsigned short v) { return add16<kh16::Bfloat>(a, v, CALLER); }
HIDDEN unsigned kh_atomic_bfloat162(void* a, unsigned v) { return add16x2<kh16::Bfloat>(a, v, CALLER); }

#define KH_FETCH(bits, name, expression)                                                              \
    HIDDEN std::uint##bits##_t __tsan_atomic##bits##_##name(volatile std::uint##bits##_t* address,    \
                                                            std::uint##bits##_t value, int) {         \
        note(address, bits / 8, __builtin_return_address(0));                                         \
        const std::uint##bits##_t old = *address;                                                     \
        *address = static_cast<std::uint##bits##_t>(expression);                                      \
        return old;                                                                                   \
    }
#define KH_COMPARE(bits, name)                                                                                  \
    HIDDEN int __tsan_atomic##bits##_compare_exchange_##name(volatile std::uint##bits##_t* address,             \
                                                             std::uint##bits##_t* expected,                     \
                                                             std::uint##bits##_t value, int, int) {             \
        note(address, bits / 8, __builtin_return_address(0), kh::kCompareAndSwap);                              \
        const std::uint##bits##_t old = *address;                                                               \
        if (old == *expected) return *address = value, 1;                                                       \
        return *expected = old, 0;                                                                              \
    }
#define KH_WIDTH(bits)                                                                                      \
    KH_FETCH(bits, exchange, value)                                                                         \
    KH_FETCH(bits, fetch_add, old + value)                                                                  \
    KH_FETCH(bits, fetch_sub, old - value)                                                                  \
    KH_FETCH(bits, fetch_and, old & value)                                                                  \
    KH_FETCH(bits, fetch_or, old | value)                                                                   \
    KH_FETCH(bits, fetch_xor, old ^ value)                                                                  \
    KH_FETCH(bits, fetch_nand, ~(old & value))                                                              \
    KH_COMPARE(bits, strong)                                                                                \
    KH_COMPARE(bits, weak)                                                                                  \
    HIDDEN std::uint##bits##_t __tsan_atomic##bits##_load(const volatile std::uint##bits##_t* address, int) { \
        note(address, bits / 8, __builtin_return_address(0));                                               \
        return *address;                                                                                    \
    }                                                                                                       \
    HIDDEN void __tsan_atomic##bits##_store(volatile std::uint##bits##_t* address, std::uint##bits##_t value, int) { \
        note(address, bits / 8, __builtin_return_address(0));                                               \
        *address = value;                                                                                   \
    }

extern "C" {
KH_WIDTH(8)
KH_WIDTH(16)
KH_WIDTH(32)
KH_WIDTH(64)
HIDDEN void __tsan_atomic_thread_fence(int) {
    kh::record_step(kh::kFence, kh::place(__builtin_return_address(0)), 1);
}
HIDDEN void __tsan_atomic_signal_fence(int) {}
}
