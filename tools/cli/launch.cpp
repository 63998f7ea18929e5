#include "tools/cli/launch.h"

#include <sys/personality.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>

#include "interpose/services/log.h"
#include "interpose/services/program.h"
#include "tiers/store.h"
#include "tools/cli/exit_codes.h"

namespace gpusnap {
namespace {

std::string own_folder() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return self.parent_path().string();
}

// The first that is there, links and dots taken out.
std::string first_of(std::initializer_list<std::string> candidates) {
  for (const std::string& candidate : candidates) {
    std::error_code error;
    const std::filesystem::path path = std::filesystem::canonical(candidate, error);
    if (!error) return path.string();
  }
  return {};
}

std::string working_folder() {
  std::error_code error;
  return std::filesystem::current_path(error).string();
}

void read_settings(const LaunchOptions& options, const char* consequence, Launch& launch) {
  for (const auto& [name, value] : options.settings) launch.environment.set(name, value);
  if (options.strict) launch.environment.set("GPUSNAP_STRICT", "1");
  const ParsedSettings parsed = parse_settings(launch.environment.pointers().data());
  launch.settings = parsed.settings;
  launch.settings_ok = parsed.errors.empty();
  launch.strict = parsed.settings.strict;
  set_log_level(parsed.settings.log);
  for (const std::string& line : parsed.warnings) log(LogLevel::kWarn, line);
  for (const std::string& line : parsed.errors) {
    log(LogLevel::kError, line, "; ", launch.strict ? "it does not start (strict)" : consequence);
  }
  // Said once here; the library in each of the program's processes need not say it again.
  for (const std::string& name : parsed.ignored) launch.environment.unset(name);
}

}  // namespace

std::string find_library() {
  const std::string folder = own_folder();
  return first_of({folder + "/../interpose/libgpusnap.so",    // build folder
                   folder + "/../lib/gpusnap/libgpusnap.so",  // installed
                   folder + "/libgpusnap.so"});               // carried
}

std::string find_simcuda() {
  const std::string folder = own_folder();
  const std::string library =
      first_of({folder + "/simcuda/libcuda.so.1", folder + "/../lib/gpusnap/simcuda/libcuda.so.1"});
  // Not canonical itself: the names by which programs ask are in this folder, as links perhaps.
  if (library.empty()) return {};
  return first_of({folder + "/simcuda", folder + "/../lib/gpusnap/simcuda"});
}

std::optional<int> prepare(const LaunchOptions& options, const char* consequence, Launch& launch) {
  read_settings(options, consequence, launch);
  if (!launch.settings_ok && launch.strict) return kExitSettings;
  const Result<std::string> path = find_program(options.program[0]);
  if (!path.ok()) {
    log(LogLevel::kError, path.status().message());
    return path.status().code() == Code::kNotFound ? kExitNotFound : kExitNotExecutable;
  }
  const Result<ProgramFile> file = examine_program(path.value(), options.program);
  if (!file.ok()) {
    log(LogLevel::kError, file.status().message());
    return kExitNotFound;
  }
  launch.path = path.value();
  launch.file = file.value();
  launch.arguments = options.program;
  launch.folder = working_folder();
  const std::string job =
      !launch.settings.job.empty()
          ? launch.settings.job
          : default_job_name(launch.file.path, launch.folder, launch.environment.pointers().data());
  launch.job = sanitise_job(job);
  // So that every process of the run writes to the job that `restore` will look for, from whatever
  // folder it works in.
  launch.environment.set("GPUSNAP_JOB", launch.job);
  launch.environment.set("GPUSNAP_PFS", std::filesystem::absolute(launch.settings.pfs).string());
  if (options.sim) {
    const std::string simcuda = find_simcuda();
    if (simcuda.empty()) {
      log(LogLevel::kError, "--sim: no software GPU beside this tool in ", own_folder(),
          "; build simcuda, or carry its folder along");
      return kExitInternal;
    }
    launch.environment.prepend("LD_LIBRARY_PATH", simcuda, ':');
  }
  return std::nullopt;
}

bool preload(Launch& launch) {
  const std::string library = find_library();
  if (library.empty()) {
    log(LogLevel::kError, "libgpusnap.so is not beside this tool in ", own_folder(),
        "; build it, or carry it along");
    return false;
  }
  if (library.find_first_of(" :") != std::string::npos) {
    log(LogLevel::kError, "cannot preload ", library,
        ": the loader takes no path with a space or a colon; move it");
    return false;
  }
  launch.environment.prepend("LD_PRELOAD", library, ':');
  // Python lays out its dictionaries by a random number otherwise, and does not repeat itself.
  if (launch.environment.get("PYTHONHASHSEED").empty()) {
    launch.environment.set("PYTHONHASHSEED", "0");
  }
  return true;
}

int become(Launch& launch, bool preloaded) {
  if (preloaded) {
    const int now = personality(0xffffffff);
    if (now == -1 || personality(static_cast<unsigned long>(now) | ADDR_NO_RANDOMIZE) == -1) {
      log(LogLevel::kWarn, "address randomisation cannot be turned off (", strerrordesc_np(errno),
          "; containers forbid it): a restore may find addresses taken, and is then refused");
    }
  }
  std::vector<char*> arguments;
  for (std::string& argument : launch.arguments) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  std::vector<char*> environment = launch.environment.pointers();
  // Like execvp, which also runs scripts without a first line that names an interpreter.
  environ = environment.data();
  execvp(launch.path.c_str(), arguments.data());
  const int error = errno;
  log(LogLevel::kError, "cannot run ", launch.path, ": ", strerrordesc_np(error));
  return error == ENOENT ? kExitNotFound : kExitNotExecutable;
}

}  // namespace gpusnap
