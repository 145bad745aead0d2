// cuda/hopper.cuh for the host build: what each instruction does to memory, after the PTX manual, so that the kernels of
// cuda/ladder_hopper.cu run on a CPU, unchanged, with every access recorded. Blocks run one after another, so a cluster
// has one block here.
//
// A copy writes when it is asked for, the earliest moment possible. Products read their operands when they are waited
// for, the latest possible: a stage that is refilled too early gives wrong sums, and a race in the trace.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#define UNSEEN __attribute__((no_sanitize("thread"), noinline))

struct TensorMap {
    const __nv_bfloat16* data;
    int64_t rows, columns, stride;
    int box_rows, box_columns;
    bool swizzled;
};

extern __shared__ __align__(1024) unsigned char hopper_shared[];

// ---- barriers: arrivals in bits 0 to 15, how many make a phase in 16 to 31, bytes on their way in 32 to 55, and phases

using Word = unsigned long long;

inline void barrier_init(uint64_t* barrier, int arrivals) {
    *reinterpret_cast<Word*>(barrier) = static_cast<Word>(arrivals) << 16;
}
inline void barrier_init_done() { __threadfence_block(); }

inline void barrier_change(uint64_t* barrier, Word by) {
    __threadfence_block();
    const Word now = atomicAdd(reinterpret_cast<Word*>(barrier), by) + by;
    const Word count = now >> 16 & 0xffff;
    if ((now & 0xffff) == count && (now >> 32 & 0xffffff) == 0) {
        atomicExch(reinterpret_cast<Word*>(barrier), count << 16 | ((now >> 56) + 1) << 56);
    }
}
inline void barrier_expect(uint64_t* barrier, int bytes) { barrier_change(barrier, (static_cast<Word>(bytes) << 32) + 1); }
inline void barrier_arrive(uint64_t* barrier, uint32_t) { barrier_change(barrier, 1); }
inline void barrier_wait(uint64_t* barrier, uint32_t parity) {
    while ((atomicAdd(reinterpret_cast<Word*>(barrier), Word{0}) >> 56 & 1) == parity) {
    }
}

// ---- the copy unit

enum class Swizzle { off, on };

inline cudaError_t encode_boxes(TensorMap* map, const __nv_bfloat16* data, int64_t rows, int64_t columns, int64_t stride,
                                int box_rows, int box_columns, Swizzle swizzle) {
    const bool swizzled = swizzle == Swizzle::on;
    if (rows < 1 || columns < 1 || reinterpret_cast<uintptr_t>(data) % 16 != 0 || stride % 8 != 0 || stride < columns ||
        box_rows > 256 || box_columns > 256 || box_columns % 8 != 0 || (swizzled && box_columns > 64)) {
        return cudaErrorInvalidValue;
    }
    *map = {data, rows, columns, stride, box_rows, box_columns, swizzled};
    return cudaSuccess;
}

inline int64_t swizzled(int64_t at) { return at ^ (at >> 7 & 7) << 4; }

inline void copy_box(void* to, const TensorMap& map, uint64_t* barrier, int row, int column) {
    struct alignas(16) Piece {
        __nv_bfloat16 numbers[8];
    };
    const int64_t start = static_cast<unsigned char*>(to) - hopper_shared;
    if (start % (map.swizzled ? 1024 : 128) != 0 || column % 8 != 0) {
        __trap();
    }
    for (int r = 0; r < map.box_rows; ++r) {
        for (int p = 0; p < map.box_columns; p += 8) {
            const int64_t m = row + r;
            const int64_t n = column + p;
            Piece piece = {};
            if (m < map.rows && n + 8 <= map.columns) {
                piece = *reinterpret_cast<const Piece*>(map.data + m * map.stride + n);
            } else if (m < map.rows) {
                for (int i = 0; n + i < map.columns; ++i) {
                    piece.numbers[i] = map.data[m * map.stride + n + i];
                }
            }
            const int64_t at = start + (static_cast<int64_t>(r) * map.box_columns + p) * 2;
            *reinterpret_cast<Piece*>(hopper_shared + (map.swizzled ? swizzled(at) : at)) = piece;
        }
    }
    barrier_change(barrier, Word{0} - (static_cast<Word>(map.box_rows * map.box_columns * 2) << 32));
}
inline void copy_box_to_all(void* to, const TensorMap& map, uint64_t* barrier, int row, int column, uint16_t) {
    copy_box(to, map, barrier, row, column);
}

inline void store_box(const TensorMap& map, const void* from, int row, int column) {
    const int64_t start = static_cast<const unsigned char*>(from) - hopper_shared;
    if (start % (map.swizzled ? 1024 : 128) != 0) {
        __trap();
    }
    for (int r = 0; r < map.box_rows && row + r < map.rows; ++r) {
        // Whole pieces of 16 bytes, as an H200 does: the last one of a row goes on past its end.
        for (int i = 0; i < map.box_columns && column + i / 8 * 8 < map.columns; ++i) {
            const int64_t at = start + (static_cast<int64_t>(r) * map.box_columns + i) * 2;
            const_cast<__nv_bfloat16*>(map.data)[(row + r) * map.stride + column + i] =
                *reinterpret_cast<const __nv_bfloat16*>(hopper_shared + (map.swizzled ? swizzled(at) : at));
        }
    }
}
template <int kPending>
void store_wait() {}
inline void shared_written() { __threadfence_block(); }

// A lane shows its pairs to the others, as the instruction does between the lanes of a warp.
inline void store_matrices(void* row, const uint32_t (&pairs)[4]) {
    const unsigned lane = threadIdx.x % 32;
    uint32_t mine[4] = {};
    for (unsigned matrix = 0; matrix < 4; ++matrix) {
        for (unsigned part = 0; part < 4; ++part) {
            const uint32_t found = __shfl_sync(0xffffffffu, pairs[matrix], lane % 8 * 4 + part);
            mine[part] = lane / 8 == matrix ? found : mine[part];
        }
    }
    for (int part = 0; part < 4; ++part) {
        static_cast<uint32_t*>(row)[part] = mine[part];
    }
}

inline cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height, cudaStream_t) {
    for (size_t row = 0; row < height; ++row) {
        cudaMemsetAsync(static_cast<char*>(to) + row * pitch, value, width);
    }
    return cudaSuccess;
}

// ---- clusters of one block

inline uint32_t cluster_rank() { return 0; }
inline void cluster_sync() { __syncthreads(); }

template <typename... Parameters>
cudaError_t launch_clusters(void (*kernel)(Parameters...), unsigned blocks, int threads, int bytes, int cluster,
                            cudaStream_t stream, Parameters... parameters) {
    if (cluster != 1 || cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)) {
        return cudaErrorInvalidValue;
    }
    kernel<<<blocks, threads, bytes, stream>>>(parameters...);
    return cudaGetLastError();
}

// ---- products of a warpgroup

inline uint64_t describe(const void* tile, int along, int across) {
    const auto at = static_cast<uint64_t>(static_cast<const unsigned char*>(tile) - hopper_shared);
    return at >> 4 | static_cast<uint64_t>(along >> 4) << 16 | static_cast<uint64_t>(across >> 4) << 32 | uint64_t{1} << 62;
}

// Where an operand of a descriptor lies: `line` counts its rows of 128 bytes, `byte` runs along a row.
struct Operand {
    int64_t start, along, across;
    explicit Operand(uint64_t bits)
        : start((bits & 0x3fff) << 4), along((bits >> 16 & 0x3fff) << 4), across((bits >> 32 & 0x3fff) << 4) {}
    int64_t at(int line, int byte) const {
        return swizzled(start + line / 8 * across + line % 8 * 128 + byte / 128 * along + byte % 128);
    }
};

struct Product {
    float* sums;
    uint64_t a, b;
    int batch;
};
inline Product products[1024][16];
inline int begun[1024], batches[1024];

UNSEEN inline float number_at(int64_t at) { return __bfloat162float(*reinterpret_cast<__nv_bfloat16*>(hopper_shared + at)); }

UNSEEN inline void multiply(const Product& product, int thread) {
    const Operand a(product.a);
    const Operand b(product.b);
    for (int i = 0; i < 128; ++i) {
        const int row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
        const int column = i / 4 * 8 + thread % 4 * 2 + i % 2;
        for (int k = 0; k < 16; ++k) {
            product.sums[i] += number_at(a.at(row, k * 2)) * number_at(b.at(k, column * 2));
        }
    }
}
UNSEEN inline void put(float* sums, uint64_t a, uint64_t b) {
    products[threadIdx.x][begun[threadIdx.x]++] = {sums, a, b, batches[threadIdx.x]};
}
UNSEEN inline void next_batch() { ++batches[threadIdx.x]; }
UNSEEN inline const Product* due(int pending) {
    return begun[threadIdx.x] && products[threadIdx.x][0].batch < batches[threadIdx.x] - pending ? products[threadIdx.x]
                                                                                                 : nullptr;
}
UNSEEN inline void drop() {
    const int left = --begun[threadIdx.x];
    for (int i = 0; i < left; ++i) {
        products[threadIdx.x][i] = products[threadIdx.x][i + 1];
    }
}
UNSEEN inline void take(uint4) {}

inline void wgmma_fence() {}
inline void wgmma_commit() { next_batch(); }
inline void wgmma_64x256x16(float (&sums)[128], uint64_t a, uint64_t b) { put(sums, a, b); }

template <int kPending>
void wgmma_wait() {
    const int thread = threadIdx.x % 128;
    while (const Product* product = due(kPending)) {
        // What a warpgroup reads, dealt out to its threads for the record: 16 bytes at a time, each once.
        const Operand a(product->a);
        const Operand b(product->b);
        take(*reinterpret_cast<const uint4*>(hopper_shared + a.at(thread / 2, thread % 2 * 16)));
        for (int piece = thread; piece < 16 * 32; piece += 128) {
            take(*reinterpret_cast<const uint4*>(hopper_shared + b.at(piece / 32, piece % 32 * 16)));
        }
        multiply(*product, thread);
        drop();
    }
    __syncwarp();  // the instruction waits for the warp
}

// Counted in memory that stays from block to block: each time, 128 more have arrived.
__device__ Word warpgroup_arrivals[16];
inline void warpgroup_sync(int number) {
    __threadfence_block();
    const Word all = (atomicAdd(&warpgroup_arrivals[number], Word{1}) / 128 + 1) * 128;
    while (atomicAdd(&warpgroup_arrivals[number], Word{0}) < all) {
    }
}

template <int kRegisters>
void give_registers() {}
template <int kRegisters>
void take_registers() {}
