// A file system in memory that can go wrong: any one operation fails, or the machine stops at it
// and forgets what was not synced. Knows which bytes and which names are durable.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tiers/file_system.h"

namespace gpusnap::test {

// What a crash leaves of that which was not synced.
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
  };

  FaultFileSystem();
  ~FaultFileSystem() override;

  void inject(Fault fault);
  void heal();                // no more faults
  size_t operations() const;  // since the last inject() or heal(); what only reads is not counted
  const std::vector<std::string>& log() const { return log_; }  // of these operations

  // The machine stops and starts again. Locks are gone, faults too.
  void crash(Survival survival);

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
  Result<std::vector<FolderEntry>> entries(const std::string& folder) override;
  Status make_folder(const std::string& folder) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status sync_folder(const std::string& folder) override;
  Status remove(const std::string& path) override;
  Status remove_folder(const std::string& folder) override;
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override;

 private:
  struct File;
  struct Change;  // of a name, not yet durable
  class Writing;
  class Reading;
  class Lock;
  enum class Go { kDo, kDoAndFail, kFail };

  // Counts an operation and says what is to become of it; `status` is how it is to fail.
  Go step(const std::string& what, Status& status);
  Status missing(const std::string& what, const std::string& path) const;
  bool folder_exists(const std::string& folder) const;
  void set_name(const std::string& path, std::shared_ptr<File> file);

  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<File>> names_;
  std::map<std::string, std::shared_ptr<File>> durable_names_;
  std::vector<Change> changes_;
  std::map<std::string, int> folders_;
  std::map<std::string, int> forbidden_;
  std::map<std::string, int> locks_;
  std::optional<Fault> fault_;
  bool dead_ = false;
  size_t operations_ = 0;
  std::vector<std::string> log_;
};

}  // namespace gpusnap::test
