// The shared library that kernels/cuda loads: every launcher, and the runtime's words for an error.
#include "histogram.cu"
#include "kernels.cu"
#include "patterns.cu"

// The sentence for a status that a launcher returned, such as "invalid argument".
extern "C" const char* kernels_error_string(int status) { return cudaGetErrorString(static_cast<cudaError_t>(status)); }
