#include "interpose/threads/thread_path.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace gpusnap {

namespace {
[[gnu::tls_model("initial-exec")]] constinit thread_local ThreadPath own;

// Where a thread runs whose path has that digest. In memory that is there anyway.
struct Running {
  std::atomic<int> thread{0};  // 0: free, -1: being written
  std::atomic<uint64_t> path{0};
};
constexpr size_t kMostRunning = 1024;
constinit Running running[kMostRunning];

uint64_t digest_of(std::string_view path) {
  uint64_t digest = 14695981039346656037U;
  for (const char letter : path) {
    digest = (digest ^ static_cast<unsigned char>(letter)) * 1099511628211U;
  }
  return digest;
}

char* append_text(char* at, const char* text) {
  while (*text != '\0') *at++ = *text++;
  return at;
}
}  // namespace

char* append_number(char* at, uint32_t number) {
  char digits[10];
  size_t count = 0;
  do {
    digits[count++] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  while (count != 0) *at++ = digits[--count];
  return at;
}

ThreadPath& own_thread_path() {
  if (!own.known && syscall(SYS_gettid) == getpid()) own.known = true;
  return own;
}

ThreadPath child_of(const ThreadPath& parent) {
  ThreadPath child = parent;
  child.children = 0;
  if (parent.depth < ThreadPath::kDeepest) {
    child.ordinals[child.depth++] = parent.children;
  } else {
    uint32_t& last = child.ordinals[ThreadPath::kDeepest - 1];
    last = last * 16777619U ^ (parent.children + 1);
  }
  return child;
}

const char* text_of(const ThreadPath& path, char (&text)[kThreadPathText]) {
  char* at = text;
  if (!path.known) {
    at = append_text(at, "unknown");
  } else if (path.depth == 0) {
    at = append_text(at, "main");
  }
  for (uint8_t i = 0; path.known && i < path.depth; ++i) {
    if (i != 0) *at++ = '/';
    at = append_number(at, path.ordinals[i]);
  }
  *at = '\0';
  return text;
}

RunningThread::RunningThread(const ThreadPath& path) : place_(kMostRunning) {
  char text[kThreadPathText];
  const uint64_t digest = digest_of(text_of(path, text));
  for (size_t i = 0; i < kMostRunning; ++i) {
    const size_t place = (digest + i) % kMostRunning;
    int expected = 0;
    if (!running[place].thread.compare_exchange_strong(expected, -1)) continue;
    running[place].path = digest;
    running[place].thread = static_cast<int>(syscall(SYS_gettid));
    place_ = place;
    return;
  }
}

RunningThread::~RunningThread() {
  if (place_ != kMostRunning) running[place_].thread = 0;
}

int find_running_thread(std::string_view path) {
  if (path == "main") return getpid();
  const uint64_t digest = digest_of(path);
  for (const Running& each : running) {
    const int thread = each.thread;
    if (thread > 0 && each.path == digest && each.thread == thread) return thread;
  }
  return 0;
}

}  // namespace gpusnap
