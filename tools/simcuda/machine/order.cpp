#include "tools/simcuda/machine/order.h"

#include <algorithm>
#include <utility>

namespace simcuda {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

// Operations that run one after the other.
struct BasicBlock {
  uint32_t begin = 0, end = 0;
  uint32_t falls_to = kNone;  // the block that follows without a branch
  std::vector<uint32_t> successors, predecessors;
  uint32_t finished = kNone;  // place in the order, see Blocks::visit
  uint32_t region = kNone;    // the block by which all of its region ends
  uint32_t meeting = kNone;   // the first block that all paths to the region's end go through
};

bool ends_all_lanes(const Op& op) {
  return op.guard == kNoSlot &&
         (op.kind == OpKind::kExit || op.kind == OpKind::kReturn || op.kind == OpKind::kTrap);
}

bool is_branch(const Op& op) {
  return op.kind == OpKind::kBranch || op.kind == OpKind::kBranchIndex;
}

class Blocks {
 public:
  explicit Blocks(const CodeFunction& function) : function_(function) {
    find_blocks();
    connect();
    // The exit that most blocks lead to comes first. A path that leads only to another exit is not
    // part of its region, so that lanes which leave early do not change where the others meet.
    std::vector<std::pair<size_t, uint32_t>> exits;
    for (uint32_t b = 0; b < size(); ++b) {
      if (ends_all_lanes(function_.ops[blocks_[b].end - 1])) exits.emplace_back(leading_to(b), b);
    }
    std::sort(exits.rbegin(), exits.rend());
    for (const auto& [count, exit] : exits) find_region(exit);
  }
  // Whether lanes meet where they must in the order in which the blocks are.
  bool in_order() const {
    for (uint32_t b = 0; b < size(); ++b) {
      if (blocks_[b].successors.size() > 1 && !meets_after_all(b)) return false;
    }
    return true;
  }
  std::vector<Op> lay_out(std::vector<std::vector<uint32_t>>& branch_targets) const;

 private:
  uint32_t size() const { return static_cast<uint32_t>(blocks_.size()); }
  void find_blocks();
  void connect();
  size_t leading_to(uint32_t exit) const;
  void find_region(uint32_t exit);
  void visit(uint32_t exit);
  bool find_meeting(uint32_t block);
  bool meets_after_all(uint32_t block) const;
  std::vector<uint32_t> order() const;

  const CodeFunction& function_;
  std::vector<BasicBlock> blocks_;
  std::vector<uint32_t> block_at_;  // of each operation
  std::vector<uint32_t> order_;     // blocks from which an exit is reached
};

void Blocks::find_blocks() {
  const std::vector<Op>& ops = function_.ops;
  std::vector<bool> first(ops.size() + 1, false);
  first[0] = true;
  for (uint32_t i = 0; i < ops.size(); ++i) {
    if (is_branch(ops[i]) || ends_all_lanes(ops[i])) first[i + 1] = true;
    if (ops[i].kind == OpKind::kBranch) first[ops[i].target] = true;
  }
  for (const std::vector<uint32_t>& list : function_.branch_targets) {
    for (const uint32_t target : list) first[target] = true;
  }
  block_at_.resize(ops.size());
  for (uint32_t i = 0; i < ops.size(); ++i) {
    if (first[i]) blocks_.emplace_back().begin = i;
    blocks_.back().end = i + 1;
    block_at_[i] = size() - 1;
  }
}

void Blocks::connect() {
  for (uint32_t b = 0; b < size(); ++b) {
    BasicBlock& block = blocks_[b];
    const Op& last = function_.ops[block.end - 1];
    const bool all_leave = ends_all_lanes(last) || (is_branch(last) && last.guard == kNoSlot);
    if (!all_leave && b + 1 < size()) {
      block.falls_to = b + 1;
      block.successors.push_back(b + 1);
    }
    if (last.kind == OpKind::kBranch) block.successors.push_back(block_at_[last.target]);
    if (last.kind == OpKind::kBranchIndex) {
      for (const uint32_t target : function_.branch_targets[last.target]) {
        block.successors.push_back(block_at_[target]);
      }
    }
    std::sort(block.successors.begin(), block.successors.end());
    block.successors.erase(std::unique(block.successors.begin(), block.successors.end()),
                           block.successors.end());
    for (const uint32_t s : block.successors) blocks_[s].predecessors.push_back(b);
  }
}

size_t Blocks::leading_to(uint32_t exit) const {
  std::vector<bool> seen(size(), false);
  std::vector<uint32_t> found{exit};
  seen[exit] = true;
  for (size_t i = 0; i < found.size(); ++i) {
    for (const uint32_t p : blocks_[found[i]].predecessors) {
      if (!seen[p]) found.push_back(p);
      seen[p] = true;
    }
  }
  return found.size();
}

// Appends all blocks that lead to `exit` to the order, by a search from the exit backwards: a block
// is finished after the blocks that lead to it, except those by which a loop goes back. So each
// block comes before its meeting.
void Blocks::visit(uint32_t exit) {
  std::vector<std::pair<uint32_t, size_t>> open{{exit, 0}};
  blocks_[exit].region = exit;
  while (!open.empty()) {
    auto& [b, next] = open.back();
    BasicBlock& block = blocks_[b];
    if (next == block.predecessors.size()) {
      block.finished = static_cast<uint32_t>(order_.size());
      order_.push_back(b);
      open.pop_back();
      continue;
    }
    const uint32_t p = block.predecessors[next++];
    if (blocks_[p].region != kNone) continue;
    blocks_[p].region = exit;
    open.emplace_back(p, 0);
  }
}

// Finds the meeting of a block from what is known of its successors. True: it has changed.
bool Blocks::find_meeting(uint32_t b) {
  BasicBlock& block = blocks_[b];
  uint32_t meeting = kNone;
  for (uint32_t s : block.successors) {
    if (blocks_[s].region != block.region || blocks_[s].meeting == kNone) continue;
    while (meeting != kNone && meeting != s) {
      uint32_t& earlier = blocks_[s].finished < blocks_[meeting].finished ? s : meeting;
      earlier = blocks_[earlier].meeting;
    }
    meeting = s;
  }
  return std::exchange(block.meeting, meeting) != meeting;
}

// The meetings are the immediate post-dominators, found by iteration.
void Blocks::find_region(uint32_t exit) {
  const size_t begin = order_.size();
  visit(exit);
  blocks_[exit].meeting = exit;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = order_.size() - 1; i-- > begin;) changed |= find_meeting(order_[i]);
  }
}

bool Blocks::meets_after_all(uint32_t block) const {
  const uint32_t meeting = blocks_[block].meeting;
  std::vector<uint32_t> open{block};
  std::vector<bool> seen(size(), false);
  while (!open.empty()) {
    const uint32_t b = open.back();
    open.pop_back();
    for (const uint32_t s : blocks_[b].successors) {
      if (s == meeting || seen[s] || blocks_[s].region != blocks_[block].region) continue;
      if (s > meeting) return false;
      seen[s] = true;
      open.push_back(s);
    }
  }
  return true;
}

// A function begins with its first block. Blocks that lead to no exit come last.
std::vector<uint32_t> Blocks::order() const {
  std::vector<uint32_t> all{0};
  for (const uint32_t b : order_) {
    if (b != 0) all.push_back(b);
  }
  for (uint32_t b = 1; b < size(); ++b) {
    if (blocks_[b].region == kNone) all.push_back(b);
  }
  return all;
}

std::vector<Op> Blocks::lay_out(std::vector<std::vector<uint32_t>>& branch_targets) const {
  std::vector<Op> ops;
  std::vector<uint32_t> moved(size());
  const std::vector<uint32_t> blocks = order();
  for (size_t i = 0; i < blocks.size(); ++i) {
    const BasicBlock& block = blocks_[blocks[i]];
    const uint32_t next = i + 1 < blocks.size() ? blocks[i + 1] : kNone;
    moved[blocks[i]] = static_cast<uint32_t>(ops.size());
    ops.insert(ops.end(), function_.ops.begin() + block.begin, function_.ops.begin() + block.end);
    const Op& last = ops.back();
    if (last.kind == OpKind::kBranch && last.guard == kNoSlot && block_at_[last.target] == next) {
      ops.pop_back();
    }
    if (block.falls_to == kNone || block.falls_to == next) continue;
    Op& branch = ops.emplace_back();
    branch.kind = OpKind::kBranch;
    branch.target = blocks_[block.falls_to].begin;
    branch.instruction = function_.ops[block.end - 1].instruction;
  }
  for (Op& op : ops) {
    if (op.kind == OpKind::kBranch) op.target = moved[block_at_[op.target]];
  }
  for (std::vector<uint32_t>& list : branch_targets) {
    for (uint32_t& target : list) target = moved[block_at_[target]];
  }
  return ops;
}

}  // namespace

void order_for_meeting(CodeFunction& function) {
  const Blocks blocks(function);
  if (blocks.in_order()) return;
  function.ops = blocks.lay_out(function.branch_targets);
}

}  // namespace simcuda
