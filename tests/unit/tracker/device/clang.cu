// Compiled by clang without any CUDA headers: what its back end writes is what is tested.
#define __constant__ __attribute__((constant))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))

struct Field {
  float* values;
  int count;
  double scale;
};

__device__ int counter = 7;
__device__ int* counter_address = &counter;
__constant__ float table[4] = {1.0f, 2.0f, 3.0f};
__device__ double matrix[3][2] = {{1.0, 2.0}, {3.0}};

__device__ __attribute__((noinline)) float iterate(float x, int n) {
  for (int i = 0; i < n; ++i) x = x * x + table[i & 3];
  return x;
}

__device__ float (*chosen)(float, int) = iterate;

template <class T>
__device__ T larger(T a, T b) {
  return a > b ? a : b;
}

extern "C" __global__ void calls(Field field, float* out, int which) {
  __shared__ float tile[64];
  const int t = __nvvm_read_ptx_sreg_tid_x();
  tile[t] = field.values[t];
  __nvvm_bar_sync(0);
  float v = chosen(tile[63 - t], which);
  switch (which) {
    case 0:
      v += 1;
      break;
    case 1:
      v *= 2;
      break;
    case 2:
      v -= iterate(v, 3);
      break;
    case 3:
      v = v / 3;
      break;
    case 4:
      v = v * v * v;
      break;
    case 5:
      v = -v;
      break;
  }
  int local[8];
  for (int i = 0; i < 8; ++i) local[(i * which) & 7] = i + t;
  out[t] = v + static_cast<float>(local[which & 7] + field.scale);
  ++counter;
}

extern "C" __global__ void arithmetic(double* d, unsigned long long* u, short* s, char* c) {
  const int t =
      __nvvm_read_ptx_sreg_tid_x() + __nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x();
  d[t] = larger(d[t] / 3.0 + matrix[t % 3][1], 1.0 / d[t + 1]);
  u[t] = u[t] / (u[t + 1] | 1) + (u[t] >> (t & 63)) + static_cast<unsigned long long>(d[t]);
  s[t] = static_cast<short>(s[t] * c[t] - t);
  c[t] = static_cast<char>(s[t] < 0 ? -s[t] : s[t] + *counter_address);
  __nvvm_atom_add_gen_i(&counter, t);
}

// Where pointers go, for the analysis of what kernels write.
struct Table {
  int* rows[3];
};

extern "C" __global__ void by_index(Table table, int* other, int which) {
  *(which < 3 ? table.rows[which] : other) = which;
}

extern "C" __global__ void by_difference(char* a, char* b, int which) {
  char* end = which ? a : b;
  *(a + (end - a)) = 1;
}

struct Pair {
  const int* from;
  int* to;
};

__device__ __attribute__((noinline)) int* put(Pair pair, int value) {
  *pair.to = *pair.from + value;
  return pair.to + 1;
}

extern "C" __global__ void through_function(int* out, Pair pair, int value) {
  *out = value;
  *put(pair, value) = 2;
}

extern "C" __global__ void chased(int** list, int at) {
  *list[at] = 1;
}

extern "C" __global__ void aligned(float* out, int n) {
  const auto address = reinterpret_cast<unsigned long long>(out);
  auto* start = reinterpret_cast<float*>((address + 15) & ~15ull);
  for (int i = 0; i < n; ++i) start[i] = static_cast<float>((address & 15) / 4);
}
