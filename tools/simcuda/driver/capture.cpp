#include "tools/simcuda/driver/capture.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace simcuda {
namespace {

bool contains(const std::vector<std::shared_ptr<GraphNode>>& nodes,
              const std::shared_ptr<GraphNode>& node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

// All nodes that come before `heads`, and these.
std::set<const GraphNode*> past_of(const std::vector<std::shared_ptr<GraphNode>>& heads) {
  std::set<const GraphNode*> past;
  std::vector<const GraphNode*> left;
  left.reserve(heads.size());
  for (const auto& head : heads) left.push_back(head.get());
  while (!left.empty()) {
    const GraphNode* node = left.back();
    left.pop_back();
    if (!past.insert(node).second) continue;
    for (const auto& before : node->after) left.push_back(before.get());
  }
  return past;
}

bool joined(const Capture& capture) {
  const auto past = past_of(capture.members.at(capture.origin).heads);
  const auto is_past = [&](const std::shared_ptr<GraphNode>& node) {
    return past.contains(node.get());
  };
  return std::ranges::all_of(capture.left, is_past) &&
         std::ranges::all_of(capture.members, [&](const auto& entry) {
           return std::ranges::all_of(entry.second.heads, is_past);
         });
}

}  // namespace

CUstreamCaptureMode& Captures::thread_mode() {
  static thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

Capture* Captures::find(const Stream& stream) {
  for (const auto& capture : open_) {
    if (capture->members.contains(stream.queue.get())) return capture.get();
  }
  return nullptr;
}

// Whether the stream may be used at all. The legacy default stream would wait for blocking streams,
// which it cannot while they are captured.
CUresult Captures::check_use(const Stream& stream, Capture** capture) {
  *capture = find(stream);
  if (*capture != nullptr) {
    return (*capture)->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
  }
  CUresult result = CUDA_SUCCESS;
  if (Capture* other = waits_for_captured(stream)) {
    other->invalid = true;
    result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return result;
}

Capture* Captures::waits_for_captured(const Stream& stream) const {
  if (!stream.legacy) return nullptr;
  for (const auto& capture : open_) {
    for (const auto& [queue, member] : capture->members) {
      if (member.blocking && member.context == stream.context->handle()) return capture.get();
    }
  }
  return nullptr;
}

void Captures::add(Capture& capture, const Stream& stream, Work work) {
  Capture::Member& member = capture.members.at(stream.queue.get());
  member.heads = {graphs_.add(capture.graph, member.heads, std::move(work))};
}

void Captures::close(Capture* capture) {
  capture->open = false;
  std::erase_if(open_, [&](const auto& one) { return one.get() == capture; });
  --count_;
}

void Captures::discard(Capture& capture) {
  const auto captured = capture.graph;
  const bool given = capture.given;
  close(&capture);
  if (!given) graphs_.destroy(captured);
}

CUresult Captures::begin(const Stream& stream, CUstreamCaptureMode mode,
                         const std::shared_ptr<Graph>& graph,
                         std::vector<std::shared_ptr<GraphNode>> heads) {
  auto hold = graphs_.hold();
  if (stream.legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (find(stream) != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->id = next_id_++;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->given = graph != nullptr;
  capture->graph = capture->given ? graph : graphs_.create();
  capture->origin = stream.queue.get();
  capture->members[capture->origin] = {
      stream.queue, stream.context->handle(), stream.blocking(), std::move(heads), {}};
  open_.push_back(std::move(capture));
  ++count_;
  return CUDA_SUCCESS;
}

CUresult Captures::end(const Stream& stream, CUgraph* graph) {
  auto hold = graphs_.hold();
  *graph = nullptr;
  Capture* found = find(stream);
  if (found == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (found->origin != stream.queue.get()) {
    found->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (found->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      found->thread != std::this_thread::get_id()) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  const CUresult result = found->invalid    ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                          : !joined(*found) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                            : CUDA_SUCCESS;
  if (result != CUDA_SUCCESS) {
    discard(*found);
    return result;
  }
  *graph = found->graph->handle;
  close(found);
  return result;
}

CUresult Captures::set_heads(const Stream& stream, const CUgraphNode* nodes, size_t count,
                             bool replace) {
  auto hold = graphs_.hold();
  Capture* capture = find(stream);
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  auto& heads = capture->members.at(stream.queue.get()).heads;
  std::vector<std::shared_ptr<GraphNode>> wanted;
  if (!replace) wanted = heads;
  for (size_t i = 0; i < count; ++i) {
    auto node = graphs_.nodes.find(nodes[i]);
    if (!node || node->graph.lock() != capture->graph) return CUDA_ERROR_INVALID_VALUE;
    if (!contains(wanted, node)) wanted.push_back(std::move(node));
  }
  heads = std::move(wanted);
  return CUDA_SUCCESS;
}

CUresult Captures::info(const Stream& stream, Info* info) {
  *info = {};
  if (count_ == 0) return CUDA_SUCCESS;
  auto hold = graphs_.hold();
  // Asking makes no capture invalid, not even where a use would.
  Capture* capture = find(stream);
  if (capture == nullptr) {
    return waits_for_captured(stream) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
  }
  info->id = capture->id;
  if (capture->invalid) {
    info->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
    return CUDA_SUCCESS;
  }
  info->status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  info->graph = capture->graph->handle;
  Capture::Member& member = capture->members.at(stream.queue.get());
  member.told.clear();
  for (const auto& head : member.heads) member.told.push_back(head->handle);
  info->heads = &member.told;
  return CUDA_SUCCESS;
}

bool Captures::holds(const Stream& stream) {
  if (count_ == 0) return false;
  auto hold = graphs_.hold();
  return find(stream) != nullptr;
}

void Captures::forget(const Stream& stream) {
  if (count_ == 0) return;
  auto hold = graphs_.hold();
  Capture* capture = find(stream);
  if (capture == nullptr) return;
  if (capture->origin == stream.queue.get()) {
    discard(*capture);
    return;
  }
  const auto member = capture->members.find(stream.queue.get());
  std::ranges::copy(member->second.heads, std::back_inserter(capture->left));
  capture->members.erase(member);
}

std::optional<CUresult> Captures::record_event(const Stream& stream, Event& event) {
  if (count_ == 0) return std::nullopt;
  auto hold = graphs_.hold();
  Capture* capture = nullptr;
  CUresult result = check_use(stream, &capture);
  if (result != CUDA_SUCCESS) return result;
  if (capture == nullptr) return std::nullopt;
  for (const auto& one : open_) {
    if (one.get() == capture)
      event.set_captured({one, capture->members.at(stream.queue.get()).heads});
  }
  return CUDA_SUCCESS;
}

std::optional<CUresult> Captures::wait_event(const Stream& stream, Event& event) {
  const auto captured = event.captured();
  if (count_ == 0 && !captured.capture) return std::nullopt;
  auto hold = graphs_.hold();
  Capture* capture = nullptr;
  CUresult result = check_use(stream, &capture);
  if (result != CUDA_SUCCESS) return result;
  if (!captured.capture) {
    if (capture == nullptr) return std::nullopt;
    capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (!captured.capture->open) {
    if (capture == nullptr) return CUDA_ERROR_CAPTURED_EVENT;
    capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (captured.capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (capture == nullptr) {
    if (stream.legacy) {
      captured.capture->invalid = true;
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    captured.capture->members[stream.queue.get()] = {
        stream.queue, stream.context->handle(), stream.blocking(), captured.heads, {}};
    return CUDA_SUCCESS;
  }
  if (capture != captured.capture.get()) {
    capture->invalid = captured.capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  auto& heads = capture->members.at(stream.queue.get()).heads;
  // A node that comes before another head anyway need not be a head.
  const auto past = past_of(heads);
  for (const auto& head : captured.heads) {
    if (!past.contains(head.get()) && !contains(heads, head)) heads.push_back(head);
  }
  return CUDA_SUCCESS;
}

std::optional<CUresult> Captures::refuse(const Stream& stream) {
  if (count_ == 0) return std::nullopt;
  auto hold = graphs_.hold();
  Capture* capture = nullptr;
  CUresult result = check_use(stream, &capture);
  if (result != CUDA_SUCCESS) return result;
  if (capture == nullptr) return std::nullopt;
  capture->invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult Captures::check_wait(const Context& context) {
  if (count_ == 0) return CUDA_SUCCESS;
  auto hold = graphs_.hold();
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : open_) {
    for (const auto& [queue, member] : capture->members) {
      if (member.context != context.handle()) continue;
      capture->invalid = true;
      result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  }
  return result;
}

CUresult Captures::check_unsafe() {
  if (count_ == 0 || thread_mode() == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  auto hold = graphs_.hold();
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : open_) {
    const bool own = capture->thread == std::this_thread::get_id() &&
                     capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    const bool global = capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                        thread_mode() == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!own && !global) continue;
    capture->invalid = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

}  // namespace simcuda
