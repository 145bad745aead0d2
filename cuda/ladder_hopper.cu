// The shared library of the ladder's last rungs, which only Hopper can run (sm_90a): c = a * b in bfloat16.
//
//   matmul_tma         one thread asks the copy unit for whole tiles; WMMA still multiplies
//   matmul_wgmma       four warps together multiply 64 x 256 x 16, straight from shared memory
//   matmul_cluster     two blocks share each tile of b: each fetches half of it, for both
//   matmul_persistent  warps that only copy, warps that only multiply, and blocks that stay for many tiles
#include "matmul_cluster.cu"
#include "matmul_persistent.cu"
#include "matmul_tma.cu"
#include "matmul_wgmma.cu"
