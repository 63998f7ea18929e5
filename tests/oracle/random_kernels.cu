// Kernels that write in every way that there is to write: through parameters, members of structs,
// device functions, pointers that lie in device memory, variables of the module. All arithmetic is
// on whole numbers and every sum is of a kind whose order does not matter, so that a program
// computes the same in every run.
#include "random_kernels.h"

#include "tests/oracle/random_device.h"

DEVICE unsigned counters[kCounters];
DEVICE unsigned* target;
CONSTANT unsigned salts[16];

KERNEL void fill(unsigned* to, unsigned count, unsigned value) {
  for (unsigned i = global_index(); i < count; i += threads()) to[i] = mixed(value, i);
}

// Every `step`-th word: few zones, or some bytes of each.
KERNEL void touch(unsigned* to, unsigned count, unsigned step, unsigned value) {
  for (unsigned i = global_index(); i < count; i += threads()) {
    to[i * step] = mixed(to[i * step], value + i);
  }
}

KERNEL void touch_bytes(unsigned char* to, unsigned count, unsigned value) {
  for (unsigned i = global_index(); i < count; i += threads()) {
    to[i] = static_cast<unsigned char>(to[i] * 5 + value + i);
  }
}

KERNEL void fill_wide(unsigned* to, unsigned count, unsigned value) {
  using Four = unsigned __attribute__((ext_vector_type(4)));
  for (unsigned i = global_index(); i < count / 4; i += threads()) {
    reinterpret_cast<Four*>(to)[i] = Four{value, i, value ^ i, mixed(value, i)};
  }
}

KERNEL void move(Moved moved) {
  for (unsigned i = global_index(); i < moved.count; i += threads()) {
    moved.to[i] = mixed(moved.from[i], moved.salt);
  }
}

KERNEL void move_nested(unsigned before, Nested nested, unsigned after) {
  const Moved& moved = nested.moved;
  for (unsigned i = global_index(); i < moved.count; i += threads()) {
    moved.to[i] = mixed(moved.from[i] + before, nested.salt ^ after ^ salts[i % 16]);
  }
  if (global_index() == 0) *nested.end.mark = static_cast<unsigned>(nested.end.value >> 7);
}

// Which member is written through is known only when it runs.
KERNEL void spread(Targets targets) {
  for (unsigned i = global_index(); i < targets.count; i += threads()) {
    targets.at[mixed(i, targets.value) % kTargets][i] = mixed(targets.value, i);
  }
}

KERNEL void either(unsigned* one, unsigned* other, unsigned count, unsigned value) {
  for (unsigned i = global_index(); i < count; i += threads()) {
    unsigned* to = (mixed(value, i) & 4) != 0 ? one : other;
    to[i] += value;
  }
}

__attribute__((device, noinline)) void store_through(unsigned* to, unsigned at, unsigned value) {
  to[at] = mixed(value, at);
}

KERNEL void call_function(unsigned* to, unsigned count, unsigned value) {
  for (unsigned i = global_index(); i < count; i += threads()) store_through(to, i, value);
}

KERNEL void count_up(unsigned* bins, unsigned count, const unsigned* from, unsigned words) {
  for (unsigned i = global_index(); i < words; i += threads()) {
    atomic_add(bins + mixed(from[i], i) % count, 1 + i % 3);
  }
}

// Reads much and writes one word.
KERNEL void sum(const unsigned* from, unsigned count, unsigned* to) {
  unsigned total = 0;
  for (unsigned i = global_index(); i < count; i += threads()) total += mixed(from[i], i);
  atomic_add(to, total);
}

KERNEL void reverse(unsigned* words, unsigned count) {
  SHARED static unsigned part[64];
  const unsigned thread = thread_index();
  for (unsigned from = block_index() * 64; from + 64 <= count; from += block_count() * 64) {
    part[thread] = words[from + thread];
    __syncthreads();
    words[from + thread] = part[63 - thread] + from;
    __syncthreads();
  }
}

// Takes long, and writes at its end.
KERNEL void ponder(unsigned* to, unsigned count, unsigned rounds, unsigned value) {
  unsigned sum = value;
  for (unsigned i = 0; i < rounds; ++i) sum = mixed(sum, i);
  for (unsigned i = global_index(); i < count; i += threads()) to[i] = mixed(to[i], sum);
}

// ---- through pointers that lie in device memory

KERNEL void through_table(unsigned* const* table, unsigned pointers, unsigned words,
                          unsigned value) {
  for (unsigned i = global_index(); i < pointers * words; i += threads()) {
    unsigned* to = table[i / words] + i % words;
    *to = mixed(*to, value);
  }
}

KERNEL void through_boxes(Box* first) {
  for (Box* box = first; box != nullptr; box = box->next) {
    for (unsigned i = global_index(); i < box->count; i += threads()) {
      box->words[i] = mixed(box->words[i], box->value);
    }
  }
}

KERNEL void aim(unsigned* at) {
  if (global_index() == 0) target = at;
}

KERNEL void through_target(unsigned count, unsigned value) {
  for (unsigned i = global_index(); i < count; i += threads()) target[i] = mixed(target[i], value);
}

// ---- the module's own variables

KERNEL void count_in_module(unsigned from, unsigned count, unsigned value) {
  for (unsigned i = global_index(); i < count; i += threads()) {
    counters[(from + i) % kCounters] += value + i;
  }
}
