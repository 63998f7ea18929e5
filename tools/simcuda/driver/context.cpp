#include "tools/simcuda/driver/context.h"

#include <cstdio>
#include <utility>

#include "tools/simcuda/driver/logs.h"
#include "tools/simcuda/driver/thread_owned.h"

namespace simcuda {
namespace {

std::atomic<uint64_t> g_next_context{1};
std::atomic<uint64_t> g_next_stream{1};
thread_local bool t_per_thread = false;

// The calling thread's default streams, one a context. When the thread ends they do what is queued.
struct ThreadStreams {
  struct Entry {
    uint64_t context;
    std::weak_ptr<Context> owner;
    std::shared_ptr<WorkQueue> queue;
    uint64_t id;
  };
  std::vector<Entry> entries;
  ~ThreadStreams() {
    for (Entry& entry : entries) entry.queue->close();
  }
};

}  // namespace

PerThreadStreams::PerThreadStreams() {
  t_per_thread = true;
}
PerThreadStreams::~PerThreadStreams() {
  t_per_thread = false;
}
bool PerThreadStreams::wanted() {
  return t_per_thread;
}

Context::Context(CUcontext handle, int device, unsigned flags_, bool primary, VirtualClock* clock)
    : flags(flags_),
      handle_(handle),
      device_(device),
      primary_(primary),
      id_(g_next_context++),
      clock_(clock),
      legacy_queue_(std::make_shared<WorkQueue>(clock)) {
  for (auto& limit : limits) limit = 0;
  limits[CU_LIMIT_STACK_SIZE] = 1024;
  limits[CU_LIMIT_PRINTF_FIFO_SIZE] = size_t{1} << 20;
  limits[CU_LIMIT_MALLOC_HEAP_SIZE] = size_t{8} << 20;
  limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
  limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
  limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
}

Context::~Context() {
  legacy_queue_->close();
  for (Member& member : members_) member.queue->close();
}

std::shared_ptr<Stream> Context::make_stream(CUstream handle, unsigned stream_flags, int priority) {
  auto stream = std::make_shared<Stream>();
  stream->queue = std::make_shared<WorkQueue>(clock_);
  stream->context = shared_from_this();
  stream->handle = handle;
  stream->flags = stream_flags;
  stream->priority = priority;
  stream->id = g_next_stream++;
  std::lock_guard lock(order_);
  members_.push_back({stream->queue, stream->blocking()});
  return stream;
}

Context::StreamAttributes Context::attributes_of(uint64_t stream) {
  std::lock_guard lock(order_);
  return attributes_[stream];
}

void Context::set_attributes_of(uint64_t stream, StreamAttributes attributes) {
  std::lock_guard lock(order_);
  attributes_[stream] = std::move(attributes);
}

std::shared_ptr<Stream> Context::legacy_stream() {
  auto stream = std::make_shared<Stream>();
  stream->queue = legacy_queue_;
  stream->context = shared_from_this();
  stream->legacy = true;
  return stream;
}

std::shared_ptr<Stream> Context::thread_stream() {
  auto& entries = thread_owned<ThreadStreams>().entries;
  std::erase_if(entries, [](auto& entry) { return entry.owner.expired(); });
  for (auto& entry : entries) {
    if (entry.context != id_) continue;
    auto stream = std::make_shared<Stream>();
    stream->queue = entry.queue;
    stream->context = shared_from_this();
    stream->id = entry.id;
    return stream;
  }
  auto stream = make_stream(nullptr, CU_STREAM_DEFAULT, kLeastPriority);
  entries.push_back({id_, weak_from_this(), stream->queue, stream->id});
  return stream;
}

std::vector<Point> Context::pending_locked(bool all) {
  std::erase_if(members_, [](Member& member) { return member.queue->drained(); });
  std::vector<Point> points;
  for (Member& member : members_) {
    if (all || member.blocking) points.push_back(member.queue->last());
  }
  if (all) points.push_back(legacy_queue_->last());
  return points;
}

std::vector<Point> Context::pending(bool all) {
  std::lock_guard lock(order_);
  return pending_locked(all);
}

Point Context::submit(const Stream& stream, WorkQueue::Task task, When when,
                      std::vector<Point> after) {
  auto guarded = [self = shared_from_this(), task = std::move(task), when] {
    if (when == When::kAlways || self->error() == CUDA_SUCCESS) task();
  };
  std::lock_guard lock(order_);
  if (stream.legacy) {
    for (Point& point : pending_locked(false)) after.push_back(std::move(point));
  } else if (stream.blocking()) {
    after.push_back(legacy_queue_->last());
  }
  return stream.queue->push(std::move(after), std::move(guarded));
}

void Context::synchronize() {
  for (const Point& point : pending(true)) point.wait();
  show_printed();
}

void Context::set_heap(uint64_t address, uint64_t bytes) {
  std::lock_guard lock(order_);
  if (own_heap_ != nullptr) return;
  own_heap_ = std::make_unique<KernelHeap>(address, bytes);
  heap_.store(own_heap_.get(), std::memory_order_release);
}

// Unlike CUDA's, which lets go of the oldest, so that no more is kept than fits.
void Context::printed(std::string_view text) {
  const size_t most = limits[CU_LIMIT_PRINTF_FIFO_SIZE];
  std::lock_guard lock(printed_mutex_);
  printed_.append(text.substr(0, printed_.size() < most ? most - printed_.size() : 0));
}

void Context::show_printed() {
  std::string text;
  {
    std::lock_guard lock(printed_mutex_);
    text.swap(printed_);
  }
  if (!text.empty()) std::fwrite(text.data(), 1, text.size(), stdout);
}

bool Context::fail(CUresult error, const std::string& line) {
  CUresult none = CUDA_SUCCESS;
  if (!error_.compare_exchange_strong(none, error, std::memory_order_acq_rel)) return false;
  cancelled_ = true;
  logs().say(line);
  return true;
}

}  // namespace simcuda
