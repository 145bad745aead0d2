// The shared library of the ladder's rungs that are built for every GPU from sm_80 on, of the fused patterns, and of the
// sums over a grid.
#include "dequantize.cu"
#include "fused.cu"
#include "grid_sum.cu"
#include "grid_sum_cooperative.cu"
#include "matmul.cu"
#include "matmul_wmma.cu"

// The sentence for a status that a launcher returned, such as "invalid argument".
extern "C" const char* ladder_error_string(int status) { return cudaGetErrorString(static_cast<cudaError_t>(status)); }
