// CUDA has the runtime API alone under this name.
#pragma once

#include "cuda_runtime.h"
