// How far an event has come that processes share: a page of a file without a name.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace simcuda {

class VirtualClock;

class SharedMarks {
 public:
  static constexpr uint64_t kBytes = 4096;  // of the file
  // Null when there is no memory for it.
  static std::shared_ptr<SharedMarks> make();
  // Another process's; takes the descriptor over.
  static std::shared_ptr<SharedMarks> of_file(int fd);
  ~SharedMarks();
  SharedMarks(const SharedMarks&) = delete;
  SharedMarks& operator=(const SharedMarks&) = delete;

  int fd() const { return fd_; }
  // The number of a record that is queued now; its stream has come there.
  uint64_t record() { return ++page_->recorded; }
  void reach(uint64_t number);
  // The newest one of all processes.
  uint64_t latest() const { return page_->recorded; }
  bool reached(uint64_t number) const { return page_->reached >= number; }
  // Looks every now and then; `cancelled()`: gives up.
  template <class Cancelled>
  void wait(uint64_t number, VirtualClock* clock, Cancelled&& cancelled) const {
    while (!reached(number) && !cancelled()) rest(clock);
  }

 private:
  struct Page {
    std::atomic<uint64_t> recorded{0};
    std::atomic<uint64_t> reached{0};
  };
  SharedMarks(int fd, Page* page) : fd_(fd), page_(page) {}
  static void rest(VirtualClock* clock);

  const int fd_;
  Page* const page_;
};

}  // namespace simcuda
