// Real files on devices that are as slow as a test wants them: what is written below a folder takes
// the time that the folder's device needs, which depends on how many files are written to or read
// from at that moment, and on when it is.
//
// For benchmarks and their tests; never part of the library.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/forwarding_file_system.h"
#include "tiers/file_system.h"

namespace gpusnap::test {

// Time as the throttle sees it. Thread-safe.
class Pace {
 public:
  virtual ~Pace() = default;
  virtual int64_t now_ns() = 0;
  virtual void sleep_until(int64_t ns) = 0;
};
// The machine's. Lives for ever.
Pace& real_pace();

// How fast a device is. Between the points the rate is on a line; before the first and behind the
// last it is theirs. No points: as fast as it is anyway.
struct DeviceRates {
  struct Point {
    uint32_t files = 1;           // that move bytes at the same time
    double bytes_per_second = 0;  // of all of them together
  };
  // From then on the rates are multiplied by `factor`, which is positive.
  struct Change {
    double after_seconds = 0;
    double factor = 1;
  };
  std::vector<Point> points;     // by rising numbers of files
  std::vector<Change> schedule;  // by rising time

  // 0: not throttled.
  double total(uint32_t files, double seconds) const;
};

struct ThrottledFolder {
  std::string folder;  // what lies below it is on the device
  DeviceRates writes;
  DeviceRates reads;
};

// Thread-safe. Files outside of the folders are not throttled; of folders inside each other the
// inner one counts. Names, syncs and locks cost nothing extra. Each bulk file has a thread.
class ThrottledFileSystem final : public ForwardingFileSystem {
 public:
  ThrottledFileSystem(FileSystem& files, std::vector<ThrottledFolder> folders,
                      Pace& pace = real_pace());
  ~ThrottledFileSystem() override;

  // Schedules count from here; before, they count from when this was made.
  void start();
  // The totals moved so far.
  struct Moved {
    uint64_t written = 0;  // bytes
    uint64_t read = 0;
    uint32_t most_files = 0;  // at the same time
  };
  Moved moved(size_t folder) const;

  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override;
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override;
  Result<std::unique_ptr<BulkFile>> create_bulk(const std::string& path, uint64_t reserve) override;
  Result<std::unique_ptr<BulkFile>> open_bulk(const std::string& path) override;
  Result<std::unique_ptr<BulkFile>> continue_bulk(const std::string& path) override;

 private:
  class Device;
  class Mover;
  class Writable;
  class Readable;
  class Bulk;
  Device* device_of(const std::string& path) const;
  Result<std::unique_ptr<BulkFile>> throttle(const std::string& path,
                                             Result<std::unique_ptr<BulkFile>> file) const;

  FileSystem& files_;
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace gpusnap::test
