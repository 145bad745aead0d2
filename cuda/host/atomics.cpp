// Atomic functions of kernels, and the compiler's own atomics (std::atomic, __atomic builtins) under -fsanitize=thread.
// One thread runs at a time, so plain arithmetic is atomic here; each is recorded as one access of its own kind.
#include <cstdint>

#include "runtime.h"

#define HIDDEN __attribute__((visibility("hidden"), noinline))

namespace {

void note(const volatile void* address, std::size_t size, const void* caller, kh::Kind kind = kh::kAtomic) {
    const auto a = reinterpret_cast<std::uintptr_t>(address);
    kh::record(a, size, kind, caller);
    if (a % size != 0) kh::stop(kh::kMisaligned, kh::place(caller), kh::kAtomic, a, size);
}

struct Add { template <class T> T operator()(T a, T b) const { return a + b; } };
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
