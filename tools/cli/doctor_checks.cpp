// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/doctor_checks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <utility>

#include "tiers/daemon/runtime_folder.h"
#include "tiers/daemon/start.h"
#include "tiers/file_system.h"
#include "tiers/placement/calibration.h"
#include "tiers/placement/device.h"
#include "tools/cli/devices.h"
#include "tools/cli/doctor_system.h"
#include "tools/cli/environment.h"
#include "tools/cli/launch.h"
#include "tools/cli/program_file.h"
#include "tools/cli/text.h"

namespace gpusnap {
namespace {

using Findings = std::vector<Finding>;

constexpr const char* kMemory = "/dev/shm";
constexpr uint64_t kLeastRoom = 64 << 20;

void check_settings(const ParsedSettings& parsed, Findings& findings) {
  for (const std::string& line : parsed.errors) {
    findings.push_back({"settings", Verdict::kBad, line,
                        "correct it, or unset it: until then there are no checkpoints"});
  }
  for (const std::string& line : parsed.warnings) {
    findings.push_back({"settings", Verdict::kDoubtful, line, "correct it, or unset it"});
  }
  if (findings.empty()) findings.push_back({"settings", Verdict::kOk, "can be read", ""});
}

// A program of the system tells what is loaded into it.
Finding check_library() {
  const Result<std::string> library = find_library();
  if (!library.ok()) {
    return {"library", Verdict::kBad, library.status().message(),
            "keep gpusnap and libgpusnap.so in the folders in which they were built or installed"};
  }
  const Result<std::string> cat = find_program("cat");
  if (!cat.ok())
    return {"library", Verdict::kDoubtful, cat.status().message(),
            "put it on the PATH: it is what the library is tried with"};
  Environment environment;
  environment.prepend("LD_PRELOAD", library.value(), ':');
  const std::string said = output_of({cat.value(), "/proc/self/maps"}, environment);
  if (said.find(library.value() + "\n") != std::string::npos) {
    return {"library", Verdict::kOk, "can be preloaded: " + library.value(), ""};
  }
  const std::string line = said.substr(0, said.find('\n'));
  const bool is_loaders = line.find("ld.so") != std::string::npos;
  return {"library", Verdict::kBad,
          "is not loaded into " + cat.value() + (is_loaders ? ": " + line : ""),
          "use gpusnap on the system that it was built for, or build it here"};
}

std::string show_devices(const ProgramIdentity& found) {
  const uint32_t version = found.driver_version;
  std::string text = fmt::format("CUDA {}.{}, {} device{}", version / 1000, version % 1000 / 10,
                                 found.device_count, found.device_count == 1 ? "" : "s");
  if (!found.devices.empty()) {
    text += fmt::format(": {}, {}", found.devices[0].name, show_bytes(found.devices[0].memory));
  }
  return text;
}

Finding check_driver(const DoctorQuestion& question, ProgramIdentity& found) {
  constexpr size_t kMostDevices = 64;
  Environment environment;
  ask_for_devices(environment, question.simcuda, kMostDevices, found);
  if (found.device_count > 0) return {"driver", Verdict::kOk, show_devices(found), ""};
  if (!question.simcuda.empty()) {
    return {"driver", Verdict::kBad, "the software GPU in " + question.simcuda + " has no device",
            "unset SIMCUDA_* variables"};
  }
  std::error_code error;
  const bool has_module = std::filesystem::exists("/proc/driver/nvidia/version", error);
  if (found.driver_version != 0 || has_module) {
    return {"driver", Verdict::kBad, "NVIDIA's driver is there and shows no device",
            "see nvidia-smi; look at CUDA_VISIBLE_DEVICES and at the container's devices"};
  }
  return {"driver", Verdict::kBad,
          "there is none: libcuda.so.1 cannot be loaded or shows no device",
          "install NVIDIA's driver, start the container with its GPUs, or try --sim, the software "
          "GPU"};
}

Finding check_addresses() {
  const Status fixed = try_fixed_addresses();
  if (fixed.ok()) return {"addresses", Verdict::kOk, "can be the same in each run", ""};
  return {"addresses", Verdict::kDoubtful,
          "randomisation cannot be turned off: " + fixed.message() +
              (has_seccomp_filter() ? " (a seccomp filter is on)" : ""),
          "allow personality() in the container's seccomp profile: else a restore may be refused"};
}

Finding check_io_uring() {
  if (has_io_uring()) return {"io_uring", Verdict::kOk, "is allowed", ""};
  return {"io_uring", Verdict::kDoubtful,
          has_seccomp_filter() ? "is not there, or a seccomp filter forbids it"
                               : "is not there, or kernel.io_uring_disabled forbids it",
          "threads do its work, with more processor time; allow the io_uring_* calls"};
}

Finding check_backend(const Settings& settings) {
  if (!settings.backend_process) return {"backend", Verdict::kOk, "threads of the program", ""};
  const std::string backend = find_backend();
  if (backend.empty()) {
    return {"backend", Verdict::kDoubtful, "gpusnapd is not beside this tool",
            "keep it there: else what a killed program had handed over is lost"};
  }
  const Status folder = make_runtime_folder();
  if (folder.ok()) return {"backend", Verdict::kOk, backend, ""};
  return {"backend", Verdict::kBad, folder.message(),
          "set XDG_RUNTIME_DIR to a folder of your own"};
}

Finding check_shared_memory(const Settings& settings) {
  constexpr const char* kCheck = "shared memory";
  if (!settings.backend_process) {
    return {kCheck, Verdict::kOk, "is not needed (GPUSNAP_BACKEND=thread)", ""};
  }
  const auto room = free_bytes(kMemory);
  const Status written = room ? try_to_write(kMemory) : Status(Code::kNotFound, "is not there");
  if (!written.ok()) {
    return {kCheck, Verdict::kBad, fmt::format("{}: {}", kMemory, written.message()),
            "mount a tmpfs there, or set GPUSNAP_BACKEND=thread"};
  }
  const std::string free = fmt::format("{} free in {}", show_bytes(*room), kMemory);
  if (*room >= settings.host_cache) return {kCheck, Verdict::kOk, free, ""};
  return {kCheck, *room < 2 * settings.slot ? Verdict::kBad : Verdict::kDoubtful,
          fmt::format("{}, and GPUSNAP_HOST_CACHE is {}", free, show_bytes(settings.host_cache)),
          "give the container more (--shm-size, --ipc=host), or set GPUSNAP_HOST_CACHE"};
}

Finding check_locked_memory(const Settings& settings) {
  constexpr const char* kCheck = "locked memory";
  const uint64_t limit = locked_memory_limit();
  if (limit == 0) return {kCheck, Verdict::kOk, "has no limit", ""};
  if (limit >= settings.host_cache) return {kCheck, Verdict::kOk, "up to " + show_bytes(limit), ""};
  return {kCheck, Verdict::kDoubtful,
          fmt::format("up to {}, and GPUSNAP_HOST_CACHE is {}", show_bytes(limit),
                      show_bytes(settings.host_cache)),
          "ulimit -l unlimited, if staging memory cannot be pinned"};
}

// Whether files can be made in a folder, or where it is going to be made.
Finding check_folder(const char* check, const std::string& folder, uint64_t wanted) {
  const std::string there = nearest_folder(folder);
  const std::string what = there == std::filesystem::absolute(folder) || there == folder
                               ? folder
                               : folder + " (to be made in " + there + ")";
  const Status written = try_to_write(there);
  if (!written.ok()) {
    return {check, Verdict::kBad, written.message(), "choose a folder that you can write to"};
  }
  const uint64_t room = free_bytes(there).value_or(0);
  const std::string free = fmt::format("{}: {} free", what, show_bytes(room));
  if (room < kLeastRoom) return {check, Verdict::kBad, free, "free some room, or choose another"};
  if (room >= wanted) return {check, Verdict::kOk, free, ""};
  return {check, Verdict::kDoubtful,
          fmt::format("{}, and devices have {}", free, show_bytes(wanted)),
          "free some room if the program uses all of its devices' memory"};
}

// Room for all that the devices hold; less does where a program does not fill them.
Finding check_store(const Settings& settings, const ProgramIdentity& found) {
  uint64_t wanted = 0;
  for (const SavedDevice& device : found.devices) wanted += device.memory;
  return check_folder("store", settings.pfs, wanted);
}

void check_ssds(const Settings& settings, Findings& findings) {
  if (settings.tiers.ssd.empty()) {
    findings.push_back({"ssd", Verdict::kOk, "none is set (GPUSNAP_SSD)", ""});
  }
  for (const SsdFolder& ssd : settings.tiers.ssd) {
    Finding finding = check_folder("ssd", ssd.path, 0);
    const auto device = identify_device(nearest_folder(ssd.path));
    const bool is_measured =
        device.ok() && load_calibration(posix_file_system(), calibration_folder(ssd.path),
                                        device.value(), std::time(nullptr), kMostCalibrationAge_s)
                           .ok();
    if (finding.verdict == Verdict::kOk && !is_measured) {
      finding.verdict = Verdict::kDoubtful;
      finding.what += ", not calibrated";
      finding.advice = "gpusnap calibrate " + ssd.path;
    }
    findings.push_back(std::move(finding));
  }
}

Finding check_mpi() {
  constexpr const char* kCheck = "mpi";
  std::string names;
  Environment environment;
  for (const char* const name : {"mpirun", "mpiexec", "prun", "srun"}) {
    const Result<std::string> path = find_program(name);
    if (!path.ok()) continue;
    const std::string said = output_of({path.value(), "--version"}, environment);
    // Slurm's commands on a machine that belongs to no cluster.
    if (said.find("srun: fatal:") != std::string::npos) continue;
    const bool is_known = std::ranges::any_of(
        std::initializer_list<const char*>{"Open MPI", "OpenRTE", "PRRTE", "HYDRA", "slurm"},
        [&said](const char* maker) { return said.find(maker) != std::string::npos; });
    if (!is_known) {
      return {kCheck, Verdict::kDoubtful, path.value() + " is of a kind that is not known",
              fmt::format("let it start gpusnap: {} -n 4 gpusnap run -- ./solver", name)};
    }
    names += (names.empty() ? "" : ", ") + path.value();
  }
  if (names.empty()) return {kCheck, Verdict::kOk, "no launcher is found, and none is needed", ""};
  return {kCheck, Verdict::kOk, names, ""};
}

Finding check_program(const std::string& name) {
  const Result<std::string> path = find_program(name);
  if (!path.ok()) return {"program", Verdict::kBad, path.status().message(), "give its path"};
  const Result<ProgramFile> file = examine_program(path.value(), {name});
  if (!file.ok())
    return {"program", Verdict::kBad, file.status().message(), "give a program that can be run"};
  if (!file->cannot_preload.empty()) {
    return {"program", Verdict::kBad,
            "no library can be preloaded into " + file->path + ": " + file->cannot_preload,
            "link it dynamically, without raised rights"};
  }
  if (!file->may_use_cuda) {
    return {"program", Verdict::kBad, file->path + " shows no sign of CUDA",
            "give the program that uses CUDA, not one that starts it"};
  }
  return {"program", Verdict::kOk, file->path, ""};
}

// Lines of at most so many columns; a longer word is broken.
std::vector<std::string> wrapped(std::string text, size_t columns) {
  std::vector<std::string> lines;
  while (text.size() > columns) {
    const size_t space = text.rfind(' ', columns);
    const bool has_space = space != std::string::npos && space > 0;
    lines.push_back(text.substr(0, has_space ? space : columns));
    text.erase(0, has_space ? space + 1 : columns);
  }
  lines.push_back(std::move(text));
  return lines;
}

}  // namespace

const char* name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      break;
    case Verdict::kDoubtful:
      return "doubtful";
    case Verdict::kBad:
      return "bad";
  }
  return "ok";
}

std::vector<Finding> examine_machine(const DoctorQuestion& question) {
  ParsedSettings parsed = parse_settings(environ);
  if (!question.store.empty()) parsed.settings.pfs = question.store;
  const Settings& settings = parsed.settings;
  ProgramIdentity devices;
  Findings findings;
  check_settings(parsed, findings);
  findings.push_back(check_library());
  if (!question.program.empty()) findings.push_back(check_program(question.program));
  findings.push_back(check_driver(question, devices));
  findings.push_back(check_addresses());
  findings.push_back(check_backend(settings));
  findings.push_back(check_shared_memory(settings));
  findings.push_back(check_locked_memory(settings));
  findings.push_back(check_io_uring());
  findings.push_back(check_store(settings, devices));
  check_ssds(settings, findings);
  findings.push_back(check_mpi());
  return findings;
}

std::string findings_as_text(const std::vector<Finding>& findings) {
  constexpr size_t kColumns = 80, kIndent = 25;
  std::string text;
  for (const Finding& finding : findings) {
    std::vector<std::string> lines = wrapped(printable(finding.what), kColumns - kIndent);
    if (!finding.advice.empty()) {
      const auto advice = wrapped("-> " + printable(finding.advice), kColumns - kIndent);
      lines.insert(lines.end(), advice.begin(), advice.end());
    }
    for (size_t i = 0; i < lines.size(); ++i) {
      text += i == 0 ? fmt::format("{:<8}  {:<13}  ", name_of(finding.verdict), finding.check)
                     : std::string(kIndent, ' ');
      text += lines[i] + "\n";
    }
  }
  return text;
}

std::string findings_as_json(const std::vector<Finding>& findings) {
  Json json;
  json.begin_array();
  for (const Finding& finding : findings) {
    json.begin_object();
    json.key("check").value(finding.check);
    json.key("verdict").value(name_of(finding.verdict));
    json.key("finding").value(finding.what);
    json.key("advice").value(finding.advice);
    json.end_object();
  }
  return json.end_array().text() + "\n";
}

}  // namespace gpusnap
