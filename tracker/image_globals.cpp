#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "tracker/cubin.h"
#include "tracker/device_heap.h"
#include "tracker/image.h"
#include "tracker/ptx.h"

namespace gpusnap {
namespace {

using ptx::Space;

bool in_device_memory(const ptx::Variable& variable) {
  return (variable.space == Space::kGlobal || variable.space == Space::kConst) &&
         variable.linkage != ptx::Linkage::kExtern && variable.size > 0 &&
         variable.reference == ptx::Reference::kNone;
}

std::string read_ptx_globals(std::string_view text, ImageGlobals& found) {
  const ptx::ParseResult parsed = ptx::parse(text);
  if (parsed.module == nullptr) {
    return "line " + std::to_string(parsed.error.line) + ": " + parsed.error.reason;
  }
  found.device_heap = may_keep_heap_memory(*parsed.module);
  for (const ptx::Function& function : parsed.module->functions) {
    for (const ptx::Variable& variable : function.variables) {
      if (variable.space == Space::kGlobal) {
        return "variable " + variable.name + " of function " + function.name +
               " cannot be asked for by name";
      }
    }
  }
  for (const ptx::Variable& variable : parsed.module->variables) {
    if (!in_device_memory(variable)) continue;
    found.globals.push_back(
        {variable.name, variable.size, variable.space == Space::kConst, variable.managed});
  }
  return {};
}

}  // namespace

ImageGlobals globals_of(const ImageContents& contents) {
  ImageGlobals result;
  // The entries are translations of one source for several architectures: a variable of any of
  // them is a variable of the image. By name, in order, so that the answer is always the same.
  std::map<std::string, GlobalVariable> by_name;
  std::map<std::string, size_t> seen;  // in how many entries
  size_t readable = 0;
  result.reason = contents.error;
  for (const ImageEntry& entry : contents.entries) {
    ImageGlobals found;
    const bool is_ptx = entry.kind == ImageEntry::Kind::kPtx;
    const std::string reason =
        is_ptx ? read_ptx_globals(entry.bytes, found)
               : read_cubin_globals(std::as_bytes(std::span(entry.bytes)), found);
    if (!reason.empty()) {
      result.reason = std::string(is_ptx ? "PTX: " : "machine code: ") + reason;
      continue;
    }
    result.known = true;
    ++readable;
    result.device_heap = result.device_heap || found.device_heap;
    for (GlobalVariable& variable : found.globals) {
      GlobalVariable& known = by_name.try_emplace(variable.name, variable).first->second;
      known.size = std::max(known.size, variable.size);
      known.managed = known.managed || variable.managed;
      ++seen[variable.name];
    }
  }
  if (!result.known && result.reason.empty()) {
    result.reason = contents.unreadable.empty() ? "the image is empty" : contents.unreadable.back();
  }
  if (result.known) result.reason.clear();
  for (auto& [name, variable] : by_name) {
    variable.in_some_only = seen[name] < readable;
    result.globals.push_back(std::move(variable));
  }
  return result;
}

}  // namespace gpusnap
