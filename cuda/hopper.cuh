// Hopper's own instructions as functions: barriers with byte counts, the copy unit (TMA), warpgroup products (wgmma),
// clusters. Each wraps one instruction of the PTX manual, whose chapter "Instruction Set" explains it; the layouts are in
// its section on asynchronous warpgroup-level matrix instructions. Builds for sm_90a only.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

using TensorMap = CUtensorMap;

// All shared memory of a block: the 128-byte swizzle repeats every 1024 bytes, so tiles begin at multiples of that.
extern __shared__ __align__(1024) unsigned char hopper_shared[];

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}


// ---------------------------------------------------------------------------------------------
// Barriers: a phase ends when everyone who must arrive has, and every announced byte is there
// ---------------------------------------------------------------------------------------------

__device__ __forceinline__ void barrier_init(uint64_t* barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// What was initialised is seen by the copy unit and by the other blocks of the cluster.
__device__ __forceinline__ void barrier_init_done() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// Arrives, and announces `bytes` that copies will bring in this phase.
__device__ __forceinline__ void barrier_expect(uint64_t* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

// Arrives at this barrier of block `rank` of the cluster, and orders nothing. Who calls it has read by wgmma and waited for
// that, so there is nothing left to order; a release for the whole cluster would cost a fence for the whole GPU.
__device__ __forceinline__ void barrier_arrive(uint64_t* barrier, uint32_t rank) {
    asm volatile(
        "{\n"
        ".reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
        "}" ::"r"(shared_address(barrier)),
        "r"(rank)
        : "memory");
}

// Waits until the phase of this parity is over: 0 for the first, then 1, 0, 1, ... A barrier that nobody has used is
// past parity 1.
__device__ __forceinline__ void barrier_wait(uint64_t* barrier, uint32_t parity) {
    asm volatile(
        "{\n"
        ".reg .pred over;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
        "@!over bra again;\n"
        "}" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
}


// ---------------------------------------------------------------------------------------------
// The copy unit: one thread asks for a box of a matrix, and a barrier counts its bytes
// ---------------------------------------------------------------------------------------------

// Fills in `map` for boxes of `box_rows` x `box_columns` of a bfloat16 matrix. What a box has outside the matrix arrives
// as zero. With Swizzle::on, `box_columns` is 64: the eight 16-byte pieces of a row change places, piece p of row r lies
// where p ^ (r % 8) would, so that a column of pieces has eight different bank groups.
enum class Swizzle { off, on };
constexpr CUtensorMapL2promotion kL2Promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B;  // fetched to the L2 cache at once

inline cudaError_t encode_boxes(TensorMap* map, const __nv_bfloat16* data, int64_t rows, int64_t columns, int64_t stride,
                                int box_rows, int box_columns, Swizzle swizzle) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult answer;
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &answer);
    if (status != cudaSuccess) {
        return status;
    }
    if (answer != cudaDriverEntryPointSuccess) {
        return cudaErrorNotSupported;
    }
    const cuuint64_t extents[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
    const cuuint64_t strides[] = {static_cast<cuuint64_t>(stride) * sizeof(__nv_bfloat16)};
    const cuuint32_t box[] = {static_cast<cuuint32_t>(box_columns), static_cast<cuuint32_t>(box_rows)};
    const cuuint32_t steps[] = {1, 1};
    const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
    const CUresult result =
        encode(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<__nv_bfloat16*>(data), extents, strides, box, steps,
               CU_TENSOR_MAP_INTERLEAVE_NONE,
               swizzle == Swizzle::on ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
               kL2Promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// The box whose first element is matrix[row][column]. Both may lie outside.
__device__ __forceinline__ void copy_box(void* to, const TensorMap& map, uint64_t* barrier, int row, int column) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
            shared_address(to)),
        "l"(reinterpret_cast<uint64_t>(&map)), "r"(shared_address(barrier)), "r"(column), "r"(row)
        : "memory");
}

// The same for every block of the cluster whose bit is set: to the same place of its shared memory, and counted by its
// own barrier.
__device__ __forceinline__ void copy_box_to_all(void* to, const TensorMap& map, uint64_t* barrier, int row, int column,
                                                uint16_t blocks) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
        "[%1, {%3, %4}], [%2], %5;" ::"r"(shared_address(to)),
        "l"(reinterpret_cast<uint64_t>(&map)), "r"(shared_address(barrier)), "r"(column), "r"(row), "h"(blocks)
        : "memory");
}


// The other way: a box of shared memory goes to matrix[row][column]. Pieces of 16 bytes that lie outside are dropped; one
// that begins inside is written whole, also past the end of its row (seen on an H200), so rows must be whole pieces where
// what lies behind them is somebody's. The copy reads on when this returns: a thread commits its copies as a batch, and
// waits before it writes to the box again.
__device__ __forceinline__ void store_box(const TensorMap& map, const void* from, int row, int column) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(
                     reinterpret_cast<uint64_t>(&map)),
                 "r"(shared_address(from)), "r"(column), "r"(row)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until at most kPending batches of this thread still read shared memory.
template <int kPending>
__device__ __forceinline__ void store_wait() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// What this thread wrote to shared memory is seen by the copy unit.
__device__ __forceinline__ void shared_written() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Four matrices of 8 x 8 numbers of two bytes, from a warp's registers to shared memory: lane l holds columns 2 (l % 4) and
// the next one of row l / 4 of each, and names the 16 bytes at which row l % 8 of matrix l / 8 shall lie.
__device__ __forceinline__ void store_matrices(void* row, const uint32_t (&pairs)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
                 "r"(pairs[0]), "r"(pairs[1]), "r"(pairs[2]), "r"(pairs[3])
                 : "memory");
}


// ---------------------------------------------------------------------------------------------
// Clusters
// ---------------------------------------------------------------------------------------------

__device__ __forceinline__ uint32_t cluster_rank() {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

template <typename... Parameters>
cudaError_t launch_clusters(void (*kernel)(Parameters...), unsigned blocks, int threads, int bytes, int cluster,
                            cudaStream_t stream, Parameters... parameters) {
    // A block gets more than 48 KiB only if the kernel asked for it.
    const cudaError_t allowed = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (allowed != cudaSuccess) {
        return allowed;
    }
    cudaLaunchAttribute in_cluster = {};
    in_cluster.id = cudaLaunchAttributeClusterDimension;
    in_cluster.val.clusterDim.x = static_cast<unsigned>(cluster);
    in_cluster.val.clusterDim.y = 1;
    in_cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t launch = {};
    launch.gridDim = dim3(blocks);
    launch.blockDim = dim3(static_cast<unsigned>(threads));
    launch.dynamicSmemBytes = static_cast<size_t>(bytes);
    launch.stream = stream;
    launch.attrs = &in_cluster;
    launch.numAttrs = 1;
    return cudaLaunchKernelEx(&launch, kernel, parameters...);
}


// ---------------------------------------------------------------------------------------------
// Products of a warpgroup
// ---------------------------------------------------------------------------------------------

// Where a swizzled operand lies: address, and two distances in bytes. `across` leads from eight rows of 128 bytes to the
// next eight. `along` leads from 64 columns to the next 64, where the rows are k and the product is wider than 64.
__device__ __forceinline__ uint64_t describe(const void* tile, int along, int across) {
    return (static_cast<uint64_t>(shared_address(tile)) & 0x3ffff) >> 4 | static_cast<uint64_t>(along >> 4) << 16 |
           static_cast<uint64_t>(across >> 4) << 32 | uint64_t{1} << 62;
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most kPending batches of products are unfinished.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// sums += a * b for 64 x 16 of a, whose rows run along k, and 16 x 256 of b, whose rows run along n; both bfloat16. Of
// the sums thread t holds those of row t / 32 * 16 + t % 32 / 4 (of the warpgroup's 128 threads), and eight rows below:
// sums[4 j], [4 j + 1] are columns 8 j + 2 (t % 4) and the next one, [4 j + 2], [4 j + 3] the same ones below.
__device__ __forceinline__ void wgmma_64x256x16(float (&sums)[128], uint64_t a, uint64_t b) {
#define SUMS_8(i)                                                                                                     \
    "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3]), "+f"(sums[i + 4]), "+f"(sums[i + 5]),       \
        "+f"(sums[i + 6]), "+f"(sums[i + 7])
#define SUMS_32(i) SUMS_8(i), SUMS_8(i + 8), SUMS_8(i + 16), SUMS_8(i + 24)
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
        "}, %128, %129, 1, 1, 1, 0, 1;"
        : SUMS_32(0), SUMS_32(32), SUMS_32(64), SUMS_32(96)
        : "l"(a), "l"(b));
#undef SUMS_32
#undef SUMS_8
}

// All 128 threads of a warpgroup have come this far. `number` is 1 to 15, one for each warpgroup: 0 is __syncthreads().
__device__ __forceinline__ void warpgroup_sync(int number) {
    asm volatile("bar.sync %0, 128;" ::"r"(number) : "memory");
}

// A warpgroup lends registers to the others, or takes them up: all of its threads call this.
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
