// SPDX-License-Identifier: Apache-2.0
// The way in which all of tiers/ reports failures: one value type, no exceptions.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace gpusnap {

enum class Code {
  kOk,
  kNotFound,     // there is nothing of that name
  kDamaged,      // it exists, and its bytes are wrong
  kNewer,        // written by a later version of the format
  kNoSpace,      // ENOSPC, EDQUOT
  kPermission,   // EACCES, EPERM, EROFS
  kIo,           // any other failure of the system
  kBusy,         // another thread, process or node holds it
  kInvalid,      // the input of the caller or user is not valid
  kUnsupported,  // known, but not implemented or not available
  kTorn,         // saved bytes are not those of the cut
};

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  // `message`: one line for a user that says what failed, on what, why, and if useful what to do.
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

// A status for stored bytes that are wrong; `what` is its message.
inline Status damaged(std::string what) {
  return {Code::kDamaged, std::move(what)};
}

// A value, or the status that says why there is no value.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  // Only when ok().
  T& value() { return *value_; }
  const T& value() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace gpusnap
