// SPDX-License-Identifier: Apache-2.0
//
// Writes checkpoints, reads them back in some order, and compares every byte. Each checkpoint
// consists of a head in host memory and a body in host or device memory. The bytes depend on the
// seed and the version alone, so that another process can check them.
#define VELOC_NO_MPI
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "tests/apps/app.h"
#include "tests/apps/veloc/options.h"
#include "tools/veloc/veloc.h"

namespace app {

constexpr const char* kUsage =
    "roundtrip CONFIG [options]\n"
    "  --number N        checkpoints (24)\n"
    "  --bytes N         bytes of a checkpoint's body, or most bytes (65536)\n"
    "  --sizes WHICH     uniform, variable\n"
    "  --memory WHERE    host, device\n"
    "  --files WHICH     none, written (every third version has a file as well), missing (it is "
    "not\n"
    "                    written)\n"
    "  --order ORDER     sequential, reverse, irregular: how they are read\n"
    "  --hints WHICH     none, next, all, wrong (all, in another order)\n"
    "  --passes N        how many times all are read (1)\n"
    "  --wait            waits between writing and reading until all are durable\n"
    "  --durable N       waits after every N checkpoints and prints 'durable VERSION' (0: never)\n"
    "  --first N         number of the first version (0)\n"
    "  --seed N          of the bytes and of irregular orders (1)\n"
    "  --id N            of VELOC_Init_single() (0)\n"
    "  --name NAME       of the checkpoints (roundtrip)\n"
    "  --no-drain        what was read need not be on disk at the end\n"
    "  --resume          looks for the newest version first, restores it and prints it\n"
    "  --survivors       writes nothing: reads all that other processes left, newest first";

constexpr int kHead = 0, kBody = 1;  // numbers of the protected memory

struct Setup {
  int number, bytes, passes, durable, first, seed, id;
  bool variable, on_device, waits, resumes, survivors, drains;
  std::string order, hints, files, name;
};

struct Head {
  int version = -1;
  int seed = -1;
};

Random random_of(int seed, int version) {
  Random random(static_cast<uint64_t>(seed) << 32 | static_cast<uint32_t>(version));
  random.next();
  return random;
}

size_t size_of(const Setup& setup, int seed, int version) {
  const auto most = static_cast<uint32_t>(setup.bytes);
  return setup.variable ? 1 + random_of(seed, version).below(most) : most;
}

// Every other version can be compressed well.
std::vector<std::byte> bytes_of(const Setup& setup, int seed, int version) {
  Random random = random_of(seed, version);
  std::vector<std::byte> bytes(size_of(setup, seed, version));
  const uint32_t mask = version % 2 == 0 ? 0xff : 3;
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next() >> 8 & mask);
  return bytes;
}

std::vector<int> order_of(const Setup& setup, const std::string& order, uint64_t seed) {
  std::vector<int> versions;
  for (int i = 0; i < setup.number; ++i) versions.push_back(setup.first + i);
  if (order == "reverse") std::reverse(versions.begin(), versions.end());
  if (order == "irregular") {
    Random random(seed);
    for (uint32_t i = static_cast<uint32_t>(versions.size()); i > 1; --i) {
      std::swap(versions[i - 1], versions[random.below(i)]);
    }
  }
  return versions;
}

// The memory of a checkpoint's body.
class Body {
 public:
  Body(bool on_device, int bytes) : host_(static_cast<size_t>(bytes)) {
    if (on_device) device_.emplace(host_.size());
  }

  void* memory() {
    return device_ ? static_cast<void*>(device_->pointer()) : static_cast<void*>(host_.data());
  }
  void put(const std::vector<std::byte>& bytes) {
    if (device_) {
      device_->upload(bytes);
    } else {
      std::copy(bytes.begin(), bytes.end(), host_.begin());
    }
  }
  std::vector<std::byte> all() const { return device_ ? device_->download() : host_; }

 private:
  std::vector<std::byte> host_;
  std::optional<Buffer<std::byte>> device_;
};

class Roundtrip {
 public:
  explicit Roundtrip(const Setup& setup) : setup_(setup) {
    if (setup.on_device) device_ = std::make_unique<Device>(ContextKind::kPrimary);
    body_ = std::make_unique<Body>(setup.on_device, setup.bytes);
  }

  void write_all() {
    for (int i = 0; i < setup_.number; ++i) {
      write(setup_.first + i);
      if (setup_.durable > 0 && (i + 1) % setup_.durable == 0) {
        must(VELOC_Checkpoint_wait());
        std::printf("durable %d\n", setup_.first + i);
      }
    }
    if (setup_.waits) must(VELOC_Checkpoint_wait());
  }

  void read_all() {
    const auto seed = static_cast<uint64_t>(setup_.seed);
    for (int pass = 0; pass < setup_.passes; ++pass) {
      const std::vector<int> order = order_of(setup_, setup_.order, seed);
      if (setup_.hints == "all") hint(order);
      if (setup_.hints == "wrong") hint(order_of(setup_, "irregular", seed + 1));
      if (pass == 0) must(VELOC_Prefetch_start());
      for (size_t i = 0; i < order.size(); ++i) {
        if (setup_.hints == "next" && i + 1 < order.size()) hint({order[i + 1]});
        restore(order[i]);
        must_be(setup_.seed, order[i]);
      }
    }
  }

  void read_newest() {
    const int version = VELOC_Restart_test(setup_.name.c_str(), 0);
    std::printf("newest %d\n", version);
    if (version < 0) return;
    restore(version);
    must_be(setup_.seed, version);
  }

  void read_survivors() {
    int version = VELOC_Restart_test(setup_.name.c_str(), 0);
    std::printf("newest %d\n", version);
    while (version >= 0) {
      restore(version);
      must_be(head_.seed, version);
      std::printf("restored %d of seed %d\n", version, head_.seed);
      version = version == 0 ? -1 : VELOC_Restart_test(setup_.name.c_str(), version);
    }
  }

 private:
  void hint(const std::vector<int>& versions) const {
    for (const int version : versions) must(VELOC_Prefetch_enqueue(setup_.name.c_str(), version));
  }

  void protect(size_t body_bytes) {
    must(VELOC_Mem_protect(kHead, &head_, 1, sizeof head_));
    must(VELOC_Mem_protect(kBody, body_->memory(), body_bytes, 1));
  }

  // Every third version in three steps.
  void write(int version) {
    const std::vector<std::byte> bytes = bytes_of(setup_, setup_.seed, version);
    head_ = {version, setup_.seed};
    body_->put(bytes);
    protect(bytes.size());
    if (version % 3 != 2) {
      must(VELOC_Checkpoint(setup_.name.c_str(), version));
      return;
    }
    must(VELOC_Checkpoint_begin(setup_.name.c_str(), version));
    must(VELOC_Checkpoint_mem());
    body_->put(bytes_of(setup_, setup_.seed + 1, version));  // too late to be saved
    if (setup_.files != "none") write_file(route(), version);
    must(VELOC_Checkpoint_end(1));
  }

  void restore(int version) {
    head_ = {};
    body_->put(std::vector<std::byte>(static_cast<size_t>(setup_.bytes), std::byte{0xee}));
    const size_t bytes = VELOC_Recover_size(setup_.name.c_str(), version, kBody);
    if (bytes == 0 || bytes > static_cast<size_t>(setup_.bytes)) fail("size", "is wrong");
    protect(bytes);
    if (version % 3 == 0) {
      must(VELOC_Restart(setup_.name.c_str(), version));
      return;
    }
    must(VELOC_Restart_begin(setup_.name.c_str(), version));
    must(VELOC_Recover_mem());
    if (setup_.files != "none" && version % 3 == 2) check_file(route(), version);
    must(VELOC_Restart_end(1));
  }

  static std::string route() {
    char routed[VELOC_MAX_NAME];
    must(VELOC_Route_file("extra", routed));
    return routed;
  }
  // Its bytes are those that another seed would give.
  void write_file(const std::string& path, int version) const {
    if (setup_.files == "missing") return;
    const std::vector<std::byte> bytes = bytes_of(setup_, setup_.seed + 2, version);
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    if (!file.flush()) fail(path.c_str(), "cannot be written");
  }
  void check_file(const std::string& path, int version) const {
    std::ifstream file(path, std::ios::binary);
    const std::string found{std::istreambuf_iterator<char>(file), {}};
    const std::vector<std::byte> expected = bytes_of(setup_, head_.seed + 2, version);
    if (found.size() != expected.size() ||
        std::memcmp(found.data(), expected.data(), found.size()) != 0) {
      fail("file", "of version " + std::to_string(version) + " has wrong bytes");
    }
  }

  // Beyond the checkpoint's bytes nothing has been written.
  void must_be(int seed, int version) const {
    const std::string what = "version " + std::to_string(version);
    if (head_.version != version || head_.seed != seed) fail(what.c_str(), "has another's head");
    std::vector<std::byte> expected = bytes_of(setup_, seed, version);
    expected.resize(static_cast<size_t>(setup_.bytes), std::byte{0xee});
    const std::vector<std::byte> found = body_->all();
    const auto [at, other] = std::mismatch(found.begin(), found.end(), expected.begin());
    if (at == found.end()) return;
    fail(what.c_str(), "byte " + std::to_string(at - found.begin()) + " is wrong");
  }

  const Setup setup_;
  Head head_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Body> body_;  // its memory goes before the device
};

Setup setup_of(Options& options) {
  Setup setup = {};
  setup.number = options.number("--number", 24, 1);
  setup.bytes = options.number("--bytes", 1 << 16, 1);
  setup.variable = options.choice("--sizes", {"uniform", "variable"}) == "variable";
  setup.on_device = options.choice("--memory", {"host", "device"}) == "device";
  setup.order = options.choice("--order", {"sequential", "reverse", "irregular"});
  setup.hints = options.choice("--hints", {"none", "next", "all", "wrong"});
  setup.passes = options.number("--passes", 1);
  setup.files = options.choice("--files", {"none", "written", "missing"});
  setup.name = options.text("--name", "roundtrip");
  setup.drains = !options.flag("--no-drain");
  setup.waits = options.flag("--wait");
  setup.resumes = options.flag("--resume");
  setup.durable = options.number("--durable", 0);
  setup.first = options.number("--first", 0);
  setup.seed = options.number("--seed", 1);
  setup.id = options.number("--id", 0);
  setup.survivors = options.flag("--survivors");
  options.finish();
  return setup;
}

int run(Options options) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const Setup setup = setup_of(options);
  Roundtrip roundtrip(setup);
  must(VELOC_Init_single(static_cast<unsigned>(setup.id), options.config()));
  if (setup.survivors) {
    roundtrip.read_survivors();
  } else {
    if (setup.resumes) roundtrip.read_newest();
    roundtrip.write_all();
    roundtrip.read_all();
  }
  must(VELOC_Finalize(setup.drains ? 1 : 0));
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::Options(argc, argv, app::kUsage));
}
