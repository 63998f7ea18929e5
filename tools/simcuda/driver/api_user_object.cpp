// Objects of the program's that graphs keep alive.

#include <climits>
#include <utility>

#include "tools/simcuda/driver/graph_calls.h"

namespace simcuda {
namespace {

// body(Driver&, const std::shared_ptr<UserObject>&) with the lock of all graphs; then what nothing
// refers to any more is destroyed.
template <class Body>
CUresult with_object(CUuserObject handle, unsigned count, Body&& body) {
  const CUresult result = with_graphs([&](Driver& state) {
    auto object = state.user_objects.find(handle);
    if (!object || count == 0 || count > INT_MAX) return CUDA_ERROR_INVALID_VALUE;
    return static_cast<CUresult>(body(state, object));
  });
  clean_up_graphs();
  return result;
}

}  // namespace
}  // namespace simcuda

using simcuda::Driver;
using simcuda::with_object;

CUresult cuUserObjectCreate(CUuserObject* out, void* user, CUhostFn destroy, unsigned count,
                            unsigned flags) {
  return simcuda::with_graphs([&](Driver& state) {
    if (out == nullptr || destroy == nullptr || count == 0 || count > INT_MAX ||
        flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    auto object = std::make_shared<simcuda::UserObject>();
    *object = {state.user_objects.reserve(), destroy, user, count};
    *out = object->handle;
    state.user_objects.insert(*out, std::move(object));
    return CUDA_SUCCESS;
  });
}

CUresult cuUserObjectRetain(CUuserObject handle, unsigned count) {
  return with_object(handle, count, [&](Driver&, const auto& object) {
    object->references += count;
    return CUDA_SUCCESS;
  });
}

CUresult cuUserObjectRelease(CUuserObject handle, unsigned count) {
  return with_object(handle, count, [&](Driver& state, const auto& object) {
    if (count > object->references) return CUDA_ERROR_INVALID_VALUE;
    state.graphs.release(object, count);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphRetainUserObject(CUgraph graph_handle, CUuserObject handle, unsigned count,
                                 unsigned flags) {
  return with_object(handle, count, [&](Driver& state, const auto& object) {
    auto graph = state.graphs.graphs.find(graph_handle);
    if (!graph || (flags & ~CU_GRAPH_USER_OBJECT_MOVE) != 0) return CUDA_ERROR_INVALID_VALUE;
    state.graphs.refer(graph->objects, object, count);
    if ((flags & CU_GRAPH_USER_OBJECT_MOVE) != 0) state.graphs.release(object, count);
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphReleaseUserObject(CUgraph graph_handle, CUuserObject handle, unsigned count) {
  return with_object(handle, count, [&](Driver& state, const auto& object) {
    auto graph = state.graphs.graphs.find(graph_handle);
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    const auto held = graph->objects.find(object);
    if (held == graph->objects.end() || held->second < count) return CUDA_ERROR_INVALID_VALUE;
    held->second -= count;
    if (held->second == 0) graph->objects.erase(held);
    state.graphs.release(object, count);
    return CUDA_SUCCESS;
  });
}
