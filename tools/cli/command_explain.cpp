// SPDX-License-Identifier: Apache-2.0
// explain: what the kernels of a program may write, as far as it can be told from their code.

#include <cxxabi.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "interpose/services/log.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/device_images.h"
#include "tools/cli/exit_codes.h"
#include "tools/cli/mapped_file.h"
#include "tools/cli/program_file.h"
#include "tools/cli/text.h"
#include "tracker/kernel_writes.h"

namespace gpusnap {
namespace {

struct ExplainOptions {
  std::vector<std::string> files;
  uint32_t arch = 0;  // the device's compute capability, 90 for 9.0; 0: any device
  bool json = false;
};

struct ExplainedImage {
  std::string file;
  std::string place;
  std::vector<KernelWrites> kernels;
  std::vector<std::string> unreadable;
};

// As C++ has it; C's names stay.
std::string source_name(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && plain != nullptr ? std::string(plain.get()) : name;
}

std::string describe(const KernelWrites::Word& word) {
  if (word.offset == KernelWrites::Word::kAny) {
    return fmt::format("a word of parameter {}", word.parameter);
  }
  if (word.offset == 0) return fmt::format("parameter {}", word.parameter);
  return fmt::format("parameter {} at byte {}", word.parameter, word.offset);
}

std::string describe_writes(const KernelWrites& kernel) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  for (const KernelWrites::Pointer& pointer : kernel.pointers) {
    std::string words;
    for (const KernelWrites::Word& word : pointer.words) {
      words += (words.empty() ? "" : " or ") + describe(word);
    }
    add("what " + words + " points to");
  }
  for (const std::string& global : kernel.globals) add("variable " + source_name(global));
  if (!kernel.resolved) {
    add(kernel.layout_known ? "guessed: what its arguments point to" : "anything");
  }
  return text.empty() ? "nothing" : text;
}

// Tells whether the writes are proven, and which words of a launch are looked at beside its
// pointers.
std::string describe_proof(const KernelWrites& kernel) {
  if (!kernel.proven) return "no: " + kernel.reason;
  if (kernel.numbers.empty()) return "yes";
  std::string words;
  for (const KernelWrites::Word& word : kernel.numbers) {
    words += (words.empty() ? "" : ", ") + describe(word);
  }
  return "yes, while no address is in " + words;
}

void print(const ExplainedImage& image) {
  fmt::print("{}{}{}\n", printable(image.file), image.place.empty() ? "" : ", ", image.place);
  std::vector<std::vector<std::string>> rows = {{"", "KERNEL", "WRITES", "PROVEN"}};
  for (const KernelWrites& kernel : image.kernels) {
    rows.push_back({"", printable(source_name(kernel.name)), printable(describe_writes(kernel)),
                    printable(describe_proof(kernel))});
  }
  if (!image.kernels.empty()) fmt::print("{}", table(rows, "llll"));
  for (const std::string& line : image.unreadable) fmt::print("  not read: {}\n", printable(line));
}

void add_word(Json& json, const KernelWrites::Word& word) {
  json.begin_object();
  json.key("parameter").value(uint64_t{word.parameter});
  if (word.offset != KernelWrites::Word::kAny) json.key("offset").value(uint64_t{word.offset});
  json.end_object();
}

void add_kernel(Json& json, const KernelWrites& kernel) {
  json.begin_object();
  json.key("name").value(kernel.name);
  json.key("source_name").value(source_name(kernel.name));
  json.key("parameters").begin_array();
  for (const KernelWrites::Parameter& parameter : kernel.parameters) {
    json.begin_object();
    json.key("offset").value(uint64_t{parameter.offset});
    json.key("size").value(uint64_t{parameter.size});
    json.end_object();
  }
  json.end_array();
  json.key("pointers").begin_array();
  for (const KernelWrites::Pointer& pointer : kernel.pointers) {
    json.begin_array();
    for (const KernelWrites::Word& word : pointer.words) add_word(json, word);
    json.end_array();
  }
  json.end_array();
  json.key("numbers").begin_array();
  for (const KernelWrites::Word& word : kernel.numbers) add_word(json, word);
  json.end_array();
  json.key("variables").begin_array();
  for (const std::string& global : kernel.globals) json.value(global);
  json.end_array();
  json.key("resolved").value(kernel.resolved);
  json.key("proven").value(kernel.proven);
  json.key("reason").value(kernel.reason);
  json.end_object();
}

void print_json(const std::vector<ExplainedImage>& images) {
  Json json;
  json.begin_array();
  for (const ExplainedImage& image : images) {
    json.begin_object();
    json.key("file").value(image.file);
    json.key("place").value(image.place);
    json.key("kernels").begin_array();
    for (const KernelWrites& kernel : image.kernels) add_kernel(json, kernel);
    json.end_array();
    json.key("unreadable").begin_array();
    for (const std::string& line : image.unreadable) json.value(line);
    json.end_array();
    json.end_object();
  }
  json.end_array();
  fmt::print("{}\n", json.text());
}

// Adds the images of one file. Returns how many there were.
size_t explain_file(const std::string& path, uint32_t arch, std::vector<ExplainedImage>& images) {
  const MappedFile file(path);
  size_t count = 0;
  for (DeviceImage& found : find_device_images(file.bytes())) {
    const KernelCode code(found.contents, arch);
    ExplainedImage image{path, std::move(found.place), {}, code.unreadable()};
    for (const std::string& name : code.names()) image.kernels.push_back(code.find(name));
    // Sources without kernels have images, too.
    if (image.kernels.empty() && image.unreadable.empty()) continue;
    images.push_back(std::move(image));
    ++count;
  }
  return count;
}

// The program as it would be run, or the file of that name.
Result<std::string> find_file(const std::string& name) {
  if (access(name.c_str(), R_OK) == 0) return name;
  return find_program(name);
}

int explain_command(const ExplainOptions& options) {
  std::vector<ExplainedImage> images;
  int status = kExitOk;
  for (const std::string& name : options.files) {
    const Result<std::string> path = find_file(name);
    if (!path.ok()) {
      log(LogLevel::kError, path.status().message());
      status = path.status().code() == Code::kPermission ? kExitNotExecutable : kExitNotFound;
      continue;
    }
    size_t count = explain_file(path.value(), options.arch, images);
    for (const std::string& library : libraries_with_device_code(path.value())) {
      count += explain_file(library, options.arch, images);
    }
    if (count == 0) {
      log(LogLevel::kError, "no device code in ", name,
          ", nor in the libraries that it names: what "
          "it loads or makes while it runs can be given as a file");
      status = kExitNoDeviceCode;
    }
  }
  if (options.json) {
    print_json(images);
  } else {
    for (const ExplainedImage& image : images) print(image);
  }
  return status;
}

void declare_explain(CLI::App& command, ExplainOptions& options) {
  command
      .add_option("PROGRAM", options.files, "programs, libraries, or .ptx, .cubin, .fatbin files")
      ->required();
  command
      .add_option("--arch", options.arch,
                  "the device's compute capability without the dot: code that it cannot run is "
                  "left aside (default: any device)")
      ->type_name("90")
      ->check(CLI::Range(1, 1000));
  command.add_flag("--json", options.json,
                   "an array of images with file, place, kernels (name, source_name, parameters, "
                   "pointers, numbers, variables, resolved, proven, reason), unreadable");
  end_help(
      command,
      "While a checkpoint drains, a kernel that is proven waits for the memory alone that it\n"
      "writes. One that is not is taken to write what its arguments point to, and what is\n"
      "saved is compared with the memory at the cut; with GPUSNAP_SPECULATE=off it waits for\n"
      "all memory. Of programs, the device code in their files and in the libraries that they\n"
      "need is looked at, without CUDA's own libraries.\n\n"
      "Examples:\n"
      "  gpusnap explain ./solver\n"
      "  gpusnap explain --arch 90 --json kernels.fatbin\n\n");
}

}  // namespace

const Command kExplainCommand{
    "explain", "say what each kernel of a program may write",
    [](CLI::App& command) { return action_of(command, declare_explain, explain_command); }};

}  // namespace gpusnap
