// SPDX-License-Identifier: Apache-2.0
// Bulk files of the real file system.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tiers/file_system.h"
#include "tiers/io/io_engine.h"

namespace gpusnap {

// As FileSystem::create_bulk(), open_bulk() and continue_bulk(); the engine outlives the file. May
// throw std::bad_alloc.
Result<std::unique_ptr<BulkFile>> create_bulk_file(IoEngine& engine, const std::string& path,
                                                   uint64_t reserve);
Result<std::unique_ptr<BulkFile>> open_bulk_file(IoEngine& engine, const std::string& path);
Result<std::unique_ptr<BulkFile>> continue_bulk_file(IoEngine& engine, const std::string& path);

}  // namespace gpusnap
