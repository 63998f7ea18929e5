// SPDX-License-Identifier: Apache-2.0
#include "tiers/compression/sample.h"

#include <algorithm>

#include "tiers/no_throw.h"

namespace gpusnap {

namespace {

constexpr uint64_t kShare = 128;
constexpr size_t kMostPiece = 32 << 10;
constexpr size_t kLeastPiece = 4 << 10;  // less says little of what zstd makes of a block
constexpr size_t kFirstPieces = 2;
constexpr size_t kMorePieces = 6;
constexpr size_t kForms = kCompressedForms.size();

// Where the pieces of a plan lie. They are spread evenly; a piece does not cross from one block to
// the next, and begins where elements do.
class Places {
 public:
  Places(std::span<const std::span<const std::byte>> blocks, const SamplePlan& plan)
      : blocks_(blocks),
        piece_(plan.piece_bytes),
        count_(plan.first_pieces + plan.more_pieces),
        total_(0) {
    for (const auto& block : blocks) total_ += block.size();
  }

  std::span<const std::byte> piece(size_t number) const {
    uint64_t at = total_ / count_ * number + total_ / count_ / 2;
    for (const auto& block : blocks_) {
      if (at >= block.size()) {
        at -= block.size();
        continue;
      }
      constexpr uint64_t kAligned = 64;
      const uint64_t last = block.size() > piece_ ? block.size() - piece_ : 0;
      const uint64_t begin = std::min<uint64_t>(at, last) / kAligned * kAligned;
      return block.subspan(begin, std::min<uint64_t>(piece_, block.size() - begin));
    }
    return {};
  }

 private:
  std::span<const std::span<const std::byte>> blocks_;
  size_t piece_;
  size_t count_;
  uint64_t total_;
};

Form smallest(const Sample& sample) {
  return *std::min_element(kCompressedForms.begin(), kCompressedForms.end(), [&](Form a, Form b) {
    const Trial &one = sample.of(a), &other = sample.of(b);
    return one.compressed != other.compressed ? one.compressed < other.compressed
                                              : one.ns < other.ns;
  });
}

}  // namespace

double Trial::ratio() const {
  return bytes == 0 ? 1 : static_cast<double>(compressed) / static_cast<double>(bytes);
}

double Trial::speed() const {
  // A time too short for the clock counts as 1 ns.
  return bytes == 0
             ? 0
             : static_cast<double>(bytes) * 1e9 / static_cast<double>(std::max<int64_t>(ns, 1));
}

void Trial::add(const Trial& other) {
  bytes += other.bytes;
  compressed += other.compressed;
  ns += other.ns;
}

const Trial& Sample::of(Form form) const {
  return trials[index_of(form)];
}

Trial Sample::sum() const {
  Trial all;
  for (const Trial& trial : trials) all.add(trial);
  return all;
}

uint64_t SamplePlan::bytes() const {
  return piece_bytes * (first_pieces * kForms + more_pieces);
}

SamplePlan plan_sample(uint64_t chunk_bytes) {
  if (chunk_bytes == 0) return {};
  const uint64_t budget = std::max<uint64_t>(chunk_bytes / kShare, kForms * kLeastPiece);
  SamplePlan plan;
  const uint64_t piece = budget / (kFirstPieces * kForms + kMorePieces) / 1024 * 1024;
  plan.piece_bytes = std::clamp<uint64_t>(piece, kLeastPiece, kMostPiece);
  const uint64_t tries = budget / plan.piece_bytes;
  plan.first_pieces = tries >= kFirstPieces * kForms ? kFirstPieces : 1;
  plan.more_pieces = std::min<uint64_t>(tries - plan.first_pieces * kForms, kMorePieces);
  return plan;
}

Sampler::Sampler(std::unique_ptr<Compressor> compressor, Clock& clock)
    : compressor_(std::move(compressor)), clock_(clock), result_(kMostPiece) {}

Result<std::unique_ptr<Sampler>> Sampler::make(const CodecOptions& options, Clock& clock) noexcept {
  using Made = Result<std::unique_ptr<Sampler>>;
  return no_throw("make a sampler", [&]() -> Made {
    auto compressor = Compressor::make(options, kMostPiece);
    if (!compressor.ok()) return compressor.status();
    std::unique_ptr<Sampler> made(new Sampler(std::move(compressor.value()), clock));
    // The first block costs zstd its memory; no sample shall count that.
    const std::vector<std::byte> zeros(kMostPiece);
    for (const Form form : kCompressedForms) {
      const auto warm = made->attempt(form, zeros);
      if (!warm.ok()) return warm.status();
    }
    return made;
  });
}

Result<Trial> Sampler::attempt(Form form, std::span<const std::byte> piece) {
  const int64_t start = clock_.now_ns();
  const auto size = compressor_->compress(form, piece, std::span(result_).first(piece.size()));
  if (!size.ok()) return size.status();
  return Trial{piece.size(), size.value() == 0 ? piece.size() : size.value(),
               clock_.now_ns() - start};
}

Result<Sample> Sampler::take(std::span<const std::span<const std::byte>> blocks) noexcept {
  return no_throw("sample a chunk", [&]() -> Result<Sample> {
    uint64_t total = 0;
    for (const auto& block : blocks) total += block.size();
    const SamplePlan plan = plan_sample(total);
    Sample sample;
    if (plan.bytes() == 0) return sample;
    const Places places(blocks, plan);
    const size_t all = plan.first_pieces + plan.more_pieces;
    // The first pieces are those at the middle of the chunk's equal parts; the others lie between.
    const auto is_first = [&](size_t number) {
      const size_t part = all / plan.first_pieces;
      return number % part == part / 2 && number / part < plan.first_pieces;
    };
    const auto attempt = [&](size_t number, Form form) -> Status {
      auto trial = this->attempt(form, places.piece(number));
      if (trial.ok()) sample.trials[index_of(form)].add(trial.value());
      return trial.status();
    };
    for (size_t number = 0; number < all; ++number) {
      if (!is_first(number)) continue;
      for (const Form form : kCompressedForms) {
        if (Status tried = attempt(number, form); !tried.ok()) return tried;
      }
    }
    const Form best = smallest(sample);
    for (size_t number = 0; number < all; ++number) {
      if (is_first(number)) continue;
      if (Status tried = attempt(number, best); !tried.ok()) return tried;
    }
    return sample;
  });
}

}  // namespace gpusnap
