// A file's bytes for reading.
#pragma once

#include <string>
#include <string_view>

namespace gpusnap {

// Empty where the file cannot be read.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::string_view bytes() const { return {data_, size_}; }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace gpusnap
