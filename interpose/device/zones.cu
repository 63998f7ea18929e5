// The kernels that run in the program's context: fingerprints of zones, and the gathering of
// scattered zones into one place. Compiled to PTX by clang alone.
//
// They use no local memory, since a driver may synchronise the device to make room for it, and
// they read no byte outside of what they are given: a fault would end the program's context.
#include "interpose/device/zones.h"

#define KERNEL extern "C" __attribute__((global))
#define DEVICE __attribute__((device)) inline
#define CONSTANT __attribute__((constant)) const
#define GLOBAL __attribute__((address_space(1)))

namespace {

using gpusnap::ZonePiece;
using gpusnap::ZoneSpan;

using u64 = unsigned long long;
using TwoWords = u64 __attribute__((ext_vector_type(2)));

template <class T>
DEVICE T load(u64 address) {
  return *reinterpret_cast<const GLOBAL T*>(address);
}
template <class T>
DEVICE void store(u64 address, T value) {
  *reinterpret_cast<GLOBAL T*>(address) = value;
}

// ---- XXH3 with 64 bits and seed 0, for inputs of more than 240 bytes, as its specification has
// it: github.com/Cyan4973/xxHash, doc/xxhash_spec.md, "XXH3 Algorithm for Large Inputs". Eight
// accumulators take in stripes of 64 bytes; after a block of 16 stripes they are scrambled.
// Lane t of four keeps the accumulators 2t and 2t+1, which depend on no other's bytes: 16 of every
// stripe. The four come together only in the end.

constexpr u64 kStripe = 64, kBlockStripes = 16, kBlock = kStripe * kBlockStripes;
constexpr unsigned kLanes = 4, kZonesOfWarp = 32 / kLanes;
constexpr u64 kSecretBytes = 192;
constexpr u64 kPrime32[] = {0x9e3779b1, 0x85ebca77, 0xc2b2ae3d};
constexpr u64 kPrime64[] = {0x9e3779b185ebca87, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9,
                            0x85ebca77c2b2ae63, 0x27d4eb2f165667c5};

struct Words {
  u64 at[kSecretBytes / 8];
};

constexpr Words kDefaultSecret = {{
    0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072,
    0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82, 0x8e2443f7744608b8, 0x4c263a81e69035e0,
    0xcb00c391bb52283c, 0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938,
    0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a, 0x647378d9c97e9fc8,
    0xc3ebd33483acc5ea, 0xeb6313faffa081c5, 0x49daf0b751dd0d17, 0x9e68d429265516d3,
    0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af,
}};

// Eight words of the secret from a byte that need not be a word's first.
constexpr Words secret_from(u64 byte) {
  Words words = {};
  for (u64 i = 0; i < 8; ++i) {
    const u64 word = byte / 8 + i, shift = byte % 8 * 8;
    words.at[i] = kDefaultSecret.at[word] >> shift | kDefaultSecret.at[word + 1] << (64 - shift);
  }
  return words;
}

CONSTANT Words kSecret = kDefaultSecret;
CONSTANT Words kLastSecret = secret_from(kSecretBytes - kStripe - 7);
CONSTANT Words kMergeSecret = secret_from(11);
CONSTANT u64 kStart[8] = {kPrime32[2], kPrime64[0], kPrime64[1], kPrime64[2],
                          kPrime64[3], kPrime32[1], kPrime64[4], kPrime32[0]};

struct Pair {
  u64 low, high;
};

DEVICE Pair load_aligned(u64 address) {
  const TwoWords words = load<TwoWords>(address);
  return {words.x, words.y};
}

// 16 bytes from anywhere; those at or after `end` count as zeros and are not read.
DEVICE Pair load_bytes(u64 address, u64 end) {
  Pair pair = {0, 0};
#pragma unroll
  for (unsigned i = 0; i < 8; ++i) {
    if (address + i < end) {
      pair.low |= static_cast<u64>(load<unsigned char>(address + i)) << (8 * i);
    }
    if (address + 8 + i < end) {
      pair.high |= static_cast<u64>(load<unsigned char>(address + 8 + i)) << (8 * i);
    }
  }
  return pair;
}

// The compiler would multiply 64 bits by 64.
DEVICE u64 product_of_halves(u64 value) {
  u64 product;
  asm("mul.wide.u32 %0, %1, %2;"
      : "=l"(product)
      : "r"(static_cast<unsigned>(value)), "r"(static_cast<unsigned>(value >> 32)));
  return product;
}

DEVICE void take_in(Pair& sums, Pair data, u64 key_low, u64 key_high) {
  sums.low += data.high + product_of_halves(data.low ^ key_low);
  sums.high += data.low + product_of_halves(data.high ^ key_high);
}

DEVICE u64 scrambled(u64 sum, u64 key) {
  return (sum ^ sum >> 47 ^ key) * kPrime32[0];
}

// The keys of lane t, all in registers: word t * 2 + n of the secret for its stripe n.
struct Keys {
  u64 at[kBlockStripes + 2];
};

// The first `stripes` of a block. All loads come before what is done with them, so that they are on
// their way together.
template <bool kWhole>
DEVICE void take_in_block(Pair& sums, u64 address, const Keys& keys, u64 stripes) {
  Pair data[kBlockStripes];
#pragma unroll
  for (unsigned n = 0; n < kBlockStripes; ++n) {
    if (kWhole || n < stripes) data[n] = load_aligned(address + n * kStripe);
  }
#pragma unroll
  for (unsigned n = 0; n < kBlockStripes; ++n) {
    if (kWhole || n < stripes) take_in(sums, data[n], keys.at[n], keys.at[n + 1]);
  }
  if (kWhole) {
    sums.low = scrambled(sums.low, keys.at[kBlockStripes]);
    sums.high = scrambled(sums.high, keys.at[kBlockStripes + 1]);
  }
}

// All but the last stripe of a zone whose address is a multiple of 16. `address`: of the lane's
// first 16 bytes.
DEVICE void take_in_aligned(Pair& sums, unsigned lane, u64 address, u64 size) {
  Keys keys;
#pragma unroll
  for (unsigned n = 0; n < kBlockStripes + 2; ++n) keys.at[n] = kSecret.at[lane * 2 + n];
  const u64 blocks = (size - 1) / kBlock;
  for (u64 i = 0; i < blocks; ++i) take_in_block<true>(sums, address + i * kBlock, keys, 0);
  take_in_block<false>(sums, address + blocks * kBlock, keys, (size - 1) % kBlock / kStripe);
}

// The same for any address; what follows `end` counts as zeros.
DEVICE void take_in_bytes(Pair& sums, unsigned lane, u64 address, u64 end, u64 size) {
  const u64 stripes = (size - 1) / kStripe;
  for (u64 i = 0; i < stripes; ++i) {
    const unsigned key = lane * 2 + static_cast<unsigned>(i % kBlockStripes);
    take_in(sums, load_bytes(address + i * kStripe, end), kSecret.at[key], kSecret.at[key + 1]);
    if (i % kBlockStripes == kBlockStripes - 1) {
      sums.low = scrambled(sums.low, kSecret.at[lane * 2 + kBlockStripes]);
      sums.high = scrambled(sums.high, kSecret.at[lane * 2 + kBlockStripes + 1]);
    }
  }
}

// The part that a lane adds to the zone's fingerprint. `bytes` may be 0.
DEVICE u64 share_of_lane(unsigned lane, u64 zone, u64 bytes) {
  const u64 size = bytes > gpusnap::kShortZone ? bytes : gpusnap::kPaddedZone;
  const u64 address = zone + lane * 16, end = zone + bytes, last = address + size - kStripe;
  Pair sums = {kStart[lane * 2], kStart[lane * 2 + 1]};
  if (zone % 16 == 0 && bytes == size) {
    take_in_aligned(sums, lane, address, size);
  } else {
    take_in_bytes(sums, lane, address, end, size);
  }
  const bool plain = last % 16 == 0 && bytes == size;
  take_in(sums, plain ? load_aligned(last) : load_bytes(last, end), kLastSecret.at[lane * 2],
          kLastSecret.at[lane * 2 + 1]);
  const u64 low = sums.low ^ kMergeSecret.at[lane * 2];
  const u64 high = sums.high ^ kMergeSecret.at[lane * 2 + 1];
  return (low * high ^ __nvvm_mulhi_ull(low, high)) + (lane == 0 ? size * kPrime64[0] : 0);
}

DEVICE u64 finished(u64 hash) {
  hash = (hash ^ hash >> 37) * 0x165667919e3779f9;
  return hash ^ hash >> 32;
}

DEVICE u64 of_neighbour(u64 value, int distance) {
  const auto low =
      static_cast<unsigned>(__nvvm_shfl_sync_bfly_i32(-1u, static_cast<int>(value), distance, 31));
  const auto high = static_cast<unsigned>(
      __nvvm_shfl_sync_bfly_i32(-1u, static_cast<int>(value >> 32), distance, 31));
  return low | static_cast<u64>(high) << 32;
}

// The last span whose first zone is not after `zone`; the first one when there is none.
DEVICE unsigned find_span(u64 spans, unsigned count, u64 zone) {
  unsigned low = 0;
  for (unsigned high = count; high - low > 1;) {
    const unsigned middle = low + (high - low) / 2;
    const u64 first = spans + middle * sizeof(ZoneSpan) + __builtin_offsetof(ZoneSpan, first);
    if (load<u64>(first) <= zone) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// ---- gathering

// Whole units of T, by all threads of the block.
template <class T>
DEVICE void copy_units(u64 from, u64 to, u64 size, unsigned thread, unsigned threads) {
  for (u64 at = thread * sizeof(T); at < size; at += threads * sizeof(T)) {
    store(to + at, load<T>(from + at));
  }
}

// In units of T, to which both addresses lie alike; bytes where no whole unit is left.
template <class T>
DEVICE void copy_piece(u64 from, u64 to, u64 size, unsigned thread, unsigned threads) {
  u64 head = (sizeof(T) - to % sizeof(T)) % sizeof(T);
  if (head > size) head = size;
  const u64 body = (size - head) / sizeof(T) * sizeof(T);
  copy_units<unsigned char>(from, to, head, thread, threads);
  copy_units<T>(from + head, to + head, body, thread, threads);
  copy_units<unsigned char>(from + head + body, to + head + body, size - head - body, thread,
                            threads);
}

}  // namespace

// Four lanes a zone, in steps of the whole grid. All lanes of a warp take every step together, as
// the exchange at its end wants it.
KERNEL void gpusnap_fingerprints(u64 spans, unsigned count, u64 zones, unsigned zone_shift,
                                 u64 out) {
  const unsigned thread =
      __nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() + __nvvm_read_ptx_sreg_tid_x();
  const unsigned lane = thread % kLanes;
  const u64 step =
      static_cast<u64>(__nvvm_read_ptx_sreg_nctaid_x()) * __nvvm_read_ptx_sreg_ntid_x() / kLanes;
  for (u64 at = thread / 32 * kZonesOfWarp; at < zones; at += step) {
    const u64 zone = at + thread % 32 / kLanes;
    u64 hash = 0;
    bool known = false;
    if (zone < zones) {
      const u64 span = spans + find_span(spans, count, zone) * sizeof(ZoneSpan);
      const u64 size = load<u64>(span + __builtin_offsetof(ZoneSpan, size));
      const u64 first = load<u64>(span + __builtin_offsetof(ZoneSpan, first));
      const u64 offset = (zone - first) << zone_shift;
      known = zone >= first && zone - first <= (size - 1) >> zone_shift && size != 0;
      if (known) {
        const u64 left = size - offset, full = 1ull << zone_shift;
        const u64 address = load<u64>(span + __builtin_offsetof(ZoneSpan, address)) + offset;
        hash = share_of_lane(lane, address, left < full ? left : full);
      }
    }
    hash += of_neighbour(hash, 1);
    hash += of_neighbour(hash, 2);
    if (known && lane == 0) store(out + zone * sizeof(u64), finished(hash));
  }
}

// A block a piece, in steps of the whole grid.
KERNEL void gpusnap_gather(u64 pieces, unsigned count) {
  const unsigned thread = __nvvm_read_ptx_sreg_tid_x(), threads = __nvvm_read_ptx_sreg_ntid_x();
  for (unsigned i = __nvvm_read_ptx_sreg_ctaid_x(); i < count;
       i += __nvvm_read_ptx_sreg_nctaid_x()) {
    const u64 piece = pieces + i * sizeof(ZonePiece);
    const u64 from = load<u64>(piece + __builtin_offsetof(ZonePiece, from));
    const u64 to = load<u64>(piece + __builtin_offsetof(ZonePiece, to));
    const u64 size = load<u64>(piece + __builtin_offsetof(ZonePiece, size));
    if ((from ^ to) % sizeof(TwoWords) == 0) {
      copy_piece<TwoWords>(from, to, size, thread, threads);
    } else if ((from ^ to) % sizeof(unsigned) == 0) {
      copy_piece<unsigned>(from, to, size, thread, threads);
    } else {
      copy_piece<unsigned char>(from, to, size, thread, threads);
    }
  }
}
