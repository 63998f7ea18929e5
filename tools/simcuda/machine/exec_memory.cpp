// Loads and stores. An access first finds the host memory of all its lanes (one comparison for the
// whole warp where they lie in one extent, which is the rule), then moves the values.
#include "tools/simcuda/machine.h"
#include "tools/simcuda/machine/lanes.h"

namespace simcuda::SIMCUDA_ISA {
namespace {

struct Access {
  // Lane i is at host + i * (bytes of an access), for all lanes; `at` is not filled in.
  bool contiguous = false;
  std::byte* host = nullptr;
  std::byte* at[kLanes];  // inactive lanes: as an active one
};

const Extent* find_extent(const WarpView& w, uint64_t address) {
  size_t low = 0, high = w.extent_count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (w.extents[middle].address <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return nullptr;
  const Extent& e = w.extents[low - 1];
  return address - e.address < e.size ? &e : nullptr;
}

inline bool holds(const Extent& e, uint64_t address, uint64_t bytes) {
  return address - e.address < e.size && e.size - (address - e.address) >= bytes;
}

struct Request {
  alignas(64) uint64_t address[kLanes];
  uint32_t mask;
  uint32_t first;  // the lowest active lane
  uint32_t bytes;  // of each lane
  bool write;
};

// Inactive lanes take the address of the first active one: it is the one to name.
bool fail(WarpView& w, AccessFault fault, const Request& q, uint64_t address, uint32_t lane) {
  w.fault = fault;
  w.fault_address = address;
  w.fault_bytes = q.bytes;
  w.fault_lane = (q.mask >> lane) & 1 ? lane : q.first;
  w.fault_write = q.write;
  return false;
}

bool misaligned(WarpView& w, const Request& q) {
  for (uint32_t i = 0; i < kLanes; ++i) {
    if ((q.address[i] & (q.bytes - 1)) != 0) {
      return fail(w, AccessFault::kMisaligned, q, q.address[i], i);
    }
  }
  return false;
}

// Counts what an access touches; `e` is where its first lane's memory is.
inline void count(WarpView& w, const Request& q, const Extent& e) {
  uint64_t sectors = 1;
  if (q.mask == kAllLanes) {
    for (uint32_t i = 1; i < kLanes; ++i) {
      sectors += uint64_t((q.address[i] ^ q.address[i - 1]) >= kSectorBytes);
    }
  } else {
    uint64_t last = q.address[q.first];
    for (uint32_t left = q.mask & (q.mask - 1); left != 0; left &= left - 1) {
      const uint64_t address = q.address[uint32_t(__builtin_ctz(left))];
      sectors += uint64_t((address ^ last) >= kSectorBytes);
      last = address;
    }
  }
  (e.on_host ? w.traffic->host_sectors : w.traffic->device_sectors) += sectors;
}

// One stretch of memory for all lanes; `base` is what its addresses are reported from.
bool in_extent(WarpView& w, const Request& q, const Extent& e, uint64_t base, Access& x) {
  uint64_t bad = e.size < q.bytes ? 1 : 0;
  const uint64_t last = e.size - q.bytes;
  SIMCUDA_LANES bad |= uint64_t(q.address[i] - e.address > last);
  if (bad == 0) {
    SIMCUDA_LANES x.at[i] = e.host + (q.address[i] - e.address);
    return true;
  }
  for (uint32_t i = 0; i < kLanes; ++i) {
    if (!holds(e, q.address[i], q.bytes)) {
      return fail(w, AccessFault::kOutOfBounds, q, q.address[i] + base, i);
    }
  }
  return false;
}

bool in_global(WarpView& w, const Op& op, const Request& q, Access& x) {
  const Extent*& hint = w.hints[op.hint % kHints];
  const uint64_t start = q.address[q.first];
  if (hint == nullptr || !holds(*hint, start, q.bytes)) hint = find_extent(w, start);
  if (hint == nullptr) {
    return fail(w, AccessFault::kOutOfBounds, q, start, q.first);
  }
  uint64_t outside = 0;
  const uint64_t from = hint->address;
  const uint64_t size = hint->size;
  SIMCUDA_LANES outside |=
      uint64_t(q.address[i] - from >= size) | uint64_t(size - (q.address[i] - from) < q.bytes);
  if (outside == 0) {
    if (q.write && !hint->writable) {
      return fail(w, AccessFault::kReadOnly, q, start, q.first);
    }
    count(w, q, *hint);
    std::byte* host = hint->host;
    SIMCUDA_LANES x.at[i] = host + (q.address[i] - from);
    return true;
  }
  for (uint32_t i = 0; i < kLanes; ++i) {
    const Extent* e = find_extent(w, q.address[i]);
    if (e == nullptr || !holds(*e, q.address[i], q.bytes)) {
      return fail(w, AccessFault::kOutOfBounds, q, q.address[i], i);
    }
    if (q.write && !e->writable) {
      return fail(w, AccessFault::kReadOnly, q, q.address[i], i);
    }
    x.at[i] = e->host + (q.address[i] - e->address);
  }
  count(w, q, *hint);
  return true;
}

bool in_local(WarpView& w, const Request& q, Access& x) {
  for (uint32_t i = 0; i < kLanes; ++i) {
    const uint64_t a = q.address[i];
    if (a >= w.local_bytes || w.local_bytes - a < q.bytes) {
      return fail(w, AccessFault::kOutOfBounds, q, a + kLocalWindow, i);
    }
    // An inactive lane takes the address of an active one, in its own memory.
    x.at[i] = w.local + i * w.local_bytes + a;
  }
  return true;
}

bool in_shared(WarpView& w, const Request& q, Access& x) {
  return in_extent(w, q, Extent{0, w.shared_bytes, w.shared, true}, kSharedWindow, x);
}

bool in_parameters(WarpView& w, const Request& q, Access& x) {
  if (q.write) {
    return fail(w, AccessFault::kReadOnly, q, q.address[q.first] + kParameterWindow, q.first);
  }
  return in_extent(w, q, Extent{0, w.parameter_bytes, const_cast<std::byte*>(w.parameters), false},
                   kParameterWindow, x);
}

// Windows are looked at lane by lane: lanes may point to different spaces.
bool in_windows(WarpView& w, const Op& op, const Request& q, Access& x) {
  for (uint32_t i = 0; i < kLanes; ++i) {
    Request one = q;
    const uint64_t a = q.address[i];
    uint64_t window = 0;
    if (a - kSharedWindow < kWindowBytes) {
      window = kSharedWindow;
    } else if (a - kLocalWindow < kWindowBytes) {
      window = kLocalWindow;
    } else if (a - kParameterWindow < kWindowBytes) {
      window = kParameterWindow;
    }
    for (uint64_t& address : one.address) address = a - window;
    one.first = i;
    one.mask = 1u << i;
    Access there;
    const bool ok = window == kSharedWindow      ? in_shared(w, one, there)
                    : window == kLocalWindow     ? in_local(w, one, there)
                    : window == kParameterWindow ? in_parameters(w, one, there)
                                                 : in_global(w, op, one, there);
    if (!ok) {
      w.fault_lane = (q.mask >> i) & 1 ? i : q.first;
      return false;
    }
    x.at[i] = there.at[i];
  }
  return true;
}

// Global memory, and generic addresses outside the windows.
bool in_global_or_contiguous(WarpView& w, const Op& op, const Request& q, Access& x) {
  if (q.mask == kAllLanes) {
    uint64_t irregular = 0;
    const uint64_t start = q.address[0];
    SIMCUDA_LANES irregular |= q.address[i] - start - i * uint64_t(q.bytes);
    if (irregular == 0) {
      const Extent*& hint = w.hints[op.hint % kHints];
      const uint64_t all = uint64_t(q.bytes) * kLanes;
      if (hint == nullptr || !holds(*hint, start, all)) hint = find_extent(w, start);
      if (hint != nullptr && holds(*hint, start, all) && (hint->writable || !q.write)) {
        (hint->on_host ? w.traffic->host_sectors : w.traffic->device_sectors) +=
            (start + all - 1) / kSectorBytes - start / kSectorBytes + 1;
        x.contiguous = true;
        x.host = hint->host + (start - hint->address);
        return true;
      }
    }
  }
  return in_global(w, op, q, x);
}

bool resolve(WarpView& w, const Op& op, uint32_t mask, uint32_t bytes, bool write, Access& x) {
  Request q;
  q.mask = mask;
  q.bytes = bytes;
  q.write = write;
  q.first = uint32_t(__builtin_ctz(mask));
  const auto space = MemorySpace(op.code);
  const uint64_t add =
      uint64_t(op.immediate) + (op.flags & kFrameRelative ? w.frame_base : uint64_t(0));
  if (op.slot[kAddressSlot] == kNoSlot) {
    SIMCUDA_LANES q.address[i] = add;
  } else if (op.flags & kAddress32) {
    const uint32_t* base = source<uint32_t>(w, op.slot[kAddressSlot]);
    // Shared and local memory and parameters have addresses of 32 bits, which wrap.
    const bool wide = space == MemorySpace::kGlobal || space == MemorySpace::kGeneric;
    const uint64_t bits = wide ? ~uint64_t(0) : uint64_t(~uint32_t(0));
    SIMCUDA_LANES q.address[i] = (base[i] + add) & bits;
  } else {
    const uint64_t* base = source<uint64_t>(w, op.slot[kAddressSlot]);
    SIMCUDA_LANES q.address[i] = base[i] + add;
  }
  if (mask != kAllLanes) {
    const uint64_t valid = q.address[q.first];
    SIMCUDA_LANES q.address[i] = (mask >> i) & 1 ? q.address[i] : valid;
  }
  uint64_t low = 0;
  SIMCUDA_LANES low |= q.address[i];
  if ((low & (bytes - 1)) != 0) return misaligned(w, q);
  switch (space) {
    case MemorySpace::kGlobal:
      return in_global_or_contiguous(w, op, q, x);
    case MemorySpace::kShared:
      return in_shared(w, q, x);
    case MemorySpace::kLocal:
      return in_local(w, q, x);
    case MemorySpace::kParam:
      return in_parameters(w, q, x);
    case MemorySpace::kGeneric:
      break;
  }
  uint64_t windows = 0;
  SIMCUDA_LANES windows |=
      uint64_t(q.address[i] - kSharedWindow < kParameterWindow + kWindowBytes - kSharedWindow);
  return windows ? in_windows(w, op, q, x) : in_global_or_contiguous(w, op, q, x);
}

template <class T>
inline T get(const std::byte* at, bool strong) {
  if (strong) return __atomic_load_n(reinterpret_cast<const T*>(at), __ATOMIC_RELAXED);
  T v;
  __builtin_memcpy(&v, at, sizeof(T));
  return v;
}
template <class T>
inline void put(std::byte* at, T v, bool strong) {
  if (strong) {
    __atomic_store_n(reinterpret_cast<T*>(at), v, __ATOMIC_RELAXED);
  } else {
    __builtin_memcpy(at, &v, sizeof(T));
  }
}

// A value from memory, extended by its sign or zeros to the register.
template <class T, class R>
inline R extended(T v) {
  if constexpr (kIsSigned<T>) return R(typename Related<R>::S(v));
  return R(v);
}

template <class T, class R>
bool load(WarpView& w, const Op& op, uint32_t mask) {
  Access x;
  const auto count = uint32_t(op.vector);
  const bool strong = (op.flags & kStrong) != 0;
  if (!resolve(w, op, mask, uint32_t(sizeof(T)) * count, false, x)) return false;
  for (uint32_t e = 0; e < count; ++e) {
    if (op.slot[e] == kNoSlot) continue;
    R* to = destination<R>(w, op.slot[e]);
    const size_t skip = e * sizeof(T);
    alignas(64) R r[kLanes];
    if (strong) {
      for (uint32_t i = 0; i < kLanes; ++i) {
        const std::byte* at = x.contiguous ? x.host + i * sizeof(T) * count : x.at[i];
        r[i] = extended<T, R>(get<T>(at + skip, true));
      }
    } else if (x.contiguous) {
      const std::byte* from = x.host + skip;
      SIMCUDA_LANES r[i] = extended<T, R>(get<T>(from + i * sizeof(T) * count, false));
    } else {
      for (uint32_t i = 0; i < kLanes; ++i) r[i] = extended<T, R>(get<T>(x.at[i] + skip, false));
    }
    write(to, r, mask);
  }
  return true;
}

// T is the unsigned type of the bytes stored: the low bits of the register.
template <class T, class R>
bool store(WarpView& w, const Op& op, uint32_t mask) {
  Access x;
  const auto count = uint32_t(op.vector);
  const bool strong = (op.flags & kStrong) != 0;
  if (!resolve(w, op, mask, uint32_t(sizeof(T)) * count, true, x)) return false;
  if (x.contiguous && count == 1 && !strong) {
    const R* from = source<R>(w, op.slot[0]);
    SIMCUDA_LANES put<T>(x.host + i * sizeof(T), T(from[i]), false);
    return true;
  }
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const auto i = uint32_t(__builtin_ctz(left));
    std::byte* at = x.contiguous ? x.host + i * sizeof(T) * count : x.at[i];
    for (uint32_t e = 0; e < count; ++e) {
      put<T>(at + e * sizeof(T), T(source<R>(w, op.slot[e])[i]), strong);
    }
  }
  return true;
}

bool load_wide(WarpView& w, const Op& op, uint32_t mask) {
  std::byte* at[kLanes];
  if (!locate(w, op, mask, 2 * sizeof(uint64_t), false, at)) return false;
  if (op.slot[0] == kNoSlot) return true;
  std::byte* to = w.registers + op.slot[0];
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const auto i = uint32_t(__builtin_ctz(left));
    if (op.flags & kStrong) {
      const Unsigned128 value = swap_wide(at[i], 0, 0);
      __builtin_memcpy(to + 16 * i, &value, 16);
    } else {
      __builtin_memcpy(to + 16 * i, at[i], 16);
    }
  }
  return true;
}

bool store_wide(WarpView& w, const Op& op, uint32_t mask) {
  std::byte* at[kLanes];
  if (!locate(w, op, mask, 2 * sizeof(uint64_t), true, at)) return false;
  const auto* from = source<std::byte>(w, op.slot[0]);
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const auto i = uint32_t(__builtin_ctz(left));
    if (op.flags & kStrong) {
      Unsigned128 value, old = 0;
      __builtin_memcpy(&value, from + 16 * i, 16);
      for (Unsigned128 seen = 0; (old = swap_wide(at[i], seen, value)) != seen; seen = old) {
      }
    } else {
      __builtin_memcpy(at[i], from + 16 * i, 16);
    }
  }
  return true;
}

template <class T>
Handler load_as(uint32_t bits) {
  if constexpr (sizeof(T) <= 2) {
    if (bits == 16) return load<T, uint16_t>;
  }
  if constexpr (sizeof(T) <= 4) {
    if (bits == 32) return load<T, uint32_t>;
  }
  return bits == 64 ? load<T, uint64_t> : nullptr;
}

template <class T>
Handler store_as(uint32_t bits) {
  if constexpr (sizeof(T) <= 2) {
    if (bits == 16) return store<T, uint16_t>;
  }
  if constexpr (sizeof(T) <= 4) {
    if (bits == 32) return store<T, uint32_t>;
  }
  return bits == 64 ? store<T, uint64_t> : nullptr;
}

}  // namespace

bool pack_wide(WarpView& w, const Op& op, uint32_t mask) {
  const uint64_t* low = source<uint64_t>(w, op.slot[1]);
  const uint64_t* high = source<uint64_t>(w, op.slot[2]);
  uint64_t* to = destination<uint64_t>(w, op.slot[0]);
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const auto i = uint32_t(__builtin_ctz(left));
    to[2 * i] = low[i];
    to[2 * i + 1] = high[i];
  }
  return true;
}

bool unpack_wide(WarpView& w, const Op& op, uint32_t mask) {
  const uint64_t* from = source<uint64_t>(w, op.slot[2]);
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const auto i = uint32_t(__builtin_ctz(left));
    for (uint32_t half = 0; half < 2; ++half) {
      if (op.slot[half] != kNoSlot) destination<uint64_t>(w, op.slot[half])[i] = from[2 * i + half];
    }
  }
  return true;
}

bool move_wide(WarpView& w, const Op& op, uint32_t mask) {
  const std::byte* from = source<std::byte>(w, op.slot[1]);
  for (uint32_t left = mask; left != 0; left &= left - 1) {
    const auto i = uint32_t(__builtin_ctz(left));
    __builtin_memmove(w.registers + op.slot[0] + 16 * i, from + 16 * i, 16);
  }
  return true;
}

Handler load_handler(Num type, uint32_t bits) {
  if (bits == 128) return type == Num::kU64 ? load_wide : nullptr;
  switch (type) {
    case Num::kU8:
      return load_as<uint8_t>(bits);
    case Num::kS8:
      return load_as<int8_t>(bits);
    case Num::kU16:
      return load_as<uint16_t>(bits);
    case Num::kS16:
      return load_as<int16_t>(bits);
    case Num::kF32:
    case Num::kU32:
      return load_as<uint32_t>(bits);
    case Num::kS32:
      return load_as<int32_t>(bits);
    case Num::kF64:
    case Num::kS64:
    case Num::kU64:
      return load_as<uint64_t>(bits);
  }
  return nullptr;
}

Handler store_handler(uint32_t bytes, uint32_t bits) {
  switch (bytes) {
    case 1:
      return store_as<uint8_t>(bits);
    case 2:
      return store_as<uint16_t>(bits);
    case 4:
      return store_as<uint32_t>(bits);
    case 8:
      return store_as<uint64_t>(bits);
    case 16:
      return bits == 128 ? store_wide : nullptr;
    default:
      return nullptr;
  }
}

bool locate(WarpView& w, const Op& op, uint32_t mask, uint32_t bytes, bool write, std::byte** at) {
  Access x;
  if (!resolve(w, op, mask, bytes, write, x)) return false;
  for (uint32_t i = 0; i < kLanes; ++i) at[i] = x.contiguous ? x.host + i * bytes : x.at[i];
  return true;
}

}  // namespace simcuda::SIMCUDA_ISA
