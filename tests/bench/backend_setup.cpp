#include "tests/bench/backend_setup.h"

#include <charconv>
#include <filesystem>
#include <functional>
#include <map>
#include <string_view>

#include "interpose/services/setting_values.h"
#include "interpose/services/settings.h"

namespace gpusnap::bench {

namespace {

uint64_t size_of(std::string_view text) {
  uint64_t bytes = 0;
  if (!parse_size(text, bytes)) fail("no size: " + std::string(text));
  return bytes;
}

double number_of(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0') fail("no number: " + text);
  return number;
}

// Calls with both sides of each "left:right" of a list with commas.
void for_each_pair(std::string_view list,
                   const std::function<void(const std::string&, const std::string&)>& take) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    const std::string_view item = list.substr(0, comma);
    const size_t colon = item.find(':');
    if (colon == std::string_view::npos) fail("no pair: " + std::string(item));
    take(std::string(item.substr(0, colon)), std::string(item.substr(colon + 1)));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
}

void read_rates(std::string_view list, test::DeviceRates& rates) {
  for_each_pair(list, [&](const std::string& files, const std::string& rate) {
    rates.points.push_back(
        {static_cast<uint32_t>(number_of(files)), static_cast<double>(size_of(rate))});
  });
}

void read_schedule(std::string_view list, test::DeviceRates& rates) {
  for_each_pair(list, [&](const std::string& after, const std::string& factor) {
    rates.schedule.push_back({number_of(after), number_of(factor)});
  });
}

}  // namespace

Setup parse_setup(int argc, char** argv) {
  if (argc < 2) fail("which folder?");
  Setup setup;
  setup.folder = std::filesystem::absolute(argv[1]).string();
  using Text = std::string_view;
  const auto count = [](uint32_t& into) {
    return [&into](Text text) { into = static_cast<uint32_t>(number_of(std::string(text))); };
  };
  const auto size = [](uint64_t& into) { return [&into](Text text) { into = size_of(text); }; };
  const auto word = [](std::string& into) { return [&into](Text text) { into = text; }; };
  const std::map<Text, std::function<void(Text)>> keys = {
      {"what", word(setup.what)},
      {"ranks", count(setup.ranks)},
      {"bytes", size(setup.bytes)},
      {"cache", size(setup.cache)},
      {"slot", size(setup.slot)},
      {"chunk", size(setup.chunk)},
      {"policy",
       [&](Text text) {
         const auto policy = parse_policy(text);
         if (!policy) fail("no policy: " + std::string(text));
         setup.policy = *policy;
       }},
      {"writers", count(setup.writers)},
      {"checkpoints", count(setup.checkpoints)},
      {"compute_ms", size(setup.compute_ms)},
      {"every_slot", count(setup.every_slot)},
      {"chain", count(setup.chain)},
      {"synchronous", [&](Text text) { setup.synchronous = text == "1"; }},
      {"ssd", [&](Text text) { read_rates(text, setup.ssd); }},
      {"ssd_reads", [&](Text text) { read_rates(text, setup.ssd_reads); }},
      {"workers", count(setup.workers)},
      {"writes", count(setup.writes)},
      {"flushes", count(setup.flushes)},
      {"compress", word(setup.compress)},
      {"data", word(setup.data)},
      {"reads", [&](Text text) { setup.reads = text == "1"; }},
      {"threads", [&](Text text) { setup.threads = text == "1"; }},
      {"pfs", [&](Text text) { read_rates(text, setup.pfs); }},
      {"pfs_reads", [&](Text text) { read_rates(text, setup.pfs_reads); }},
      {"pfs_changes", [&](Text text) { read_schedule(text, setup.pfs); }},
  };
  for (int i = 2; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const size_t equals = std::min(argument.find('='), argument.size());
    const auto key = keys.find(argument.substr(0, equals));
    if (key == keys.end() || equals == argument.size())
      fail("no key=value: " + std::string(argument));
    key->second(argument.substr(equals + 1));
  }
  return setup;
}

Folders make_folders(const Setup& setup) {
  Folders folders;
  folders.pfs = setup.folder + "/pfs";
  std::filesystem::create_directories(folders.pfs);
  if (setup.ssd.points.empty()) return folders;
  folders.ssd = setup.folder + "/ssd";
  std::filesystem::create_directories(folders.ssd);
  return folders;
}

Backend::Options options_of(const Setup& setup, const Folders& folders) {
  Backend::Options options;
  options.chunk_bytes = setup.chunk;
  if (!folders.ssd.empty()) options.ssd = {{folders.ssd, 0}};
  options.policy = setup.policy;
  options.name = "bench";
  options.workers = setup.workers;
  options.writes = setup.writes;
  options.flushes = setup.flushes;
  options.warn = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  return options;
}

}  // namespace gpusnap::bench
