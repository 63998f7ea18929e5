#include "interpose/model/shared_memory.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "interpose/services/control_connection.h"
#include "interpose/services/random_bits.h"

namespace gpusnap {

namespace {
using Clock = std::chrono::steady_clock;
// Its thread that answers does nothing else that takes long.
constexpr auto kPatience = std::chrono::seconds(10);
constexpr auto kBetweenTries = std::chrono::milliseconds(2);

HandleBytes bytes_of(const CUipcMemHandle& handle) {
  HandleBytes bytes;
  static_assert(sizeof handle == sizeof bytes);
  std::memcpy(bytes.data(), &handle, sizeof handle);
  return bytes;
}

CUipcMemHandle handle_from(const HandleBytes& bytes) {
  CUipcMemHandle handle;
  std::memcpy(&handle, bytes.data(), sizeof handle);
  return handle;
}

// One message, with what comes along. Empty: there is none.
std::string receive_in_time(int connection, std::vector<Descriptor>& files) {
  pollfd polled{connection, POLLIN, 0};
  if (poll(&polled, 1, static_cast<int>(kPatience / std::chrono::milliseconds(1))) != 1) return {};
  return receive(connection, files).value_or(std::string());
}
}  // namespace

SharedMemory::SharedMemory(const Driver& driver) : driver_(driver), number_(random_bits()) {}

void SharedMemory::begin(uint64_t job, std::function<void()> on_stranger) {
  job_ = job;
  on_stranger_ = std::move(on_stranger);
}

// ---- memory of this process ----

CUipcMemHandle SharedMemory::handle_of(uint64_t id) const {
  return handle_from(encode_handle({getpid(), number_, id}));
}

CUipcMemHandle SharedMemory::keep(Offer offer) {
  const std::lock_guard lock(mutex_);
  const auto [known, fresh] = ids_.try_emplace(offer.address, last_id_ + 1);
  if (fresh) ++last_id_;
  offers_.insert_or_assign(known->second, std::move(offer));
  return handle_of(known->second);
}

CUipcMemHandle SharedMemory::offer(uint64_t address, uint64_t size, const CUipcMemHandle& driver) {
  Offer offer;
  offer.address = address;
  offer.size = size;
  offer.driver = driver;
  return keep(std::move(offer));
}

Result<CUipcMemHandle> SharedMemory::offer(uint64_t address, uint64_t size,
                                           const std::vector<MappedMemory>& pieces) {
  if (pieces.empty() || pieces.size() > kMostMemoryPieces) {
    return Status(Code::kUnsupported, "it lies in too many pieces");
  }
  if (driver_.cuMemExportToShareableHandle == nullptr) {
    return Status(Code::kUnsupported, "this driver shares no memory by descriptors");
  }
  Offer offer;
  offer.address = address;
  offer.size = size;
  offer.first = pieces.front().address;
  for (const MappedMemory& piece : pieces) {
    int file = -1;
    const CUresult result = driver_.cuMemExportToShareableHandle(
        &file, piece.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (result != CUDA_SUCCESS) {
      return driver_status(driver_, "sharing memory that was placed at its recorded address",
                           result);
    }
    offer.pieces.push_back({piece.size, Descriptor(file)});
  }
  return keep(std::move(offer));
}

void SharedMemory::withdraw(uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto known = ids_.find(address);
  if (known == ids_.end()) return;
  offers_.erase(known->second);
  ids_.erase(known);
}

MemoryReply SharedMemory::tell(const MemoryRequest& request, std::vector<int>& descriptors) {
  const std::lock_guard lock(mutex_);
  MemoryReply reply;
  const auto found = offers_.find(request.id);
  if (request.number != number_ || found == offers_.end()) {
    reply.error = "there is no such memory";
    return reply;
  }
  const Offer& offer = found->second;
  reply.address = offer.address;
  reply.size = offer.size;
  reply.same_job = request.job == job_;
  reply.driver = bytes_of(offer.driver);
  reply.first = offer.first;
  for (const Piece& piece : offer.pieces) {
    reply.pieces.push_back(piece.bytes);
    descriptors.push_back(fcntl(piece.file.get(), F_DUPFD_CLOEXEC, 0));
  }
  if (std::ranges::find(descriptors, -1) != descriptors.end()) {
    for (const int descriptor : descriptors) ::close(descriptor);
    descriptors.clear();
    return {.error = "it has no descriptor left"};
  }
  if (!reply.same_job && on_stranger_) on_stranger_();
  return reply;
}

// ---- memory of others ----

// A process that has as many requests as it takes at once refuses more; it is asked again.
Result<SharedMemory::Answer> SharedMemory::ask(const SharedHandle& handle) const {
  const std::string request = encode_memory_request({handle.number, handle.id, job_});
  const auto until = Clock::now() + kPatience;
  std::string why = "its process does not answer";
  for (; Clock::now() < until; std::this_thread::sleep_for(kBetweenTries)) {
    const Descriptor connection = connect_to(handle.process, SOCK_CLOEXEC);
    if (!connection.valid() && kill(handle.process, 0) != 0) {
      return Status(Code::kNotFound, "its process has ended");
    }
    if (!connection.valid() ||
        send(connection.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) {
      continue;
    }
    Answer answer;
    const auto reply = decode_memory_reply(receive_in_time(connection.get(), answer.files));
    if (!reply) continue;
    if (reply->error.empty() && reply->pieces.size() == answer.files.size()) {
      answer.reply = *reply;
      return answer;
    }
    if (reply->error == kTooManyRequests) continue;
    why = reply->error.empty() ? "its pieces did not come" : reply->error;
    break;
  }
  return Status(Code::kInvalid, why);
}

// Opens memory once more that is open in this context already.
bool SharedMemory::again(const SharedHandle& handle, CUcontext context, Opened& opened) {
  const std::lock_guard lock(mutex_);
  for (auto& [address, import] : imports_) {
    if (import.handle != handle || import.context != context || import.mappings.empty()) continue;
    ++import.times;
    opened.result = CUDA_SUCCESS;
    opened.address = address;
    opened.size = import.size;
    opened.of_job = true;
    return true;
  }
  return false;
}

SharedMemory::Opened SharedMemory::open(const SharedHandle& handle, uint64_t wanted,
                                        const RealOpen& real) {
  Opened opened;
  CUcontext context = nullptr;
  (void)driver_.cuCtxGetCurrent(&context);
  if (again(handle, context, opened)) return opened;
  auto answer = ask(handle);
  if (!answer.ok()) {
    opened.why = answer.status().message();
    return opened;
  }
  const MemoryReply& reply = answer->reply;
  opened.size = reply.size;
  opened.of_job = reply.same_job;
  Import import;
  import.handle = handle;
  import.context = context;
  import.size = reply.size;
  if (reply.pieces.empty()) {
    CUdeviceptr address = 0;
    opened.result = real(&address, handle_from(reply.driver));
    opened.address = address;
  } else if (handle.process == getpid()) {
    opened.result = CUDA_ERROR_INVALID_CONTEXT;  // as the driver has it
  } else {
    const Status mapped = map(handle, answer.value(), wanted, import, opened.address);
    opened.result = mapped.ok() ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    opened.why = mapped.message();
  }
  if (opened.result != CUDA_SUCCESS) return opened;
  const std::lock_guard lock(mutex_);
  ++imports_.try_emplace(opened.address, std::move(import)).first->second.times;
  return opened;
}

CUresult SharedMemory::close(uint64_t address, const std::function<CUresult()>& real, bool& last) {
  std::vector<uint64_t> mappings;
  last = false;
  bool ours = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = imports_.find(address);
    if (found != imports_.end()) {
      ours = !found->second.mappings.empty();
      last = found->second.times == 1;
      if (ours) --found->second.times;
      if (ours && last) {
        mappings = found->second.mappings;
        imports_.erase(found);
      }
    }
  }
  if (ours) {
    // Running work may still use it, and the driver's own call would wait for that.
    if (last) (void)driver_.cuCtxSynchronize();
    unmap(mappings);
    return CUDA_SUCCESS;
  }
  const CUresult result = real();
  const std::lock_guard lock(mutex_);
  const auto found = imports_.find(address);
  if (result == CUDA_SUCCESS && found != imports_.end() && --found->second.times == 0) {
    imports_.erase(found);
  }
  return result;
}

// Addresses that are free for as long as nobody takes them.
Result<uint64_t> SharedMemory::find_place(uint64_t bytes) const {
  CUdeviceptr address = 0;
  const CUresult result = driver_.cuMemAddressReserve(&address, bytes, 0, 0, 0);
  if (result != CUDA_SUCCESS) {
    return driver_status(driver_, "reserving addresses for shared memory", result);
  }
  (void)driver_.cuMemAddressFree(address, bytes);
  return uint64_t{address};
}

Status SharedMemory::map(const SharedHandle& handle, const Answer& answer, uint64_t wanted,
                         Import& import, uint64_t& address) {
  const MemoryReply& reply = answer.reply;
  const uint64_t offset = reply.address - reply.first;
  CUdevice device = 0;
  (void)driver_.cuCtxGetDevice(&device);
  const auto granularity = mapping_granularity(driver_, device);
  if (!granularity.ok()) return granularity.status();
  if (wanted == 0) {
    uint64_t all = 0;
    for (const uint64_t bytes : reply.pieces) all += bytes;
    const auto place = find_place(all);
    if (!place.ok()) return place.status();
    wanted = place.value() + offset;
  }
  uint64_t at = wanted - offset;
  if (wanted < offset || at % granularity.value() != 0) {
    return {Code::kUnsupported, "it lies otherwise in its granules than it did there"};
  }
  const SharedHandle owner{handle.process, handle.number, 0};
  uint64_t at_home = reply.first;
  for (size_t i = 0; i < reply.pieces.size(); ++i) {
    Mapping piece{owner, at_home, {at, reply.pieces[i], 0, device}, 1};
    Status mapped = map_piece(piece, answer.files[i].get(), device);
    if (!mapped.ok()) {
      unmap(import.mappings);
      return mapped;
    }
    import.mappings.push_back(at);
    at += piece.memory.size;
    at_home += piece.memory.size;
  }
  address = wanted;
  return {};
}

// Where it is, it gets one more user.
bool SharedMemory::add_user(const Mapping& piece) {
  const std::lock_guard lock(mutex_);
  const auto found = mappings_.find(piece.memory.address);
  if (found == mappings_.end() || found->second.owner != piece.owner ||
      found->second.at_home != piece.at_home || found->second.memory.size != piece.memory.size) {
    return false;
  }
  ++found->second.users;
  return true;
}

SharedMemory::Extent SharedMemory::mapped_around(uint64_t address) {
  const std::lock_guard lock(mutex_);
  auto found = imports_.upper_bound(address);
  if (found == imports_.begin()) return {};
  --found;
  const Import& import = found->second;
  if (import.mappings.empty() || address - found->first >= import.size) return {};
  return {found->first, import.size};
}

Status SharedMemory::map_piece(const Mapping& wanted, int file, int device) {
  Mapping piece = wanted;
  if (add_user(piece)) {
    const CUresult allowed = allow_device(driver_, piece.memory, device);
    return allowed == CUDA_SUCCESS
               ? Status()
               : driver_status(driver_, "letting a device use shared memory", allowed);
  }
  if (driver_.cuMemImportFromShareableHandle == nullptr) {
    return {Code::kUnsupported, "this driver shares no memory by descriptors"};
  }
  CUresult result = driver_.cuMemImportFromShareableHandle(
      &piece.memory.handle, reinterpret_cast<void*>(static_cast<intptr_t>(file)),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (result != CUDA_SUCCESS) return driver_status(driver_, "importing shared memory", result);
  piece.memory.device = device;
  Status mapped = map_at(driver_, piece.memory);
  if (!mapped.ok()) {
    (void)driver_.cuMemRelease(piece.memory.handle);
    return mapped;
  }
  const std::lock_guard lock(mutex_);
  mappings_.insert_or_assign(piece.memory.address, piece);
  return {};
}

void SharedMemory::unmap(const std::vector<uint64_t>& mappings) {
  for (const uint64_t address : mappings) {
    MappedMemory unused;
    {
      const std::lock_guard lock(mutex_);
      const auto found = mappings_.find(address);
      if (found == mappings_.end() || --found->second.users != 0) continue;
      unused = found->second.memory;
      mappings_.erase(found);
    }
    unmap_memory(driver_, unused);
  }
}

}  // namespace gpusnap
