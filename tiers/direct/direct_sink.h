// SPDX-License-Identifier: Apache-2.0
// Gives files to a process that writes chunks directly, and takes the chunks.
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
    uint64_t bytes = 0;  // room after the header
  };
  enum class Answer {
    kNotYet,
    kNone,  // no local tier has room for a chunk at the moment
    kFile,
  };
  virtual ~DirectSink() = default;
  // Requests a file from the backend, or checks for its answer. After kFile, `file` belongs to the
  // caller. After kFile and kNone the next call makes a new request.
  virtual Answer next_file(File& file) = 0;
  // Hands over a chunk that is completely in its file. The file does not belong to the caller any
  // more, even if the checkpoint fails.
  virtual void add(DirectChunk chunk, const std::string& path) = 0;
  // Gives back a file that is not needed or holds no usable bytes.
  virtual void give_back(const std::string& path) = 0;
};

}  // namespace gpusnap
