// WMMA: products of small matrices by a warp, computed from what its lanes hold.
//
// A matrix is cut into squares of 8 x 8, and each lane holds two elements of each: lane l those of row l / 4 and columns
// 2 * (l % 4) and one more (matrix_a, accumulator), or of column l / 4 and rows 2 * (l % 4) and one more (matrix_b).
// Squares follow each other down the columns. This is the layout of "mma.m16n8k16" in the PTX manual. Two elements that
// lie side by side in memory are one access. Each product is exact, and a sum of K of them and the accumulator is
// rounded once.
#pragma once

#include "cuda_bf16.h"
#include "cuda_fp16.h"

extern "C" void kh_warp_gather(int line, const void* mine, const void** all);

namespace nvcuda {
namespace wmma {

struct row_major {};
struct col_major {};
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
}

namespace kh {

template <class T> struct Stored { using type = T; };
template <> struct Stored<precision::tf32> { using type = float; };

template <class Use, int M, int N, int K> struct Shape;
template <int M, int N, int K> struct Shape<matrix_a, M, N, K> { static constexpr int kRows = M, kColumns = K; };
template <int M, int N, int K> struct Shape<matrix_b, M, N, K> { static constexpr int kRows = K, kColumns = N; };
template <int M, int N, int K> struct Shape<accumulator, M, N, K> { static constexpr int kRows = M, kColumns = N; };

template <class T>
constexpr bool known(int m, int n, int k) {
    if (std::is_same_v<T, precision::tf32>) return m == 16 && n == 16 && k == 8;
    const bool sixteen = k == 16 && ((m == 16 && n == 16) || (m == 32 && n == 8) || (m == 8 && n == 32));
    return sixteen || (std::is_same_v<T, float> && m == 16 && n == 16 && k == 8);
}

KH_INLINE double number(float v) { return v; }
KH_INLINE double number(__half v) { return kh16_value(v); }
KH_INLINE double number(__nv_bfloat16 v) { return kh16_value(v); }
template <class T>
KH_INLINE double factor(typename Stored<T>::type v) {  // tf32: the unit reads the upper 19 bits
    if constexpr (std::is_same_v<T, precision::tf32>) return kh_bits<float>(kh_bits<unsigned>(v) & 0xffffe000u);
    else return number(v);
}

}  // namespace kh

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {
    static_assert(kh::known<T>(M, N, K),
                  "the host build's WMMA has the shapes 16x16x16, 32x8x16, 8x32x16, and 16x16x8 for tf32");
    using element_type = T;
    using storage_element_type = typename kh::Stored<T>::type;
    using kh_shape = kh::Shape<Use, M, N, K>;
    static constexpr int num_elements = kh_shape::kRows * kh_shape::kColumns / 32;
    static constexpr bool kh_side_by_side_in_rows = !std::is_same_v<Use, matrix_b>;
    storage_element_type x[num_elements];

    // Row and column of element i of a lane.
    static KH_INLINE void kh_where(int lane, int i, int* row, int* column) {
        constexpr int down = kh_shape::kRows / 8;
        const int square = i / 2, far = lane / 4, near = 2 * (lane % 4) + i % 2;
        *row = square % down * 8 + (kh_side_by_side_in_rows ? far : near);
        *column = square / down * 8 + (kh_side_by_side_in_rows ? near : far);
    }
    // Which lane holds an element, and as its which.
    static KH_INLINE void kh_holder(int row, int column, int* lane, int* i) {
        constexpr int down = kh_shape::kRows / 8;
        const int far = kh_side_by_side_in_rows ? row % 8 : column % 8, near = kh_side_by_side_in_rows ? column % 8 : row % 8;
        *lane = far * 4 + near / 2;
        *i = 2 * (row / 8 + down * (column / 8)) + near % 2;
    }
};

namespace kh {

KH_INLINE int lane() { return static_cast<int>((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32); }

template <class E>
struct alignas(2 * sizeof(E)) Two { E first, second; };

template <class F, class E>
KH_INLINE void load(F& f, const E* from, unsigned stride, bool rows) {
    for (int i = 0; i < F::num_elements; i += 2) {
        int row, column;
        F::kh_where(lane(), i, &row, &column);
        const E* at = from + (rows ? std::size_t{stride} * row + column : std::size_t{stride} * column + row);
        if (rows == F::kh_side_by_side_in_rows) {
            const Two<E> two = *reinterpret_cast<const Two<E>*>(at);
            f.x[i] = two.first, f.x[i + 1] = two.second;
        } else {
            f.x[i] = at[0], f.x[i + 1] = at[stride];
        }
    }
}

KH_INLINE void meet(int line) { kh_warp_op(line, kKhAny, 0xffffffffu, 0, 0, 32); }

}  // namespace kh

template <class Use, int M, int N, int K, class T, class Layout>
KH_INLINE void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& f,
                                const typename kh::Stored<T>::type* from, unsigned stride, int line = __builtin_LINE()) {
    assert(stride % (16 / sizeof(*from)) == 0);
    kh::meet(line);
    kh::load(f, from, stride, std::is_same_v<Layout, row_major>);
}

template <int M, int N, int K, class T>
KH_INLINE void load_matrix_sync(fragment<accumulator, M, N, K, T>& f, const T* from, unsigned stride, layout_t layout,
                                int line = __builtin_LINE()) {
    assert(stride % (16 / sizeof(*from)) == 0);
    kh::meet(line);
    kh::load(f, from, stride, layout == mem_row_major);
}

template <int M, int N, int K, class T>
KH_INLINE void store_matrix_sync(T* to, const fragment<accumulator, M, N, K, T>& f, unsigned stride, layout_t layout,
                                 int line = __builtin_LINE()) {
    assert(stride % (16 / sizeof(*to)) == 0);
    kh::meet(line);
    for (int i = 0; i < f.num_elements; i += 2) {
        int row, column;
        f.kh_where(kh::lane(), i, &row, &column);
        if (layout == mem_row_major) {
            *reinterpret_cast<kh::Two<T>*>(to + std::size_t{stride} * row + column) = kh::Two<T>{f.x[i], f.x[i + 1]};
        } else {
            T* at = to + std::size_t{stride} * column + row;
            at[0] = f.x[i], at[stride] = f.x[i + 1];
        }
    }
}

template <class Use, int M, int N, int K, class T, class Layout>
KH_INLINE void fill_fragment(fragment<Use, M, N, K, T, Layout>& f, const typename kh::Stored<T>::type& value) {
    for (int i = 0; i < f.num_elements; ++i) f.x[i] = value;
}

KH_INLINE float __float_to_tf32(float v) {
    const unsigned bits = kh_bits<unsigned>(v);
    return v != v ? v : kh_bits<float>((bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000u);
}

template <int M, int N, int K, class T, class LayoutA, class LayoutB, class D, class C>
KH_INLINE void mma_sync(fragment<accumulator, M, N, K, D>& d, const fragment<matrix_a, M, N, K, T, LayoutA>& a,
                        const fragment<matrix_b, M, N, K, T, LayoutB>& b, const fragment<accumulator, M, N, K, C>& c,
                        bool = false, int line = __builtin_LINE()) {
    const void* all[32];
    using A = fragment<matrix_a, M, N, K, T, LayoutA>;
    using B = fragment<matrix_b, M, N, K, T, LayoutB>;
    struct Factors {
        const A* a;
        const B* b;
    } mine{&a, &b};
    kh_warp_gather(line, &mine, all);
    fragment<accumulator, M, N, K, D> result;
    for (int i = 0; i < d.num_elements; ++i) {
        int row, column, lane, element;
        d.kh_where(kh::lane(), i, &row, &column);
        double sum = kh::number(c.x[i]);
        for (int k = 0; k < K; ++k) {
            A::kh_holder(row, k, &lane, &element);
            const double left = kh::factor<T>(static_cast<const Factors*>(all[lane])->a->x[element]);
            B::kh_holder(k, column, &lane, &element);
            sum += left * kh::factor<T>(static_cast<const Factors*>(all[lane])->b->x[element]);
        }
        result.x[i] = D(sum);
    }
    kh::meet(line);  // nobody changes a fragment that others still read
    d = result;
}

}  // namespace wmma
}  // namespace nvcuda
