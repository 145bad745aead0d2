// Asynchronous copies by a group. Its threads take turns at pieces of 16, 8 or 4 bytes, whatever the addresses and the
// size allow; bytes beyond the last whole piece are copied at once.
#pragma once

#include "../cooperative_groups.h"
#include "../cuda_pipeline.h"

namespace cooperative_groups {

template <class Group, class T>
KH_INLINE void memcpy_async(const Group& group, T* to, const T* from, std::size_t bytes) {
    const auto together = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
    const std::size_t piece = together % 16 == 0 && bytes >= 16 ? 16 : together % 8 == 0 && bytes >= 8 ? 8 : 4;
    const std::size_t pieces = together % 4 == 0 ? bytes / piece : 0;
    auto* target = reinterpret_cast<char*>(to);
    const auto* source = reinterpret_cast<const char*>(from);
    for (std::size_t i = group.thread_rank(); i < pieces; i += group.size()) {
        kh_copy_begin(target + i * piece, source + i * piece, piece, 0);
    }
    for (std::size_t i = pieces * piece + group.thread_rank() * sizeof(T); i < bytes; i += group.size() * sizeof(T)) {
        *reinterpret_cast<T*>(target + i) = *reinterpret_cast<const T*>(source + i);
    }
    kh_copy_commit();
}

// With layouts: so many elements of each.
template <class Group, class T>
KH_INLINE void memcpy_async(const Group& group, T* to, std::size_t to_count, const T* from, std::size_t from_count) {
    memcpy_async(group, to, from, (to_count < from_count ? to_count : from_count) * sizeof(T));
}

template <unsigned Newest, class Group>
KH_INLINE void wait_prior(const Group& group, int line = __builtin_LINE()) {
    kh_copy_wait(Newest);
    group.sync(line);
}
template <class Group>
KH_INLINE void wait(const Group& group, int line = __builtin_LINE()) {
    kh_copy_wait(0);
    group.sync(line);
}

}  // namespace cooperative_groups
