// SPDX-License-Identifier: Apache-2.0
#include "interpose/direct/cufile.h"

#include <dlfcn.h>
#include <fcntl.h>

#include <optional>
#include <utility>

#include "interpose/hook/hook.h"

namespace gpusnap {

namespace {

// The library calls the driver, and may make threads: both are as if the driver did it.
class AsDriver {
 public:
  AsDriver() {
    if (!Guard::held()) guard_.emplace();
  }
  AsDriver(const AsDriver&) = delete;
  AsDriver& operator=(const AsDriver&) = delete;

 private:
  std::optional<Guard> guard_;
};

template <class F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  return function != nullptr;
}

Status refused(const char* what, const CUfileError_t& error) {
  return {Code::kIo, std::string(what) + " failed: cuFile error " + std::to_string(error.err) +
                         ", CUDA error " + std::to_string(error.cu_err)};
}

// Some file systems know no direct I/O; the library may have another way to them.
Descriptor open_for_library(const std::string& path) {
  Descriptor file = open_descriptor(path, O_RDWR | O_DIRECT | O_NOFOLLOW);
  if (file.valid() || errno != EINVAL) return file;
  return open_descriptor(path, O_RDWR | O_NOFOLLOW);
}

const void* pointer(uint64_t address) {
  return reinterpret_cast<const void*>(address);
}

}  // namespace

std::unique_ptr<CuFile> CuFile::load(const char* name) {
  const AsDriver as_driver;
  void* const library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  std::unique_ptr<CuFile> found(new CuFile);
  const bool has_all = find(library, "cuFileDriverOpen", found->open_driver_) &&
                       find(library, "cuFileHandleRegister", found->register_file_) &&
                       find(library, "cuFileHandleDeregister", found->deregister_file_) &&
                       find(library, "cuFileBufRegister", found->register_buffer_) &&
                       find(library, "cuFileBufDeregister", found->deregister_buffer_) &&
                       find(library, "cuFileWrite", found->write_);
  if (!has_all) return nullptr;
  return found;
}

Status CuFile::open_driver() const {
  const AsDriver as_driver;
  const CUfileError_t error = open_driver_();
  return error.err == CU_FILE_SUCCESS ? Status() : refused("cuFileDriverOpen", error);
}

Result<std::unique_ptr<CuFile::File>> CuFile::open(const std::string& path) const {
  const AsDriver as_driver;
  Descriptor file = open_for_library(path);
  if (!file.valid()) return system_failed("open", path, errno);
  auto opened = std::make_unique<File>(*this, out_of_the_way(std::move(file)), path);
  if (Status registered = opened->register_file(); !registered.ok()) return registered;
  return opened;
}

Status CuFile::register_buffer(uint64_t address, size_t bytes) const {
  const AsDriver as_driver;
  const CUfileError_t error = register_buffer_(pointer(address), bytes, 0);
  return error.err == CU_FILE_SUCCESS ? Status() : refused("cuFileBufRegister", error);
}

void CuFile::deregister_buffer(uint64_t address) const {
  const AsDriver as_driver;
  (void)deregister_buffer_(pointer(address));
}

Status CuFile::File::register_file() {
  const AsDriver as_driver;
  CUfileDescr_t description{};
  description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = file_.get();
  CUfileHandle_t handle = nullptr;
  const CUfileError_t error = library_.register_file_(&handle, &description);
  if (error.err != CU_FILE_SUCCESS) return refused("cuFileHandleRegister", error);
  handle_ = handle;
  return {};
}

CuFile::File::~File() {
  const AsDriver as_driver;
  if (handle_ != nullptr) library_.deregister_file_(handle_);
}

Status CuFile::File::write(uint64_t buffer, uint64_t offset, uint64_t bytes, uint64_t place) {
  const AsDriver as_driver;
  const ssize_t written = library_.write_(handle_, pointer(buffer), bytes,
                                          static_cast<off_t>(place), static_cast<off_t>(offset));
  if (written >= 0 && static_cast<uint64_t>(written) == bytes) return {};
  const std::string result =
      written < 0 ? "failed with " + std::to_string(written)
                  : "wrote " + std::to_string(written) + " of " + std::to_string(bytes) + " bytes";
  return {Code::kIo, "cuFileWrite to " + path_ + " " + result};
}

}  // namespace gpusnap
