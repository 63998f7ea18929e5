// SPDX-License-Identifier: Apache-2.0
// Decides whether a chunk is compressed, and in which form: only if that does not delay its
// checkpoint. The decision uses a sample of the chunk (sample.h), times of earlier blocks, and the
// present throughput of the store. No I/O, no threads, no clock.
//
// If the user sets a level, every chunk is compressed, and the sample only chooses the form. A
// block that does not shrink is then stored uncompressed.
//
// The model follows section II.C of the PCCR paper: stages that overlap take together what the
// slowest of them takes. That holds for endless streams; a chunk has few blocks, so here what fills
// and drains the pipeline counts, too. A chunk of N equal blocks of D bytes is compressed by w
// workers at s bytes a second each, to a part r of its bytes, and stored at B bytes a second, in
// order. One block is compressed in z = D / s and stored in t = r * D / B. Blocks are taken in
// order, so block i (from 0) is compressed at (floor(i / w) + 1) * z, and what is behind it is
// stored after that: N - i blocks. The chunk ends when the last of these can have ended,
//
//   T = max over i of ((floor(i / w) + 1) * z + (N - i) * t).
//
// Within a group of w blocks the first is the latest. From group to group the term changes by
// z - w * t, always the same, so the maximum is at the first group or at the last, g = ceil(N / w):
//
//   T = max(z + N * t, g * z + (N - (g - 1) * w) * t).
//
// Uncompressed the chunk takes N * D / B. It is compressed where T, and what the sample took, are
// less than that by a margin, also if the workers should be slower than expected: their speed is
// what is least certain, since they share the machine. In this model a chunk that ends no later
// than it would have, delays no later one: so it is for the checkpoint. The beginning of each chunk
// counts here as if the store had waited for it; mostly it is busy with the one before, and there
// is more to gain than counted.
//
// As long as nothing is known of the store, a block is compressed where that is done before the
// store is through with what is on its way already, however fast it may be: that costs it nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "tiers/compression/codec.h"
#include "tiers/compression/sample.h"
#include "tiers/compression/setting.h"
#include "tiers/mutex.h"
#include "tiers/status.h"

namespace gpusnap {

// A chunk and where it goes.
struct Situation {
  uint64_t chunk_bytes = 0;
  uint64_t block_bytes = 0;    // of each block but the last
  uint32_t workers = 0;        // that compress it at the same time
  double flush_bandwidth = 0;  // bytes per second that its writer gets; 0: not known
  double busy_seconds = 0;     // for which the store has enough to do, whatever is decided
};

// Seconds, by the model above.
double raw_seconds(const Situation& chunk);
double compressed_seconds(const Situation& chunk, double speed, double ratio);

struct Decision {
  Form form = Form::kStored;
  double ratio = 1;    // that the sample promises
  double speed = 0;    // bytes per second of one worker, as sampled
  double seconds = 0;  // that it takes with all caution; 0 where nothing was compared
};

// Thread-safe.
class Policy {
 public:
  struct Options {
    double caution = 1.5;        // blocks are thought to take so many times longer than expected
    double margin = 0.05;        // and still the chunk has to end earlier by this part
    double least_saving = 0.05;  // of the bytes; less is not worth reading it back
    uint32_t probe_every = 16;   // chunks: the samples while none can pay, see wants_sample()
  };

  explicit Policy(CompressionSetting setting) : Policy(setting, Options()) {}
  Policy(CompressionSetting setting, const Options& options);

  // Returns the options that the compressors are made with.
  CodecOptions codec() const { return {setting_.level, setting_.window_log}; }

  // Returns whether the chunk is worth a sample. It is not if the store is faster than any recent
  // compression (except one chunk in `probe_every`), if the sample alone would take too long, or if
  // the store's throughput is not known and the store may be idle soon. With a level set, every
  // chunk is.
  bool wants_sample(const Situation& chunk);
  // A sample without bytes is one that could not be taken.
  Decision decide(const Situation& chunk, const Sample& sample);
  // A block was compressed; the decision had promised `speed`. Keeps, by form, a moving average of
  // how much longer blocks take than samples promise: they are larger, and workers share the
  // machine with each other and with the program. It rises sooner than it falls, and for all.
  void learn(Form form, const Trial& block, double speed);

  double slowness(Form form) const;  // that average; 1: as promised

 private:
  friend class ChunkCourse;
  static Decision smallest(const Sample& sample);
  double seconds_of(const Situation& chunk, const Trial& trial, double slowness,
                    double sampling) const;

  const CompressionSetting setting_;
  const Options options_;
  mutable Mutex mutex_;
  std::array<double, kCompressedForms.size()> slowness_ GUARDED_BY(mutex_);
  double fastest_ GUARDED_BY(mutex_) =
      0;  // bytes per second of the fastest form, of late; 0: nothing sampled
  double sample_speed_ GUARDED_BY(mutex_) = 0;  // of the samples, of late
  uint32_t unsampled_ GUARDED_BY(mutex_) = 0;   // chunks since the last sample
};

// A chunk that is being compressed. If its blocks turn out slower than the store, or do not shrink,
// the rest is stored uncompressed, unless the user set a level. Thread-safe. The policy outlives
// it.
class ChunkCourse {
 public:
  ChunkCourse(Policy& policy, const Situation& chunk, const Decision& decision);

  Form next() const noexcept { return form_.load(std::memory_order_relaxed); }
  // A block was compressed in the form that next() gave. `flush_bandwidth`: bytes per second that
  // the writer gets now; 0: not known.
  void done(const Trial& block, double flush_bandwidth) noexcept;

 private:
  bool goes_on(const Trial& sum, double flush_bandwidth) const;

  Policy& policy_;
  const Situation chunk_;
  const Decision decision_;
  std::atomic<Form> form_;
  Mutex mutex_;
  Trial sum_ GUARDED_BY(mutex_);
  uint32_t blocks_ GUARDED_BY(mutex_) = 0;
};

}  // namespace gpusnap
