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
  char text[kThreadPathText];
  return text_of(own_thread_path(), text);
}
// "main thread", "thread 1/0", as messages name it.
inline std::string name_of_thread(const std::string& path) {
  return path == kMainThread ? "main thread" : "thread " + path;
}
inline std::string own_name() {
  return name_of_thread(own_path());
}

}  // namespace gpusnap
