// SPDX-License-Identifier: Apache-2.0
#include "interpose/process/run.h"

#include <unistd.h>

#include <algorithm>

#include "interpose/mpi/state.h"
#include "interpose/nondeterminism/opened_files.h"
#include "interpose/process/restored_rank.h"
#include "interpose/services/build_id.h"
#include "interpose/services/fatal.h"
#include "interpose/services/inputs.h"
#include "interpose/services/log.h"
#include "interpose/services/random_bits.h"
#include "interpose/services/text.h"
#include "tiers/daemon/start.h"

namespace gpusnap {

namespace {
std::string random_name() {
  return hex_text(random_bits()).substr(2);
}

// "A", "A + B"; the name of a device that is not there is empty.
std::string device_names(const Driver& driver, int count) {
  std::string names;
  for (CUdevice device = 0; device < count; ++device) {
    char name[256] = "";
    (void)driver.cuDeviceGetName(name, sizeof name, device);
    if (device != 0) names += " + ";
    names += name;
  }
  return names;
}

std::vector<SavedDevice> describe_devices(const Driver& driver, int count) {
  std::vector<SavedDevice> devices;
  for (CUdevice device = 0; device < count; ++device) {
    char name[256] = "";
    size_t memory = 0;
    int major = 0, minor = 0;
    (void)driver.cuDeviceGetName(name, sizeof name, device);
    (void)driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    (void)driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    if (driver.cuDeviceTotalMem_v2 != nullptr) {
      (void)driver.cuDeviceTotalMem_v2(&memory, device);
    }
    devices.push_back({name, memory, static_cast<uint16_t>(major), static_cast<uint16_t>(minor)});
  }
  return devices;
}

}  // namespace

void Run::identify(const Driver& driver) {
  auto identity = identify_program();
  if (identity.ok()) {
    program = std::move(identity.value());
  } else {
    log(LogLevel::kWarn, identity.status().message());
  }
  int version = 0;
  (void)driver.cuDriverGetVersion(&version);
  program.driver_version = static_cast<uint32_t>(version);
  int count = 0;
  (void)driver.cuDeviceGetCount(&count);
  program.device_count = static_cast<uint32_t>(count);
  note_devices(driver, devices_);
  note_standard_input();
  look_around();
  job = job_of(settings, program);
  name = random_name();
  ranks = mpi::ranks();
  if (ranks.ranks > 1) set_log_rank(ranks.rank);
}

void Run::note_devices(const Driver& driver, int used) {
  devices_ = used;
  program.device = device_names(driver, used);
  program.devices = describe_devices(driver, used);
}

void Run::look_around() {
  for (size_t i = program.inputs.size(); i < opened_files(); ++i) {
    const ReadFile file = opened_file(i);
    InputFile input{file.path, file.size, file.modified_ns, 0, false};
    unsummed_input_ -= add_checksum(input, unsummed_input_);
    program.inputs.push_back(std::move(input));
  }
  program.libraries = loaded_libraries();
}

// The tool has compared the same already if it could, so that nothing had to be started.
void Run::compare_with(const Driver& driver, const Manifest& manifest, const std::string& id) {
  const ProgramIdentity& saved = manifest.program;
  AllowedDifferences& allowed = settings.allowed;
  std::string difference = program_difference(saved, program, allowed);
  if (difference.empty()) difference = input_difference(saved, allowed);
  if (!difference.empty()) fatal(kExitOtherProgram, id + ": " + difference);
  const auto used = static_cast<int>(saved.devices.size());
  if (used == 0) return compare_device_names(driver, saved, id);
  ProgramIdentity now = program;
  now.devices = describe_devices(driver, std::min(used, static_cast<int>(program.device_count)));
  difference = device_difference(saved, now, allowed);
  if (!difference.empty()) fatal(kExitImpossible, id + ": " + difference);
  const LogLevel level = ranks.rank == 0 ? LogLevel::kWarn : LogLevel::kInfo;
  for (const std::string& line : doubts(saved, now, allowed)) log(level, line);
  note_devices(driver, static_cast<int>(now.devices.size()));
}

// Earlier releases saved no more of devices than their names.
void Run::compare_device_names(const Driver& driver, const ProgramIdentity& saved,
                               const std::string& id) {
  constexpr int kMostDevices = 64;
  int used = 1;
  while (!settings.allowed.device && saved.device != device_names(driver, used)) {
    if (++used <= kMostDevices) continue;
    fatal(kExitImpossible,
          id + ": it was saved from a " + saved.device + ", this device is a " + program.device);
  }
  note_devices(driver, used);
}

ProcessStatus Run::status() const {
  ProcessStatus status;
  status.job = sanitise_job(job);
  status.store = store->folder();
  status.rank = ranks.rank;
  status.ranks = ranks.ranks;
  char host[256] = "";
  (void)gethostname(host, sizeof host - 1);
  status.host = host;
  if (backend->outlives_process()) {
    status.area = StagingMemory::name_for(node_name(settings.node));
  }
  return status;
}

}  // namespace gpusnap
