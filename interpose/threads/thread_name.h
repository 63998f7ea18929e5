// SPDX-License-Identifier: Apache-2.0
// Threads of the program by the paths of their creation, in texts.
#pragma once

#include <string>
#include <string_view>

#include "interpose/threads/thread_path.h"

namespace gpusnap {

inline constexpr std::string_view kMainThread = "main";

// "main", "1/0": the calling one.
inline std::string own_path() {
  const ThreadPath& path = own_thread_path();
  // The thread that makes most calls.
  if (path.known && path.depth == 0) return std::string(kMainThread);
  char text[kThreadPathText];
  return text_of(path, text);
}
// "main thread", "thread 1/0", as messages name it.
inline std::string name_of_thread(const std::string& path) {
  return path == kMainThread ? "main thread" : "thread " + path;
}
inline std::string own_name() {
  return name_of_thread(own_path());
}

}  // namespace gpusnap
