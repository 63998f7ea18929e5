// A filter over a signal that arrives in chunks.
#include "pipeline.h"

// history: the last kTaps - 1 samples of the chunk before, then this chunk.
KERNEL void filter(const float* history, const float* taps, float* output) {
  output[global_index()] = filtered(history, taps, global_index());
}

// Keeps the chunk's tail for the next one and folds the output into the state, a lane a column.
KERNEL void carry(float* history, const float* output, unsigned* state) {
  const unsigned at = thread_index();
  const float tail = at < kTaps - 1 ? history[kSamples + at] : 0;
  __syncthreads();
  if (at < kTaps - 1) history[at] = tail;
  unsigned sum = state[at];
  for (unsigned sample = at; sample < kSamples; sample += block_size()) {
    sum = folded(sum, output[sample]);
  }
  state[at] = sum;
}
