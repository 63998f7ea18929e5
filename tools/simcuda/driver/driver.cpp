#include "tools/simcuda/driver/driver.h"

#include <pthread.h>

#include <atomic>
#include <utility>

#include "tools/simcuda/driver/event.h"
#include "tools/simcuda/driver/logs.h"
#include "tools/simcuda/driver/program_images.h"
#include "tools/simcuda/driver/thread_owned.h"

namespace simcuda {
namespace {

std::atomic<Driver*> g_driver{nullptr};
std::atomic<bool> g_forked{false};
thread_local bool t_in_callback = false;

// Streams' threads do not survive a fork, so neither does the driver.
void after_fork() {
  g_forked = true;
  g_driver = nullptr;
}

CUresult start() {
  Settings settings;
  std::string error;
  Stats* stats = nullptr;
  if (read_settings(&settings, &error)) stats = open_stats(settings.stats_file, &error);
  if (stats == nullptr) {
    logs().say(error);
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (settings.devices == 0) return CUDA_ERROR_NO_DEVICE;
  g_driver = new Driver(std::move(settings), *stats);
  if (g_driver.load()->settings.machine_code) {
    turn_program_into_machine_code(static_cast<uint32_t>(g_driver.load()->settings.arch));
  }
  pthread_atfork(nullptr, nullptr, after_fork);
  return CUDA_SUCCESS;
}

}  // namespace

Driver* driver() {
  return g_driver.load(std::memory_order_acquire);
}

CUresult initialise() {
  static std::mutex mutex;
  if (g_forked) return CUDA_ERROR_NOT_INITIALIZED;
  std::lock_guard lock(mutex);
  return driver() != nullptr ? CUDA_SUCCESS : start();
}

std::vector<CUcontext>& context_stack() {
  return thread_owned<std::vector<CUcontext>>();
}

CallbackScope::CallbackScope() {
  t_in_callback = true;
}
CallbackScope::~CallbackScope() {
  t_in_callback = false;
}
bool CallbackScope::inside() {
  return t_in_callback;
}

Counters& Driver::counters_for(std::string_view kernel) {
  static Counters uncounted;
  const bool left_out = !settings.uncounted.empty() && kernel.starts_with(settings.uncounted);
  return left_out ? uncounted : stats.machine;
}

Driver::Driver(Settings settings_, Stats& stats_)
    : settings(std::move(settings_)),
      stats(stats_),
      faults(settings.engines.faults),
      engines(settings.engines, settings.devices, stats, faults),
      memory(settings),
      pools(memory, settings.devices),
      graph_memory(memory, settings.devices) {
  primaries.resize(static_cast<size_t>(settings.devices));
}

std::shared_ptr<Context> Driver::make_context(CUcontext handle, int device, unsigned flags,
                                              bool primary) {
  auto context = std::make_shared<Context>(handle, device, flags, primary, engines.clock());
  contexts.insert(handle, context);
  return context;
}

void Driver::destroy_context(const std::shared_ptr<Context>& context) {
  CUcontext handle = context->handle();
  contexts.remove(handle);
  context->synchronize();
  streams.remove_if([&](Stream& stream) { return stream.context == context; });
  events.remove_if([&](Event& event) { return event.context == handle; });
  for (const auto& library : libraries.all()) {
    std::lock_guard lock(library->mutex);
    library->modules.erase(handle);
  }
  auto modules_gone = modules.remove_if([&](Module& module) { return module.context == handle; });
  for (const auto& module : modules_gone) {
    remove_handles(*this, *module);
  }
  arrays.remove_all(handle);
  release(memory.retire_all(handle));
}

void Driver::wait_for_all() {
  for (const auto& context : contexts.all()) context->synchronize();
}

void Driver::drop_unused_graph_memory() {
  if (!graph_memory.has_unused()) return;
  wait_for_all();
  graph_memory.drop_unused();
}

void Driver::release(const std::vector<Allocation>& retired) {
  if (retired.empty()) return;
  wait_for_all();
  for (const Allocation& allocation : retired) memory.release(allocation);
}

CUresult Driver::current(std::shared_ptr<Context>* context) {
  const std::vector<CUcontext>& stack = context_stack();
  if (stack.empty() || stack.back() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *context = contexts.find(stack.back());
  return *context ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult Driver::stream(CUstream handle, std::shared_ptr<Stream>* stream) {
  if (handle != nullptr && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
    *stream = streams.find(handle);
    return *stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  }
  std::shared_ptr<Context> context;
  if (CUresult result = current(&context); result != CUDA_SUCCESS) return result;
  bool per_thread =
      handle == CU_STREAM_PER_THREAD || (handle == nullptr && PerThreadStreams::wanted());
  *stream = per_thread ? context->thread_stream() : context->legacy_stream();
  return CUDA_SUCCESS;
}

}  // namespace simcuda
