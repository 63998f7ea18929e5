// Identifies a thread across runs: the path of its creation. The program's first thread is "main";
// the second thread that it makes is "1", the first one that this makes is "1/0". The system's
// thread numbers and the order in which threads run differ from run to run, the path does not.
//
// Counted from the start of the process, whether it is ever followed or not: a handful of
// instructions for each thread made, in memory that each thread has anyway. Threads that are made
// inside a hooked call are the driver's or ours, and do not count.
//
// Each thread asks about itself only; usable in any thread at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpusnap {

struct ThreadPath {
  static constexpr size_t kDeepest = 14;
  bool known = false;     // false: made by ways that we do not see, or by such a thread
  uint8_t depth = 0;      // 0: the first thread
  uint32_t children = 0;  // threads that it has made
  uint32_t ordinals[kDeepest] = {};
};

// The path of the calling thread; code that makes a thread for it counts up its `children`.
ThreadPath& own_thread_path();

// The path of the thread that is made next by the thread at `parent`. Below kDeepest the last
// ordinal stands for the rest of the path.
ThreadPath child_of(const ThreadPath& parent);

// "main", "1/0"; "unknown". Enough room for the longest with its final zero.
inline constexpr size_t kThreadPathText = ThreadPath::kDeepest * 11 + 1;
const char* text_of(const ThreadPath& path, char (&text)[kThreadPathText]);

// While one lives, the calling thread can be found by its path. Most threads that there are at a
// time can; of the others nobody knows.
class RunningThread {
 public:
  explicit RunningThread(const ThreadPath& path);
  ~RunningThread();
  RunningThread(const RunningThread&) = delete;
  RunningThread& operator=(const RunningThread&) = delete;

 private:
  size_t place_;
};
// The system's number of the thread at that path; 0: it has ended or not begun, or is not known.
int find_running_thread(std::string_view path);

// Its digits, at most 10, without a final zero. Where they end.
char* append_number(char* at, uint32_t number);

}  // namespace gpusnap
