// SPDX-License-Identifier: Apache-2.0
#include "interpose/direct/direct_offload.h"

#include <algorithm>
#include <utility>

#include "tiers/format.h"

namespace gpusnap {

namespace {
// Where no tier has had room for a chunk.
constexpr auto kUntilAskedAgain = std::chrono::milliseconds(20);
}  // namespace

DirectOffload::DirectOffload(DirectStorage& storage, DirectSink& sink, const Buffer& buffer)
    : storage_(storage), sink_(sink), buffer_(buffer) {
  const Status registered = storage_.library().register_buffer(buffer_.address, buffer_.bytes);
  registered_ = registered.ok();
  if (!registered_) storage_.fail(registered);
}

DirectOffload::~DirectOffload() {
  give_back_file();
  if (registered_) storage_.library().deregister_buffer(buffer_.address);
}

bool DirectOffload::takes_runs() {
  if (has_all_ || !storage_.chosen()) return false;
  return has_file() || (storage_.always() && asked_);
}

uint64_t DirectOffload::room() {
  if (run_ != nullptr || !left_.empty() || has_all_ || !storage_.chosen() || !has_file()) return 0;
  return std::min(buffer_.bytes, file_->most - file_->used);
}

bool DirectOffload::has_file() {
  if (file_) return true;
  if (!asked_ && Clock::now() < ask_again_) return false;
  DirectSink::File given;
  switch (sink_.next_file(given)) {
    case DirectSink::Answer::kNotYet:
      asked_ = true;
      return false;
    case DirectSink::Answer::kNone:
      asked_ = false;
      ask_again_ = Clock::now() + kUntilAskedAgain;
      return false;
    case DirectSink::Answer::kFile:
      asked_ = false;
      open(given);
  }
  return file_.has_value();
}

void DirectOffload::open(const DirectSink::File& given) {
  const uint64_t zone = buffer_.zone_bytes;
  const uint64_t most =
      std::min(given.bytes, most_direct_bytes(buffer_.slot_bytes, zone)) / zone * zone;
  auto file = storage_.library().open(given.path);
  if (!file.ok()) {
    // Where the backend has taken the file away, the checkpoint has failed.
    if (file.status().code() != Code::kNotFound) storage_.fail(file.status());
    return sink_.give_back(given.path);
  }
  if (most == 0) {  // chunks are smaller than zones
    has_all_ = true;
    return sink_.give_back(given.path);
  }
  file_ = OpenFile{given, std::move(file.value()), 0, most, {}};
  file_->chunk.number = given.number;
  file_->chunk.zone_bytes = zone;
}

void DirectOffload::begin(const TransferPtr& run) {
  run_ = run;
  begun_ = Clock::now();
}

uint64_t DirectOffload::write(const FingerprintOf& fingerprint_of) {
  const TransferPtr run = std::exchange(run_, nullptr);
  uint64_t written = 0;
  for (const TransferPiece& piece : run->pieces) {
    if (!piece.stolen) written += write_piece(piece, fingerprint_of);
  }
  const std::chrono::nanoseconds took = Clock::now() - begun_;
  storage_.ended(SaveWay::kDirect, written, static_cast<uint64_t>(took.count()));
  if (!storage_.usable() || (file_ && file_->most == file_->used)) close_file();
  return written;
}

uint64_t DirectOffload::write_piece(const TransferPiece& piece,
                                    const FingerprintOf& fingerprint_of) {
  const uint64_t zone = buffer_.zone_bytes;
  const uint64_t whole = file_ && storage_.usable() ? piece.size / zone * zone : 0;
  uint64_t written = 0;
  if (whole > 0) {
    const Status status =
        file_->file->write(buffer_.address, piece.place, whole, kSegmentHeaderBytes + file_->used);
    if (status.ok()) {
      written = whole;
    } else {
      storage_.fail(status);
    }
  }
  if (written > 0) {
    DirectChunk& chunk = file_->chunk;
    chunk.pieces.push_back({piece.range, piece.offset, written});
    for (uint64_t at = 0; at < written; at += zone) {
      chunk.fingerprints.push_back(fingerprint_of(piece.range, piece.offset + at));
    }
    file_->used += written;
  }
  if (written < piece.size) {
    TransferPiece rest = piece;
    rest.offset += written;
    rest.place += written;
    rest.size -= written;
    left_.push_back(rest);
  }
  return written;
}

void DirectOffload::close_file() {
  if (!file_ || file_->used == 0) return give_back_file();
  OpenFile full = std::move(*file_);
  file_.reset();
  full.file.reset();
  sink_.add(std::move(full.chunk), full.given.path);
}

void DirectOffload::give_back_file() {
  if (!file_) return;
  const std::string path = file_->given.path;
  file_.reset();
  sink_.give_back(path);
}

void DirectOffload::give_up() {
  has_all_ = true;
  left_.clear();
  give_back_file();
}

}  // namespace gpusnap
