// A journal's part as a file that this process writes itself.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "tiers/journal.h"

namespace gpusnap {

class JournalFile final : public JournalSink {
 public:
  // Creates the file, and the folder if need be. Fails when the file exists.
  static Result<std::unique_ptr<JournalSink>> create(FileSystem& files, const std::string& folder,
                                                     const std::string& name) {
    if (Status made = files.make_folder(folder); !made.ok()) return made;
    Result<std::unique_ptr<WritableFile>> file = files.create(folder + "/" + name);
    if (!file.ok()) return file.status();
    return std::unique_ptr<JournalSink>(new JournalFile(files, folder, std::move(file.value())));
  }

  Status append(std::span<const std::byte> bytes) override { return file_->append(bytes); }
  Result<JournalCover> settle() override {
    if (Status synced = file_->sync(); !synced.ok()) return synced;
    if (!name_synced_) {
      if (Status synced = files_.sync_folder(folder_); !synced.ok()) return synced;
      name_synced_ = true;
    }
    return JournalCover();
  }

 private:
  JournalFile(FileSystem& files, std::string folder, std::unique_ptr<WritableFile> file)
      : files_(files), folder_(std::move(folder)), file_(std::move(file)) {}

  FileSystem& files_;
  const std::string folder_;
  const std::unique_ptr<WritableFile> file_;
  bool name_synced_ = false;
};

inline Result<std::unique_ptr<JournalWriter>> create_journal(FileSystem& files,
                                                             const std::string& folder,
                                                             const std::string& name,
                                                             JournalWriter::Options options) {
  auto file = JournalFile::create(files, folder, name);
  if (!file.ok()) return file.status();
  auto writer = JournalWriter::create(std::move(file.value()), name, std::move(options));
  if (!writer.ok()) (void)files.remove(folder + "/" + name);
  return writer;
}

}  // namespace gpusnap
