// SPDX-License-Identifier: Apache-2.0
// Where a process that writes chunks directly gets their files from, and hands them over.
#pragma once

#include <cstdint>
#include <string>

#include "tiers/direct/direct_chunk.h"

namespace gpusnap {

// Thread-safe. No call waits for the backend.
class DirectSink {
 public:
  struct File {
    std::string path;
    uint32_t number = 0;
    uint64_t bytes = 0;  // that may be written behind the header
  };
  enum class Answer {
    kNotYet,
    kNone,  // no local tier has room for a chunk at the moment
    kFile,
  };
  virtual ~DirectSink() = default;
  // Asks the backend for a file, or looks whether it has answered: `file` is the caller's from then
  // on. After kFile and kNone the next call asks again.
  virtual Answer next_file(File& file) = 0;
  // All of the chunk is in its file. The file does not belong to the caller any more, whatever
  // becomes of the checkpoint.
  virtual void add(DirectChunk chunk, const std::string& path) = 0;
  // The file is not needed, or holds nothing that could be used.
  virtual void give_back(const std::string& path) = 0;
};

}  // namespace gpusnap
