// SPDX-License-Identifier: Apache-2.0
#include "tiers/plan/markov.h"

#include <cmath>
#include <cstddef>

namespace gpusnap::plan {
namespace {

using Matrix = std::vector<std::vector<double>>;
using Row = std::vector<double>;

Matrix product(const Matrix& left, const Matrix& right) {
  const size_t size = left.size();
  Matrix result(size, Row(size, 0));
  for (size_t i = 0; i < size; ++i) {
    for (size_t k = 0; k < size; ++k) {
      if (left[i][k] == 0) continue;
      for (size_t j = 0; j < size; ++j) result[i][j] += left[i][k] * right[k][j];
    }
  }
  return result;
}

Matrix power(Matrix base, uint64_t exponent) {
  Matrix result(base.size(), Row(base.size(), 0));
  for (size_t i = 0; i < base.size(); ++i) result[i][i] = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result = product(base, result);
    if (exponent > 1) base = product(base, base);
  }
  return result;
}

// A stretch of time in which failures may strike.
struct Attempt {
  double succeeds = 1;  // probability
  double fails = 0;     // 1 - succeeds
  double time_s = 0;    // expected, until its end or its failure
};

class Chain {
 public:
  Chain(const std::vector<Level>& levels, const Pattern& pattern, bool anywhere)
      : levels_(levels), pattern_(pattern), anywhere_(anywhere) {
    for (const Level& level : levels) rate_ += level.failures_per_s;
    find_recoveries();
  }

  // Expected time of a pattern, or the part of it that is spent in restarts.
  double total(bool restarts_only) const {
    const Matrix steps = block(levels_.size() - 1, levels_.size() - 1, restarts_only);
    return steps[total_row()][one()];
  }

 private:
  Attempt attempt(double length_s) const {
    const double fails = -std::expm1(-rate_ * length_s);
    return {std::exp(-rate_ * length_s), fails, fails / rate_};
  }
  double share(size_t level) const { return levels_[level].failures_per_s / rate_; }

  // A recovery from a level that fails begins again, from a higher level where the failure needs
  // one. Level by level from the top: expected time, and the level from which it succeeds at last.
  void find_recoveries() {
    const size_t count = levels_.size();
    recovery_s_.assign(count, 0);
    ends_from_.assign(count, Row(count, 0));
    for (size_t level = count; level-- > 0;) {
      Attempt once{1, 0, levels_[level].restart_s};
      if (anywhere_) once = attempt(levels_[level].restart_s);
      double again = 0, time_s = once.time_s;
      ends_from_[level][level] = once.succeeds;
      for (size_t k = 0; k < count; ++k) {
        const double probability = once.fails * share(k);
        if (k <= level) {
          again += probability;
          continue;
        }
        time_s += probability * recovery_s_[k];
        for (size_t end = k; end < count; ++end) {
          ends_from_[level][end] += probability * ends_from_[k][end];
        }
      }
      recovery_s_[level] = time_s / (1 - again);
      for (double& probability : ends_from_[level]) probability /= 1 - again;
    }
  }

  // Rows of the matrices: for each level, the expected time from its last checkpoint to here; then
  // the total; then the constant 1.
  size_t total_row() const { return levels_.size(); }
  size_t one() const { return levels_.size() + 1; }

  // Expected time from the beginning of an interval to the end of its checkpoint, as a linear
  // function of the rows. A failure adds its recovery and everything since the checkpoint from
  // which the job goes on.
  Row interval_time(size_t ends_with, bool restarts_only) const {
    const double stall_s = levels_[ends_with].stall_s;
    Attempt once = attempt(pattern_.interval_s + (anywhere_ ? stall_s : 0));
    Row row(levels_.size() + 2, 0);
    if (!restarts_only) row[one()] = once.time_s + (anywhere_ ? 0 : once.succeeds * stall_s);
    for (size_t level = 0; level < levels_.size(); ++level) {
      const double probability = once.fails * share(level);
      // Work that a checkpoint in the background does not cover yet is lost, too.
      const double late_s = restarts_only ? 0 : levels_[level].latency_s;
      row[one()] += probability * (recovery_s_[level] + late_s);
      for (size_t end = level; end < levels_.size(); ++end) {
        row[end] += probability * ends_from_[level][end];
      }
    }
    for (double& value : row) value /= once.succeeds;
    return row;
  }

  Matrix step(size_t ends_with, bool restarts_only) const {
    const Row time = interval_time(ends_with, restarts_only);
    Matrix matrix(levels_.size() + 2, Row(levels_.size() + 2, 0));
    for (size_t row = 0; row <= total_row(); ++row) {
      if (row <= ends_with && row != total_row()) continue;  // a checkpoint: its time begins anew
      matrix[row] = time;
      matrix[row][row] += 1;
    }
    matrix[one()][one()] = 1;
    return matrix;
  }

  // The intervals between two checkpoints of a level, the last of which ends with this checkpoint.
  Matrix block(size_t level, size_t ends_with, bool restarts_only) const {
    if (level == 0) return step(ends_with, restarts_only);
    const Matrix inner = block(level - 1, level - 1, restarts_only);
    return product(block(level - 1, ends_with, restarts_only),
                   power(inner, pattern_.counts[level - 1] - 1));
  }

  const std::vector<Level>& levels_;
  const Pattern& pattern_;
  bool anywhere_;
  double rate_ = 0;
  Row recovery_s_;
  Matrix ends_from_;
};

}  // namespace

PatternTime markov_time(const std::vector<Level>& levels, const Pattern& pattern, bool anywhere) {
  const Chain chain(levels, pattern, anywhere);
  PatternTime time;
  double intervals = 1;
  for (const uint64_t count : pattern.counts) intervals *= static_cast<double>(count);
  time.work_s = intervals * pattern.interval_s;
  double at_least = intervals;  // checkpoints of this level or a higher one
  for (size_t level = 0; level < levels.size(); ++level) {
    const double above =
        level + 1 < levels.size() ? at_least / static_cast<double>(pattern.counts[level]) : 0;
    time.checkpoints_s.push_back((at_least - above) * levels[level].stall_s);
    at_least = above;
  }
  time.total_s = chain.total(false);
  time.restart_s = chain.total(true);
  return time;
}

}  // namespace gpusnap::plan
