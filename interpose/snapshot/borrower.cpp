// SPDX-License-Identifier: Apache-2.0
#include "interpose/snapshot/borrower.h"

#include <sys/socket.h>

#include <optional>
#include <utility>

#include "interpose/services/control_connection.h"
#include "interpose/services/log.h"

namespace gpusnap {

Borrower::Borrower(const Driver& driver, DeviceLane& lane, uint64_t zone_bytes)
    : driver_(driver), own_device_(device_id(driver, lane.device())) {
  for (const int device : lane.peer_links().devices()) {
    buffers_.push_back(std::make_unique<LentBuffer>(driver, device, lane.device(), zone_bytes));
  }
}

void Borrower::ask(std::span<const pid_t> processes, uint64_t bytes) {
  const std::string request = encode_loan_request({bytes, own_device_});
  for (const pid_t process : processes) {
    Descriptor lender = connect_to(process, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (!lender.valid()) continue;
    if (send(lender.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) continue;
    asked_.push_back(std::move(lender));
  }
}

void Borrower::collect() {
  std::vector<Descriptor> still;
  for (Descriptor& lender : std::exchange(asked_, {})) {
    std::vector<Descriptor> files;
    const std::optional<std::string> message = receive(lender.get(), files);
    if (message) {
      take(*message, files, std::move(lender));
    } else {
      still.push_back(std::move(lender));
    }
  }
  asked_ = std::move(still);
}

LentBuffer* Borrower::buffer_of(const DeviceId& device) const {
  for (const auto& buffer : buffers_) {
    if (device_id(driver_, buffer->device()) == device) return buffer.get();
  }
  return nullptr;
}

// One loan of each device: of another one to the same device nothing is used.
void Borrower::take(const std::string& message, const std::vector<Descriptor>& files,
                    Descriptor lender) {
  const std::optional<LoanReply> reply = decode_loan_reply(message);
  if (!reply || !reply->error.empty() || reply->pieces.size() != files.size()) {
    return LentBuffer::say_returned(lender);
  }
  LentBuffer* const buffer = buffer_of(reply->device);
  if (buffer == nullptr || buffer->is_open()) return LentBuffer::say_returned(lender);
  const Status opened = buffer->open(*reply, files, std::move(lender));
  if (opened.ok()) {
    log(LogLevel::kDebug, "another process lends ", reply->bytes, " bytes of device ",
        buffer->device());
  } else {
    log(LogLevel::kInfo, "memory of device ", buffer->device(),
        " that another process lends is not used: ", opened.message());
  }
}

void Borrower::give_back() {
  for (const Descriptor& lender : asked_) LentBuffer::say_returned(lender);
  asked_.clear();
  for (const auto& buffer : buffers_) buffer->give_back();
}

}  // namespace gpusnap
