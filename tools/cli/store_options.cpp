// SPDX-License-Identifier: Apache-2.0
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tiers/names.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/exit_codes.h"

namespace gpusnap {
namespace {

// An option that may be given again. `take`: false where it cannot read the text.
template <class Take>
void add_many(CLI::App& command, const std::string& name, const std::string& type,
              const std::string& such_as, const std::string& help, const Take& take) {
  const auto take_all = [name, such_as, take](const std::vector<std::string>& texts) {
    const auto wrong = std::ranges::find_if_not(texts, take);
    if (wrong == texts.end()) return;
    throw CLI::ValidationError(name, "'" + *wrong + "' is not such as " + such_as);
  };
  command.add_option_function<std::vector<std::string>>(name, take_all, help)
      ->type_name(type)
      ->expected(1)
      ->take_all();
}

template <class T>
bool append(std::vector<T>& to, const std::optional<T>& value) {
  if (value) to.push_back(*value);
  return value.has_value();
}

void add_selection(CLI::App& command, RangeSelection& ranges) {
  command.add_option("--rank", ranges.rank, "only this rank's (default: all)")->type_name("N");
  add_many(
      command, "--range", "NUMBER", "3", "a range, as 'gpusnap show' numbers them",
      [&ranges](const std::string& text) { return append(ranges.numbers, parse_number(text)); });
  add_many(
      command, "--address", "ADDRESS", "0x7f0012345600", "the range that has this device address",
      [&ranges](const std::string& text) { return append(ranges.addresses, parse_address(text)); });
  add_many(command, "--site", "HASH[:ORDINAL]", "00f1e2d3c4b5a697:2",
           "the allocations that were made at this call site, or one of them",
           [&ranges](const std::string& text) { return append(ranges.sites, parse_site(text)); });
  command
      .add_option("--name", ranges.names,
                  "a variable of a module, or a region or file of a history")
      ->type_name("NAME")
      ->expected(1)
      ->take_all();
}

// Calls `take` with the type of that name.
template <class Take>
void add_type(CLI::App& command, const std::string& help, const Take& take) {
  command
      .add_option_function<std::string>(
          "--dtype",
          [take](const std::string& name) {
            const ElementType* const type = find_element_type(name);
            if (type != nullptr) return take(type);
            throw CLI::ValidationError("--dtype",
                                       "'" + name + "' is none of " + element_type_names());
          },
          help)
      ->type_name("TYPE");
}

void add_arrays(CLI::App& command, ArrayOptions& arrays) {
  add_type(command, "the type of the elements (default u8): " + element_type_names(),
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

}  // namespace

void end_help(CLI::App& command, const std::string& text) {
  command.footer(text + kExitCodesHelp);
}

void add_store(CLI::App& command, std::string& store) {
  command.add_option("--store", store, "the store's folder (default GPUSNAP_PFS, ./gpusnap)");
}

CLI::App* add_show(CLI::App& app, StoreOptions& options) {
  CLI::App* const command = app.add_subcommand("show", "show what a checkpoint holds");
  command->add_option("ID", options.what, "JOB@EPOCH, JOB@latest or JOB")->required();
  CLI::Option* const json = command->add_flag("--json", options.json, "as one JSON object");
  command->add_flag("--extents", options.extents, "with the place of every extent in the segments")
      ->needs(json);
  add_store(*command, options.store);
  end_help(*command,
           "stall: how long the program waited. 'at the cut': until the device had run empty and "
           "the\nprogram went on (all of the copying, where it blocks); 'in calls': the host, for "
           "buffers or\nfor the end; 'in frees': the host, for copies of what goes; 'in streams': "
           "all waits of\nstreams, by the device's clock.\n\n"
           "Example:\n  gpusnap show wave@12\n\n");
  return command;
}

CLI::App* add_verify(CLI::App& app, StoreOptions& options) {
  CLI::App* const command =
      app.add_subcommand("verify", "read every byte of checkpoints and compare checksums");
  CLI::Option* const id = command->add_option("ID", options.what, "JOB@EPOCH, JOB@latest or JOB");
  command->add_flag("--all", options.all, "all checkpoints of the store")->excludes(id);
  add_store(*command, options.store);
  end_help(*command, "Examples:\n  gpusnap verify wave@12\n  gpusnap verify --all\n\n");
  return command;
}

CLI::App* add_extract(CLI::App& app, ExtractOptions& options) {
  CLI::App* const command =
      app.add_subcommand("extract", "write what a checkpoint holds to files, for other programs");
  command->add_option("ID", options.id, "JOB@EPOCH, JOB@latest or JOB")->required();
  add_selection(*command, options.ranges);
  add_arrays(*command, options.arrays);
  command
      ->add_option("--to", options.to,
                   "the file, or the folder where several ranges come to as many files (default: "
                   "named after the checkpoint)")
      ->type_name("PATH");
  command
      ->add_option_function<std::string>(
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
  command->add_flag("--force", options.force, "replace what is there; a folder's other files stay");
  command->add_flag("--json", options.json,
                    "an object with checkpoint, time, format, to, arrays: file, name, rank, range, "
                    "kind, address, size, call_site, ordinal, offset, bytes, dtype, shape");
  add_store(*command, options.store);
  end_help(*command,
           "Every byte is compared with its checksum. Without --range, --address, --site and "
           "--name all\nof the checkpoint is extracted. A folder has a file for each range and "
           "index.json, which\nis what --json puts out. What is not finished is removed.\n\n"
           "Examples:\n"
           "  gpusnap extract wave@12\n"
           "  gpusnap extract wave@12 --range 3 --dtype f32 --shape 512x512 --to height.npy\n"
           "  gpusnap extract wave --site 00f1e2d3c4b5a697 --dtype f32 --to all.safetensors\n\n");
  return command;
}

CLI::App* add_diff(CLI::App& app, DiffOptions& options) {
  CLI::App* const command =
      app.add_subcommand("diff", "show which memory differs between two checkpoints");
  command->add_option("ONE", options.one, "JOB@EPOCH, JOB@latest or JOB")->required();
  command->add_option("OTHER", options.other, "likewise, of the same run or of another")
      ->required();
  add_selection(*command, options.ranges);
  add_type(*command,
           "the type of the elements (default: words of 4 bytes, in hexadecimal digits): " +
               element_type_names(),
           [&options](const ElementType* type) { options.type = type; });
  command->add_option("--most", options.most, "elements that are shown of each range (default 10)")
      ->type_name("N")
      ->check(CLI::Range(0, 1000000));
  command->add_flag("--json", options.json,
                    "an object with one, other, equal, dtype, compared_ranges, compared_bytes, "
                    "ranks_only_one, ranks_only_other, ranks: rank, different (one, other, "
                    "matched_by, compared_bytes, bytes, elements, zones, first), only_one, "
                    "only_other");
  add_store(*command, options.store);
  command->add_option("--other-store", options.other_store,
                      "the store of OTHER (default: the same)");
  end_help(*command,
           "Ranges are matched by kind, call site, ordinal and size; what is left, by number. Bits "
           "are\ncompared: 0.0 and -0.0 differ. --range, --address, --site and --name choose in "
           "ONE. What both\nhave in the same place of the same file is equal, and not read.\n\n"
           "Examples:\n"
           "  gpusnap diff wave@11 wave@12\n"
           "  gpusnap diff wave@12 mutant@12 --range 3 --dtype f32\n\n");
  return command;
}

}  // namespace gpusnap
