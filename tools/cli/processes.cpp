#include "tools/cli/processes.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "interpose/services/program.h"
#include "interpose/services/settings.h"
#include "tiers/store.h"

namespace gpusnap {
namespace {

constexpr std::string_view kListens = "00010000";  // of the flags: __SO_ACCEPTCON
constexpr std::string_view kSequencedPackets = "0005";
// More than a node runs; a table that is longer is somebody's joke.
constexpr size_t kMostProcesses = 4096;
constexpr std::string_view kLibrary = "libgpusnap.so";

// The text up to the next space, or all; `text` loses both, and what spaces follow.
std::string_view take_field(std::string_view& text) {
  const std::string_view field = text.substr(0, text.find(' '));
  text.remove_prefix(field.size());
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return field;
}

std::optional<int> pid_of(std::string_view digits) {
  int pid = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), pid);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  const bool plain = whole && pid > 0 && digits.front() != '0';
  return plain ? std::optional(pid) : std::nullopt;
}

// Returns the process whose listening socket the line is about: "Num RefCount Protocol Flags Type
// St Inode Path".
std::optional<int> listener_in(std::string_view line, const std::string& prefix) {
  for (int i = 0; i < 3; ++i) (void)take_field(line);
  if (take_field(line) != kListens || take_field(line) != kSequencedPackets) return std::nullopt;
  for (int i = 0; i < 2; ++i) (void)take_field(line);
  return line.starts_with(prefix) ? pid_of(line.substr(prefix.size())) : std::nullopt;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string link_target(const std::string& path) {
  std::error_code error;
  return std::filesystem::read_symlink(path, error).string();
}

}  // namespace

std::vector<int> listeners_in(std::string_view sockets, uid_t uid) {
  const std::string prefix = "@gpusnap-" + std::to_string(uid) + "-";
  std::set<int> found;
  while (!sockets.empty() && found.size() < kMostProcesses) {
    const std::string_view line = sockets.substr(0, sockets.find('\n'));
    sockets.remove_prefix(std::min(line.size() + 1, sockets.size()));
    if (const auto pid = listener_in(line, prefix)) found.insert(*pid);
  }
  return {found.begin(), found.end()};
}

std::vector<int> own_listeners() {
  return listeners_in(content_of("/proc/net/unix"), geteuid());
}

std::string plain_folder(const std::string& folder, const std::string& from) {
  std::string plain = (std::filesystem::path(from) / folder).lexically_normal().string();
  while (plain.size() > 1 && plain.back() == '/') plain.pop_back();
  return plain;
}

std::optional<StartedProcess> describe_process(int pid) {
  const std::string process = "/proc/" + std::to_string(pid);
  const std::string block = content_of(process + "/environ");
  std::vector<const char*> environment;
  bool has_library = false;
  for (size_t at = 0; at < block.size(); at += std::string_view(&block[at]).size() + 1) {
    const std::string_view entry = &block[at];
    environment.push_back(entry.data());
    has_library =
        has_library || (entry.starts_with("LD_PRELOAD=") && entry.find(kLibrary) != entry.npos);
  }
  if (!has_library) return std::nullopt;
  environment.push_back(nullptr);
  const Settings settings = parse_settings(environment.data()).settings;
  const std::string here = link_target(process + "/cwd");
  StartedProcess started;
  started.pid = pid;
  started.is_named = !settings.job.empty();
  started.store = plain_folder(settings.pfs, here);
  started.ranks = ranks_from_launcher(environment.data());
  started.job = sanitise_job(
      started.is_named ? settings.job
                       : default_job_name(link_target(process + "/exe"), here, environment.data()));
  return started;
}

std::vector<int> own_processes() {
  std::vector<int> pids;
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc", error), end;
  for (; !error && entry != end; entry.increment(error)) {
    const auto pid = pid_of(entry->path().filename().string());
    struct stat about = {};
    if (!pid || *pid == getpid() || stat(entry->path().c_str(), &about) != 0) continue;
    if (about.st_uid == geteuid()) pids.push_back(*pid);
  }
  return pids;
}

}  // namespace gpusnap
