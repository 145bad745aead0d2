// A PyTorch operator around a CUDA launcher: matmul_ext::matmul(a, b), for float32 matrices on a GPU.
//
// The kernel is the tiled one of cuda/matmul.cu, as it is. What is added: checks that end in Python as exceptions, the
// device and the stream of the caller, and the operator's name and schema.

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <Python.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <string>

#include "matmul.cu"

std::string shape_of(const at::Tensor& matrix) {
    return std::to_string(matrix.size(0)) + " x " + std::to_string(matrix.size(1));
}

at::Tensor matmul_cuda(const at::Tensor& a, const at::Tensor& b) {
    TORCH_CHECK(a.is_cuda() && b.device() == a.device(), "matmul needs both matrices on one GPU; a is on ", a.device(),
                " and b is on ", b.device());
    // Numbers as text, not into a stream: what a stream needs of the C++ library need not be the one in this process.
    TORCH_CHECK(a.dim() == 2 && b.dim() == 2, "matmul multiplies matrices; a has ", std::to_string(a.dim()),
                " dimensions and b has ", std::to_string(b.dim()));
    TORCH_CHECK(a.size(1) == b.size(0), "matmul multiplies (M, K) by (K, N); a is ", shape_of(a), " and b is ",
                shape_of(b));
    TORCH_CHECK(a.scalar_type() == at::kFloat && b.scalar_type() == at::kFloat, "matmul computes in float32; a is ",
                a.scalar_type(), " and b is ", b.scalar_type());
    // The tensors' GPU need not be the current one, and their stream need not be the default one.
    const c10::cuda::CUDAGuard guard(a.device());
    const at::Tensor left = a.contiguous();
    const at::Tensor right = b.contiguous();
    at::Tensor c = at::empty({a.size(0), b.size(1)}, left.options());  // every element will be written: no zeros needed
    const cudaError_t status =
        launch_matmul_tiled(left.const_data_ptr<float>(), right.const_data_ptr<float>(), c.mutable_data_ptr<float>(),
                            a.size(0), b.size(1), a.size(1), a.size(1), b.size(1), b.size(1),
                            at::cuda::getCurrentCUDAStream());
    TORCH_CHECK(status == cudaSuccess, "the launch of matmul failed: ", cudaGetErrorString(status));
    return c;
}

TORCH_LIBRARY(matmul_ext, library) { library.def("matmul(Tensor a, Tensor b) -> Tensor"); }
TORCH_LIBRARY_IMPL(matmul_ext, CUDA, library) { library.impl("matmul", &matmul_cuda); }

// `import matmul_ext` loads the library, and that registers the operator; the module itself is empty.
extern "C" PyObject* PyInit_matmul_ext() {
    static PyModuleDef module = {PyModuleDef_HEAD_INIT, "matmul_ext", nullptr, -1, nullptr, nullptr, nullptr, nullptr,
                                 nullptr};
    return PyModule_Create(&module);
}
