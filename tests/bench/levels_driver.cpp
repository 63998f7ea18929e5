// SPDX-License-Identifier: Apache-2.0
// One measurement of the levels, for tests/bench/levels.py: prints numbers by name.
//
//   levels_driver code DATA PARITY MIB    bytes of data per second: ISA-L alone and as a part is
//                                         coded, in turn, from main memory and from the cache
//   levels_driver rate BYTES SECONDS      bytes that passed the bound, and the seconds they took
//   levels_driver send MIB                bytes per second of a channel on this machine
#include <isa-l/erasure_code.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tiers/levels/coding.h"
#include "tiers/levels/rate_limit.h"
#include "tiers/levels/remote_store.h"
#include "tiers/levels/shard_server.h"

namespace gpusnap::levels {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void say(const char* name, double value) {
  std::printf("%s\t%.9g\n", name, value);
}

struct Memory {
  explicit Memory(size_t size) : bytes(static_cast<std::byte*>(std::aligned_alloc(4096, size))) {
    if (bytes == nullptr) std::abort();
    uint64_t state = 1;
    for (size_t i = 0; i < size; i += sizeof state) {
      state = state * 6364136223846793005 + 1442695040888963407;
      std::memcpy(bytes + i, &state, sizeof state);
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { std::free(bytes); }
  std::byte* const bytes;
};

// The data of so many stripes, and room for the parity of one.
class Stripes {
 public:
  Stripes(const LevelScheme& scheme, size_t count)
      : scheme_(scheme),
        count_(count),
        data_(count * scheme.data * kBlockStride),
        parity_(scheme.parity * kBlockStride),
        encoder_(scheme) {
    std::vector<uint8_t> matrix(size_t{scheme.shards()} * scheme.data);
    gf_gen_cauchy1_matrix(matrix.data(), static_cast<int>(scheme.shards()),
                          static_cast<int>(scheme.data));
    tables_.resize(size_t{32} * scheme.data * scheme.parity);
    ec_init_tables(static_cast<int>(scheme.data), static_cast<int>(scheme.parity),
                   matrix.data() + size_t{scheme.data} * scheme.data, tables_.data());
  }

  double bytes() const {
    return static_cast<double>(count_ * scheme_.data) * static_cast<double>(kUnitBytes);
  }

  // Nothing but the library's function, block by block of its own best size.
  void isal() {
    std::vector<unsigned char*> from(scheme_.data), to(scheme_.parity);
    for (size_t i = 0; i < scheme_.parity; ++i) {
      to[i] = reinterpret_cast<unsigned char*>(parity_.bytes + i * kBlockStride);
    }
    for (size_t stripe = 0; stripe < count_; ++stripe) {
      for (size_t i = 0; i < scheme_.data; ++i) {
        from[i] = reinterpret_cast<unsigned char*>(block(stripe, i));
      }
      ec_encode_data(static_cast<int>(kUnitBytes), static_cast<int>(scheme_.data),
                     static_cast<int>(scheme_.parity), tables_.data(), from.data(), to.data());
    }
  }

  // Likewise, in one piece: each shard is one long run of bytes.
  void isal_whole(Memory& parity) {
    std::vector<unsigned char*> from(scheme_.data), to(scheme_.parity);
    const size_t shard = count_ * kUnitBytes;
    for (size_t i = 0; i < scheme_.data; ++i) {
      from[i] = reinterpret_cast<unsigned char*>(data_.bytes + i * shard);
    }
    for (size_t i = 0; i < scheme_.parity; ++i) {
      to[i] = reinterpret_cast<unsigned char*>(parity.bytes + i * shard);
    }
    ec_encode_data(static_cast<int>(shard), static_cast<int>(scheme_.data),
                   static_cast<int>(scheme_.parity), tables_.data(), from.data(), to.data());
  }

  void ours() {
    std::vector<const std::byte*> from(scheme_.data);
    std::vector<std::byte*> to(scheme_.parity);
    for (size_t i = 0; i < scheme_.parity; ++i) to[i] = parity_.bytes + i * kBlockStride;
    for (size_t stripe = 0; stripe < count_; ++stripe) {
      for (size_t i = 0; i < scheme_.data; ++i) from[i] = block(stripe, i);
      encoder_.encode(kUnitBytes, from, to);
    }
  }

  // The work of the nodes that hold them besides: all shards' checksums.
  uint64_t checksums() {
    uint64_t sum = 0;
    for (size_t stripe = 0; stripe < count_; ++stripe) {
      for (size_t i = 0; i < scheme_.data; ++i) {
        sum += block_checksum({block(stripe, i), kUnitBytes}, stripe);
      }
      for (size_t i = 0; i < scheme_.parity; ++i) {
        sum += block_checksum({parity_.bytes + i * kBlockStride, kUnitBytes}, stripe);
      }
    }
    return sum;
  }

 private:
  std::byte* block(size_t stripe, size_t i) const {
    return data_.bytes + (stripe * scheme_.data + i) * kBlockStride;
  }

  const LevelScheme scheme_;
  const size_t count_;
  Memory data_;
  Memory parity_;
  Encoder encoder_;
  std::vector<uint8_t> tables_;
};

// The best of some tries: another process may have had the processor.
template <class Work>
double best_rate(double bytes, int tries, Work work) {
  double best = 0;
  for (int i = 0; i < tries; ++i) {
    const Clock::time_point begin = Clock::now();
    work();
    best = std::max(best, bytes / seconds_since(begin));
  }
  return best;
}

void measure_code(const LevelScheme& scheme, size_t bytes) {
  constexpr int kTries = 3;
  constexpr int kRepeats = 400;  // of a stripe that stays in the cache
  const size_t stripe = scheme.data * kUnitBytes;
  Stripes cold(scheme, std::max<size_t>(bytes / stripe, 1));
  Memory parity(std::max<size_t>(bytes / stripe, 1) * kUnitBytes * scheme.parity);
  Stripes hot(scheme, 1);
  const auto repeated = [](auto work) {
    return [work] {
      for (int i = 0; i < kRepeats; ++i) work();
    };
  };
  say("isal", best_rate(cold.bytes(), kTries, [&] { cold.isal(); }));
  say("isal_whole", best_rate(cold.bytes(), kTries, [&] { cold.isal_whole(parity); }));
  say("ours", best_rate(cold.bytes(), kTries, [&] { cold.ours(); }));
  say("isal_cached", best_rate(kRepeats * hot.bytes(), kTries, repeated([&] { hot.isal(); })));
  say("ours_cached", best_rate(kRepeats * hot.bytes(), kTries, repeated([&] { hot.ours(); })));
  uint64_t sum = 0;
  say("checksums", best_rate(cold.bytes(), kTries, [&] { sum += cold.checksums(); }));
  if (sum == 1) std::puts("");  // it is used
}

// Shards that go nowhere.
class Nowhere final : public ShardStore {
 public:
  class Writer final : public ShardWriter {
   public:
    Status add(std::span<const std::byte>) override { return {}; }
    Status commit() override { return {}; }
  };
  Result<std::unique_ptr<ShardWriter>> put(const ShardHeader&) override {
    return std::unique_ptr<ShardWriter>(std::make_unique<Writer>());
  }
  Result<std::unique_ptr<ShardReader>> get(const PartId&, const ShardKey&) override {
    return Status(Code::kNotFound, "nothing is kept");
  }
  Result<std::vector<ShardHeader>> list(const std::string&, const std::string&) override {
    return std::vector<ShardHeader>();
  }
  Status remove(const PartId&, uint64_t) override { return {}; }
};

struct Sent {
  double bytes = 0;
  double seconds = 0;
};

// Puts one shard on this machine, over TCP, for so long or so many bytes.
Sent send_shard(bool encrypts, RateLimit* limit, double seconds, uint64_t bytes) {
  Nowhere nowhere;
  JobKey key;
  key.bytes.fill(7);
  auto server = ShardServer::start(0, nowhere, key, encrypts, {});
  if (!server.ok()) std::abort();
  RemoteStore store({"127.0.0.1", server.value()->port()}, key, encrypts, limit);
  ShardHeader header;
  header.part = {std::string(16, 'a'), "bench", 1, 0, "run"};
  header.image_bytes = uint64_t{1} << 50;
  header.coding = 1;
  header.owner = "127.0.0.1:1";
  auto writer = store.put(header);
  if (!writer.ok()) std::abort();
  const std::vector<std::byte> block(kUnitBytes, std::byte{1});
  Sent sent;
  const Clock::time_point begin = Clock::now();
  while (sent.seconds < seconds && sent.bytes < static_cast<double>(bytes)) {
    if (!writer.value()->add(block).ok()) std::abort();
    sent.bytes += static_cast<double>(block.size());
    sent.seconds = seconds_since(begin);
  }
  return sent;
}

int run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "code" && argc == 5) {
    measure_code(
        {static_cast<uint32_t>(std::atoi(argv[2])), static_cast<uint32_t>(std::atoi(argv[3]))},
        static_cast<size_t>(std::atoi(argv[4])) << 20);
    return 0;
  }
  if (what == "rate" && argc == 4) {
    RateLimit limit(static_cast<uint64_t>(std::atoll(argv[2])));
    const Sent sent = send_shard(false, &limit, std::atof(argv[3]), UINT64_MAX);
    say("bytes", sent.bytes);
    say("seconds", sent.seconds);
    return 0;
  }
  if (what == "send" && argc == 3) {
    const uint64_t bytes = static_cast<uint64_t>(std::atoi(argv[2])) << 20;
    for (const bool encrypts : {false, true}) {
      const Sent sent = send_shard(encrypts, nullptr, 1e9, bytes);
      say(encrypts ? "encrypted" : "authenticated", sent.bytes / sent.seconds);
    }
    return 0;
  }
  std::fputs("levels_driver: see tests/bench/levels.py\n", stderr);
  return 64;
}

}  // namespace
}  // namespace gpusnap::levels

int main(int argc, char** argv) {
  return gpusnap::levels::run(argc, argv);
}
