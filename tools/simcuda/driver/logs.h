// This driver's messages about errors. Programs that ask to be told are called with each line;
// if none asks, the line goes to standard error. The newest lines are kept for later readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>

#include "tools/simcuda/driver/cuda.h"

namespace simcuda {

// Thread-safe.
class Logs {
 public:
  // Calls the program, which may not call the driver there.
  void say(const std::string& line);

  CUlogsCallbackHandle add(CUlogsCallback function, void* data);
  // False: there is none of that handle.
  bool remove(CUlogsCallbackHandle handle);

  // Lines are counted; what comes next has this number.
  CUlogIterator end() const;
  // Lines from `from` on, each with its end, and what it goes on with. Where there is room for
  // fewer bytes, the newest ones, behind a line that says so. False: there is room for none.
  bool read(CUlogIterator* from, size_t room, std::string* text) const;

 private:
  struct Callback {
    CUlogsCallback function;
    void* data;
  };

  mutable std::mutex mutex_;
  std::map<CUlogsCallbackHandle, Callback> callbacks_;
  uint64_t next_handle_ = 0xa'0000'0000;
  std::deque<std::string> lines_;
  CUlogIterator first_ = 0;  // the number of the first of them
  size_t bytes_ = 0;         // of them
};

// One for the process: there may be something to say before there is a driver.
Logs& logs();

}  // namespace simcuda
