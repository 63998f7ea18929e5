// Asks for clocks and random bytes as ordinary programs do in corners of their own, without CUDA:
// what comes back is as it is without the library. Prints "ok".
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>

namespace {

#define MUST(condition)                                                       \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%d: %s: %s\n", __LINE__, #condition, strerror(errno)); \
      _exit(1);                                                               \
    }                                                                         \
  } while (0)

volatile sig_atomic_t heard = 0;

// The first to ask in this process.
void hear(int) {
  const int error = errno;
  timespec now = {};
  timeval day = {};
  char byte = 0;
  MUST(clock_gettime(CLOCK_MONOTONIC, &now) == 0 && now.tv_sec > 0);
  // time() reads a coarser clock, which is up to a tick behind.
  MUST(gettimeofday(&day, nullptr) == 0 && time(nullptr) + 1 >= day.tv_sec);
  MUST(getrandom(&byte, 1, 0) == 1);
  errno = error;
  heard = heard + 1;
}

void in_a_handler() {
  struct sigaction action {};
  action.sa_handler = hear;  // without SA_RESTART
  MUST(sigaction(SIGALRM, &action, nullptr) == 0);
  errno = 42;
  MUST(raise(SIGALRM) == 0);
  MUST(heard == 1 && errno == 42);
  std::array<int, 2> ends{};
  MUST(pipe(ends.data()) == 0);
  const itimerval soon = {{0, 1000}, {0, 1000}};  // again, where it comes before the read
  setitimer(ITIMER_REAL, &soon, nullptr);
  char byte = 0;
  MUST(read(ends[0], &byte, 1) == -1 && errno == EINTR);
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  close(ends[0]);
  close(ends[1]);
}

void errors() {
  timespec now = {};
  char byte = 0;
  std::array<char, 300> many{};
  errno = 42;
  MUST(clock_gettime(CLOCK_REALTIME, &now) == 0 && time(nullptr) > 0 && clock() >= 0);
  MUST(timespec_get(&now, 77) == 0);
  MUST(read(0, &byte, 0) == 0 && getrandom(&byte, 0, 0) == 0 && errno == 42);
  MUST(read(-1, &byte, 1) == -1 && errno == EBADF);
  MUST(clock_gettime(4711, &now) == -1 && errno == EINVAL);
  MUST(getentropy(many.data(), 257) == -1 && errno == EIO);
  MUST(getrandom(&byte, 1, ~0U) == -1 && errno == EINVAL);
  MUST(fopen("/dev/urandom", "w,ccs=none") == nullptr || errno != 0);
  MUST(syscall(SYS_getppid) == getppid() && syscall(SYS_close, -1) == -1 && errno == EBADF);
}

// A descriptor's number may come to stand for another file than it was opened as.
void descriptors() {
  std::array<int, 2> ends{};
  MUST(pipe(ends.data()) == 0 && write(ends[1], "abcdef", 6) == 6);
  std::array<char, 6> bytes{};
  const int device = open("/dev/urandom", O_RDONLY);
  MUST(read(device, bytes.data(), 6) == 6 && dup2(ends[0], device) == device);
  MUST(read(device, bytes.data(), 3) == 3 && memcmp(bytes.data(), "abc", 3) == 0);
  MUST(dup2(open("/dev/random", O_RDONLY), device) == device);
  MUST(syscall(SYS_close_range, device, device, 0) == 0);
  MUST(read(device, bytes.data(), 1) == -1 && errno == EBADF);
  MUST(fcntl(ends[0], F_DUPFD, device) == device);
  MUST(read(device, bytes.data(), 6) == 3 && memcmp(bytes.data(), "def", 3) == 0);
  close(device);
}

void files() {
  std::array<char, 20000> bytes{};
  for (const char* mode : {"r", "rbe"}) {
    FILE* const file = fopen("/dev/urandom", mode);
    MUST(file != nullptr);
    const int device = fileno(file);
    MUST(device >= 0 && (fcntl(device, F_GETFD) == FD_CLOEXEC) == (mode[1] != '\0'));
    MUST(fgetc(file) != EOF && fread(bytes.data(), 1, bytes.size(), file) == bytes.size());
    MUST(fseek(file, 0, SEEK_SET) == 0 && fgetc(file) != EOF && !ferror(file));
    MUST(setvbuf(file, nullptr, _IONBF, 0) == 0 && fread(bytes.data(), 1, 9, file) == 9);
    MUST(fclose(file) == 0 && fcntl(device, F_GETFD) == -1);
  }
  FILE* file = fopen("/dev/random", "r");
  MUST(file != nullptr && fgetc(file) != EOF);
  file = freopen("/dev/null", "r", file);
  MUST(file != nullptr && fgetc(file) == EOF && feof(file) && fclose(file) == 0);
  // Another file in its place.
  file = fopen("/dev/urandom", "r");
  const int null = open("/dev/null", O_RDONLY);
  MUST(dup2(null, fileno(file)) == fileno(file) && fgetc(file) == EOF && fclose(file) == 0);
  close(null);
  file = fopen("/dev/urandom", "r");
  MUST(file != nullptr && close(fileno(file)) == 0 && fgetc(file) == EOF && errno == EBADF);
  MUST(fclose(file) == EOF);
}

std::array<int, 2> silent{};
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t never = PTHREAD_COND_INITIALIZER;

void* read_for_ever(void*) {
  char byte = 0;
  while (read(silent[0], &byte, 1) >= 0) continue;
  return nullptr;
}

void* wait_for_ever(void*) {
  pthread_mutex_lock(&mutex);
  pthread_cleanup_push([](void*) { pthread_mutex_unlock(&mutex); }, nullptr);
  const timespec late = {time(nullptr) + 100'000, 0};
  while (pthread_cond_timedwait(&never, &mutex, &late) == 0) continue;
  pthread_cleanup_pop(1);
  return nullptr;
}

void* draw_for_ever(void*) {
  static std::array<char, 1 << 16> bytes;
  const int device = open("/dev/urandom", O_RDONLY);
  while (read(device, bytes.data(), bytes.size()) >= 0) continue;
  return nullptr;
}

void cancelled() {
  MUST(pipe(silent.data()) == 0);
  for (auto* const routine : {read_for_ever, wait_for_ever, draw_for_ever}) {
    pthread_t thread{};
    void* result = nullptr;
    MUST(pthread_create(&thread, nullptr, routine, nullptr) == 0);
    MUST(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
    MUST(result == PTHREAD_CANCELED);
  }
  MUST(pthread_mutex_lock(&mutex) == 0);  // it was given back
}

void children() {
  int status = -1;
  const auto exits = [&](pid_t child, int with) {
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == with;
  };
  uint64_t own = 0, others = 0;
  std::array<int, 2> ends{};
  MUST(pipe(ends.data()) == 0);
  const pid_t forked = fork();
  MUST(getrandom(&own, sizeof own, 0) == sizeof own);
  if (forked == 0) _exit(write(ends[1], &own, sizeof own) == sizeof own ? 3 : 4);
  MUST(read(ends[0], &others, sizeof others) == sizeof others && own != others && exits(forked, 3));
  const pid_t other = vfork();
  if (other == 0) {
    _exit(read(-1, &own, 1) == -1 && time(nullptr) > 0 ? 5 : 4);
  }
  MUST(exits(other, 5));
  MUST(system("exit 6") == 6 << 8);
}

timespec last_seen = {};

[[gnu::destructor(101)]] void at_the_end() {
  timespec now = {};
  MUST(clock_gettime(CLOCK_MONOTONIC, &now) == 0 && now.tv_sec >= last_seen.tv_sec);
  char byte = 0;
  const int device = open("/dev/urandom", O_RDONLY);
  MUST(read(device, &byte, 1) == 1 && getrandom(&byte, 1, 0) == 1);
}

}  // namespace

int main() {
  in_a_handler();
  errors();
  descriptors();
  files();
  cancelled();
  children();
  clock_gettime(CLOCK_MONOTONIC, &last_seen);
  puts("ok");
}
