// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "interpose/services/log.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/extraction.h"
#include "tools/cli/interruption.h"
#include "tools/cli/output_file.h"
#include "tools/cli/output_target.h"
#include "tools/cli/progress_bar.h"
#include "tools/cli/range_text.h"
#include "tools/cli/store_access.h"
#include "tools/cli/text.h"

namespace gpusnap {
namespace {

struct ExtractOptions {
  std::string store;  // empty: as the environment says
  std::string id;
  RangeSelection ranges;
  ArrayOptions arrays;
  std::string to;                     // empty: named after the checkpoint
  std::optional<ArrayFormat> format;  // empty: as the ending of `to` says, else .npy
  bool force = false;
  bool json = false;
};

constexpr const char* kIndexName = "index.json";

// That of a file of this name, where its ending says so.
std::optional<ArrayFormat> format_by_name(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? std::nullopt : find_array_format(path.substr(dot + 1));
}

// The output, and where it goes.
struct Making {
  ArrayFormat format = ArrayFormat::kNpy;
  bool is_folder = false;
  std::string to;
  std::vector<ExtractedArray> arrays;
  std::vector<ArrayFile> files;
};

Result<Making> plan_making(const ExtractOptions& options, const CheckpointInfo& checkpoint) {
  const auto selected = select_ranges(checkpoint, options.ranges);
  if (!selected.ok()) return selected.status();
  auto arrays = plan_arrays(selected.value(), options.arrays);
  if (!arrays.ok()) return arrays.status();
  if (arrays->empty()) {
    return Status(Code::kNotFound, "checkpoint " + checkpoint.id + " holds no memory");
  }
  Making making;
  const std::optional<ArrayFormat> by_name = format_by_name(options.to);
  making.format = options.format.value_or(by_name.value_or(ArrayFormat::kNpy));
  if (Status typed = check_type(making.format, *options.arrays.type); !typed.ok()) return typed;
  making.arrays = std::move(arrays.value());
  const bool is_one = making.arrays.size() == 1 && (by_name || !options.ranges.is_everything());
  making.is_folder = !is_one && !holds_several(making.format);
  if (making.is_folder && by_name) {
    return Status(Code::kInvalid,
                  fmt::format("{} is the name of a file, and {} ranges are to be extracted: choose "
                              "one, or give a folder, .npz or .safetensors",
                              options.to, making.arrays.size()));
  }
  making.to = options.to;
  if (making.to.empty()) {
    making.to = fmt::format("{}-{}", checkpoint.job, checkpoint.epoch);
    if (is_one) making.to += "-" + making.arrays[0].name();
    if (!making.is_folder) making.to += fmt::format(".{}", name_of(making.format));
  }
  std::vector<const ExtractedArray*> all;
  for (const ExtractedArray& array : making.arrays) all.push_back(&array);
  if (holds_several(making.format)) {
    making.files.emplace_back(making.format, checkpoint.id, std::move(all));
  } else {
    for (const ExtractedArray* array : all) {
      making.files.emplace_back(making.format, checkpoint.id, std::vector{array});
    }
  }
  return making;
}

void add_array(Json& json, const Making& making, const ExtractedArray& array,
               const std::string& file) {
  const SavedRange& range = array.saved();
  json.begin_object();
  if (making.is_folder) json.key("file").value(file);
  json.key("name").value(array.name());
  json.key("rank").value(uint64_t{array.rank->rank});
  json.key("range").value(uint64_t{array.range});
  json.key("kind").value(name_of_kind(range));
  json.key("address").value(fmt::format("0x{:x}", range.address));
  json.key("size").value(range.size);
  add_origin(json, range, array.rank->by_program());
  json.key("offset").value(array.offset);
  json.key("bytes").value(array.bytes);
  json.key("dtype").value(array.type->name);
  json.key("shape").begin_array();
  for (const uint64_t dimension : array.shape) json.value(dimension);
  json.end_array();
  json.end_object();
}

// A folder's index.json, and what --json puts out.
std::string index_of(const Making& making, const CheckpointInfo& checkpoint) {
  Json json;
  json.begin_object();
  json.key("checkpoint").value(checkpoint.id);
  json.key("time").value(show_iso_time(checkpoint.time_unix_ns));
  json.key("format").value(name_of(making.format));
  json.key("to").value(making.to);
  json.key("arrays").begin_array();
  for (const ArrayFile& file : making.files) {
    for (const ExtractedArray* array : file.arrays()) add_array(json, making, *array, file.name());
  }
  json.end_array();
  return json.end_object().text() + "\n";
}

Status write_index(FileSystem& files, OutputTarget& target, const std::string& text) {
  auto file = files.create(target.begin_file(kIndexName));
  if (!file.ok()) return file.status();
  if (Status written = file.value()->append(std::as_bytes(std::span(text))); !written.ok()) {
    return written;
  }
  return file.value()->sync();
}

// If it fails, it removes what it has written before it returns.
int write_all(Store& store, const CheckpointInfo& checkpoint, Making& making, bool force) {
  FileSystem& files = posix_file_system();
  const Interruption interruption;
  const auto kind = making.is_folder ? OutputTarget::Kind::kFolder : OutputTarget::Kind::kFile;
  OutputTarget target(files, making.to, kind, force);
  if (Status begun = target.begin(); !begun.ok()) return fail_output(begun);
  {
    ProgressBar bar(checkpoint.id);
    const Progress progress = [&bar](uint64_t done, uint64_t total) { bar.update(done, total); };
    const std::function<bool()> goes_on = [&interruption] { return !interruption.came(); };
    Extraction extraction(store, checkpoint, files, target, making.files, progress, goes_on);
    const Status done = extraction.run();
    if (extraction.has_output_failed()) return fail_output(done);
    if (!done.ok()) return fail(done);
  }
  if (making.is_folder) {
    const Status indexed = write_index(files, target, index_of(making, checkpoint));
    if (!indexed.ok()) return fail_output(indexed);
  }
  const Status finished = target.finish();
  return finished.ok() ? kExitOk : fail_output(finished);
}

void print_made(const Making& making) {
  uint64_t bytes = 0;
  for (const ExtractedArray& array : making.arrays) bytes += array.bytes;
  if (making.arrays.size() > 1) {
    fmt::print("{}: {} ranges, {}\n", making.to, making.arrays.size(), show_bytes(bytes));
    return;
  }
  const ExtractedArray& array = making.arrays[0];
  fmt::print("{}: range {} of rank {}, {} of {}, {}\n", making.to, array.range, array.rank->rank,
             show_shape(array.shape), array.type->name, show_bytes(bytes));
}

int extract_command(const ExtractOptions& options) {
  const Result<std::unique_ptr<Store>> store = open_store(options.store);
  if (!store.ok()) return fail(store.status());
  const Result<CheckpointInfo> checkpoint = find_complete(*store.value(), options.id);
  if (!checkpoint.ok()) return fail(checkpoint.status());
  Result<Making> making = plan_making(options, checkpoint.value());
  if (!making.ok()) return fail(making.status());
  const int exit_code =
      write_all(*store.value(), checkpoint.value(), making.value(), options.force);
  if (exit_code != kExitOk) return exit_code;
  if (options.json) {
    fmt::print("{}", index_of(making.value(), checkpoint.value()));
  } else {
    print_made(making.value());
  }
  return kExitOk;
}

void add_arrays(CLI::App& command, ArrayOptions& arrays) {
  add_element_type(command, "the type of the elements (default u8): " + element_type_names(),
                   [&arrays](const ElementType* type) { arrays.type = type; });
  command
      .add_option_function<std::string>(
          "--shape",
          [&arrays](const std::string& text) {
            const auto shape = parse_shape(text);
            if (!shape) {
              throw CLI::ValidationError("--shape",
                                         "'" + text + "' is not a shape such as 100x200");
            }
            arrays.shape = *shape;
          },
          "the dimensions, the last one the fastest (default: one, all elements)")
      ->type_name("100x200");
  command.add_option("--offset", arrays.offset, "bytes of the range that are left out before it")
      ->type_name("BYTES");
}

void declare_extract(CLI::App& command, ExtractOptions& options) {
  command.add_option("ID", options.id, "JOB@EPOCH, JOB@latest or JOB")->required();
  add_selection(command, options.ranges);
  add_arrays(command, options.arrays);
  command
      .add_option("--to", options.to,
                  "the file, or the folder where several ranges come to as many files (default: "
                  "named after the checkpoint)")
      ->type_name("PATH");
  command
      .add_option_function<std::string>(
          "--format",
          [&options](const std::string& name) {
            options.format = find_array_format(name);
            if (options.format) return;
            throw CLI::ValidationError("--format",
                                       "'" + name + "' is none of raw, npy, npz, safetensors");
          },
          "raw, npy, npz or safetensors (default: as the ending of --to says, else npy); the last "
          "two hold several ranges")
      ->type_name("FORMAT");
  command.add_flag("--force", options.force, "replace what is there; a folder's other files stay");
  command.add_flag("--json", options.json,
                   "an object with checkpoint, time, format, to, arrays: file, name, rank, range, "
                   "kind, address, size, call_site, ordinal, offset, bytes, dtype, shape");
  add_store(command, options.store);
  end_help(command,
           "Every byte is compared with its checksum. Without --range, --address, --site and "
           "--name all\nof the checkpoint is extracted. A folder has a file for each range and "
           "index.json, which\nis what --json puts out. What is not finished is removed.\n\n"
           "Examples:\n"
           "  gpusnap extract wave@12\n"
           "  gpusnap extract wave@12 --range 3 --dtype f32 --shape 512x512 --to height.npy\n"
           "  gpusnap extract wave --site 00f1e2d3c4b5a697 --dtype f32 --to all.safetensors\n\n");
}

}  // namespace

const Command kExtractCommand{
    "extract", "write what a checkpoint holds to files, for other programs",
    [](CLI::App& command) { return action_of(command, declare_extract, extract_command); }};

}  // namespace gpusnap
