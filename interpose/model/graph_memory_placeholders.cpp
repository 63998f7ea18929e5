#include "interpose/model/graph_memory_placeholders.h"

#include <algorithm>
#include <set>
#include <utility>

namespace gpusnap {

void GraphMemoryPlaceholders::add(CUgraphNode handle, Node node) {
  const std::lock_guard lock(mutex_);
  node.params.poolProps.win32SecurityAttributes = nullptr;
  nodes_[handle] = std::move(node);
}

bool GraphMemoryPlaceholders::find(CUgraphNode handle, Node* node) const {
  const std::lock_guard lock(mutex_);
  const auto found = nodes_.find(handle);
  if (found == nodes_.end()) return false;
  *node = found->second;
  // The driver's own stays where it is as long as the node does; so does this.
  node->params.accessDescs =
      found->second.accesses.empty() ? nullptr : found->second.accesses.data();
  node->params.accessDescCount = found->second.accesses.size();
  return true;
}

bool GraphMemoryPlaceholders::has_nodes_of(CUgraph graph) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(nodes_, [&](const auto& one) { return one.second.graph == graph; });
}

void GraphMemoryPlaceholders::forget(CUgraph graph) {
  const std::lock_guard lock(mutex_);
  std::erase_if(nodes_, [&](const auto& one) { return one.second.graph == graph; });
}

std::vector<uint64_t> GraphMemoryPlaceholders::without_node() const {
  const std::lock_guard lock(mutex_);
  std::set<uint64_t> left;
  for (const auto& [address, memory] : memory_) left.insert(address);
  for (const auto& [handle, node] : nodes_) left.erase(node.address);
  return {left.begin(), left.end()};
}

}  // namespace gpusnap
