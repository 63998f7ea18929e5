// A decoded module: what the run loop reads. Filled by the decoder, completed by bind(), and
// immutable from then on.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tools/simcuda/machine.h"
#include "tools/simcuda/machine/matrix.h"
#include "tools/simcuda/machine/op.h"
#include "tools/simcuda/machine/texture.h"
#include "tools/simcuda/machine/video.h"

namespace simcuda {

// Where functions live, 16 bytes apart: no memory is there, the addresses only name code.
inline constexpr uint64_t kCodeWindow = kParameterWindow + (uint64_t{1} << 40);
inline constexpr uint64_t kCodeStep = 16;
// The blocks of a cooperative launch wait for one another by memory here. No other launch has it.
inline constexpr uint64_t kWorkspace = kCodeWindow + (uint64_t{1} << 40);
inline constexpr uint64_t kWorkspaceBytes = 64;
// Bytes of shared memory behind the block's own that code of NVIDIA's headers may use.
inline constexpr uint64_t kReservedShared = 1024;

// Where a function's argument or result is: in a register's slot or in the frame's local memory.
struct Place {
  bool in_register = false;
  int32_t slot = kNoSlot;
  uint64_t offset = 0;  // bytes from the frame's base
  uint64_t size = 0;    // bytes
};

struct CallSite {
  uint32_t function = UINT32_MAX;  // none: the address is in `address_slot`
  int32_t address_slot = kNoSlot;
  std::vector<Place> arguments, results;
};

struct BarrierSite {
  enum class Reduce : uint8_t { kNone, kPopc, kAnd, kOr };
  bool of_cluster = false;  // of all threads of the cluster: it has no number
  int32_t id_slot = kNoSlot;
  int32_t count_slot = kNoSlot;  // none: all threads of the block
  bool arrive = false;           // counts but does not wait
  Reduce reduce = Reduce::kNone;
  int32_t result_slot = kNoSlot;
  int32_t predicate_slot = kNoSlot;
  bool predicate_negated = false;
};

enum class SyncOp : uint8_t {
  kBarrier,
  kShflUp,
  kShflDown,
  kShflBfly,
  kShflIdx,
  kVoteAll,
  kVoteAny,
  kVoteUni,
  kVoteBallot,
  kMatchAny,
  kMatchAll,
  kReduceAdd,
  kReduceMin,
  kReduceMax,
  kReduceMinSigned,
  kReduceMaxSigned,
  kReduceAnd,
  kReduceOr,
  kReduceXor,
  kElect,
};

// A register's 32 values in the constants: filled with `value`, or at bind() with a variable's
// address.
struct Constant {
  int32_t slot = 0;
  uint32_t bits = 64;  // 1: a predicate
  uint64_t value = 0;
  uint32_t symbol = UINT32_MAX;  // index in Code::globals; `value` is added
};

struct CodeFunction {
  const gpusnap::ptx::Function* source = nullptr;
  bool decoded = false;
  std::vector<Op> ops;
  std::vector<Constant> constants;
  std::vector<std::byte> constant_bytes;  // laid out by bind()
  uint64_t register_bytes = 0;            // of a frame
  uint64_t frame_bytes = 0;               // of local memory, per thread
  uint64_t stack_bytes = 0;               // with all that it may call
  uint64_t shared_bytes = 0;              // static, with all that it may call
  std::vector<Place> parameters, results;
  std::vector<CallSite> calls;
  std::vector<BarrierSite> barriers;
  std::vector<std::unique_ptr<TextureSite>> textures;  // operations point to them
  std::vector<std::unique_ptr<VideoSite>> videos;      // likewise
  std::vector<std::vector<uint32_t>> branch_targets;   // operations
  std::vector<std::unique_ptr<const MatrixSite>> matrices;
};

struct Code;

class Kernel {
 public:
  const Code* code = nullptr;
  uint32_t function = 0;
  KernelInfo info;
};

struct Code {
  std::unique_ptr<const gpusnap::ptx::Module> module;
  std::vector<CodeFunction> functions;  // as in the module
  std::vector<GlobalPlacement> globals;
  bool uses_reserved_shared = false;  // any of them asks where it is
  uint64_t dynamic_shared_base = 0;   // where `.extern .shared` variables begin, in every kernel
  std::vector<Kernel> kernels;

  // Null: no function has that address.
  const CodeFunction* function_at(uint64_t address) const {
    const uint64_t index = (address - kCodeWindow) / kCodeStep;
    if (address < kCodeWindow || address % kCodeStep != 0 || index >= functions.size()) {
      return nullptr;
    }
    return functions[index].decoded ? &functions[index] : nullptr;
  }
};

}  // namespace simcuda
