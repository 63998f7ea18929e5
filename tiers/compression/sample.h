// SPDX-License-Identifier: Apache-2.0
// Estimates gain and cost of compressing a chunk from a small part of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tiers/clock.h"
#include "tiers/compression/codec.h"
#include "tiers/status.h"

namespace gpusnap {

// Size and time of some bytes that one thread compressed in one form.
struct Trial {
  uint64_t bytes = 0;
  uint64_t compressed = 0;  // at most `bytes`: what does not shrink is stored as it is
  int64_t ns = 0;

  double ratio() const;  // of compressed to raw bytes; 1 without bytes
  double speed() const;  // raw bytes per second; 0 where nothing was measured
  void add(const Trial& other);
};

struct Sample {
  std::array<Trial, kCompressedForms.size()> trials;  // in that order
  const Trial& of(Form form) const;                   // a compressed form
  Trial sum() const;                                  // what the sample itself cost
};

// How a chunk of so many bytes is sampled. All bytes that are compressed for it, each form counted,
// are at most 1/128 of the chunk, or 16 KiB where that is more. Whether so much pays for a small
// chunk is the policy's to say (policy.h).
struct SamplePlan {
  size_t piece_bytes = 0;   // 4 to 32 KiB
  size_t first_pieces = 0;  // tried in every form
  size_t more_pieces = 0;   // tried in the form that was smallest so far
  uint64_t bytes() const;   // that are compressed
};
SamplePlan plan_sample(uint64_t chunk_bytes);  // nothing of an empty chunk

// Not thread-safe: one per thread that samples. Allocates nothing once it is made.
class Sampler {
 public:
  // The errors of Compressor::make().
  static Result<std::unique_ptr<Sampler>> make(const CodecOptions& options, Clock& clock) noexcept;

  // `blocks` are the chunk, one behind the other.
  Result<Sample> take(std::span<const std::span<const std::byte>> blocks) noexcept;

 private:
  Sampler(std::unique_ptr<Compressor> compressor, Clock& clock);
  Result<Trial> attempt(Form form, std::span<const std::byte> piece);

  const std::unique_ptr<Compressor> compressor_;
  Clock& clock_;
  std::vector<std::byte> result_;
};

}  // namespace gpusnap
