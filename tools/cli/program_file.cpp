#include "tools/cli/program_file.h"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string_view>

#include "tools/cli/elf_file.h"
#include "tools/cli/mapped_file.h"

namespace gpusnap {
namespace {

std::string name_part(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}
std::string folder_part(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

std::string join(std::string folder, const std::string& name) {
  return folder.append("/").append(name);
}

bool is_file(const std::string& path) {
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

bool is_executable_file(const std::string& path) {
  return is_file(path) && access(path.c_str(), X_OK) == 0;
}

std::vector<std::string> folders_in(const char* list) {
  std::vector<std::string> folders;
  std::string_view rest(list != nullptr ? list : "");
  while (!rest.empty()) {
    const size_t colon = std::min(rest.find(':'), rest.size());
    folders.emplace_back(colon > 0 ? rest.substr(0, colon) : ".");
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return folders;
}

// Programs whose business is to start others, or to run code that is no part of them.
bool starts_others(const std::string& name, const std::vector<std::string>& arguments) {
  constexpr std::array<std::string_view, 25> kNames = {
      "sh",      "bash",    "dash",    "zsh",    "ksh",    "fish", "env",    "nice", "time",
      "timeout", "taskset", "numactl", "stdbuf", "strace", "gdb",  "xargs",  "make", "ninja",
      "tini",    "perl",    "ruby",    "julia",  "java",   "node", "setarch"};
  if (std::find(kNames.begin(), kNames.end(), name) != kNames.end()) return true;
  if (name.starts_with("python")) return true;
  return std::any_of(arguments.begin() + (arguments.empty() ? 0 : 1), arguments.end(),
                     [](const std::string& argument) {
                       return argument.find('/') != std::string::npos &&
                              is_executable_file(argument);
                     });
}

bool is_cuda_library(std::string_view name) {
  return name.starts_with("libcu") || name.starts_with("libnv") || name.starts_with("libnccl");
}

constexpr std::array<std::string_view, 6> kSystemFolders = {"/lib/x86_64-linux-gnu",
                                                            "/usr/lib/x86_64-linux-gnu",
                                                            "/lib64",
                                                            "/usr/lib64",
                                                            "/lib",
                                                            "/usr/lib"};

bool in_system_folder(const std::string& path) {
  return std::find(kSystemFolders.begin(), kSystemFolders.end(), folder_part(path)) !=
         kSystemFolders.end();
}

// Returns whether a library that opens others may open the driver. The system's own libraries open
// plug-ins for names, locales and the like.
bool may_open_driver(const std::string& path, std::string_view bytes) {
  constexpr std::string_view kDriver = "libcuda.so";
  return !in_system_folder(path) ||
         memmem(bytes.data(), bytes.size(), kDriver.data(), kDriver.size()) != nullptr;
}

// Empty where it is not found.
std::string find_library(const std::string& name, const std::vector<std::string>& search) {
  if (name.find('/') != std::string::npos) return is_file(name) ? name : std::string();
  std::vector<std::string> folders = search;
  const std::vector<std::string> from_user = folders_in(std::getenv("LD_LIBRARY_PATH"));
  folders.insert(folders.end(), from_user.begin(), from_user.end());
  folders.insert(folders.end(), kSystemFolders.begin(), kSystemFolders.end());
  for (const std::string& folder : folders) {
    std::string path = join(folder, name);
    if (is_file(path)) return path;
  }
  return {};
}

// Follows the libraries that the program needs. A library that cannot be followed may lead
// anywhere.
void look_for_cuda(const ElfFacts& program, ProgramFile& file) {
  file.may_use_cuda = program.opens_libraries;
  std::set<std::string> seen;
  std::vector<ElfFacts> open = {program};
  while (!open.empty()) {
    const ElfFacts facts = std::move(open.back());
    open.pop_back();
    if (facts.has_device_code || facts.imports_driver) file.shows_cuda = true;
    for (const std::string& name : facts.needed) {
      if (is_cuda_library(name)) file.shows_cuda = true;
      if (!seen.insert(name).second) continue;
      const std::string path = find_library(name, facts.search);
      const MappedFile library(path);
      Result<ElfFacts> next = read_elf(library.bytes(), folder_part(path));
      if (path.empty() || !next.ok()) {
        file.may_use_cuda = true;
        continue;
      }
      file.may_use_cuda =
          file.may_use_cuda || (next->opens_libraries && may_open_driver(path, library.bytes()));
      open.push_back(std::move(next.value()));
    }
  }
  file.may_use_cuda = file.may_use_cuda || file.shows_cuda;
}

// The loader passes over LD_PRELOAD where a program gets rights that its user does not have.
std::string raised_rights(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) return {};
  if ((status.st_mode & S_ISUID) != 0 && status.st_uid != geteuid()) return "it is setuid";
  if ((status.st_mode & S_ISGID) != 0 && status.st_gid != getegid()) return "it is setgid";
  if (geteuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0) {
    return "it has file capabilities";
  }
  return {};
}

}  // namespace

Result<std::string> find_program(const std::string& name) {
  const bool by_path = name.find('/') == std::string::npos;
  const char* const path = std::getenv("PATH");
  std::string found;
  for (const std::string& folder :
       by_path ? folders_in(path != nullptr ? path : "/bin:/usr/bin") : folders_in(".")) {
    const std::string candidate = by_path ? join(folder, name) : name;
    if (is_executable_file(candidate)) return candidate;
    if (found.empty() && access(candidate.c_str(), F_OK) == 0) found = candidate;
  }
  if (!found.empty()) {
    return Status(Code::kPermission,
                  "cannot run " + found + ": " +
                      (is_file(found) ? "it is not executable; chmod +x it" : "it is not a file"));
  }
  return Status(Code::kNotFound, by_path ? "cannot run " + name + ": not found in PATH"
                                         : "cannot run " + name + ": no such file");
}

Result<std::string> find_program(const std::string& name, const std::string& folder) {
  if (name.starts_with('/')) return find_program(name);
  if (name.find('/') == std::string::npos) {
    Result<std::string> by_path = find_program(name);
    if (by_path.ok() || !is_executable_file(join(folder, name))) return by_path;
  }
  return find_program(join(folder, name));
}

std::vector<std::string> libraries_with_device_code(const std::string& path) {
  std::vector<std::string> found;
  std::set<std::string> seen;
  std::vector<std::string> open = {path};
  while (!open.empty()) {
    const std::string next = std::move(open.back());
    open.pop_back();
    const MappedFile file(next);
    const Result<ElfFacts> facts = read_elf(file.bytes(), folder_part(next));
    if (!facts.ok()) continue;
    if (facts.value().has_device_code && next != path) found.push_back(next);
    for (const std::string& name : facts.value().needed) {
      if (is_cuda_library(name) || !seen.insert(name).second) continue;
      const std::string library = find_library(name, facts.value().search);
      if (!library.empty()) open.push_back(library);
    }
  }
  return found;
}

Result<ProgramFile> examine_program(const std::string& path,
                                    const std::vector<std::string>& arguments) {
  ProgramFile file;
  char* const real = realpath(path.c_str(), nullptr);
  if (real == nullptr) {
    return Status(Code::kNotFound, "cannot run " + path + ": " + strerrordesc_np(errno));
  }
  file.path = real;
  std::free(real);
  const MappedFile mapped(file.path);
  if (mapped.bytes().starts_with("#!")) {
    file.is_script = true;
    return file;
  }
  const Result<ElfFacts> facts = read_elf(mapped.bytes(), folder_part(file.path));
  // Without read permission, or in a format that the kernel may know and we do not: it may do.
  if (!facts.ok()) return file;
  file.is_elf = true;
  file.cannot_preload = raised_rights(file.path);
  if (!facts.value().has_interpreter) file.cannot_preload = "it is statically linked";
  if (!facts.value().x86_64) file.cannot_preload = "it is not a 64-bit x86 program";
  if (starts_others(name_part(file.path), arguments)) return file;
  look_for_cuda(facts.value(), file);
  return file;
}

}  // namespace gpusnap
