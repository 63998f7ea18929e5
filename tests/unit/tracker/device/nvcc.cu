// Compiled by nvcc where it is found: shared memory, templates, calls, doubles, warps, globals.
#include <cuda_runtime.h>

__device__ __managed__ int managed_value = 3;
__device__ float state[16];
__device__ int initial = 5;
__constant__ double coefficients[5] = {1, 2};

template <class T>
__global__ void reduce(const T* in, T* out, int n) {
  extern __shared__ char raw[];
  T* scratch = reinterpret_cast<T*>(raw);
  const int t = threadIdx.x;
  scratch[t] = t < n ? in[t] : T(0);
  __syncthreads();
  for (int d = blockDim.x / 2; d > 0; d /= 2) {
    if (t < d) scratch[t] += scratch[t + d];
    __syncthreads();
  }
  if (t == 0) atomicAdd(out, scratch[0]);
}
template __global__ void reduce<float>(const float*, float*, int);
template __global__ void reduce<double>(const double*, double*, int);

struct Shape {
  virtual __device__ int sides() { return 1; }
  int extra = 0;
};
struct Square : Shape {
  __device__ int sides() override { return 4 + extra; }
};

__global__ void __launch_bounds__(256, 2) virtuals(int* out, int choice) {
  static __device__ int calls;
  Square square;
  Shape plain;
  Shape* shape = choice ? &square : &plain;
  out[threadIdx.x] = shape->sides() + managed_value + calls++;
  state[choice] = sin(static_cast<double>(choice)) + coefficients[choice] + initial++;
}

__global__ void warps(unsigned* x) {
  unsigned v = x[threadIdx.x];
  int all = 0;
  v = __shfl_xor_sync(~0u, v, 1) + __ballot_sync(~0u, v & 1);
  v += __match_all_sync(~0u, v, &all) + all;
  x[threadIdx.x] = v;
  asm volatile("{ .reg .pred q; setp.eq.u32 q, %0, 0; @q bra L; nanosleep.u32 10; L: }" ::"r"(v));
}

__global__ void mathematics(double* d, float* f, long long* l) {
  const int t = threadIdx.x;
  d[t] = exp(d[t]) + log(d[t + 1]) + pow(d[t + 2], 1.5) + sqrt(d[t + 3]) + fma(d[t], d[t], 2.0);
  f[t] = sinf(f[t]) + __expf(f[t + 1]) + rsqrtf(f[t + 2]) + fmodf(f[t + 3], 3.0f);
  l[t] = l[t] / (l[t + 1] | 1) + __popcll(l[t]) + __clzll(l[t]) + __brevll(l[t]);
}

__global__ void vectors(float4* a, const double2* __restrict__ b, uchar4* c, short2* s) {
  const int t = threadIdx.x;
  const float4 v = a[t];
  const double2 w = b[t];
  a[t] = make_float4(v.w + w.x, v.z, v.y, v.x + w.y);
  c[t] = make_uchar4(c[t].w, c[t].z, s[t].x, s[t].y);
}
