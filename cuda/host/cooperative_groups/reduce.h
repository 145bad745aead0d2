// Reductions over a tile or over coalesced threads. A tile is folded in halves, the farthest lanes first; coalesced
// threads are taken in ascending order of rank. CUDA leaves the order open.
#pragma once

#include "../cooperative_groups.h"

namespace cooperative_groups {

template <class T> struct plus { KH_INLINE T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { KH_INLINE T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T> struct greater { KH_INLINE T operator()(T a, T b) const { return a < b ? b : a; } };
template <class T> struct bit_and { KH_INLINE T operator()(T a, T b) const { return a & b; } };
template <class T> struct bit_or { KH_INLINE T operator()(T a, T b) const { return a | b; } };
template <class T> struct bit_xor { KH_INLINE T operator()(T a, T b) const { return a ^ b; } };

template <unsigned Size, class Parent, class T, class Operation>
KH_INLINE T reduce(const thread_block_tile<Size, Parent>& group, T value, Operation&& operation,
                   int line = __builtin_LINE()) {
    for (unsigned distance = Size / 2; distance > 0; distance /= 2) {
        value = operation(value, group.shfl_xor(value, distance, line));
    }
    return value;
}

template <class T, class Operation>
KH_INLINE T reduce(const coalesced_group& group, T value, Operation&& operation, int line = __builtin_LINE()) {
    T total = group.shfl(value, 0, line);
    for (unsigned rank = 1; rank < group.size(); ++rank) {
        total = operation(total, group.shfl(value, static_cast<int>(rank), line));
    }
    return total;
}

}  // namespace cooperative_groups
