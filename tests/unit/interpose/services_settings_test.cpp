#include "interpose/services/settings.h"

#include <gtest/gtest.h>

#include <csignal>
#include <initializer_list>

#include "interpose/services/nearest_name.h"
#include "interpose/services/setting_values.h"

namespace gpusnap {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;

ParsedSettings parse(std::initializer_list<const char*> entries) {
  std::vector<const char*> environment(entries);
  environment.push_back(nullptr);
  return parse_settings(environment.data());
}

std::string only_error(const char* entry) {
  const ParsedSettings parsed = parse({entry});
  EXPECT_EQ(parsed.errors.size(), 1U) << entry;
  EXPECT_TRUE(parsed.warnings.empty()) << entry;
  return parsed.errors.empty() ? "" : parsed.errors[0];
}

// Whichever of the two comes first.
TEST(Settings, AutomaticIntervals) {
  for (const auto& order : {std::vector{"GPUSNAP_EVERY=auto,signal:USR1", "GPUSNAP_MTBF=2h"},
                            std::vector{"GPUSNAP_MTBF=2h", "GPUSNAP_EVERY=auto,signal:USR1"}}) {
    const Settings settings = parse({order[0], order[1]}).settings;
    EXPECT_TRUE(settings.every.automatic);
    EXPECT_EQ(settings.every.interval.count(), 0);
    EXPECT_EQ(settings.every.signal, SIGUSR1);
    EXPECT_EQ(settings.every.between_failures, minutes(120));
  }
  for (const char* both : {"GPUSNAP_EVERY=auto,10m", "GPUSNAP_EVERY=10m,auto"}) {
    EXPECT_NE(only_error(both).find("leave one of auto and the time out"), std::string::npos);
  }
}

TEST(Settings, HaveTheDocumentedDefaults) {
  for (const ParsedSettings& parsed : {parse_settings(nullptr), parse({"HOME=/root", "GPU=1"})}) {
    EXPECT_TRUE(parsed.errors.empty());
    EXPECT_TRUE(parsed.warnings.empty());
    const Settings& settings = parsed.settings;
    EXPECT_EQ(settings.pfs, "./gpusnap");
    EXPECT_EQ(settings.every.interval, minutes(10));
    EXPECT_EQ(settings.every.synchronisations, 0U);
    EXPECT_EQ(settings.every.signal, 0);
    EXPECT_EQ(settings.zone, 64U << 10);
    EXPECT_GE(settings.host_cache, 64U << 20);
    EXPECT_LE(settings.host_cache, 4ULL << 30);
    EXPECT_EQ(settings.keep, 2U);
    EXPECT_EQ(settings.journal, 16ULL << 30);
    EXPECT_EQ(settings.max_stall, milliseconds(1000));
    EXPECT_EQ(settings.drain, milliseconds(30000));
    EXPECT_EQ(settings.restore, "");
    EXPECT_EQ(settings.job, "");
    EXPECT_EQ(settings.log, LogLevel::kWarn);
    EXPECT_FALSE(settings.strict);
    EXPECT_EQ(words_of(settings.allowed), "");
  }
}

// settings.table says them as a user would write them.
TEST(Settings, HaveTheDefaultsOfTheTable) {
  constexpr const char* kDefaults[] = {
#include "interpose/services/settings_defaults.inc"
  };
  EXPECT_GT(std::size(kDefaults), 20U);
  for (const char* each : kDefaults) {
    const ParsedSettings parsed = parse({each});
    EXPECT_TRUE(parsed.errors.empty() && parsed.warnings.empty()) << each;
    EXPECT_EQ(parsed.settings, parse({}).settings) << each;
  }
  EXPECT_FALSE(parse({"GPUSNAP_ZONE=4K"}).settings == parse({}).settings);
}

TEST(Settings, RanksWithBackendsOfTheirOwnShareTheNodesMemory) {
  const auto host_cache = [](const char* backend, const char* ranks) {
    return parse({backend, "PMI_RANK=0", ranks}).settings.host_cache;
  };
  const uint64_t alone = host_cache("GPUSNAP_BACKEND=thread", "PMI_SIZE=1");
  EXPECT_EQ(host_cache("GPUSNAP_BACKEND=process", "PMI_SIZE=4"), alone);
  EXPECT_EQ(host_cache("GPUSNAP_BACKEND=thread", "PMI_SIZE=1000000"), 64U << 20);
}

TEST(Settings, SayHowToRestore) {
  const auto read = [](const char* mode) { return parse({mode}).settings; };
  EXPECT_FALSE(parse({}).settings.reload);
  EXPECT_FALSE(read("GPUSNAP_RESTORE_MODE=replay").reload);
  EXPECT_TRUE(read("GPUSNAP_RESTORE_MODE=reload").reload);
  EXPECT_EQ(read("GPUSNAP_RESTORE_MODE=reload").reload_behind, 0U);
  EXPECT_TRUE(read("GPUSNAP_RESTORE_MODE=reload:3").reload);
  EXPECT_EQ(read("GPUSNAP_RESTORE_MODE=reload:3").reload_behind, 3U);
  for (const char* wrong : {"GPUSNAP_RESTORE_MODE=again", "GPUSNAP_RESTORE_MODE=reload:",
                            "GPUSNAP_RESTORE_MODE=reload:-1", "GPUSNAP_RESTORE_MODE=reload3"}) {
    EXPECT_NE(only_error(wrong), "") << wrong;
  }
}

TEST(Settings, ReadEveryVariable) {
  const ParsedSettings parsed = parse(
      {"GPUSNAP_PFS=/scratch/my store", "GPUSNAP_EVERY=2h,syncs:50,signal:USR2", "GPUSNAP_ZONE=4K",
       "GPUSNAP_HOST_CACHE=256M", "GPUSNAP_KEEP=7", "GPUSNAP_JOURNAL=1T", "GPUSNAP_MAX_STALL=20ms",
       "GPUSNAP_DRAIN=3m", "GPUSNAP_RESTORE=wave@12", "GPUSNAP_RESTORE_FORCE=arguments,program",
       "GPUSNAP_JOB=wave", "GPUSNAP_LOG=trace", "GPUSNAP_STRICT=1"});
  EXPECT_TRUE(parsed.errors.empty());
  EXPECT_TRUE(parsed.warnings.empty());
  const Settings& settings = parsed.settings;
  EXPECT_EQ(settings.pfs, "/scratch/my store");
  EXPECT_EQ(settings.every.interval, minutes(120));
  EXPECT_EQ(settings.every.synchronisations, 50U);
  EXPECT_EQ(settings.every.signal, SIGUSR2);
  EXPECT_EQ(settings.zone, 4U << 10);
  EXPECT_EQ(settings.host_cache, 256U << 20);
  EXPECT_EQ(settings.keep, 7U);
  EXPECT_EQ(settings.journal, 1ULL << 40);
  EXPECT_EQ(settings.max_stall, milliseconds(20));
  EXPECT_EQ(settings.drain, milliseconds(180000));
  EXPECT_EQ(settings.restore, "wave@12");
  EXPECT_EQ(words_of(settings.allowed), "program,arguments");
  EXPECT_EQ(settings.job, "wave");
  EXPECT_EQ(settings.log, LogLevel::kTrace);
  EXPECT_TRUE(settings.strict);
}

TEST(Settings, WhatIsPassedOverComesBackAsWords) {
  constexpr std::string_view kAll =
      "program,arguments,inputs,device,devices,folder,driver,libraries,data";
  const std::string variable = "GPUSNAP_RESTORE_FORCE=" + std::string(kAll);
  EXPECT_EQ(words_of(parse({variable.c_str()}).settings.allowed), kAll);
  EXPECT_NE(only_error("GPUSNAP_RESTORE_FORCE=inputs,all").find("not program, arguments, inputs"),
            std::string::npos);
}

TEST(Settings, NameTheVariableTheValueAndWhatWouldBeRight) {
  EXPECT_EQ(only_error("GPUSNAP_ZONE=3K"),
            "GPUSNAP_ZONE=3K: not a power of two from 4K to 2M, such as 64K");
  EXPECT_EQ(only_error("GPUSNAP_KEEP=0"),
            "GPUSNAP_KEEP=0: not a number from 1 to 1000000, such as 2");
  EXPECT_EQ(only_error("GPUSNAP_MAX_STALL=10"),
            "GPUSNAP_MAX_STALL=10: not a number and us, ms, s, m or h, such as 500ms, 10s or 10m");
  EXPECT_EQ(only_error("GPUSNAP_DRAIN=0s"), "GPUSNAP_DRAIN=0s: too short: the least is 1ms");
  EXPECT_EQ(only_error("GPUSNAP_HOST_CACHE=4Q"),
            "GPUSNAP_HOST_CACHE=4Q: not a number and K, M, G or T, such as 64K or 4G");
  EXPECT_EQ(only_error("GPUSNAP_JOURNAL=1K"), "GPUSNAP_JOURNAL=1K: too small: the least is 1024K");
  EXPECT_EQ(only_error("GPUSNAP_LOG=loud"),
            "GPUSNAP_LOG=loud: not error, warn, info, debug or trace");
  EXPECT_EQ(only_error("GPUSNAP_STRICT=yes"), "GPUSNAP_STRICT=yes: not 0 or 1");
  EXPECT_EQ(only_error("GPUSNAP_EVERY=10m,off"), "GPUSNAP_EVERY=10m,off: off stands alone");
  EXPECT_NE(only_error("GPUSNAP_MTBF=often"), "");
  EXPECT_NE(only_error("GPUSNAP_MTBF=0s"), "");
  EXPECT_NE(only_error("GPUSNAP_EVERY=soon").find("'soon' is none of 10m"), std::string::npos);
  EXPECT_NE(only_error("GPUSNAP_EVERY=signal:KILL").find("signal:USR1"), std::string::npos);
  EXPECT_NE(only_error("GPUSNAP_RESTORE=wave@new").find("job@latest"), std::string::npos);
}

TEST(Settings, KeepAnErrorToOnePrintableLine) {
  const std::string line = only_error(("GPUSNAP_ZONE=\n\x1b[31m" + std::string(500, 'x')).c_str());
  EXPECT_LT(line.size(), 200U);
  for (const char character : line) EXPECT_GE(character, ' ');
}

TEST(Settings, AreDefaultsWhereAValueIsWrong) {
  const ParsedSettings parsed = parse({"GPUSNAP_KEEP=many", "GPUSNAP_EVERY=1s,nonsense"});
  EXPECT_EQ(parsed.errors.size(), 2U);
  EXPECT_EQ(parsed.settings.keep, 2U);
  EXPECT_EQ(parsed.settings.every.interval, minutes(10));
}

TEST(Settings, ReadHowSnapshotsAreOrganised) {
  const SnapshotMode usual = parse({}).settings.organisation;
  EXPECT_TRUE(!usual.blocking && usual.incremental && !usual.fine && usual.hints && usual.device);
  const SnapshotMode plain = parse({"GPUSNAP_ORG=b+f"}).settings.organisation;
  EXPECT_TRUE(plain.blocking && !plain.incremental && !plain.hints && !plain.device);
  const SnapshotMode fine = parse({"GPUSNAP_ORG=d+nb+i-fg"}).settings.organisation;
  EXPECT_TRUE(!fine.blocking && fine.incremental && fine.fine && !fine.hints && fine.device);
  for (const char* wrong :
       {"GPUSNAP_ORG=b", "GPUSNAP_ORG=i", "GPUSNAP_ORG=b+nb+f", "GPUSNAP_ORG=nb+i+i",
        "GPUSNAP_ORG=nb+i+", "GPUSNAP_ORG=nb+i+x", "GPUSNAP_ORG=+", "GPUSNAP_ORG=nb,i"}) {
    EXPECT_EQ(parse({wrong}).errors.size(), 1U) << wrong;
  }
}

TEST(Settings, ReadWhatIsWaitedForAndHowMemoryIsPinned) {
  EXPECT_TRUE(parse({}).settings.wait_durable);
  EXPECT_EQ(parse({}).settings.pin, Pinning::kStepwise);
  const Settings set = parse({"GPUSNAP_WAIT=memory", "GPUSNAP_PIN=at-once"}).settings;
  EXPECT_FALSE(set.wait_durable);
  EXPECT_EQ(set.pin, Pinning::kAtOnce);
  EXPECT_EQ(parse({"GPUSNAP_PIN=concurrent"}).settings.pin, Pinning::kConcurrent);
  EXPECT_EQ(parse({"GPUSNAP_WAIT=0"}).errors.size(), 1U);
  EXPECT_EQ(parse({"GPUSNAP_PIN=off"}).errors.size(), 1U);
}

TEST(Settings, ReadWhatSnapshotsMayUse) {
  const Settings set = parse({"GPUSNAP_DEVICE_CACHE=0", "GPUSNAP_DIRTY=calls", "GPUSNAP_CHAIN=3",
                              "GPUSNAP_SPECULATE=off", "GPUSNAP_HINTS=50us"})
                           .settings;
  EXPECT_EQ(set.device_cache, 0U);
  EXPECT_TRUE(set.dirty_from_calls);
  EXPECT_FALSE(set.speculate);
  EXPECT_EQ(set.chain, 3U);
  EXPECT_EQ(set.compress.mode, CompressionSetting::Mode::kAuto);
  EXPECT_GE(set.compress_workers, 1U);
  EXPECT_EQ(set.hints, std::chrono::microseconds(50));
  for (const char* wrong : {"GPUSNAP_DIRTY=yes", "GPUSNAP_SPECULATE=1", "GPUSNAP_CHAIN=257",
                            "GPUSNAP_HINTS=0us", "GPUSNAP_DEVICE_CACHE=big"}) {
    EXPECT_EQ(parse({wrong}).errors.size(), 1U) << wrong;
  }
}

TEST(Settings, ReadWhatIsToldOfTheOutside) {
  EXPECT_TRUE(parse({"GPUSNAP_OUTSIDE=journal"}).errors.empty());
  EXPECT_TRUE(parse({"GPUSNAP_OUTSIDE=real"}).errors.empty());
  EXPECT_EQ(parse({"GPUSNAP_OUTSIDE=none"}).errors.size(), 1U);
}

TEST(Settings, ReadWhetherARestoreReadsAhead) {
  EXPECT_TRUE(parse({}).settings.read_ahead);
  EXPECT_FALSE(parse({"GPUSNAP_READ_AHEAD=off"}).settings.read_ahead);
  EXPECT_EQ(parse({"GPUSNAP_READ_AHEAD=1"}).errors.size(), 1U);
  EXPECT_EQ(parse({}).settings.direct, DirectUse::kAuto);
  EXPECT_EQ(parse({"GPUSNAP_DIRECT=off"}).settings.direct, DirectUse::kOff);
  EXPECT_EQ(parse({"GPUSNAP_DIRECT=always"}).settings.direct, DirectUse::kAlways);
  EXPECT_NE(only_error("GPUSNAP_DIRECT=on").find("not auto, off or always"), std::string::npos);
}

TEST(Settings, ReadWhetherDevicesHelpEachOther) {
  EXPECT_EQ(parse({}).settings.balance, Balance::kProcess);
  EXPECT_EQ(parse({"GPUSNAP_BALANCE=off"}).settings.balance, Balance::kOff);
  EXPECT_EQ(parse({"GPUSNAP_BALANCE=node"}).settings.balance, Balance::kNode);
  EXPECT_EQ(parse({"GPUSNAP_BALANCE=2"}).errors.size(), 1U);
  EXPECT_FALSE(parse({}).settings.arena);
  EXPECT_TRUE(parse({"GPUSNAP_ARENA=on"}).settings.arena);
  EXPECT_FALSE(parse({"GPUSNAP_ARENA=off"}).settings.arena);
  EXPECT_EQ(parse({"GPUSNAP_ARENA=far"}).errors.size(), 1U);
}

TEST(Settings, ReadHowToCompress) {
  using Mode = CompressionSetting::Mode;
  EXPECT_EQ(parse({"GPUSNAP_COMPRESS=off"}).settings.compress.mode, Mode::kOff);
  const Settings set = parse({"GPUSNAP_COMPRESS=7", "GPUSNAP_COMPRESS_WORKERS=8"}).settings;
  EXPECT_EQ(set.compress, (CompressionSetting{Mode::kLevel, 7}));
  EXPECT_EQ(set.compress_workers, 8U);
  EXPECT_EQ(set.compress_workers, kMostCompressWorkers);
  for (const char* wrong : {"GPUSNAP_COMPRESS=20", "GPUSNAP_COMPRESS=0", "GPUSNAP_COMPRESS=fast",
                            "GPUSNAP_COMPRESS=3:100K", "GPUSNAP_COMPRESS=off:1M",
                            "GPUSNAP_COMPRESS_WORKERS=0", "GPUSNAP_COMPRESS_WORKERS=9"}) {
    EXPECT_EQ(parse({wrong}).errors.size(), 1U) << wrong;
  }
}

TEST(Settings, ReadHowMuchIsMovedAtATime) {
  const Settings usual = parse({}).settings;
  EXPECT_EQ(usual.slot, 4U << 20);
  EXPECT_EQ(usual.writes, 8U);
  const Settings set = parse({"GPUSNAP_SLOT=2M", "GPUSNAP_WRITES=64"}).settings;
  EXPECT_EQ(set.slot, 2U << 20);
  EXPECT_EQ(set.writes, 64U);
  for (const char* wrong : {"GPUSNAP_SLOT=1M", "GPUSNAP_SLOT=128M", "GPUSNAP_SLOT=3M",
                            "GPUSNAP_WRITES=0", "GPUSNAP_WRITES=65"}) {
    EXPECT_EQ(parse({wrong}).errors.size(), 1U) << wrong;
  }
}

TEST(Settings, ReadTheLocalTiers) {
  const TierSettings usual = parse({}).settings.tiers;
  EXPECT_TRUE(usual.ssd.empty());
  EXPECT_EQ(usual.chunk, 64U << 20);
  EXPECT_EQ(usual.policy, PlacementPolicy::kHybridOpt);
  EXPECT_FALSE(usual.flushes);
  const TierSettings set = parse({"GPUSNAP_SSD=/local/,/nvme 1:200G,/:1M", "GPUSNAP_CHUNK=1M",
                                  "GPUSNAP_PLACEMENT=hybrid-naive", "GPUSNAP_FLUSHES=16"})
                               .settings.tiers;
  EXPECT_EQ(set.ssd,
            (std::vector<SsdFolder>{{"/local", 0}, {"/nvme 1", 200ULL << 30}, {"/", 1 << 20}}));
  EXPECT_EQ(set.chunk, 1U << 20);
  EXPECT_EQ(set.policy, PlacementPolicy::kHybridNaive);
  EXPECT_EQ(set.flushes, 16U);
  EXPECT_FALSE(parse({"GPUSNAP_FLUSHES=auto"}).settings.tiers.flushes);
  EXPECT_NE(only_error("GPUSNAP_SSD=local").find("no folder from / on"), std::string::npos);
  EXPECT_NE(only_error("GPUSNAP_SSD=/a:fast").find("no capacity"), std::string::npos);
  EXPECT_EQ(only_error("GPUSNAP_SSD=/a,/a/:4G"), "GPUSNAP_SSD=/a,/a/:4G: '/a' is there twice");
  EXPECT_EQ(only_error("GPUSNAP_PLACEMENT=ssd-only"),
            "GPUSNAP_PLACEMENT=ssd-only: it needs a folder in GPUSNAP_SSD");
  for (const char* wrong : {"GPUSNAP_SSD=/a,", "GPUSNAP_SSD=,", "GPUSNAP_SSD=/a:",
                            "GPUSNAP_SSD=:4G", "GPUSNAP_SSD=/a:4K", "GPUSNAP_SSD=/a:b:4G",
                            "GPUSNAP_CHUNK=0", "GPUSNAP_CHUNK=5G", "GPUSNAP_PLACEMENT=best",
                            "GPUSNAP_FLUSHES=0", "GPUSNAP_FLUSHES=65", "GPUSNAP_FLUSHES=many"}) {
    EXPECT_EQ(parse({wrong}).errors.size(), 1U) << wrong;
  }
}

TEST(Settings, ReadTheLevels) {
  EXPECT_FALSE(parse({}).settings.levels.scheme);
  EXPECT_FALSE(parse({"GPUSNAP_LEVELS=off"}).settings.levels.scheme);
  const ParsedSettings parsed =
      parse({"GPUSNAP_LEVELS=rs:2+1", "GPUSNAP_PEERS=a:7400,b:7400,[::1]:7401", "GPUSNAP_SSD=/l",
             "GPUSNAP_LEVEL_KEY=/key", "GPUSNAP_LEVEL_PORT=7401", "GPUSNAP_LEVEL_ENCRYPT=on",
             "GPUSNAP_LEVEL_RATE=100M"});
  EXPECT_TRUE(parsed.errors.empty());
  const LevelSettings& set = parsed.settings.levels;
  EXPECT_EQ(set.scheme, (LevelScheme{2, 1}));
  EXPECT_EQ(set.peers.size(), 3U);
  EXPECT_EQ(set.peers.back(), (PeerAddress{"::1", 7401}));
  EXPECT_EQ(set.port, 7401);
  EXPECT_EQ(set.key, "/key");
  EXPECT_TRUE(set.encrypts);
  EXPECT_EQ(set.rate, 100U << 20);
  // The message names what is missing.
  EXPECT_NE(only_error("GPUSNAP_LEVELS=partner").find("GPUSNAP_SSD"), std::string::npos);
  for (const char* wrong :
       {"GPUSNAP_LEVELS=raid", "GPUSNAP_LEVELS=rs:0+1", "GPUSNAP_PEERS=a", "GPUSNAP_PEERS=a:1,a:1",
        "GPUSNAP_LEVEL_KEY=key", "GPUSNAP_LEVEL_PORT=0", "GPUSNAP_LEVEL_PORT=65536",
        "GPUSNAP_LEVEL_ENCRYPT=yes", "GPUSNAP_LEVEL_RATE=1K"}) {
    EXPECT_EQ(parse({wrong}).errors.size(), 1U) << wrong;
  }
  EXPECT_EQ(parse({"GPUSNAP_LEVELS=partner", "GPUSNAP_PEERS=a:1,b:1", "GPUSNAP_SSD=/l",
                   "GPUSNAP_LEVEL_KEY=/key", "GPUSNAP_BACKEND=thread"})
                .errors.size(),
            1U);
}

TEST(Settings, ReadWhereTheBackendIs) {
  const Settings usual = parse({}).settings;
  EXPECT_TRUE(usual.backend_process);
  EXPECT_EQ(usual.node, "");
  EXPECT_EQ(usual.backend_idle, std::chrono::seconds(10));
  const Settings set =
      parse({"GPUSNAP_BACKEND=thread", "GPUSNAP_NODE=left", "GPUSNAP_BACKEND_IDLE=300ms"}).settings;
  EXPECT_FALSE(set.backend_process);
  EXPECT_EQ(set.node, "left");
  EXPECT_EQ(set.backend_idle, milliseconds(300));
  const std::string long_node = "GPUSNAP_NODE=" + std::string(256, 'n');
  for (const char* wrong :
       {"GPUSNAP_BACKEND=gpusnapd", "GPUSNAP_BACKEND_IDLE=0s", long_node.c_str()}) {
    EXPECT_EQ(parse({wrong}).errors.size(), 1U) << wrong;
  }
}

TEST(Settings, WarnOfWhatTheyDoNotKnow) {
  for (const std::string name : {"GPUSNAP_TRACE", "GPUSNAP_NO_SUCH_THING"}) {
    const ParsedSettings parsed = parse({(name + "=/t").c_str(), "GPUSNAP_EVERY=syncs:5"});
    EXPECT_TRUE(parsed.errors.empty());
    ASSERT_EQ(parsed.warnings.size(), 1U);
    EXPECT_TRUE(parsed.warnings[0].starts_with(name + ": no such setting, passed over"));
    EXPECT_EQ(parsed.settings.every.synchronisations, 5U);
    EXPECT_EQ(parsed.ignored, std::vector<std::string>{name});
  }
}

TEST(Settings, SuggestTheNameThatWasMeant) {
  EXPECT_EQ(parse({"GPUSNAP_EVRY=1s"}).warnings.at(0),
            "GPUSNAP_EVRY: no such setting, passed over; did you mean GPUSNAP_EVERY?");
  EXPECT_EQ(parse({"GPUSNAP_SOMETHING_ELSE=1"}).warnings.at(0),
            "GPUSNAP_SOMETHING_ELSE: no such setting, passed over");
}

TEST(NearestName, IsTheOneThatWasMeant) {
  constexpr std::string_view kNames[] = {"run", "list", "restore"};
  EXPECT_EQ(nearest_name("lst", kNames), "list");
  EXPECT_EQ(nearest_name("lits", kNames), "list");
  EXPECT_EQ(nearest_name("restart", kNames), "restore");
  EXPECT_EQ(nearest_name("foo", kNames), "");
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(nearest_name(std::string(1000, 'r'), kNames), "");
}

TEST(Settings, TakeAnEmptyValueAsNotSetAndTheFirstOfTwo) {
  EXPECT_TRUE(parse({"GPUSNAP_ZONE=", "GPUSNAP_UNKNOWN=", "GPUSNAP_NO_EQUALS"}).warnings.empty());
  EXPECT_EQ(parse({"GPUSNAP_KEEP=3", "GPUSNAP_KEEP=x"}).settings.keep, 3U);
}

TEST(Settings, ReadSizes) {
  uint64_t bytes = 1;
  EXPECT_TRUE(parse_size("0", bytes));
  EXPECT_EQ(bytes, 0U);
  EXPECT_TRUE(parse_size("65536", bytes));
  EXPECT_EQ(bytes, 65536U);
  EXPECT_TRUE(parse_size("64k", bytes));
  EXPECT_EQ(bytes, 65536U);
  EXPECT_TRUE(parse_size("64KiB", bytes));
  EXPECT_EQ(bytes, 65536U);
  EXPECT_TRUE(parse_size("16777215T", bytes));
  EXPECT_EQ(bytes, 16777215ULL << 40);
  for (const char* wrong : {"", "K", "-1", "1.5G", "1KK", "1 K", "16777216T", "1KiBs",
                            "18446744073709551616", "99999999999999999999K"}) {
    EXPECT_FALSE(parse_size(wrong, bytes)) << wrong;
  }
}

TEST(Settings, ReadDurations) {
  nanoseconds time{};
  EXPECT_TRUE(parse_duration("500ms", time));
  EXPECT_EQ(time, milliseconds(500));
  EXPECT_TRUE(parse_duration("2h", time));
  EXPECT_EQ(time, minutes(120));
  for (const char* wrong :
       {"", "s", "10", "-1s", "1d", "10 s", "1.5s", "9223372036855s", "99999999999999999999s"}) {
    EXPECT_FALSE(parse_duration(wrong, time)) << wrong;
  }
}

TEST(Settings, ReadTriggerLists) {
  const auto wrong = [](const char* text) {
    Schedule every;
    return !parse_every(text, every).empty();
  };
  for (const char* text : {"", ",", "10m,", "syncs:", "syncs:0", "syncs:-1", "syncs:x", "calls:5",
                           "signal:", "signal:SEGV", "signal:RTMIN+16", "0s", "off,off"}) {
    EXPECT_TRUE(wrong(text)) << text;
  }
  Schedule every;
  EXPECT_EQ(parse_every("off", every), "");
  EXPECT_EQ(every.interval.count(), 0);
  EXPECT_EQ(parse_every("signal:SIGUSR1", every), "");
  EXPECT_EQ(every.signal, SIGUSR1);
  EXPECT_EQ(parse_every("signal:RTMIN+3", every), "");
  EXPECT_EQ(every.signal, SIGRTMIN + 3);
  EXPECT_EQ(parse_every("barriers:2", every), "");
  EXPECT_EQ(every.barriers, 2U);
}

}  // namespace
}  // namespace gpusnap
