// SPDX-License-Identifier: Apache-2.0
#include "tiers/spawn.h"

#include <exception>
#include <memory>
#include <string>
#include <thread>

namespace gpusnap {

namespace {

Join start_std_thread(std::function<void()> body) {
  // Join is copyable and a std::thread is not.
  auto thread = std::make_shared<std::thread>(std::move(body));
  return [thread] { thread->join(); };
}

}  // namespace

Result<Join> start_thread(const Spawn& spawn, const char* what, std::function<void()> body) {
  std::string reason = "the system gives no more threads";
  try {
    Join join = spawn ? spawn(std::move(body)) : start_std_thread(std::move(body));
    if (join) return join;
  } catch (const std::exception& error) {
    reason = error.what();
  }
  return Status(Code::kIo, "cannot start the " + std::string(what) + " thread: " + reason +
                               "; raise the limit of processes (ulimit -u)");
}

}  // namespace gpusnap
