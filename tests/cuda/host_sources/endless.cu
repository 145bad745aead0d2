// Kernels and launchers that would never come back.
#include <cuda_runtime.h>

__global__ void leaks(int* out, int n) {
    int total = 0;
    for (int i = 0; i < n; ++i) {
        int* mine = static_cast<int*>(malloc(1000));
        mine[0] = i;
        total += mine[0];
    }
    out[threadIdx.x] = total;
}

struct Node { int value; Node* next; };

__global__ void list(int* out, int n) {
    Node* first = nullptr;
    for (int i = 0; i < n; ++i) first = new Node{i, first};
    int sum = 0;
    while (first) {
        sum += first->value;
        Node* next = first->next;
        delete first;
        first = next;
    }
    out[threadIdx.x] = sum;
}

__global__ void spins(int* out) {
    volatile int one = 1;
    while (one) {}
    out[0] = 1;
}

__global__ void waits_for_another_block(volatile int* flag) {
    if (blockIdx.x == 0) {
        while (flag[0] == 0) {}
    } else {
        flag[0] = 1;
    }
}

__device__ int deeper(int* x, int n) { return x[n % 4] + (n >= 0 ? deeper(x, n + 1) : 0); }
__global__ void recurses(int* out) { out[0] = deeper(out, 0); }

__global__ void mallocs_and_spins(int* out) {
    for (;;) free(malloc(64));
}

__global__ void one(int* out) { out[0] = 1; }

extern "C" int allocates(int* out) {
    for (;;) {
        float* memory = nullptr;
        cudaMalloc(&memory, 1 << 20);
    }
    return 0;
}

extern "C" int allocates_too_much(int* out) {
    float* memory = nullptr;
    while (cudaMalloc(&memory, size_t{1} << 40) != cudaSuccess) {}
    return 0;
}

extern "C" int asks_and_gives_up(int* out) {
    float* memory = nullptr;
    return cudaMalloc(&memory, size_t{1} << 40);
}

extern "C" int launches(int* out) {
    for (;;) one<<<1, 1>>>(out);
}

extern "C" int launches_what_fails(int* out) {
    for (;;) one<<<1, 1>>>(nullptr);
}

static void check(cudaError_t error) {
    if (error != cudaSuccess) std::exit(3);
}

extern "C" int exits_after_a_fault(int* out) {
    one<<<1, 1>>>(nullptr);
    check(cudaDeviceSynchronize());
    return 0;
}

extern "C" int exits(int* out) {
    exit(7);
}
