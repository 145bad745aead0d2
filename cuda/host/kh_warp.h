// Barriers, shuffles and votes. Each call brings its source line, so that a barrier which cannot be passed is named.
#pragma once

enum KhOp : int {
    kKhSync, kKhIndex, kKhUp, kKhDown, kKhXor, kKhBallot, kKhAny, kKhAll, kKhMatchAny, kKhMatchAll,
    kKhAdd, kKhMin, kKhMax, kKhAnd, kKhOr, kKhXorBits
};

extern "C" {
// what: 0 plain, 1 count, 2 and, 3 or. Returns the combined predicate.
int kh_syncthreads(int line, int what, int predicate);
// Waits for all lanes of `mask`; returns what this lane receives.
std::uint64_t kh_warp_op(int line, int op, unsigned mask, std::uint64_t value, int argument, int width);
unsigned kh_active_mask();
void kh_fence(int scope);  // 0: the block, 1: the device
}

#define __syncthreads() ((void)kh_syncthreads(__LINE__, 0, 0))
#define __syncthreads_count(predicate) kh_syncthreads(__LINE__, 1, (predicate))
#define __syncthreads_and(predicate) kh_syncthreads(__LINE__, 2, (predicate))
#define __syncthreads_or(predicate) kh_syncthreads(__LINE__, 3, (predicate))

template <class T>
KH_INLINE T kh_shuffle(int line, int op, unsigned mask, T value, int argument, int width = 32) {
    static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8),
                  "a shuffle moves a 2-, 4- or 8-byte value");
    std::uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    bits = kh_warp_op(line, op, mask, bits, argument, width);
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}

KH_INLINE void kh_syncwarp(int line, unsigned mask = 0xffffffffu) { kh_warp_op(line, kKhSync, mask, 0, 0, 32); }

#define __shfl_sync(mask, ...) kh_shuffle(__LINE__, kKhIndex, (mask), __VA_ARGS__)
#define __shfl_up_sync(mask, ...) kh_shuffle(__LINE__, kKhUp, (mask), __VA_ARGS__)
#define __shfl_down_sync(mask, ...) kh_shuffle(__LINE__, kKhDown, (mask), __VA_ARGS__)
#define __shfl_xor_sync(mask, ...) kh_shuffle(__LINE__, kKhXor, (mask), __VA_ARGS__)
#define __syncwarp(...) kh_syncwarp(__LINE__ __VA_OPT__(, ) __VA_ARGS__)
#define __ballot_sync(mask, predicate) \
    static_cast<unsigned>(kh_warp_op(__LINE__, kKhBallot, (mask), (predicate) ? 1 : 0, 0, 32))
#define __any_sync(mask, predicate) static_cast<int>(kh_warp_op(__LINE__, kKhAny, (mask), (predicate) ? 1 : 0, 0, 32))
#define __all_sync(mask, predicate) static_cast<int>(kh_warp_op(__LINE__, kKhAll, (mask), (predicate) ? 1 : 0, 0, 32))

template <class T>
KH_INLINE std::uint64_t kh_pattern(T value) {
    static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8), "4 or 8 bytes are compared");
    std::uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return bits;
}
template <class T>
KH_INLINE unsigned kh_match_all(int line, unsigned mask, T value, int* predicate) {
    const auto found = static_cast<unsigned>(kh_warp_op(line, kKhMatchAll, mask, kh_pattern(value), 0, 32));
    return *predicate = found != 0, found;
}
#define __match_any_sync(mask, value) \
    static_cast<unsigned>(kh_warp_op(__LINE__, kKhMatchAny, (mask), kh_pattern(value), 0, 32))
#define __match_all_sync(mask, value, predicate) kh_match_all(__LINE__, (mask), (value), (predicate))

// Integers only, as on the GPU; sign or zero extended, so that one order serves both.
template <class T>
KH_INLINE T kh_reduce(int line, int op, unsigned mask, T value) {
    static_assert(std::is_same_v<T, int> || std::is_same_v<T, unsigned>, "__reduce_*_sync takes int or unsigned");
    return static_cast<T>(kh_warp_op(line, op, mask, static_cast<std::uint64_t>(std::int64_t{value}), 0, 32));
}
#define __reduce_add_sync(mask, value) kh_reduce(__LINE__, kKhAdd, (mask), (value))
#define __reduce_min_sync(mask, value) kh_reduce(__LINE__, kKhMin, (mask), (value))
#define __reduce_max_sync(mask, value) kh_reduce(__LINE__, kKhMax, (mask), (value))
#define __reduce_and_sync(mask, value) kh_reduce<unsigned>(__LINE__, kKhAnd, (mask), (value))
#define __reduce_or_sync(mask, value) kh_reduce<unsigned>(__LINE__, kKhOr, (mask), (value))
#define __reduce_xor_sync(mask, value) kh_reduce<unsigned>(__LINE__, kKhXorBits, (mask), (value))
#define __activemask() kh_active_mask()

// Blocks run one after another and each access is made at once, so a fence changes nothing here. It is written down:
// a fence and an atomic after it are how one thread tells another, without a barrier, that its values are there.
#define __threadfence() kh_fence(1)
#define __threadfence_block() kh_fence(0)
#define __threadfence_system() kh_fence(1)
