// SPDX-License-Identifier: Apache-2.0
#include "tiers/compression/policy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace gpusnap {

namespace {

constexpr double kWeight = 1.0 / 16;  // of the newest in a moving average
// A piece of a sample is over before anybody else gets the processor; a block is not. So it is by
// the blocks that a busy machine shows, and that has to be believed at once.
constexpr double kWeightOfWorse = 1.0 / 4;
// To try a form again costs up to a chunk's time when it is still slow.
constexpr double kForgotten = 1.0 / 64;  // of that, by each chunk that does not try
constexpr double kLeastSlowness = 0.25;
constexpr double kMostSlowness = 16;
constexpr double kFade = 0.9;  // of the fastest form, from sample to sample
constexpr double kNearly = 1.05;
constexpr double kLeastBusySeconds = 5e-3;  // in which a sample is taken for sure
constexpr double kMostSampleShare = 0.03;   // of the time in which the chunk could be stored

uint64_t blocks_of(const Situation& chunk) {
  const uint64_t block = std::max<uint64_t>(chunk.block_bytes, 1);
  return std::max<uint64_t>((chunk.chunk_bytes + block - 1) / block, 1);
}

}  // namespace

double raw_seconds(const Situation& chunk) {
  return static_cast<double>(chunk.chunk_bytes) / chunk.flush_bandwidth;
}

double compressed_seconds(const Situation& chunk, double speed, double ratio) {
  const auto blocks = static_cast<double>(blocks_of(chunk));
  const auto workers = static_cast<double>(chunk.workers);
  const double block = static_cast<double>(chunk.chunk_bytes) / blocks;
  const double compress = block / speed;
  const double store = ratio * block / chunk.flush_bandwidth;
  const double groups = std::ceil(blocks / workers);
  const double last_group = blocks - (groups - 1) * workers;
  return std::max(compress + blocks * store, groups * compress + last_group * store);
}

Policy::Policy(CompressionSetting setting, const Options& options)
    : setting_(setting), options_(options) {
  slowness_.fill(1);
}

bool Policy::wants_sample(const Situation& chunk) {
  const uint64_t sampled = plan_sample(chunk.chunk_bytes).bytes();
  if (setting_.mode == CompressionSetting::Mode::kOff || sampled == 0) return false;
  if (setting_.mode == CompressionSetting::Mode::kLevel) return true;
  if (chunk.workers == 0) return false;
  if (!(chunk.flush_bandwidth > 0)) return chunk.busy_seconds >= kLeastBusySeconds;
  const MutexLock lock(mutex_);
  if (fastest_ > 0) {
    // At best nothing would be left to store.
    const double most = raw_seconds(chunk) * (1 - options_.margin);
    const double sampling = static_cast<double>(sampled) / sample_speed_;
    const bool hopeless =
        compressed_seconds(chunk, fastest_ / options_.caution, 0) + sampling > most ||
        sampling > raw_seconds(chunk) * kMostSampleShare;
    if (hopeless && ++unsampled_ < options_.probe_every) return false;
  }
  unsampled_ = 0;
  return true;
}

// Infinity where it is not to be done.
double Policy::seconds_of(const Situation& chunk, const Trial& trial, double slowness,
                          double sampling) const {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  if (trial.bytes == 0 || trial.ratio() > 1 - options_.least_saving) return kNever;
  const double speed = trial.speed() / (slowness * options_.caution);
  if (!(chunk.flush_bandwidth > 0)) {
    const double block = static_cast<double>(chunk.block_bytes) / speed;
    return block + sampling <= chunk.busy_seconds ? 0 : kNever;
  }
  const double seconds = compressed_seconds(chunk, speed, trial.ratio()) + sampling;
  return seconds <= raw_seconds(chunk) * (1 - options_.margin) ? seconds : kNever;
}

// The smallest; the fastest of those that are equal.
Decision Policy::smallest(const Sample& sample) {
  Decision best{kCompressedForms.front(), 1, 0, 0};
  for (const Form form : kCompressedForms) {
    const Trial& trial = sample.of(form);
    if (trial.bytes == 0 || trial.ratio() > best.ratio) continue;
    if (trial.ratio() == best.ratio && trial.speed() <= best.speed) continue;
    best = {form, trial.ratio(), trial.speed(), 0};
  }
  return best;
}

Decision Policy::decide(const Situation& chunk, const Sample& sample) {
  if (setting_.mode == CompressionSetting::Mode::kLevel) return smallest(sample);
  Decision best;
  const Trial sum = sample.sum();
  if (setting_.mode == CompressionSetting::Mode::kOff || sum.bytes == 0) return best;
  const MutexLock lock(mutex_);
  double fastest = 0;
  for (const Trial& trial : sample.trials) fastest = std::max(fastest, trial.speed());
  fastest_ = std::max(fastest, fastest_ * kFade);
  sample_speed_ =
      sample_speed_ > 0 ? sample_speed_ + kWeight * (sum.speed() - sample_speed_) : sum.speed();
  if (chunk.workers == 0) return best;
  std::array<double, kCompressedForms.size()> seconds{};
  for (size_t i = 0; i < seconds.size(); ++i) {
    seconds[i] =
        seconds_of(chunk, sample.trials[i], slowness_[i], static_cast<double>(sum.ns) * 1e-9);
  }
  // Among forms that end at nearly the same time, choose the one with the smallest ratio.
  const double least = *std::min_element(seconds.begin(), seconds.end());
  for (size_t i = 0; i < seconds.size(); ++i) {
    const Trial& trial = sample.trials[i];
    if (!std::isfinite(seconds[i]) || seconds[i] > least * kNearly) continue;
    if (best.form != Form::kStored && best.ratio <= trial.ratio()) continue;
    best = {kCompressedForms[i], trial.ratio(), trial.speed(), seconds[i]};
  }
  // The slowness of a form that is not chosen is forgotten bit by bit: a busy moment must not end
  // compression for good.
  for (const Form form : kCompressedForms) {
    double& slowness = slowness_[index_of(form)];
    if (form != best.form) slowness += kForgotten * (1 - slowness);
  }
  return best;
}

void Policy::learn(Form form, const Trial& block, double speed) {
  if (form == Form::kStored || block.bytes == 0 || !(speed > 0)) return;
  const double seen = std::clamp(speed / block.speed(), kLeastSlowness, kMostSlowness);
  const MutexLock lock(mutex_);
  // A busy machine slows all of them down; what the others gain from a quiet one they have to show.
  for (double& slowness : slowness_) {
    if (seen > slowness) slowness += kWeightOfWorse * (seen - slowness);
  }
  double& own = slowness_[index_of(form)];
  if (seen < own) own += kWeight * (seen - own);
}

double Policy::slowness(Form form) const {
  const MutexLock lock(mutex_);
  return form == Form::kStored ? 1 : slowness_[index_of(form)];
}

ChunkCourse::ChunkCourse(Policy& policy, const Situation& chunk, const Decision& decision)
    : policy_(policy), chunk_(chunk), decision_(decision), form_(decision.form) {}

void ChunkCourse::done(const Trial& block, double flush_bandwidth) noexcept {
  policy_.learn(decision_.form, block, decision_.speed);
  const MutexLock lock(mutex_);
  sum_.add(block);
  constexpr uint32_t kFewest = 2;  // one may have had bad luck
  if (++blocks_ >= kFewest && !goes_on(sum_, flush_bandwidth)) {
    form_.store(Form::kStored, std::memory_order_relaxed);
  }
}

// By now the pipeline is full, and the slowest stage counts alone (PCCR, section II.C).
bool ChunkCourse::goes_on(const Trial& sum, double flush_bandwidth) const {
  if (policy_.setting_.mode == CompressionSetting::Mode::kLevel) return true;
  if (sum.ratio() > 1 - policy_.options_.least_saving / 2) return false;
  const double workers = sum.speed() * chunk_.workers;
  return workers * (1 - policy_.options_.margin) >= flush_bandwidth;
}

}  // namespace gpusnap
