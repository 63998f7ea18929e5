// Where all ranks wait for each other within a cut, since what one of them saves another one may
// write: when the devices of all have run empty, and when all that is shared has been read. And
// where the job is to end with the checkpoint: when the parts of all are durable.
//
// Each rank comes to every meeting, whatever became of its own part: those that it has not called
// by then are made up for at the end. A rank that comes with bad news tells all others.
#pragma once

#include <functional>
#include <utility>

namespace gpusnap::mpi {

class CutBarriers {
 public:
  // `meet(well)` returns when all ranks have called it: whether all are well. None: `count` is 0.
  using Meet = std::function<bool(bool well)>;
  CutBarriers(Meet meet, int count, bool stops)
      : meet_(std::move(meet)), left_(count), stops_(stops) {}
  ~CutBarriers() {
    finish();
    if (stops_) (void)all_saved(false);
  }
  CutBarriers(const CutBarriers&) = delete;
  CutBarriers& operator=(const CutBarriers&) = delete;

  bool any() const { return left_ > 0; }
  bool next(bool well) {
    if (left_ == 0) return well;
    --left_;
    return meet_(well);
  }
  // The job is to end once all ranks have come to all_saved() and are well.
  bool stops() const { return stops_; }
  bool all_saved(bool saved) {
    stops_ = false;
    return meet_(saved);
  }
  void finish() {
    while (left_ > 0) (void)next(false);
  }

 private:
  const Meet meet_;
  int left_;
  bool stops_;
};

}  // namespace gpusnap::mpi
