// Cooperative groups: the thread block, tiles of a warp whose size is a constant, and coalesced threads. Blocks run
// one after another here, so no grid can wait for all of its blocks.
#pragma once

#include "cuda_runtime.h"

namespace cooperative_groups {

namespace kh {

KH_INLINE unsigned rank_in_block() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
KH_INLINE unsigned block_size() { return blockDim.x * blockDim.y * blockDim.z; }

// Values of any size travel in pieces of up to eight bytes.
template <class T>
KH_INLINE T shuffle(int line, int op, unsigned mask, T value, int argument, int width) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 32, "a shuffle moves up to 32 bytes");
    char bytes[32];
    __builtin_memcpy(bytes, &value, sizeof(T));
    for (std::size_t at = 0; at < sizeof(T); at += 8) {
        const std::size_t size = sizeof(T) - at < 8 ? sizeof(T) - at : 8;
        std::uint64_t part = 0;
        __builtin_memcpy(&part, bytes + at, size);
        part = kh_warp_op(line, op, mask, part, argument, width);
        __builtin_memcpy(bytes + at, &part, size);
    }
    __builtin_memcpy(&value, bytes, sizeof(T));
    return value;
}

}  // namespace kh

class thread_block {
public:
    KH_INLINE void sync(int line = __builtin_LINE()) const { kh_syncthreads(line, 0, 0); }
    KH_INLINE unsigned thread_rank() const { return kh::rank_in_block(); }
    KH_INLINE unsigned size() const { return kh::block_size(); }
    KH_INLINE unsigned num_threads() const { return kh::block_size(); }
    KH_INLINE dim3 group_index() const { return blockIdx; }
    KH_INLINE dim3 thread_index() const { return threadIdx; }
    KH_INLINE dim3 group_dim() const { return blockDim; }
    KH_INLINE dim3 dim_threads() const { return blockDim; }
};
KH_INLINE thread_block this_thread_block() { return {}; }

class grid_group {
public:
    __attribute__((error("the host build runs blocks one after another, so a grid cannot wait for all of its blocks")))
    void sync() const;
    KH_INLINE unsigned long long thread_rank() const { return block_rank() * kh::block_size() + kh::rank_in_block(); }
    KH_INLINE unsigned long long size() const { return num_blocks() * kh::block_size(); }
    KH_INLINE unsigned long long num_threads() const { return size(); }
    KH_INLINE unsigned long long num_blocks() const { return 1ull * gridDim.x * gridDim.y * gridDim.z; }
    KH_INLINE unsigned long long block_rank() const {
        return blockIdx.x + 1ull * gridDim.x * (blockIdx.y + 1ull * gridDim.y * blockIdx.z);
    }
    KH_INLINE dim3 block_index() const { return blockIdx; }
    KH_INLINE dim3 dim_blocks() const { return gridDim; }
    KH_INLINE dim3 group_dim() const { return gridDim; }
    KH_INLINE bool is_valid() const { return false; }  // not a cooperative launch
};
KH_INLINE grid_group this_grid() { return {}; }

// Some lanes of one warp. Ranks are counted over the lanes of the mask.
class coalesced_group {
public:
    KH_INLINE explicit coalesced_group(unsigned mask) : mask_(mask) {}
    KH_INLINE void sync(int line = __builtin_LINE()) const { kh_syncwarp(line, mask_); }
    KH_INLINE unsigned thread_rank() const { return __popc(mask_ & ((1u << kh::rank_in_block() % 32) - 1)); }
    KH_INLINE unsigned size() const { return __popc(mask_); }
    KH_INLINE unsigned num_threads() const { return __popc(mask_); }
    KH_INLINE unsigned meta_group_rank() const { return 0; }
    KH_INLINE unsigned meta_group_size() const { return 1; }
    template <class T>
    KH_INLINE T shfl(T value, int source, int line = __builtin_LINE()) const {
        return kh::shuffle(line, kKhIndex, mask_, value, lane_of(source), 32);
    }
    template <class T>
    KH_INLINE T shfl_up(T value, unsigned delta, int line = __builtin_LINE()) const {
        const unsigned rank = thread_rank();
        return shfl(value, static_cast<int>(rank >= delta ? rank - delta : rank), line);
    }
    template <class T>
    KH_INLINE T shfl_down(T value, unsigned delta, int line = __builtin_LINE()) const {
        const unsigned rank = thread_rank();
        return shfl(value, static_cast<int>(rank + delta < size() ? rank + delta : rank), line);
    }
    KH_INLINE int any(int predicate, int line = __builtin_LINE()) const {
        return static_cast<int>(kh_warp_op(line, kKhAny, mask_, predicate != 0, 0, 32));
    }
    KH_INLINE int all(int predicate, int line = __builtin_LINE()) const {
        return static_cast<int>(kh_warp_op(line, kKhAll, mask_, predicate != 0, 0, 32));
    }
    KH_INLINE unsigned ballot(int predicate, int line = __builtin_LINE()) const {
        return packed(static_cast<unsigned>(kh_warp_op(line, kKhBallot, mask_, predicate != 0, 0, 32)));
    }
    template <class T>
    KH_INLINE unsigned match_any(T value, int line = __builtin_LINE()) const {
        return packed(static_cast<unsigned>(kh_warp_op(line, kKhMatchAny, mask_, kh_pattern(value), 0, 32)));
    }
    template <class T>
    KH_INLINE unsigned match_all(T value, int& equal, int line = __builtin_LINE()) const {
        return packed(kh_match_all(line, mask_, value, &equal));
    }
    KH_INLINE unsigned kh_mask() const { return mask_; }

private:
    KH_INLINE int lane_of(int rank) const {
        for (int lane = 0; lane < 32; ++lane) {
            if ((mask_ >> lane & 1) && rank-- == 0) return lane;
        }
        return static_cast<int>(kh::rank_in_block() % 32);
    }
    KH_INLINE unsigned packed(unsigned lanes) const {
        unsigned result = 0;
        for (int lane = 0, rank = 0; lane < 32; ++lane) {
            if (mask_ >> lane & 1) result |= (lanes >> lane & 1) << rank++;
        }
        return result;
    }
    unsigned mask_;
};
KH_INLINE coalesced_group coalesced_threads() { return coalesced_group(kh_active_mask()); }

template <unsigned Size, class Parent = thread_block>
class thread_block_tile {
    static_assert(Size >= 1 && Size <= 32 && (Size & (Size - 1)) == 0,
                  "the host build has tiles of 1, 2, 4, 8, 16 and 32 threads");

public:
    KH_INLINE explicit thread_block_tile(unsigned parents_size = kh::block_size()) : meta_size_((parents_size + Size - 1) / Size) {}
    KH_INLINE void sync(int line = __builtin_LINE()) const { kh_syncwarp(line, kh_mask()); }
    KH_INLINE unsigned thread_rank() const { return kh::rank_in_block() % Size; }
    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }
    KH_INLINE unsigned meta_group_rank() const { return kh::rank_in_block() / Size % meta_size_; }
    KH_INLINE unsigned meta_group_size() const { return meta_size_; }
    template <class T>
    KH_INLINE T shfl(T value, int source, int line = __builtin_LINE()) const {
        return kh::shuffle(line, kKhIndex, kh_mask(), value, source, Size);
    }
    template <class T>
    KH_INLINE T shfl_up(T value, unsigned delta, int line = __builtin_LINE()) const {
        return kh::shuffle(line, kKhUp, kh_mask(), value, static_cast<int>(delta), Size);
    }
    template <class T>
    KH_INLINE T shfl_down(T value, unsigned delta, int line = __builtin_LINE()) const {
        return kh::shuffle(line, kKhDown, kh_mask(), value, static_cast<int>(delta), Size);
    }
    template <class T>
    KH_INLINE T shfl_xor(T value, unsigned mask, int line = __builtin_LINE()) const {
        return kh::shuffle(line, kKhXor, kh_mask(), value, static_cast<int>(mask), Size);
    }
    KH_INLINE int any(int predicate, int line = __builtin_LINE()) const {
        return static_cast<int>(kh_warp_op(line, kKhAny, kh_mask(), predicate != 0, 0, 32));
    }
    KH_INLINE int all(int predicate, int line = __builtin_LINE()) const {
        return static_cast<int>(kh_warp_op(line, kKhAll, kh_mask(), predicate != 0, 0, 32));
    }
    KH_INLINE unsigned ballot(int predicate, int line = __builtin_LINE()) const {
        return static_cast<unsigned>(kh_warp_op(line, kKhBallot, kh_mask(), predicate != 0, 0, 32)) >> first();
    }
    template <class T>
    KH_INLINE unsigned match_any(T value, int line = __builtin_LINE()) const {
        return static_cast<unsigned>(kh_warp_op(line, kKhMatchAny, kh_mask(), kh_pattern(value), 0, 32)) >> first();
    }
    template <class T>
    KH_INLINE unsigned match_all(T value, int& equal, int line = __builtin_LINE()) const {
        return kh_match_all(line, kh_mask(), value, &equal) >> first();
    }
    KH_INLINE unsigned kh_mask() const { return (Size == 32 ? ~0u : (1u << Size % 32) - 1) << first(); }

private:
    KH_INLINE unsigned first() const { return kh::rank_in_block() % 32 / Size * Size; }
    unsigned meta_size_;
};

template <unsigned Size>
KH_INLINE thread_block_tile<Size> tiled_partition(const thread_block&) {
    return thread_block_tile<Size>();
}
template <unsigned Size, unsigned Outer, class Parent>
KH_INLINE thread_block_tile<Size, thread_block_tile<Outer, Parent>> tiled_partition(const thread_block_tile<Outer, Parent>&) {
    static_assert(Size <= Outer, "a tile is not larger than the tile it is cut from");
    return thread_block_tile<Size, thread_block_tile<Outer, Parent>>(Outer);
}

template <class Group>
KH_INLINE coalesced_group binary_partition(const Group& group, bool predicate, int line = __builtin_LINE()) {
    const auto yes = static_cast<unsigned>(kh_warp_op(line, kKhBallot, group.kh_mask(), predicate, 0, 32));
    return coalesced_group(predicate ? yes : group.kh_mask() & ~yes);
}
template <class Group, class T>
KH_INLINE coalesced_group labeled_partition(const Group& group, T label, int line = __builtin_LINE()) {
    return coalesced_group(static_cast<unsigned>(kh_warp_op(line, kKhMatchAny, group.kh_mask(), kh_pattern(label), 0, 32)));
}

template <class Group>
KH_INLINE void sync(const Group& group, int line = __builtin_LINE()) {
    group.sync(line);
}
template <class Group>
KH_INLINE unsigned thread_rank(const Group& group) {
    return group.thread_rank();
}
template <class Group>
KH_INLINE unsigned group_size(const Group& group) {
    return group.size();
}

}  // namespace cooperative_groups
