// SPDX-License-Identifier: Apache-2.0
// The only interface to files. The store, the journal and the tool reach the file system through
// it, so that tests can drop unsynced bytes, fill the disk, shorten writes, or make calls fail.
//
// Paths are absolute or relative to the process's working directory. Everything made here is
// private to the user: folders 0700, files 0600. Messages of errors have the path and the system's
// reason.
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

// A file that is written from its start to its end. Not thread-safe. The destructor closes it
// without making it durable: call sync().
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  // Appends all bytes, or returns an error, after which the file's content is undefined.
  virtual Status append(std::span<const std::byte> bytes) = 0;
  // Makes all appended bytes durable.
  virtual Status sync() = 0;
};

// Thread-safe.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual uint64_t size() const = 0;
  // Reads exactly bytes.size() bytes at `offset`, or returns an error: kDamaged if the file is
  // shorter.
  virtual Status read(uint64_t offset, std::span<std::byte> bytes) const = 0;
};

// A file with large concurrent transfers in any order. Thread-safe, except for the destructor,
// which waits for all transfers and does not make the file durable.
//
// Offsets, lengths and addresses are arbitrary. Aligned transfers are faster: those that begin at a
// multiple of 4 KiB in the file and in memory, and have a MiB or more. Concurrent transfers must
// not overlap, unless both read. The caller bounds the amount in flight.
class BulkFile {
 public:
  // Called with ok when all bytes were transferred, or with an error; then the content of the range
  // is undefined. Called once, by any thread, before or after write() or read() returns, without a
  // lock held. It must not block or throw, call sync() or destroy the file. It may begin transfers.
  using Done = std::function<void(const Status&)>;

  virtual ~BulkFile() = default;
  // Size in bytes: for an opened file its size when it was opened, for a new file the highest end
  // of all writes begun so far. Bytes before it that were never written are zeros.
  virtual uint64_t size() const = 0;
  // The bytes must not change until `done` is called.
  virtual void write(uint64_t offset, std::span<const std::byte> bytes, Done done) = 0;
  // Reads exactly bytes.size() bytes, or fails: with kDamaged if the file is shorter.
  virtual void read(uint64_t offset, std::span<std::byte> bytes, Done done) = 0;
  // Waits for all writes begun before, and for their `done`, and makes their bytes durable. After a
  // failed write or sync all further calls fail.
  virtual Status sync() = 0;
};

inline constexpr uint64_t kRoomAhead = std::numeric_limits<uint64_t>::max();

// A lock that is held until the object is destroyed or the process dies.
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
  // Fails if the file exists: no file is overwritten in place.
  virtual Result<std::unique_ptr<WritableFile>> create(const std::string& path) = 0;
  virtual Result<std::unique_ptr<ReadableFile>> open(const std::string& path) = 0;
  // As create() and open(). A new bulk file can be read, too. `reserve`: an upper bound of its size
  // in bytes; fails with kNoSpace if the device lacks that room. 0: unknown. kRoomAhead: unknown,
  // and the file may be longer than the written bytes, with zeros, until it is synced.
  virtual Result<std::unique_ptr<BulkFile>> create_bulk(const std::string& path,
                                                        uint64_t reserve) = 0;
  virtual Result<std::unique_ptr<BulkFile>> open_bulk(const std::string& path) = 0;
  // Opens an existing file, whose earlier writer has gone, to write and read it.
  virtual Result<std::unique_ptr<BulkFile>> continue_bulk(const std::string& path) = 0;
  // Shortens the file to that size in bytes and makes it durable. Returns kDamaged if it is shorter
  // already.
  virtual Status shorten(const std::string& path, uint64_t size) = 0;
  // Returns the entries in the order of their names.
  virtual Result<std::vector<FolderEntry>> entries(const std::string& folder) = 0;
  // Makes the folder and missing parents, durably. Succeeds if the folder exists.
  virtual Status make_folder(const std::string& folder) = 0;
  // Fails if `to` exists.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  // As rename(), but atomically replaces `to` if it exists.
  virtual Status replace(const std::string& from, const std::string& to) = 0;
  // Makes created, renamed and removed names in the folder durable.
  virtual Status sync_folder(const std::string& folder) = 0;
  virtual Status remove(const std::string& path) = 0;           // a file
  virtual Status remove_folder(const std::string& folder) = 0;  // an empty folder
  // Makes the file if necessary and locks it. Returns kBusy if this or another process holds the
  // lock. A forked child does not hold it.
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& path) = 0;
};

// The real file system. Never destroyed.
FileSystem& posix_file_system();
// Returns a file system whose bulk files use that engine, which outlives it.
class IoEngine;
std::unique_ptr<FileSystem> posix_file_system_on(IoEngine& engine);

}  // namespace gpusnap
