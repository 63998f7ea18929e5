// Contexts and their streams: who waits for whom, and what happens after a fault.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tools/simcuda/driver/cuda.h"
#include "tools/simcuda/driver/work_queue.h"
#include "tools/simcuda/machine/kernel_heap.h"

namespace simcuda {

class Context;

struct Stream {
  std::shared_ptr<WorkQueue> queue;
  std::shared_ptr<Context> context;
  CUstream handle = nullptr;  // null for the legacy default stream and the threads' own
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;
  bool legacy = false;

  // Whether it and the legacy default stream wait for each other.
  bool blocking() const { return !legacy && (flags & CU_STREAM_NON_BLOCKING) == 0; }
};

inline constexpr int kLeastPriority = 0;
inline constexpr int kGreatestPriority = -5;

// Thread-safe.
class Context : public std::enable_shared_from_this<Context> {
 public:
  // Whether a task is skipped once the context has an error.
  enum class When : uint8_t { kHealthy, kAlways };

  // `clock` outlives the context; null: there is none.
  Context(CUcontext handle, int device, unsigned flags, bool primary, VirtualClock* clock);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  CUcontext handle() const { return handle_; }
  int device() const { return device_; }
  bool primary() const { return primary_; }
  uint64_t id() const { return id_; }

  std::shared_ptr<Stream> make_stream(CUstream handle, unsigned flags, int priority);
  // The stream that the null stream stands for in the plain calls, and in the per-thread ones.
  std::shared_ptr<Stream> legacy_stream();
  std::shared_ptr<Stream> thread_stream();

  // Queues a task behind all that a call made now has to wait for: what the stream has to do, what
  // default streams wait for by CUDA's rules, and `after`. Throws as WorkQueue::push does. Callers
  // have waited for room in the queue, before they took a Memory::Hold.
  Point submit(const Stream& stream, WorkQueue::Task task, When when = When::kHealthy,
               std::vector<Point> after = {});
  // The work that a legacy default stream operation would wait for: all in blocking streams; with
  // `all`, every stream.
  std::vector<Point> pending(bool all);
  // Waits for all that has been queued, and shows what kernels have printed.
  void synchronize();
  // Keeps what a kernel prints until show_printed(), up to what the limit for it says.
  void printed(std::string_view text);
  // As CUDA does at synchronisations. On standard output, through the program's own stream.
  void show_printed();

  // The error that every call returns from the first fault on; CUDA_SUCCESS before.
  CUresult error() const { return error_.load(std::memory_order_acquire); }
  // Makes `error` the context's error, unless it has one, and stops what is running. `line` goes to
  // the log. True when it was the first.
  bool fail(CUresult error, const std::string& line);
  const std::atomic<bool>& cancelled() const { return cancelled_; }

  // Attributes of streams, by their ids; kept and told, nothing comes of them.
  using StreamAttributes = std::map<CUstreamAttrID, CUstreamAttrValue>;
  StreamAttributes attributes_of(uint64_t stream);
  void set_attributes_of(uint64_t stream, StreamAttributes attributes);

  // The heap of its kernels, for as long as the context is. Null: no module has asked for one yet.
  KernelHeap* heap() const { return heap_.load(std::memory_order_acquire); }
  // At [address, address + bytes) of the device. One that is there stays.
  void set_heap(uint64_t address, uint64_t bytes);

  std::atomic<unsigned> flags;
  // Indexed by CUlimit; kept and told, nothing is limited by them.
  std::array<std::atomic<size_t>, 8> limits;
  std::atomic<CUfunc_cache> cache_config{CU_FUNC_CACHE_PREFER_NONE};
  std::atomic<CUsharedconfig> shared_config{CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE};

 private:
  struct Member {
    std::shared_ptr<WorkQueue> queue;
    bool blocking;
  };

  std::vector<Point> pending_locked(bool all);

  CUcontext handle_;
  int device_;
  bool primary_;
  uint64_t id_;
  VirtualClock* clock_;
  std::atomic<CUresult> error_{CUDA_SUCCESS};
  std::atomic<bool> cancelled_{false};

  std::unique_ptr<KernelHeap> own_heap_;
  std::atomic<KernelHeap*> heap_{nullptr};
  std::mutex printed_mutex_;
  std::string printed_;
  std::mutex order_;  // makes collecting what to wait for and queueing one step
  std::shared_ptr<WorkQueue> legacy_queue_;
  std::vector<Member> members_;
  std::map<uint64_t, StreamAttributes> attributes_;  // guarded by order_
};

// While it lives, the null stream means the calling thread's own: what the _ptsz and _ptds forms of
// calls are. They nest in nothing.
class PerThreadStreams {
 public:
  PerThreadStreams();
  ~PerThreadStreams();
  PerThreadStreams(const PerThreadStreams&) = delete;
  PerThreadStreams& operator=(const PerThreadStreams&) = delete;
  static bool wanted();
};

}  // namespace simcuda
