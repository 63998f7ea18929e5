// SPDX-License-Identifier: Apache-2.0
// The one seam to files. The store, the journal and the tool reach the file system only through
// this, so that tests can drop what was not synced, fill the disk, cut writes short, or fail.
//
// Paths are absolute or relative to the process's folder. Everything made here is private to the
// user: folders 0700, files 0600. Errors carry the path and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tiers/status.h"

namespace gpusnap {

// A file being written from its start to its end. Not thread-safe. Closed by the destructor, which
// promises nothing about durability: call sync().
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  // All bytes or an error; after an error the file's content is undefined.
  virtual Status append(std::span<const std::byte> bytes) = 0;
  // All appended bytes are durable when this returns ok.
  virtual Status sync() = 0;
};

// Thread-safe.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual uint64_t size() const = 0;
  // Exactly bytes.size() bytes from `offset`, or an error (kDamaged where the file is shorter).
  virtual Status read(uint64_t offset, std::span<std::byte> bytes) const = 0;
};

// A file whose bytes move in large parts, many at a time, in any order. Thread-safe, except for the
// destructor, which waits for all that was begun and promises nothing about durability.
//
// Any offset, length and address will do. Aligned parts are faster: those that begin at a multiple
// of 4 KiB in the file and in memory, and have a MiB or more. Transfers that are on their way at
// the same time do not overlap, unless both read. The caller bounds how much is on its way.
class BulkFile {
 public:
  // All bytes were moved, or an error; then what the range holds is undefined. Called once, by any
  // thread, before write() or read() returns or later, under no lock of ours. Ends soon, does not
  // throw, and may begin transfers; it may not call sync() or destroy the file.
  using Done = std::function<void(const Status&)>;

  virtual ~BulkFile() = default;
  // In bytes: of a file that is read, when it was opened; of a new one, to the end of the furthest
  // write that was begun. Places before it that were never written are zeros.
  virtual uint64_t size() const = 0;
  // The bytes stay as they are until `done` was called.
  virtual void write(uint64_t offset, std::span<const std::byte> bytes, Done done) = 0;
  // Exactly bytes.size() bytes, or an error (kDamaged where the file is shorter).
  virtual void read(uint64_t offset, std::span<std::byte> bytes, Done done) = 0;
  // Waits for the writes that were begun before, their `done` included; what they wrote is durable
  // when this returns ok. After a write or a sync that failed, it fails for good.
  virtual Status sync() = 0;
};

inline constexpr uint64_t kRoomAhead = std::numeric_limits<uint64_t>::max();

// Held until destroyed or the process dies.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

struct FolderEntry {
  std::string name;
  bool is_folder = false;
  uint64_t size = 0;  // bytes; files
  int64_t modified_unix_ns = 0;
};

// Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // Fails when the file exists: nothing is ever overwritten in place.
  virtual Result<std::unique_ptr<WritableFile>> create(const std::string& path) = 0;
  virtual Result<std::unique_ptr<ReadableFile>> open(const std::string& path) = 0;
  // As create() and open(). A new bulk file can be read, too. `reserve`: how many bytes it is going
  // to have, or somewhat more: fails with kNoSpace where that room is not there; 0: unknown;
  // kRoomAhead: unknown, and where the device has room the file may be longer than what is written,
  // with zeros, until it is synced.
  virtual Result<std::unique_ptr<BulkFile>> create_bulk(const std::string& path,
                                                        uint64_t reserve) = 0;
  virtual Result<std::unique_ptr<BulkFile>> open_bulk(const std::string& path) = 0;
  // One that is there, to be written further and read: whoever wrote it before has gone.
  virtual Result<std::unique_ptr<BulkFile>> continue_bulk(const std::string& path) = 0;
  // The file has that many bytes and no more, and they are durable, at return. kDamaged where it
  // is shorter already.
  virtual Status shorten(const std::string& path, uint64_t size) = 0;
  // By name.
  virtual Result<std::vector<FolderEntry>> entries(const std::string& folder) = 0;
  // Makes missing parents, too; ok if the folder is there already. The folders that it makes are
  // durable at return.
  virtual Status make_folder(const std::string& folder) = 0;
  // Fails when `to` exists.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  // As rename(), but `to` is what was there before or, at once, what `from` was; it may be missing.
  virtual Status replace(const std::string& from, const std::string& to) = 0;
  // Makes created, renamed and removed names in the folder durable.
  virtual Status sync_folder(const std::string& folder) = 0;
  virtual Status remove(const std::string& path) = 0;           // a file
  virtual Status remove_folder(const std::string& folder) = 0;  // an empty folder
  // Makes the file if need be. kBusy when it is held, here or in another process. Belongs to the
  // process: a forked child does not hold it.
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& path) = 0;
};

// The real one. Lives for ever.
FileSystem& posix_file_system();
// One whose bulk files use that engine, which outlives it.
class IoEngine;
std::unique_ptr<FileSystem> posix_file_system_on(IoEngine& engine);

}  // namespace gpusnap
