// CUDA has the functions of cuda_pipeline.h under this name, too.
#pragma once

#include "cuda_pipeline.h"
