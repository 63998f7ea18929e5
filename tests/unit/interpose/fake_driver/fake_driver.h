// A driver that only counts: what the fake libcuda.so.1 tells its tests.
#pragma once

extern "C" {

// How often the driver's own function of this symbol has been called; -1: it has none.
int fake_calls(const char* symbol);
// cuInit fails with CUDA_ERROR_NO_DEVICE until told otherwise.
void fake_allow_init(bool allowed);
}
