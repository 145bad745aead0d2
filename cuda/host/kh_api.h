// The runtime calls that launchers make. There is one device, its memory is the process's, and every stream is
// in order: a launch has ended when it returns.
#pragma once

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorStubLibrary = 34,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorNoKernelImageForDevice = 209,
    cudaErrorIllegalAddress = 700,
    cudaErrorLaunchTimeout = 702,
    cudaErrorAssert = 710,
    cudaErrorMisalignedAddress = 716,
    cudaErrorLaunchFailure = 719,
    cudaErrorNotSupported = 801,
    cudaErrorUnknown = 999,
};
typedef cudaError_t cudaError;
enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
typedef struct CUstream_st* cudaStream_t;
struct CUevent_st {
    double milliseconds;
};
typedef CUevent_st* cudaEvent_t;
enum cudaDeviceAttr { cudaDevAttrMaxThreadsPerBlock = 1, cudaDevAttrMultiProcessorCount = 16, cudaDevAttrL2CacheSize = 38 };
#ifndef KH_DEVICE_NAME
#define KH_DEVICE_NAME "host build"
#endif
struct cudaDeviceProp {
    char name[256] = KH_DEVICE_NAME;
    int major = 0, minor = 0, warpSize = 32, multiProcessorCount = 1, maxThreadsPerBlock = 1024, l2CacheSize = 1 << 20;
    std::size_t totalGlobalMem = std::size_t{2} << 30, sharedMemPerBlock = 48 << 10, sharedMemPerBlockOptin = 227 << 10;
};
#define CUDART_VERSION 13000

extern "C" {
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
const char* cudaGetErrorString(cudaError_t error);
const char* cudaGetErrorName(cudaError_t error);
cudaError_t cudaMalloc(void** pointer, std::size_t bytes);
cudaError_t cudaFree(void* pointer);
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemset(void* to, int value, std::size_t bytes);
}

template <class T>
cudaError_t cudaMalloc(T** pointer, std::size_t bytes) {
    return cudaMalloc(reinterpret_cast<void**>(pointer), bytes);
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t = 0) {
    return cudaMemcpy(to, from, bytes, kind);
}
inline cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t = 0) {
    return cudaMemset(to, value, bytes);
}
template <class T>
cudaError_t cudaMemcpyToSymbol(T& symbol, const void* from, std::size_t bytes, std::size_t offset = 0,
                               cudaMemcpyKind = cudaMemcpyHostToDevice) {
    return cudaMemcpy(const_cast<char*>(reinterpret_cast<const char*>(&symbol)) + offset, from, bytes,
                      cudaMemcpyHostToDevice);
}
inline cudaError_t cudaDeviceSynchronize() { return cudaPeekAtLastError(); }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaPeekAtLastError(); }
inline cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidValue; }
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
    const cudaDeviceProp device;
    *value = which == cudaDevAttrL2CacheSize          ? device.l2CacheSize
             : which == cudaDevAttrMaxThreadsPerBlock ? device.maxThreadsPerBlock
                                                      : device.multiProcessorCount;
    return cudaSuccess;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* device, int) { return *device = {}, cudaSuccess; }
inline cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
inline cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }

// Times are those of the CPU.
inline cudaError_t cudaEventCreate(cudaEvent_t* event) { return *event = new CUevent_st{0}, cudaSuccess; }
inline cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t = 0) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    event->milliseconds = std::chrono::duration<double, std::milli>(now).count();
    return cudaPeekAtLastError();
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaPeekAtLastError(); }
inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
    *milliseconds = static_cast<float>(end->milliseconds - begin->milliseconds);
    return cudaSuccess;
}
template <class F>
cudaError_t cudaFuncSetAttribute(F*, cudaFuncAttribute, int) {
    return cudaSuccess;
}
