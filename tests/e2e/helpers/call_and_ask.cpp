// Makes each of the driver's calls that are its arguments, with nothing but zeros, in a process of
// its own, or, where ":self" follows the name, with that process's number and zeros; then asks that
// process for a checkpoint, as the tool would, and goes on calling CUDA until there is an answer.
// Prints "CALL<tab>RESULT<tab>ANSWER", where the answer is "ok" or the reason why there is none;
// "CALL<tab>absent" where the driver has none of that name.
#include <dlfcn.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "interpose/cuda/cuda_abi.h"
#include "interpose/services/control.h"

namespace {

constexpr int kPatienceMs = 20'000;
constexpr std::string_view kSelf = ":self";

// Passes more arguments than any call has. A call ignores those that it has not.
using AnyCall = CUresult (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                             uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

template <class F>
F find(void* driver, const char* name) {
  return reinterpret_cast<F>(dlsym(driver, name));
}

std::string ask(decltype(&cuCtxSynchronize) synchronise) {
  const int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const gpusnap::ControlAddress name = gpusnap::control_address(geteuid(), getpid());
  if (connect(connection, reinterpret_cast<const sockaddr*>(&name.address), name.bytes) != 0) {
    return "nobody to ask";
  }
  const std::string_view request = gpusnap::kCheckpointRequest;
  if (send(connection, request.data(), request.size(), MSG_NOSIGNAL) < 0) return "not asked";
  pollfd polled{connection, POLLIN, 0};
  for (int waited = 0; poll(&polled, 1, 1) == 0; ++waited) {
    if (waited == kPatienceMs) return "no answer";
    (void)synchronise();
  }
  char message[gpusnap::kControlMessageBytes + 1];
  const ssize_t got = recv(connection, message, sizeof message, 0);
  if (got <= 0) return "gone";
  const auto outcome = gpusnap::decode_reply({message, static_cast<size_t>(got)});
  if (!outcome) return "unreadable";
  return outcome->ok ? "ok" : outcome->error;
}

// In the child.
int call_and_ask(const char* asked) {
  std::string symbol = asked;
  const bool of_itself = symbol.ends_with(kSelf);
  if (of_itself) symbol.resize(symbol.size() - kSelf.size());
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return 1;
  const auto call = find<AnyCall>(driver, symbol.c_str());
  if (call == nullptr) {
    std::printf("%s\tabsent\n", asked);
    return 0;
  }
  CUcontext context = nullptr;
  if (find<decltype(&cuInit)>(driver, "cuInit")(0) != CUDA_SUCCESS ||
      find<decltype(&cuCtxCreate_v2)>(driver, "cuCtxCreate_v2")(&context, 0, 0) != CUDA_SUCCESS) {
    return 1;
  }
  const auto first = of_itself ? static_cast<uint64_t>(getpid()) : 0;
  const CUresult result = call(first, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
  const auto synchronise = find<decltype(&cuCtxSynchronize)>(driver, "cuCtxSynchronize");
  std::printf("%s\t%d\t%s\n", asked, static_cast<int>(result), ask(synchronise).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) return call_and_ask(argv[i]);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
      std::printf("%s\tended with %d\n", argv[i], status);
    }
  }
  return 0;
}
