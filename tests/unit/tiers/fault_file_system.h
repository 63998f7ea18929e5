// A file system in memory that can go wrong: any one operation fails or stalls, some fail by
// chance, bulk transfers end in any order, or the machine stops and forgets what was not synced.
// Knows which bytes and which names are durable.
//
// Chance comes from seeds. The outcome of an operation depends on the seed, on its text (as in
// log()) and on how often that text came before, not on what other threads do meanwhile.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "fault_file.h"
#include "fault_transfers.h"
#include "tiers/file_system.h"

namespace gpusnap::test {

// The system's message about a device that fails with that errno.
Status device_failure(int error);

// The part of what was not synced that survives a crash.
enum class Survival {
  kNothing,     // neither names nor bytes
  kNames,       // names, and files of their length with zeros for what was not synced
  kBytes,       // bytes, not names
  kSomeNames,   // bytes, and of the changes of names every second one
  kOtherNames,  // bytes, and the other half
  kEverything,  // as when only the process is killed
};
inline constexpr Survival kAllSurvivals[] = {Survival::kNothing,    Survival::kNames,
                                             Survival::kBytes,      Survival::kSomeNames,
                                             Survival::kOtherNames, Survival::kEverything};

// Thread-safe. Folders are durable at once, as make_folder() promises.
class FaultFileSystem final : public FileSystem {
 public:
  struct Fault {
    size_t operation = 0;  // the how many-th from now, from 0
    // Empty: from this operation on nothing happens and all fails, until crash().
    std::optional<Status> failure;
    // The operation happens, and fails all the same.
    bool takes_effect = false;
    // So do all later ones.
    bool persists = false;
    // Instead of a failure: a write to a bulk file that does not end before release().
    bool stalls = false;
    // Only operations with this in their text are meant; the others are not counted.
    std::string where{};
  };
  // One operation of `one_in` fails, as one of the failures; half of these take effect all the
  // same. Reads of bulk files fail, too.
  struct Chance {
    uint64_t seed = 0;
    uint64_t one_in = 0;
    std::vector<Status> failures;
  };

  FaultFileSystem();
  ~FaultFileSystem() override;

  void inject(Fault fault);
  void fail_by_chance(Chance chance);
  void heal();                // no more faults
  size_t operations() const;  // since the last inject() or heal(); what only reads is not counted
  const std::vector<std::string>& log() const { return log_; }  // of these operations

  // How bulk transfers end from now on; none is on its way.
  void end_transfers(Ending ending, uint64_t seed = 0);
  size_t end_some(size_t count);  // with Ending::kWhenAsked; how many did
  void release();                 // what stalls
  size_t on_their_way() const;    // bulk transfers

  // The machine stops and starts again. Locks are gone, faults too. No file is open.
  void crash(Survival survival);
  // Some changes of names survive. Bytes that were not synced survive in any subset of blocks of
  // 4 KiB, in any of the versions that the blocks had. The same seed after the same operations
  // leaves the same.
  void crash(uint64_t seed);

  // After the machine "stopped": it was only the process. Nothing is lost, and nothing became
  // durable: a crash may still come.
  void restart_process();

  // Past all faults and for good, as somebody else would.
  std::vector<std::byte> content(const std::string& path) const;
  void put(const std::string& path, std::vector<std::byte> bytes);
  void erase(const std::string& path);
  std::vector<std::string> paths() const;  // of files
  bool exists(const std::string& path) const;
  // entries() and open() in or of it fail with kPermission.
  void forbid(const std::string& path);
  void allow_all();

  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override;
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override;
  Result<std::unique_ptr<BulkFile>> create_bulk(const std::string& path, uint64_t reserve) override;
  Result<std::unique_ptr<BulkFile>> open_bulk(const std::string& path) override;
  Result<std::unique_ptr<BulkFile>> continue_bulk(const std::string& path) override;
  Status shorten(const std::string& path, uint64_t size) override;
  Result<std::vector<FolderEntry>> entries(const std::string& folder) override;
  Status make_folder(const std::string& folder) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status replace(const std::string& from, const std::string& to) override;
  Status sync_folder(const std::string& folder) override;
  Status remove(const std::string& path) override;
  Status remove_folder(const std::string& folder) override;
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override;

 private:
  struct Change;  // of a name, not yet durable
  class Bulk;
  class Writing;
  class Reading;
  class Lock;
  enum class Go { kDo, kDoAndFail, kFail, kStall };

  // Counts an operation and says what is to become of it; `status` is how it is to fail.
  Go step(const std::string& what, Status& status);
  Go by_chance(const std::string& what, Status& status);
  void start_again();
  Result<std::shared_ptr<FaultFile>> new_file(const std::string& path);
  Result<std::shared_ptr<FaultFile>> existing_file(const std::string& path) const;
  Status missing(const std::string& what, const std::string& path) const;
  bool folder_exists(const std::string& folder) const;
  void set_name(const std::string& path, std::shared_ptr<FaultFile> file);

  mutable std::mutex mutex_;
  FaultTransfers transfers_{mutex_};
  std::map<std::string, std::shared_ptr<FaultFile>> names_;
  std::map<std::string, std::shared_ptr<FaultFile>> durable_names_;
  std::vector<Change> changes_;
  std::map<std::string, int> folders_;
  std::map<std::string, int> forbidden_;
  std::map<std::string, int> locks_;
  std::optional<Fault> fault_;
  std::optional<Chance> chance_;
  std::map<std::string, uint64_t> done_before_;  // by text; while there is chance
  bool dead_ = false;
  size_t operations_ = 0;
  std::vector<std::string> log_;
};

}  // namespace gpusnap::test
