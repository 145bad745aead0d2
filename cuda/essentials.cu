// The shared library of the demonstrations and probes of the Essentials.
#include "divergence.cu"
#include "probes.cu"
#include "reductions.cu"
#include "residency.cu"
#include "strided.cu"
#include "transposes.cu"

// The sentence for a status that a launcher returned, such as "invalid argument".
extern "C" const char* essentials_error_string(int status) { return cudaGetErrorString(static_cast<cudaError_t>(status)); }
