#include "tools/cli/launch.h"

#include <sys/personality.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "interpose/services/log.h"
#include "interpose/services/program.h"
#include "tiers/store.h"
#include "tools/cli/exit_codes.h"

namespace gpusnap {
namespace {

std::string own_path() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

std::string own_folder() {
  return std::filesystem::path(own_path()).parent_path().string();
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

// `folder` from the working folder on; that itself where it is empty.
std::string folder_from_here(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  if (folder.empty()) return here.string();
  const std::filesystem::path there = std::filesystem::weakly_canonical(here / folder, error);
  return (error ? here / folder : there).string();
}

void read_settings(const LaunchOptions& options, const char* consequence, Launch& launch) {
  for (const auto& [name, value] : options.settings) launch.environment.set(name, value);
  const ParsedSettings parsed = parse_settings(launch.environment.pointers().data());
  launch.settings = parsed.settings;
  launch.settings_ok = parsed.errors.empty();
  launch.strict = parsed.settings.strict;
  set_level_of_lines(parsed.settings.log);
  for (const std::string& line : parsed.warnings) log(LogLevel::kWarn, line);
  for (const std::string& line : parsed.errors) {
    log(LogLevel::kError, line, "; ", launch.strict ? "it does not start (strict)" : consequence);
  }
  // Said once here; the library in each of the program's processes need not say it again.
  for (const std::string& name : parsed.ignored) launch.environment.unset(name);
}

std::optional<int> add_program(const Result<std::string>& path, std::vector<std::string> arguments,
                               std::string folder, Launch& launch) {
  if (!path.ok()) return cannot_run(path.status());
  Result<ProgramFile> file = examine_program(path.value(), arguments);
  if (!file.ok()) return cannot_run(file.status());
  launch.programs.push_back(
      {path.value(), std::move(file.value()), std::move(arguments), std::move(folder)});
  return std::nullopt;
}

std::optional<int> add_launched_programs(const LaunchOptions& options, Launch& launch) {
  if (!launch.launcher->problem.empty()) {
    log(LogLevel::kError, launch.launcher->problem, "; let it start gpusnap instead: '",
        options.program[0], " ... gpusnap ", options.command, " -- ./solver'");
    return kExitUsage;
  }
  for (const LaunchedProgram& program : launch.launcher->programs) {
    const auto begin = options.program.begin();
    std::string folder = folder_from_here(program.folder);
    const Result<std::string> path = find_program(options.program[program.begin], folder);
    const auto exit_code = add_program(path,
                                       {begin + static_cast<ptrdiff_t>(program.begin),
                                        begin + static_cast<ptrdiff_t>(program.end)},
                                       std::move(folder), launch);
    if (exit_code) return exit_code;
  }
  return std::nullopt;
}

std::optional<int> find_programs(const LaunchOptions& options, Launch& launch) {
  const Result<std::string> path = find_program(options.program[0]);
  if (!path.ok()) return cannot_run(path.status());
  launch.command = options.program;
  launch.path = path.value();
  launch.launcher = understand_launcher(options.program, first_of({launch.path}),
                                        [](const auto& name, const auto& folder) {
                                          return find_program(name, folder_from_here(folder)).ok();
                                        });
  return launch.launcher ? add_launched_programs(options, launch)
                         : add_program(path, options.program, folder_from_here({}), launch);
}

std::string default_job(const Program& program, bool resume, Environment& environment) {
  std::string job =
      default_job_name(program.file.path, program.folder, environment.pointers().data());
  // Another job of the same name starts afresh.
  const std::string id = resume ? scheduler_job_id(environment.pointers().data()) : std::string();
  return id.empty() ? job : job + "-" + id;
}

// So that every process of the run writes to the job that `restore` will look for, from whatever
// folder it works in.
void name_job(bool resume, Launch& launch) {
  const std::string job = !launch.settings.job.empty()
                              ? launch.settings.job
                              : default_job(launch.programs.front(), resume, launch.environment);
  launch.job = sanitise_job(job);
  launch.environment.set("GPUSNAP_JOB", launch.job);
  launch.environment.set("GPUSNAP_PFS", std::filesystem::absolute(launch.settings.pfs).string());
}

// Launchers hand on neither all of the environment nor how addresses are laid out.
std::vector<std::string> wrapper_for_ranks(const Launch& launch) {
  std::vector<std::string> wrapper = {own_path(), "rank"};
  if (!launch.simcuda.empty()) wrapper.emplace_back("--sim");
  for (const std::string& entry : launch.environment.entries()) {
    if (!entry.starts_with("GPUSNAP_") && !entry.starts_with("SIMCUDA_") &&
        !entry.starts_with("PYTHONHASHSEED=")) {
      continue;
    }
    wrapper.emplace_back("-s");
    wrapper.push_back(entry);
  }
  wrapper.emplace_back("--");
  return wrapper;
}

int execute(const std::string& path, std::vector<std::string> arguments, Environment& environment) {
  std::vector<char*> pointers;
  pointers.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  std::vector<char*> variables = environment.pointers();
  // Like execvp, which also runs scripts without a first line that names an interpreter.
  environ = variables.data();
  execvp(path.c_str(), pointers.data());
  const int error = errno;
  log(LogLevel::kError, "cannot run ", path, ": ", strerrordesc_np(error));
  return error == ENOENT ? kExitNotFound : kExitNotExecutable;
}

// Whether a launcher started this process beside others of the node, and not as the first.
bool is_one_of_several() {
  for (const char* const name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                 "PALS_LOCAL_RANKID", "FLUX_TASK_LOCAL_ID", "SLURM_LOCALID"}) {
    const char* const number = std::getenv(name);
    if (number != nullptr) return std::string_view(number) != "0";
  }
  return false;
}

}  // namespace

Result<std::string> find_library() {
  const std::string folder = own_folder();
  const std::string library = first_of({folder + "/../interpose/libgpusnap.so",    // build folder
                                        folder + "/../lib/gpusnap/libgpusnap.so",  // installed
                                        folder + "/libgpusnap.so"});               // carried
  if (library.empty()) {
    return Status(Code::kNotFound, "libgpusnap.so is not beside this tool in " + folder +
                                       "; build it, or carry it along");
  }
  if (library.find_first_of(" :") == std::string::npos) return library;
  return Status(Code::kInvalid, "cannot preload " + library +
                                    ": the loader takes no path with a space or a colon; move it");
}

std::string library_to_preload() {
  const Result<std::string> library = find_library();
  if (library.ok()) return library.value();
  log(LogLevel::kError, library.status().message());
  return {};
}

std::string folder_of_simcuda() {
  const std::string folder = own_folder();
  const std::string library =
      first_of({folder + "/simcuda/libcuda.so.1", folder + "/../lib/gpusnap/simcuda/libcuda.so.1"});
  // Not canonical itself: the names by which programs ask are in this folder, as links perhaps.
  if (!library.empty()) {
    return first_of({folder + "/simcuda", folder + "/../lib/gpusnap/simcuda"});
  }
  log(LogLevel::kError, "--sim: no software GPU beside this tool in ", folder,
      "; build simcuda, or carry its folder along");
  return {};
}

std::optional<int> prepare(const LaunchOptions& options, const char* consequence, Launch& launch) {
  read_settings(options, consequence, launch);
  if (!launch.settings_ok && launch.strict) return kExitSettings;
  if (const auto exit_code = find_programs(options, launch)) return exit_code;
  name_job(options.resume, launch);
  if (!options.sim) return std::nullopt;
  launch.simcuda = folder_of_simcuda();
  return launch.simcuda.empty() ? std::optional<int>(kExitInternal) : std::nullopt;
}

int become(Launch& launch, const std::string& library) {
  if (!launch.launcher || library.empty()) {
    return become(launch.path, launch.command, launch.environment, launch.simcuda, library);
  }
  return execute(launch.path,
                 wrap_programs(launch.command, *launch.launcher, wrapper_for_ranks(launch)),
                 launch.environment);
}

int become(const std::string& path, const std::vector<std::string>& arguments,
           Environment& environment, const std::string& simcuda, const std::string& library) {
  if (!simcuda.empty()) environment.prepend("LD_LIBRARY_PATH", simcuda, ':');
  if (library.empty()) return execute(path, arguments, environment);
  environment.prepend("LD_PRELOAD", library, ':');
  // Python lays out its dictionaries by a random number otherwise, and does not repeat itself.
  if (environment.get("PYTHONHASHSEED").empty()) environment.set("PYTHONHASHSEED", "0");
  const int now = personality(0xffffffff);
  if (now == -1 || personality(static_cast<unsigned long>(now) | ADDR_NO_RANDOMIZE) == -1) {
    log(LogLevel::kWarn, "address randomisation cannot be turned off (", strerrordesc_np(errno),
        "; containers forbid it): a restore may find addresses taken, and is then refused");
  }
  environment.even_out();
  return execute(path, arguments, environment);
}

int cannot_run(const Status& why) {
  log(LogLevel::kError, why.message());
  return why.code() == Code::kNotFound ? kExitNotFound : kExitNotExecutable;
}

void set_level_of_lines(LogLevel level) {
  set_log_level(level == LogLevel::kWarn && is_one_of_several() ? LogLevel::kError : level);
}

}  // namespace gpusnap
