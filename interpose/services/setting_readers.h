// SPDX-License-Identifier: Apache-2.0
// The settings whose values have a grammar of their own. Each reader stores what it read; else it
// returns what would be right. settings.table names them.
#pragma once

#include <string>
#include <string_view>

#include "interpose/services/settings.h"

namespace gpusnap {

std::string read_every(std::string_view value, ParsedSettings& into);
std::string read_stop_signal(std::string_view value, ParsedSettings& into);
std::string read_survived(std::string_view value, ParsedSettings& into);
std::string read_store_every(std::string_view value, ParsedSettings& into);
std::string read_job(std::string_view value, ParsedSettings& into);
std::string read_organisation(std::string_view value, ParsedSettings& into);
std::string read_compress(std::string_view value, ParsedSettings& into);
std::string read_ssd(std::string_view value, ParsedSettings& into);
std::string read_chunk(std::string_view value, ParsedSettings& into);
std::string read_placement(std::string_view value, ParsedSettings& into);
std::string read_flushes(std::string_view value, ParsedSettings& into);
std::string read_levels(std::string_view value, ParsedSettings& into);
std::string read_peers(std::string_view value, ParsedSettings& into);
std::string read_level_port(std::string_view value, ParsedSettings& into);
std::string read_level_key(std::string_view value, ParsedSettings& into);
std::string read_node(std::string_view value, ParsedSettings& into);
std::string read_restore(std::string_view value, ParsedSettings& into);
std::string read_restore_mode(std::string_view value, ParsedSettings& into);
std::string read_force(std::string_view value, ParsedSettings& into);

}  // namespace gpusnap
