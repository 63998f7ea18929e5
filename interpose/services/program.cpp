#include "interpose/services/program.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "interpose/services/build_id.h"
#include "interpose/services/inputs.h"

namespace gpusnap {
namespace {

class Descriptor {
 public:
  explicit Descriptor(const char* path) : descriptor_(open(path, O_RDONLY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

Status failure(const std::string& path) {
  const int error = errno;
  return {error == ENOENT   ? Code::kNotFound
          : error == EACCES ? Code::kPermission
                            : Code::kIo,
          "cannot read " + path + ": " + strerrordesc_np(error)};
}

// Gives `take` the file's bytes piece by piece.
template <class Take>
Status read_all(const std::string& path, const Take& take) {
  constexpr size_t kPiece = 256 << 10;
  const Descriptor file(path.c_str());
  if (file.get() < 0) return failure(path);
  const auto piece = std::make_unique<char[]>(kPiece);
  while (true) {
    const ssize_t got = read(file.get(), piece.get(), kPiece);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure(path);
    if (got == 0) return {};
    take(std::string_view(piece.get(), static_cast<size_t>(got)));
  }
}

Status hash_file(const std::string& path, uint64_t& hash, uint64_t& size) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              XXH3_freeState);
  if (state == nullptr) return {Code::kIo, "no memory to read " + path};
  XXH3_64bits_reset(state.get());
  size = 0;
  Status read = read_all(path, [&](std::string_view bytes) {
    XXH3_64bits_update(state.get(), bytes.data(), bytes.size());
    size += bytes.size();
  });
  if (read.ok()) hash = XXH3_64bits_digest(state.get());
  return read;
}

// Empty where it cannot be known.
std::string link_target(const char* link) {
  std::array<char, 4096> target{};
  const ssize_t bytes = readlink(link, target.data(), target.size());
  return bytes > 0 ? std::string(target.data(), static_cast<size_t>(bytes)) : std::string();
}

std::string file_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

const char* lookup(const char* const* environment, std::string_view name) {
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    if (entry.size() > name.size() + 1 && entry.starts_with(name) && entry[name.size()] == '=') {
      return *environment + name.size() + 1;
    }
  }
  return nullptr;
}

// Drivers differ in how much of the memory they keep for themselves.
bool same_model(const SavedDevice& saved, const SavedDevice& now) {
  const uint64_t more = std::max(saved.memory, now.memory),
                 less = std::min(saved.memory, now.memory);
  return saved.name == now.name && saved.major == now.major && saved.minor == now.minor &&
         more - less <= more / 16;
}

}  // namespace

uint64_t host_addresses_begin() {
  constexpr uint64_t kPageBytes = 4096, kMost = uint64_t{1} << 32;
  // The headers are in the executable's first page.
  const uint64_t headers = getauxval(AT_PHDR);
  return headers == 0 ? kMost : std::min(kMost, headers / kPageBytes * kPageBytes);
}

Result<ProgramIdentity> identify_program() {
  std::string all;
  Status read = read_all("/proc/self/cmdline", [&](std::string_view bytes) { all += bytes; });
  if (!read.ok()) return read;
  std::vector<std::string> arguments;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find('\0', begin), all.size());
    arguments.push_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  // Read by the link: the name may be gone, or belong to another file by now.
  Result<ProgramIdentity> program =
      identify_program("/proc/self/exe", std::move(arguments), link_target("/proc/self/cwd"));
  if (program.ok()) program->path = link_target("/proc/self/exe");
  return program;
}

Result<ProgramIdentity> identify_program(const std::string& path,
                                         std::vector<std::string> arguments, std::string folder) {
  ProgramIdentity program;
  Status read = hash_file(path, program.hash, program.size);
  if (!read.ok()) return read;
  program.path = path;
  program.arguments = std::move(arguments);
  program.folder = std::move(folder);
  return program;
}

std::string default_job_name(const std::string& program_path, const std::string& folder,
                             const char* const* environment) {
  for (const std::string_view name : {"SLURM_JOB_NAME", "PBS_JOBNAME", "LSB_JOBNAME"}) {
    const char* const value = lookup(environment, name);
    if (value != nullptr) return value;
  }
  std::array<char, 12> hash{};
  std::snprintf(hash.data(), hash.size(), "-%08x",
                static_cast<unsigned>(XXH3_64bits(folder.data(), folder.size())));
  return file_name(program_path) + hash.data();
}

std::string scheduler_job_id(const char* const* environment) {
  // In an array of LSF's all jobs have one number.
  if (const char* const job = lookup(environment, "LSB_JOBID"); job != nullptr) {
    const char* const index = lookup(environment, "LSB_JOBINDEX");
    return std::string(job) + (index == nullptr ? "" : "-" + std::string(index));
  }
  for (const std::string_view name : {"SLURM_JOB_ID", "PBS_JOBID", "FLUX_JOB_ID"}) {
    const char* const value = lookup(environment, name);
    if (value != nullptr) return value;
  }
  return {};
}

std::string program_difference(const ProgramIdentity& saved, const ProgramIdentity& now,
                               const AllowedDifferences& allowed) {
  if (!allowed.program && (saved.hash != now.hash || saved.size != now.size)) {
    const bool same_name = saved.path == now.path;
    return "the checkpoint was made by " + (same_name ? "another build of " : std::string()) +
           saved.path + (same_name ? std::string() : ", this is " + now.path) +
           "; start that program, or pass over it with --force-program";
  }
  if (allowed.arguments) return {};
  if (saved.arguments.size() != now.arguments.size()) {
    return "the checkpoint was made with " + std::to_string(saved.arguments.size()) +
           " arguments (the program's name is the first), not " +
           std::to_string(now.arguments.size()) +
           "; give the same, or pass over it with --force-arguments";
  }
  // How the program was called does not matter as long as it is the same file.
  for (size_t i = 1; i < saved.arguments.size(); ++i) {
    if (saved.arguments[i] == now.arguments[i]) continue;
    return "argument " + std::to_string(i) + " was '" + saved.arguments[i] +
           "' in the checkpoint's run and is '" + now.arguments[i] +
           "' now; give the same, or pass over it with --force-arguments";
  }
  return {};
}

std::string input_difference(const ProgramIdentity& saved, const AllowedDifferences& allowed) {
  if (allowed.inputs) return {};
  const std::string changed = changed_inputs(saved.inputs);
  if (changed.empty()) return {};
  return "not what the checkpoint's run has read: " + changed +
         "; put it back, or pass over it with --force-inputs";
}

std::string device_difference(const ProgramIdentity& saved, const ProgramIdentity& now,
                              const AllowedDifferences& allowed) {
  const size_t wanted = saved.devices.size();
  if (now.device_count == 0) return {};
  if (!allowed.devices && now.device_count < wanted) {
    return "it was saved from " + std::to_string(wanted) + " devices, here are " +
           std::to_string(now.device_count) +
           "; give it as many, or pass over it with --force-devices";
  }
  for (size_t i = 0; !allowed.device && i < std::min(wanted, now.devices.size()); ++i) {
    if (same_model(saved.devices[i], now.devices[i])) continue;
    return "it was saved from " + text_of(saved.devices[i]) + ", device " + std::to_string(i) +
           " here is " + text_of(now.devices[i]) +
           "; give it such a one, or pass over it with --force-device";
  }
  return {};
}

std::vector<std::string> doubts(const ProgramIdentity& saved, const ProgramIdentity& now,
                                AllowedDifferences& allowed) {
  std::vector<std::string> lines;
  const auto doubt = [&lines](bool& passed_over, bool differs, const auto&... parts) {
    if (passed_over || !differs) return;
    passed_over = true;
    lines.push_back((std::string() + ... + parts));
  };
  doubt(allowed.folder, saved.folder != now.folder, "the checkpoint's run worked in ", saved.folder,
        ", this one works in ", now.folder, ": files named without a folder may be others");
  doubt(allowed.driver,
        now.driver_version != 0 && saved.driver_version != 0 &&
            saved.driver_version != now.driver_version,
        "the checkpoint's run had driver ", version_text(saved.driver_version), ", here is ",
        version_text(now.driver_version), ": its answers may be others");
  doubt(allowed.devices,
        now.device_count != 0 && saved.device_count != 0 && saved.device_count != now.device_count,
        "the checkpoint's run saw ", std::to_string(saved.device_count), " device(s), here are ",
        std::to_string(now.device_count), ": a program that counts them may not repeat itself");
  const std::string libraries =
      allowed.libraries ? std::string() : changed_libraries(saved.libraries);
  doubt(allowed.libraries, !libraries.empty(), "of the libraries of the checkpoint's run ",
        libraries, ": what they do may be something else");
  return lines;
}

std::string text_of(const SavedDevice& device) {
  return "a " + device.name + " (compute capability " + std::to_string(device.major) + "." +
         std::to_string(device.minor) + ", " + std::to_string(device.memory >> 20) + " MiB)";
}

std::string version_text(uint32_t driver_version) {
  return std::to_string(driver_version / 1000) + "." + std::to_string(driver_version % 1000 / 10);
}

}  // namespace gpusnap
