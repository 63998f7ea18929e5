// Makes the clocks in checkpoints other ones by so many seconds, as if a machine had recorded them
// that was started earlier, or later.
//
//   shift_clocks SECONDS MANIFEST...
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "interpose/nondeterminism/value_log.h"
#include "tiers/manifest.h"

namespace {

using gpusnap::nondeterminism::Source;

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "shift_clocks: %s\n", why.c_str());
  std::exit(1);
}

// Seconds in what its numbers count; 0: it is none that all processes have.
int64_t second_of(Source source) {
  using gpusnap::nondeterminism::clock_source;
  if (source == Source::kTime) return 1;
  if (source == Source::kTimeOfDay) return 1'000'000;
  const bool is_clock = source >= Source::kClock &&
                        source != clock_source(CLOCK_PROCESS_CPUTIME_ID) &&
                        source != clock_source(CLOCK_THREAD_CPUTIME_ID);
  return is_clock ? 1'000'000'000 : 0;
}

// All but the first are differences.
void shift(gpusnap::SavedReading& reading, int64_t seconds) {
  const int64_t unit = second_of(static_cast<Source>(reading.source));
  if (unit == 0 || reading.bytes.empty()) return;
  const auto* const bytes = reinterpret_cast<const std::byte*>(reading.bytes.data());
  int64_t first = 0;
  const size_t used = gpusnap::nondeterminism::get_number(bytes, reading.bytes.size(), 0, first);
  std::byte shifted[gpusnap::nondeterminism::kMostNumberBytes];
  const size_t size = gpusnap::nondeterminism::put_number(first + seconds * unit, 0, shifted);
  reading.bytes.replace(0, used, reinterpret_cast<const char*>(shifted), size);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) fail("usage: SECONDS MANIFEST...");
  for (int i = 2; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    auto manifest = gpusnap::decode_manifest(std::as_bytes(std::span(text)));
    if (!manifest.ok()) fail(manifest.status().message());
    if (manifest->readings.empty()) fail("there are no clocks in it");
    for (auto& reading : manifest->readings) shift(reading, std::atoll(argv[1]));
    const std::vector<std::byte> bytes = encode(manifest.value());
    std::ofstream(argv[i], std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
}
