// Wrong kernels that harmed the tracer or went unseen: each has one verdict, and the process goes on.
#include <cuda_runtime.h>

__global__ void into_the_next_array(float* out) {
    __shared__ float a[128];
    __shared__ float b[128];
    a[threadIdx.x + 1] = 1;
    b[threadIdx.x] = 2;
    __syncthreads();
    out[threadIdx.x] = a[threadIdx.x ? threadIdx.x : 1] + b[threadIdx.x];
}

__global__ void frees_what_it_was_given(float* out) {
    free(out);
    out[0] = 1;
}

__global__ void large_frame(float* out) {
    float own[20000];
    for (int i = 0; i < 20000; ++i) own[i] = i;
    out[threadIdx.x] = own[threadIdx.x * 7];
}

__global__ void new_without_end(float* out) {
    for (;;) {
        int* p = new int[1000];
        p[0] = 1;
    }
}
