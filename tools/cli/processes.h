// This user's processes on this node, as the system knows them: which ones listen for the tool, and
// what the environment of others says.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "interpose/services/ranks.h"

namespace gpusnap {

// Out of the content of /proc/net/unix, in which others have names of their choice: the processes
// that a user's control sockets are named after, each once. Whether it is they who listen is for
// who connects to find out.
std::vector<int> listeners_in(std::string_view sockets, uid_t uid);
std::vector<int> own_listeners();

// A folder's path from / on, without what means nothing in it.
std::string plain_folder(const std::string& folder, const std::string& from = "/");

// A process in which the library is, by the environment that it was started with.
struct StartedProcess {
  int pid = 0;
  std::string job;    // its folder's name in the store
  std::string store;  // folder
  Ranks ranks;
  bool is_named = false;  // the environment says the job's name
};
// Nothing where the library is not in it, or it is not to be seen.
std::optional<StartedProcess> describe_process(int pid);
// All of this user's but the calling one.
std::vector<int> own_processes();

}  // namespace gpusnap
