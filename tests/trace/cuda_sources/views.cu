// Kernels whose requests, banks and divergence can be counted on paper.

__global__ void number_threads(int* out) {
    const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] = thread;
}

__global__ void two_sides(const float* x, float* out) {
    const int t = threadIdx.x;
    if (t % 4 == 0) {
        out[t] = x[t];  // FOURTHS
    } else {
        out[t] = 2.0f * x[t];  // OTHERS
    }
}

__global__ void strided_sum(const float* x, float* out, int n) {
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        sum += x[i];  // LOOP
    }
    out[threadIdx.x] = sum;
}

__global__ void banks(float* out, int stride) {
    __shared__ float words[32 * 33];
    __shared__ double pairs[32];
    __shared__ float4 quads[32];
    __shared__ int counters[32];
    const int t = threadIdx.x;
    words[t] = 0.0f;
    pairs[t] = t;  // PAIRS
    quads[t] = make_float4(0, 0, 0, 0);  // QUADS
    counters[t] = 0;
    __syncthreads();
    float sum = words[t * stride];  // COLUMN
    sum += words[7];  // BROADCAST
    atomicAdd(&counters[t % 4], 1);  // ATOMIC
    __syncthreads();
    out[t] = sum + quads[t].x + static_cast<float>(pairs[t]) + counters[t % 4];
}
