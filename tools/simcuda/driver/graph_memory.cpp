#include "tools/simcuda/driver/graph_memory.h"

#include <algorithm>
#include <utility>

namespace simcuda {
namespace {
bool unused(const std::shared_ptr<GraphBlock>& block) {
  return !block->live && block.use_count() == 1;
}
}  // namespace

CUresult GraphMemory::create(const CUDA_MEM_ALLOC_NODE_PARAMS& params, CUgraph owner,
                             std::shared_ptr<GraphBlock>* out) {
  Allocation wanted;
  wanted.size = params.bytesize;
  wanted.device = params.poolProps.location.id;
  wanted.of_graph = wanted.hidden = true;
  for (size_t i = 0; i < params.accessDescCount; ++i) {
    const CUmemAccessDesc& access = params.accessDescs[i];
    const uint32_t bit = 1u << access.location.id;
    if (access.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) wanted.readers |= bit;
    if (access.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) wanted.writers |= bit;
  }
  auto block = std::make_shared<GraphBlock>();
  CUresult result = memory_.allocate(std::move(wanted), &block->address);
  if (result != CUDA_SUCCESS) return result;
  block->host = memory_.host_of_hidden(block->address);
  block->size = params.bytesize;
  block->device = params.poolProps.location.id;
  block->owner = owner;
  block->properties = params.poolProps;
  block->accesses.assign(params.accessDescs, params.accessDescs + params.accessDescCount);
  blocks_[block->address] = block;
  *out = std::move(block);
  return CUDA_SUCCESS;
}

std::shared_ptr<GraphBlock> GraphMemory::find(uint64_t address) const {
  auto found = blocks_.find(address);
  return found == blocks_.end() ? nullptr : found->second;
}

void GraphMemory::allocate(GraphBlock& block) {
  block.live = true;
  memory_.show(block.address);
  Counts& counts = counts_[static_cast<size_t>(block.device)];
  counts.used += block.size;
  counts.used_high = std::max(counts.used_high, counts.used);
  counts.reserved = std::max(counts.reserved, counts.used);
  counts.reserved_high = std::max(counts.reserved_high, counts.reserved);
}

void GraphMemory::free(GraphBlock& block) {
  block.live = false;
  memory_.hide(block.address);
  counts_[static_cast<size_t>(block.device)].used -= block.size;
}

bool GraphMemory::has_unused() const {
  return std::any_of(blocks_.begin(), blocks_.end(),
                     [](const auto& one) { return unused(one.second); });
}

void GraphMemory::drop_unused() {
  std::erase_if(blocks_, [&](const auto& one) {
    if (!unused(one.second)) return false;
    memory_.drop_given_back(one.first);
    return true;
  });
}

void GraphMemory::trim(int device) {
  Counts& counts = counts_[static_cast<size_t>(device)];
  counts.reserved = counts.used;
}

uint64_t GraphMemory::count(int device, CUgraphMem_attribute attribute) const {
  const Counts& counts = counts_[static_cast<size_t>(device)];
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
      return counts.used;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      return counts.used_high;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
      return counts.reserved;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      return counts.reserved_high;
  }
  return 0;
}

void GraphMemory::reset_high(int device, CUgraphMem_attribute attribute) {
  Counts& counts = counts_[static_cast<size_t>(device)];
  if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) counts.used_high = counts.used;
  if (attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) counts.reserved_high = counts.reserved;
}

}  // namespace simcuda
