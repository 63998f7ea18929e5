// Where variables live that the machine places itself: shared memory, and the frames of functions.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/simcuda/machine/code.h"

namespace simcuda {

struct FunctionLayout {
  std::vector<uint64_t> parameters;  // offset in the frame (functions) or parameter block (kernels)
  std::vector<uint64_t> results;     // offset in the frame
  std::vector<uint64_t> variables;   // .local and .param: in the frame; .shared: shared address
  std::vector<uint32_t> globals;     // of .global and .const variables: index in Code::globals
  uint64_t frame_bytes = 0;
  std::vector<uint32_t> callees;  // functions it may call
  bool calls_indirectly = false;
};

class Layout {
 public:
  // Places all variables of the module and fills Code::globals and the shared sizes.
  explicit Layout(Code& code);
  const FunctionLayout& function(uint32_t index) const { return functions_[index]; }
  uint64_t shared_address(uint32_t module_variable) const { return shared_[module_variable]; }
  uint32_t global(uint32_t module_variable) const { return globals_[module_variable]; }
  // Bytes of local memory that a thread may need from this function on down; recursion and unknown
  // callees take a fixed reserve.
  uint64_t stack_bytes(uint32_t function) const;
  static constexpr uint64_t kRecursionReserve = 64 << 10;

 private:
  void place_frame(uint32_t index);
  void find_references(uint32_t index);
  void place_shared();
  void place_globals();
  std::vector<bool> reachable(uint32_t function) const;
  uint64_t deepest(uint32_t function, uint32_t depth, std::vector<int64_t>& known) const;

  Code& code_;
  const gpusnap::ptx::Module& module_;
  std::vector<FunctionLayout> functions_;
  std::vector<std::vector<uint32_t>> shared_uses_;  // by function: module variables in .shared
  std::vector<uint64_t> shared_;
  std::vector<uint32_t> globals_;
  std::vector<bool> address_taken_;
};

}  // namespace simcuda
