// SPDX-License-Identifier: Apache-2.0
// Input from other nodes and from their shards' files, of any content: it is refused in one
// line, or is written again as it was read. The first byte says what the rest is.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fault_file_system.h"
#include "tiers/levels/image.h"
#include "tiers/levels/local_store.h"
#include "tiers/levels/protocol.h"
#include "tiers/levels/shard_server.h"

namespace {

using namespace gpusnap::levels;  // NOLINT(google-build-using-namespace)
using Bytes = std::span<const std::byte>;

void check(bool holds) {
  if (!holds) std::abort();
}

void is_refused(const gpusnap::Status& status) {
  check(!status.message().empty() && status.message().find('\n') == std::string::npos);
}

template <class T>
bool is_equal(const T& encoded, Bytes bytes) {
  return std::equal(encoded.begin(), encoded.end(), bytes.begin(), bytes.end());
}

void try_headers(Bytes bytes) {
  if (const auto header = decode_shard_header(bytes); header.ok()) {
    std::vector<std::byte> again = encode(header.value());
    // One of the first version comes back with a number that says nothing.
    const size_t first_version = again.size() - sizeof header->job_run;
    if (header->job_run == 0 && bytes.size() == first_version) again.resize(first_version);
    check(is_equal(again, bytes));
  } else {
    is_refused(header.status());
  }
  if (const auto part = decode_part(bytes); part.ok()) {
    check(is_equal(encode(part.value()), bytes));
  } else {
    is_refused(part.status());
  }
}

void try_file_header(Bytes bytes) {
  std::vector<std::byte> file(bytes.begin(), bytes.end());
  file.resize(kShardHeaderBytes);
  const auto header = decode_shard_file_header(file);
  if (!header.ok()) is_refused(header.status());
}

// Put back into a store, in pieces of some size.
void try_image(Bytes bytes) {
  gpusnap::test::FaultFileSystem files;
  {
    ImageWriter image(files, {"/pfs/demo", "demo", 1, 0}, bytes.size());
    gpusnap::Status status;
    const size_t step = 1 + bytes.size() / 3;
    for (size_t at = 0; at < bytes.size() && status.ok(); at += step) {
      status = image.add(bytes.subspan(at, std::min(step, bytes.size() - at)));
    }
    if (status.ok()) status = image.finish();
    if (status.ok()) return;
    is_refused(status);
  }
  for (const std::string& path : files.paths()) check(path.ends_with(".journal"));
}

// Messages of a node that has the key: each a length of two bytes and so many bytes.
class Nonsense final : public Channel {
 public:
  explicit Nonsense(Bytes bytes) : bytes_(bytes) {}
  gpusnap::Status send(Bytes message) override {
    sent_ += message.size();
    return {};
  }
  gpusnap::Result<Bytes> receive() override {
    if (bytes_.size() < 2) return gpusnap::Status(gpusnap::Code::kNotFound, "it has ended");
    const size_t size = std::min(
        static_cast<size_t>(bytes_[0]) | static_cast<size_t>(bytes_[1]) << 8, bytes_.size() - 2);
    const Bytes message = bytes_.subspan(2, size);
    bytes_ = bytes_.subspan(2 + size);
    return message;
  }
  uint64_t sent_bytes() const override { return sent_; }

 private:
  Bytes bytes_;
  uint64_t sent_ = 0;
};

void try_messages(Bytes bytes) {
  gpusnap::test::FaultFileSystem files;
  LocalStore store(files, "/ssd/shards");
  Nonsense channel(bytes);
  is_refused(answer_all(channel, store));
  for (const std::string& path : files.paths()) check(path.starts_with("/ssd/shards/"));
}

// Before both sides know each other.
class Stranger final : public ByteStream {
 public:
  explicit Stranger(Bytes bytes) : bytes_(bytes) {}
  gpusnap::Status write(Bytes) override { return {}; }
  gpusnap::Status read(std::span<std::byte> to) override {
    if (bytes_.size() < to.size()) return {gpusnap::Code::kNotFound, "it has ended"};
    std::copy_n(bytes_.begin(), to.size(), to.begin());
    bytes_ = bytes_.subspan(to.size());
    return {};
  }

 private:
  Bytes bytes_;
};

void try_handshake(Bytes bytes, Channel::Side side) {
  const auto channel = Channel::open(std::make_unique<Stranger>(bytes), side, JobKey(), false);
  check(!channel.ok());
  is_refused(channel.status());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Bytes bytes = std::as_bytes(std::span(data, size)).subspan(1);
  switch (data[0] % 6) {
    case 0:
      try_headers(bytes);
      break;
    case 1:
      try_file_header(bytes);
      break;
    case 2:
      try_image(bytes);
      break;
    case 3:
      try_messages(bytes);
      break;
    case 4:
      try_handshake(bytes, Channel::Side::kServer);
      break;
    default:
      try_handshake(bytes, Channel::Side::kClient);
      break;
  }
  return 0;
}
