// SPDX-License-Identifier: Apache-2.0
#include "tools/simcuda/machine/built_in.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tools/simcuda/machine/block.h"
#include "tools/simcuda/machine/kernel_heap.h"
#include "tools/simcuda/machine/places.h"
#include "tools/simcuda/machine/print.h"

namespace simcuda {
namespace {

uint64_t argument(Warp& w, const Group& g, const CallSite& site, size_t number, uint32_t lane) {
  uint64_t value = 0;
  if (number >= site.arguments.size()) return value;
  const Place& place = site.arguments[number];
  std::memcpy(&value, place_in(w, *g.frame, place, lane),
              std::min<uint64_t>(place.size, sizeof value));
  return value;
}

template <class T>
void answer(const Warp& w, const Group& g, const CallSite& site, uint32_t lane, T value) {
  for (const Place& place : site.results) {
    std::memcpy(result_in(w, *g.frame, place, lane), &value,
                std::min<uint64_t>(place.size, sizeof value));
  }
}

// The first lane's arguments, as a message: text, file, line and function. All but the line are
// addresses of strings.
std::string failed_assertion(Warp& w, const Group& g, const CallSite& site) {
  const auto lane = static_cast<uint32_t>(std::countr_zero(g.mask));
  const auto value = [&](size_t number) { return argument(w, g, site, number, lane); };
  return "assertion '" + text_at(w, value(0)) + "' failed at " + text_at(w, value(1)) + ":" +
         std::to_string(static_cast<uint32_t>(value(2))) + " in " + text_at(w, value(3));
}

template <class Act>
void for_each_lane(const Group& g, Act&& act) {
  for (uint32_t left = g.mask; left != 0; left &= left - 1) {
    act(static_cast<uint32_t>(std::countr_zero(left)));
  }
}

void print(Warp& w, const Group& g, const CallSite& site) {
  std::string text;
  for_each_lane(g, [&](uint32_t i) {
    const uint64_t format_at = argument(w, g, site, 0, i);
    answer(w, g, site, i, format(w, i, format_at, argument(w, g, site, 1, i), text));
  });
  const Launch& launch = *w.block->context().launch;
  if (launch.print) launch.print(text);
}

}  // namespace

std::optional<BuiltIn> built_in_named(std::string_view name) {
  if (name == "__assertfail") return BuiltIn::kAssertFail;
  if (name == "vprintf") return BuiltIn::kPrint;
  if (name == "malloc") return BuiltIn::kMalloc;
  if (name == "free") return BuiltIn::kFree;
  return std::nullopt;
}

BuiltInFault run_built_in(Warp& w, const Group& g, const CallSite& site, BuiltIn which) {
  KernelHeap* const heap = w.block->context().launch->heap;
  BuiltInFault fault;
  switch (which) {
    case BuiltIn::kAssertFail:
      return {Fault::Kind::kAssert, failed_assertion(w, g, site)};
    case BuiltIn::kPrint:
      print(w, g, site);
      break;
    case BuiltIn::kMalloc:
      for_each_lane(g, [&](uint32_t i) {
        answer(w, g, site, i, heap->allocate(argument(w, g, site, 0, i)));
      });
      break;
    case BuiltIn::kFree:
      for_each_lane(g, [&](uint32_t i) {
        if (heap->free(argument(w, g, site, 0, i))) return;
        fault = {Fault::Kind::kIllegalAddress, "free() of what malloc() has not given"};
      });
      break;
  }
  return fault;
}

}  // namespace simcuda
