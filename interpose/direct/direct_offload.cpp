// SPDX-License-Identifier: Apache-2.0
#include "interpose/direct/direct_offload.h"

#include <algorithm>
#include <iterator>
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
  if (registered_ && storage_.responds()) storage_.library().deregister_buffer(buffer_.address);
}

bool DirectOffload::takes_runs() {
  if (has_all_ || !storage_.chosen()) return false;
  return ask_for_file() || (storage_.always() && (asked_ || opened_ != nullptr));
}

uint64_t DirectOffload::room() {
  const bool is_busy = run_ != nullptr || is_calling() || !left_.empty();
  if (is_busy || has_all_ || !storage_.chosen() || !ask_for_file()) return 0;
  return std::min(buffer_.bytes, file_->most - file_->used);
}

bool DirectOffload::ask_for_file() {
  if (file_) return file_->file != nullptr;
  if (!asked_ && Clock::now() < ask_again_) return false;
  DirectSink::File given;
  switch (sink_.next_file(given)) {
    case DirectSink::Answer::kNotYet:
      asked_ = true;
      break;
    case DirectSink::Answer::kNone:
      asked_ = false;
      ask_again_ = Clock::now() + kUntilAskedAgain;
      break;
    case DirectSink::Answer::kFile:
      asked_ = false;
      open(given);
  }
  return false;
}

void DirectOffload::open(const DirectSink::File& given) {
  const uint64_t zone = buffer_.zone_bytes;
  const uint64_t most =
      std::min(given.bytes, most_direct_bytes(buffer_.slot_bytes, zone)) / zone * zone;
  if (most == 0) {  // chunks are smaller than zones
    has_all_ = true;
    return sink_.give_back(given.path);
  }
  file_ = OpenFile{given, nullptr, 0, most, {}};
  file_->chunk.number = given.number;
  file_->chunk.zone_bytes = zone;
  opened_ = std::make_shared<Opened>();
  call([&library = storage_.library(), path = given.path, opened = opened_] {
    auto file = library.open(path);
    opened->status = file.status();
    if (file.ok()) opened->file = std::move(file.value());
  });
}

void DirectOffload::call(std::function<void()> body) {
  called_ = Clock::now();
  call_ = storage_.calls().add(buffer_.context, std::move(body));
}

void DirectOffload::begin(const TransferPtr& run) {
  run_ = run;
  begun_ = Clock::now();
}

uint64_t DirectOffload::whole_zones(const TransferPiece& piece) const {
  return piece.size / buffer_.zone_bytes * buffer_.zone_bytes;
}

void DirectOffload::write() {
  const TransferPtr run = std::exchange(run_, nullptr);
  std::ranges::copy_if(run->pieces, std::back_inserter(pieces_),
                       [](const TransferPiece& piece) { return !piece.stolen; });
  struct Part {
    uint64_t from, bytes, place;
  };
  std::vector<Part> parts;
  uint64_t place = kSegmentHeaderBytes + file_->used;
  for (const TransferPiece& piece : pieces_) {
    parts.push_back({piece.place, whole_zones(piece), place});
    place += parts.back().bytes;
  }
  written_ = std::make_shared<Written>();
  call(
      [buffer = buffer_.address, file = file_->file, parts = std::move(parts), written = written_] {
        for (const Part& part : parts) {
          if (part.bytes > 0) {
            written->status = file->write(buffer, part.from, part.bytes, part.place);
          }
          if (!written->status.ok()) return;
          ++written->pieces;
        }
      });
}

// After kLongestCall nothing is asked of the library any more: whatever it is asked may wait, too.
std::optional<DirectOffload::Fate> DirectOffload::fate(Clock::time_point now) {
  if (call_ == nullptr) return Fate::kWithdrawn;
  LibraryCalls& calls = storage_.calls();
  if (calls.has_ended(*call_)) return Fate::kEnded;
  const bool is_late = now - called_ >= kLongestCall;
  if (is_late) storage_.stop_calling(file_->given.path, kLongestCall);
  if (storage_.usable()) return std::nullopt;
  if (calls.withdraw(*call_)) return Fate::kWithdrawn;
  if (is_late) return Fate::kAbandoned;
  return std::nullopt;
}

std::optional<uint64_t> DirectOffload::collect(Clock::time_point now,
                                               const FingerprintOf& fingerprint_of) {
  const std::optional<Fate> fate = this->fate(now);
  if (!fate) return std::nullopt;
  call_.reset();
  if (written_ != nullptr) return collect_written(*fate, fingerprint_of);
  collect_opened(*fate);
  return 0;
}

void DirectOffload::collect_opened(Fate fate) {
  const std::shared_ptr<Opened> opened = std::exchange(opened_, nullptr);
  // To remove the file may take as long as to open it: the backend does that, with all of its part.
  if (fate == Fate::kAbandoned) return file_.reset();
  if (fate == Fate::kWithdrawn) {
    ask_again_ = Clock::now() + kUntilAskedAgain;
    return give_back_file();
  }
  file_->file = opened->file;
  if (opened->status.ok()) return;
  // Where the backend has taken the file away, the checkpoint has failed.
  if (opened->status.code() != Code::kNotFound) storage_.fail(opened->status);
  give_back_file();
}

uint64_t DirectOffload::collect_written(Fate fate, const FingerprintOf& fingerprint_of) {
  const std::shared_ptr<Written> written = std::exchange(written_, nullptr);
  const size_t count = fate == Fate::kEnded ? written->pieces : 0;
  if (fate == Fate::kEnded && !written->status.ok()) storage_.fail(written->status);
  uint64_t bytes = 0;
  const std::vector<TransferPiece> pieces = std::exchange(pieces_, {});
  for (size_t i = 0; i < pieces.size(); ++i) {
    const uint64_t whole = i < count ? whole_zones(pieces[i]) : 0;
    add_written(pieces[i], whole, fingerprint_of);
    bytes += whole;
  }
  const std::chrono::nanoseconds took = Clock::now() - begun_;
  storage_.ended(SaveWay::kDirect, bytes, static_cast<uint64_t>(took.count()));
  // The write may still come, to bytes past those handed over. As above, the file is not removed.
  if (fate == Fate::kAbandoned && file_->used == 0) file_.reset();
  if (!storage_.usable() || (file_ && file_->most == file_->used)) close_file();
  return bytes;
}

void DirectOffload::add_written(const TransferPiece& piece, uint64_t written,
                                const FingerprintOf& fingerprint_of) {
  if (written > 0) {
    DirectChunk& chunk = file_->chunk;
    chunk.pieces.push_back({piece.range, piece.offset, written});
    for (uint64_t at = 0; at < written; at += buffer_.zone_bytes) {
      chunk.fingerprints.push_back(fingerprint_of(piece.range, piece.offset + at));
    }
    file_->used += written;
  }
  if (written == piece.size) return;
  TransferPiece rest = piece;
  rest.offset += written;
  rest.place += written;
  rest.size -= written;
  left_.push_back(rest);
}

// The thread closes it, with the last user of the body.
void DirectOffload::end_file(OpenFile file) {
  if (file.file == nullptr) return;
  (void)storage_.calls().add(buffer_.context, [file = std::move(file.file)] {});
}

void DirectOffload::close_file() {
  if (!file_ || file_->used == 0) return give_back_file();
  OpenFile full = std::move(*file_);
  file_.reset();
  DirectChunk chunk = std::move(full.chunk);
  const std::string path = full.given.path;
  end_file(std::move(full));
  sink_.add(std::move(chunk), path);
}

void DirectOffload::give_back_file() {
  if (!file_) return;
  OpenFile file = std::move(*file_);
  file_.reset();
  const std::string path = file.given.path;
  end_file(std::move(file));
  sink_.give_back(path);
}

void DirectOffload::give_up() {
  has_all_ = true;
  left_.clear();
  if (!is_calling()) give_back_file();
}

}  // namespace gpusnap
