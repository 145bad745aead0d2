// Accesses whose size, place or maker is unusual: more bytes than one event holds, elements of the guard bands, blocks
// of one thread, which goes on alone after a barrier.
#include <cstring>

__global__ void copy_all(const float* x, float* out) { std::memcpy(out, x, 9 << 20); }

__global__ void around(const float* x, float* out) {
    out[0] = x[-1] + x[-16384];  // the band in front holds 16384 floats
    out[1] = x[8] + x[8 + 16383];
}

__global__ void alone(float* out) {
    out[3 * blockIdx.x] = 1;
    __syncthreads();
    out[3 * blockIdx.x + 1] = 2;
    __syncwarp(1);
    out[3 * blockIdx.x + 2] = 3;
}

__global__ void one_each(float* out) { out[blockIdx.x] = 1; }
