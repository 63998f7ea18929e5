// Where all ranks wait for each other within a cut, since what one of them saves another one may
// write: when the devices of all have run empty, and when all that is shared has been read.
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
  CutBarriers(Meet meet, int count) : meet_(std::move(meet)), left_(count) {}
  ~CutBarriers() { finish(); }
  CutBarriers(const CutBarriers&) = delete;
  CutBarriers& operator=(const CutBarriers&) = delete;

  bool any() const { return left_ > 0; }
  bool next(bool well) {
    if (left_ == 0) return well;
    --left_;
    return meet_(well);
  }
  void finish() {
    while (left_ > 0) (void)next(false);
  }

 private:
  const Meet meet_;
  int left_;
};

}  // namespace gpusnap::mpi
