// SPDX-License-Identifier: Apache-2.0
// The cuFile library (GPUDirect Storage), loaded when the process runs: it writes device memory to
// files past host memory. Its calls of the driver go straight to the driver, not to our hooks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "interpose/direct/cufile_abi.h"
#include "tiers/io/system_call.h"
#include "tiers/status.h"

namespace gpusnap {

// Thread-safe. The library stays loaded as long as the process lives. After a call that fails the
// object can be used on, but what the library does then is not known: leave it alone.
class CuFile {
 public:
  // A file that is written from device memory. Closed by the destructor. One thread.
  class File {
   public:
    File(const CuFile& library, Descriptor file, std::string path)
        : library_(library), file_(std::move(file)), path_(std::move(path)) {}
    ~File();
    // Before write().
    Status register_file();
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    // All of the bytes at `offset` of the registered buffer at `buffer`, to byte `place` of the
    // file; a short write fails. Waits for the end. The buffer's context is current, and its bytes
    // are there. `bytes` and both offsets are multiples of 4 KiB.
    Status write(uint64_t buffer, uint64_t offset, uint64_t bytes, uint64_t place);

   private:
    const CuFile& library_;
    Descriptor file_;
    const std::string path_;
    CUfileHandle_t handle_ = nullptr;
  };

  // Null: there is no library of that name, or one that lacks a function.
  static std::unique_ptr<CuFile> load(const char* name);
  // Before all else.
  Status open_driver() const;
  // An existing file. It outlives the file's object.
  Result<std::unique_ptr<File>> open(const std::string& path) const;
  // Device memory of the current context, for write(). Until it is deregistered it stays mapped.
  Status register_buffer(uint64_t address, size_t bytes) const;
  void deregister_buffer(uint64_t address) const;

 private:
  CuFile() = default;

  decltype(&cuFileDriverOpen) open_driver_ = nullptr;
  decltype(&cuFileHandleRegister) register_file_ = nullptr;
  decltype(&cuFileHandleDeregister) deregister_file_ = nullptr;
  decltype(&cuFileBufRegister) register_buffer_ = nullptr;
  decltype(&cuFileBufDeregister) deregister_buffer_ = nullptr;
  decltype(&cuFileWrite) write_ = nullptr;
};

}  // namespace gpusnap
