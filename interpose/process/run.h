// SPDX-License-Identifier: Apache-2.0
//
// This run of the program: what it is and how it is set up, what it has of its job, and our
// threads.
//
// Filled in while the session starts; what changes after that says so.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "interpose/hook/driver.h"
#include "interpose/process/workers.h"
#include "interpose/services/backend_link.h"
#include "interpose/services/control.h"
#include "interpose/services/program.h"
#include "interpose/services/ranks.h"
#include "interpose/services/settings.h"
#include "tiers/io/io_options.h"
#include "tiers/store.h"

namespace gpusnap {

struct Run {
  // Which program it is, on which devices, as which rank of which job. The settings are there.
  void identify(const Driver& driver);
  // The program uses so many devices, from the first on. Under the session's lock.
  void note_devices(const Driver& driver, int used);
  int devices() const { return devices_; }
  // Notes the files that the program has read and loaded by now. Called by the thread that takes
  // checkpoints.
  void look_around();
  // Ends the process where this run cannot go on from the checkpoint `id`.
  void compare_with(const Driver& driver, const Manifest& manifest, const std::string& id);
  // The facts that never change. Any thread.
  ProcessStatus status() const;

  Settings settings;
  std::string job;
  std::string name;  // random, names this process's files
  ProgramIdentity program;
  Ranks ranks;
  std::unique_ptr<Store> store;
  std::unique_ptr<FileLock> job_lock;
  // Always as many: their number shows in the program's heap (workers.h).
  // One writes the journal and one hands over a checkpoint. The others are the backend's, those
  // that compress and write, and those of the I/O.
  Workers workers{2 + kBackendThreads + kMostCompressWorkers + kIoThreads};
  // One pins, one runs host functions in a replay, one calls the cuFile library (idle where there
  // is none: a restore may have it, or lack it), and the others offload, one for each context: as
  // many as a node has devices.
  Workers callers{11, Workers::Heap::kUsed};
  std::unique_ptr<BackendLink> backend;

 private:
  void compare_device_names(const Driver& driver, const ProgramIdentity& saved,
                            const std::string& id);

  int devices_ = 1;                     // whose names are in `program`
  uint64_t unsummed_input_ = 64 << 20;  // bytes of its input that may still be summed
};

}  // namespace gpusnap
