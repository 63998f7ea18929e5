#include "interpose/thread_path.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace gpusnap {

namespace {
[[gnu::tls_model("initial-exec")]] constinit thread_local ThreadPath own;

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

}  // namespace gpusnap
