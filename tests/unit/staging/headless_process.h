// A process whose main thread has ended while another one goes on: as one looks that was killed and
// has a write to end before it goes.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <thread>

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gpusnap {

class HeadlessProcess {
 public:
  // `before` is run in it first.
  explicit HeadlessProcess(const std::function<void()>& before) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    child_ = ::fork();
    if (child_ == 0) {
      ::close(ends[1]);
      before();
      std::thread([from = ends[0]] {
        char none = 0;
        while (::read(from, &none, 1) > 0) {
        }
        ::_exit(0);
      }).detach();
      ::syscall(SYS_exit, 0);
    }
    ::close(ends[0]);
    until_ = ends[1];
  }
  ~HeadlessProcess() { end(); }
  HeadlessProcess(const HeadlessProcess&) = delete;
  HeadlessProcess& operator=(const HeadlessProcess&) = delete;

  uint32_t pid() const { return static_cast<uint32_t>(child_); }
  // Lets its other thread end, and waits for it.
  void end() {
    if (until_ < 0) return;
    ::close(until_);
    until_ = -1;
    ::waitpid(child_, nullptr, 0);
  }

 private:
  pid_t child_ = -1;
  int until_ = -1;
};

}  // namespace gpusnap
