// Shared by the kernels of the random programs and the host.
#pragma once

inline constexpr unsigned kCounters = 3000;  // words of the module's own variable
inline constexpr unsigned kTargets = 4;

// Given by value: pointers that are written through as members.
struct Moved {
  const unsigned* from;
  unsigned* to;
  unsigned count;
  unsigned salt;
};
struct Nested {
  unsigned salt;
  Moved moved;
  struct {
    unsigned* mark;
    unsigned long long value;
  } end;
};
struct Targets {
  unsigned* at[kTargets];
  unsigned count;
  unsigned value;
};
// Lies in device memory: the only way to `words` is through it.
struct Box {
  unsigned* words;
  unsigned count;
  unsigned value;
  Box* next;
};
