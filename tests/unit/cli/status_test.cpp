// `gpusnap status`: reading the system and a store, and the conclusions from them.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "fault_file_system.h"
#include "tiers/manifest.h"
#include "tools/cli/job_in_store.h"
#include "tools/cli/job_status.h"
#include "tools/cli/processes.h"

namespace gpusnap {
namespace {

// ---- sockets ----

constexpr const char* kSockets =
    "Num       RefCount Protocol Flags    Type St Inode Path\n"
    "0000000000000000: 00000002 00000000 00010000 0005 01  1451 @gpusnap-1000-4711\n"
    "0000000000000000: 00000003 00000000 00000000 0005 03  1452 @gpusnap-1000-4712\n"
    "0000000000000000: 00000002 00000000 00010000 0001 01  1453 @gpusnap-1000-4713\n"
    "0000000000000000: 00000002 00000000 00010000 0005 01  1454 @gpusnap-0-4714\n"
    "0000000000000000: 00000002 00000000 00010000 0005 01 14555555 @gpusnap-1000-12\n"
    "0000000000000000: 00000002 00000000 00010000 0005 01  1456 /run/gpusnap-1000-4715\n"
    "0000000000000000: 00000002 00000000 00010000 0005 01  1451 @gpusnap-1000-4711\n"
    "0000000000000000: 00000003 00000000 00000000 0001 03  1457\n";

using Pids = std::vector<int>;

TEST(Listeners, AreThoseOfTheUserEachOnce) {
  EXPECT_EQ(listeners_in(kSockets, 1000), (Pids{12, 4711}));
  EXPECT_EQ(listeners_in(kSockets, 0), Pids{4714});
  EXPECT_EQ(listeners_in(kSockets, 1), Pids());
}

TEST(Listeners, HaveNamesThatAreNumbers) {
  const std::string begin = "0: 00000002 00000000 00010000 0005 01 1 @gpusnap-7-";
  EXPECT_EQ(listeners_in(begin + "1", 7), Pids{1});
  for (const std::string& name :
       {std::string(), std::string("0"), std::string("-1"), std::string("01"), std::string("+1"),
        std::string("1 "), std::string("1x"), std::string("2147483648"),
        std::string("99999999999999999999"), std::string("1\0", 2), std::string("\n1")}) {
    EXPECT_EQ(listeners_in(begin + name, 7), Pids()) << name;
  }
}

TEST(Listeners, AreFoundAmongAnything) {
  EXPECT_EQ(listeners_in("", 7), Pids());
  EXPECT_EQ(listeners_in("\n\n  \n x\n@gpusnap-7-1\n", 7), Pids());
  EXPECT_EQ(listeners_in("0: 2 0 00010000 0005", 7), Pids());
  std::string many;
  for (int pid = 1; pid < 10'000; ++pid) {
    many += "0: 2 0 00010000 0005 01 1 @gpusnap-7-" + std::to_string(pid) + "\n";
  }
  EXPECT_LT(listeners_in(many, 7).size(), 5000U) << "more than run on a node";
}

TEST(PlainFolder, HasNothingThatMeansNothing) {
  EXPECT_EQ(plain_folder("/a/./b//c/../d/"), "/a/b/d");
  EXPECT_EQ(plain_folder("./gpusnap", "/home/me"), "/home/me/gpusnap");
  EXPECT_EQ(plain_folder("/"), "/");
}

// ---- the store ----

class JobInStoreTest : public ::testing::Test {
 protected:
  void put(uint64_t epoch, uint32_t rank, const std::string& host = "") {
    const std::string folder = "/store/wave/e" + std::to_string(epoch);
    EXPECT_TRUE(files_.make_folder(folder).ok());
    std::vector<std::byte> bytes;
    if (!host.empty()) {
      Manifest manifest;
      manifest.job = "wave";
      manifest.epoch = epoch;
      manifest.rank = rank;
      manifest.ranks = 8;
      manifest.run = "run";
      manifest.host = host;
      manifest.cut_unix_ns = static_cast<int64_t>(epoch) * 1000;
      bytes = encode(manifest);
    }
    files_.put(folder + "/r" + std::to_string(rank) + ".manifest", bytes);
  }
  JobInStore look(uint32_t ranks) {
    auto found = look_into_job(files_, "/store/wave", ranks);
    EXPECT_TRUE(found.ok()) << found.status().message();
    return found.ok() ? found.value() : JobInStore();
  }

  test::FaultFileSystem files_;
};

TEST_F(JobInStoreTest, KnowsWhatAllRanksHaveAndWhoIsBehind) {
  for (const uint32_t rank : {0, 1, 2}) put(9, rank);
  for (const uint32_t rank : {0, 2}) put(10, rank);
  put(11, 2);
  put(11, 7);  // of another number of ranks
  const JobInStore job = look(3);
  EXPECT_EQ(job.complete, 9U);
  EXPECT_EQ(job.ranks.size(), 3U);
  EXPECT_EQ(job.ranks.at(0).epoch, 10U);
  EXPECT_EQ(job.ranks.at(1).epoch, 9U);
  EXPECT_EQ(job.ranks.at(2).epoch, 11U);
  EXPECT_EQ(job.behind(3), (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(look(2).behind(2), (std::vector<uint32_t>{1}));
}

TEST_F(JobInStoreTest, WithoutACompleteCheckpoint) {
  EXPECT_EQ(look_into_job(files_, "/store/wave", 2).status().code(), Code::kNotFound);
  EXPECT_TRUE(files_.make_folder("/store/wave/e1").ok());
  EXPECT_EQ(look(2).complete, 0U);
  EXPECT_TRUE(look(2).behind(2).empty()) << "nobody is further than others";
  put(2, 1);
  EXPECT_EQ(look(2).complete, 0U);
  EXPECT_EQ(look(2).behind(2), std::vector<uint32_t>{0});
}

TEST_F(JobInStoreTest, PassesOverWhatIsNoCheckpoint) {
  put(3, 0);
  put(3, 1);
  for (const char* name : {"e03/r0.manifest", "e4/r0.manifest.run.tmp", "e4/r1.segment", "x/y",
                           "lock", "run-r0.journal"}) {
    const std::string path = std::string("/store/wave/") + name;
    EXPECT_TRUE(files_.make_folder(path.substr(0, path.rfind('/'))).ok());
    files_.put(path, {});
  }
  EXPECT_EQ(look(2).complete, 3U);
}

TEST_F(JobInStoreTest, ReadsHostsAsLongAsItMay) {
  put(3, 0, "n0");
  put(3, 1, "n1");
  put(4, 2, "n2");
  put(4, 3);  // cannot be read
  JobInStore job = look(4);
  int left = 3;
  read_hosts(
      files_, "/store/wave", {1, 3, 2, 0}, [&] { return left-- > 0; }, job);
  EXPECT_EQ(job.ranks.at(1).host, "n1");
  EXPECT_EQ(job.ranks.at(1).time_unix_ns, 3000);
  EXPECT_EQ(job.ranks.at(2).host, "n2");
  EXPECT_EQ(job.ranks.at(3).host, "");
  EXPECT_EQ(job.ranks.at(0).host, "");
}

// ---- what is shown ----

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kNow = 1'700'000'000 * kSecond;

RankStatus rank_of(uint32_t number, Doing doing) {
  RankStatus rank;
  rank.pid = 4711 + static_cast<int>(number);
  rank.status.host = "n1";
  rank.status.rank = number;
  rank.status.doing = doing;
  return rank;
}

JobStatus job_with_all() {
  JobStatus job;
  job.job = "wave";
  job.store = "/scratch/ck";
  job.ranks = 7;
  job.complete = 11;
  job.complete_unix_ns = kNow - 600 * kSecond;
  job.behind = {{1, 11}, {5, 0}};
  RankStatus saving = rank_of(0, Doing::kRecording);
  saving.status.epoch = 12;
  saving.status.cut_unix_ns = kNow - 30 * kSecond;
  saving.status.stall_ns = 12'300'000;
  saving.status.saving = 13;
  saving.status.saved_bytes = 1 << 20;
  saving.status.bytes = 4 << 20;
  saving.status.due = Due::kTime;
  saving.status.due_in_ns = 570ULL * kSecond;
  saving.status.interval = {600.5, 0.0123, 2.5, 86400, 4};
  RankStatus held = saving;
  held.pid = 4712;
  held.status.rank = 1;
  held.status.epoch = 11;
  held.level = Level::kSsd;
  held.status.due = Due::kRanks;
  RankStatus off = rank_of(2, Doing::kOff);
  off.status.why = "cuThis cannot be restored\x1b[31m";
  RankStatus waits = rank_of(3, Doing::kRecording);
  waits.status.due = Due::kRanks;
  RankStatus silent = rank_of(4, Doing::kStarting);
  silent.state = RankState::kSilent;
  silent.note = "it has not answered";
  RankStatus elsewhere = rank_of(5, Doing::kStarting);
  elsewhere.state = RankState::kNotHere;
  elsewhere.pid = 0;
  elsewhere.status.host = "";
  RankStatus early = rank_of(6, Doing::kStarting);
  early.status.due = Due::kCall;
  job.processes = {saving, held, off, waits, silent, elsewhere, early};
  return job;
}

BackendStatus backend_with_all() {
  BackendReport report;
  report.chunk_bytes = 64 << 20;
  report.checkpoints = 2;
  report.journals = 1;
  report.committed = 40;
  report.failed = 1;
  report.waiting = 3;
  report.flushes = 6;
  report.flush_bytes_per_second = 1 << 30;
  report.tiers = 2;
  report.tier[0] = {1, 2, 3, 12, ""};
  report.tier[1] = {4, 5, 6, 100, "/nvme0"};
  BackendStatus backend;
  backend.area = "gpusnap-0-2-x";
  backend.pid = 4700;
  backend.staging_used = 12 << 20;
  backend.staging_bytes = 64 << 20;
  take_report(report, {"/scratch/ck", "/other"}, backend);
  return backend;
}

TEST(StatusText, SaysAllOfAJob) {
  const std::string expected =
      R"(job wave in /scratch/ck: 7 ranks, newest complete wave@11 (10 min); behind: rank 1 (wave@11), rank 5 (none)
RANK   PID  HOST  STATE            LAST   AGE    STALL  SAVING                  NEXT
   0  4711  n1    recording          12  30 s  12.3 ms  13: 1.0 MiB of 4.0 MiB  in 9 min
   1  4712  n1    recording          11  30 s  12.3 ms  13: 4.0 MiB on ssd      due: waits for the end of 13
   2  4713  n1    off                 -     -        -  -                       cuThis cannot be restored?[31m
   3  4714  n1    recording           -     -        -  -                       due: waits for a collective of all ranks
   4  4715  n1    does not answer     -     -        -  -                       it has not answered
   5     -  -     not here            -     -        -  -                       -
   6  4717  n1    starting            -     -        -  -                       due: waits for a CUDA call
)";
  EXPECT_EQ(as_text({job_with_all()}, {}, kNow), expected);
}

TEST(StatusText, SaysAllOfABackend) {
  const std::string expected =
      R"(backend: gpusnapd 4700, 12.0 MiB of 64.0 MiB of staging memory in use, 2 checkpoints and 1 journal on their way
flushes: 6 at a time, 1.0 GiB/s (moving average); chunks of 64.0 MiB, of which 3 wait for a place
TIER     WRITERS  WAITING  FLUSHING  ROOM  FOLDER
memory         1        2         3    12  -
ssd            4        5         6   100  /nvme0
durable        9        7         -     -  /other, /scratch/ck
)";
  EXPECT_EQ(as_text({}, {backend_with_all()}, kNow), expected);
}

TEST(StatusText, ShowsABackendOnce) {
  JobStatus job;
  job.job = "wave";
  job.backends = {backend_with_all(), BackendStatus()};
  const std::string text = as_text({job, job}, {backend_with_all()}, kNow);
  const auto count = [&text](const char* what) {
    size_t found = 0;
    for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("job wave"), 2U);
  EXPECT_EQ(count("gpusnapd 4700"), 1U);
  EXPECT_EQ(count("within the programs"), 1U);
  BackendStatus gone;
  gone.area = "x";
  EXPECT_EQ(as_text({}, {gone}, kNow), "backend: gpusnapd does not run\n");
}

TEST(StatusText, SaysWhatIsWrongWithTheStore) {
  JobStatus job;
  job.job = "wave";
  job.store = "/scratch/ck";
  job.problem = "the store does not answer";
  EXPECT_TRUE(as_text({job}, {}, kNow)
                  .starts_with("job wave in /scratch/ck: 1 rank, the store does not answer\n"));
}

TEST(StatusReport, IsReadAsWhatOthersMayHaveWritten) {
  BackendReport report;
  report.tiers = UINT64_MAX;
  for (TierReport& tier : report.tier) std::memset(tier.folder, 'x', sizeof tier.folder);
  BackendStatus backend;
  take_report(report, {}, backend);
  ASSERT_EQ(backend.tiers.size(), kMostTiersTold + 1);
  EXPECT_EQ(backend.tiers[1].folder, std::string(kTierText, 'x'));
  EXPECT_EQ(backend.tiers.back().tier, "durable");
}

TEST(StatusJson, HasTheSame) {
  JobStatus job = job_with_all();
  job.processes = {job.processes[0], job.processes[2], job.processes[5]};
  job.backends = {backend_with_all(), BackendStatus()};
  EXPECT_EQ(as_json({}), "[]\n");
  const std::string expected =
      R"([{"job":"wave","store":"/scratch/ck","ranks":7,"problem":"","complete_epoch":11,)"
      R"("complete_time":"2023-11-14T22:03:20.000Z","behind":[{"rank":1,"epoch":11},)"
      R"({"rank":5,"epoch":0}],"processes":[{"rank":0,"pid":4711,"host":"n1",)"
      R"("state":"recording","reason":"","epoch":12,"time":"2023-11-14T22:12:50.000Z",)"
      R"("stall_ms":12.300,"level":"durable","saving_epoch":13,"saving_bytes":4194304,"saved_bytes":1048576,)"
      R"("saving_level":"-","due":"time","due_in_s":570.000,"auto":{"interval_s":600.5,)"
      R"("stall_s":0.0123,"latency_s":2.5,"mtbf_s":86400,"measurements":4,"store_every":1,)"
      R"("memory_stall_s":0,"memory_latency_s":0,"memory_measurements":0,"failures":0}},)"
      R"({"rank":2,"pid":4713,"host":"n1",)"
      R"("state":"off","reason":"cuThis cannot be restored\u001b[31m","epoch":0,"time":"",)"
      R"("stall_ms":0.000,"level":"-","saving_epoch":0,"saving_bytes":0,"saved_bytes":0,)"
      R"("saving_level":"-","due":"not","due_in_s":0.000,"auto":null},{"rank":5,"pid":0,"host":"",)"
      R"("state":"not here","reason":"","epoch":0,"time":"","stall_ms":0.000,"level":"-",)"
      R"("saving_epoch":0,"saving_bytes":0,"saved_bytes":0,"saving_level":"-","due":"not",)"
      R"("due_in_s":0.000,"auto":null}],"backends":[{"backend":"process","pid":4700,)"
      R"("staging_used":12582912,"staging_bytes":67108864,"chunk_bytes":67108864,)"
      R"("checkpoints":2,"journals":1,"unplaced":3,"committed":40,"failed":1,)"
      R"("flushes":6,"flush_bytes_per_s":1073741824,"tiers":[{"tier":"memory","folder":"",)"
      R"("writers":1,"waiting":2,"flushing":3,"capacity":12},{"tier":"ssd","folder":"/nvme0","writers":4,)"
      R"("waiting":5,"flushing":6,"capacity":100},{"tier":"durable",)"
      R"("folder":"/other, /scratch/ck","writers":9,"waiting":7,"flushing":0,"capacity":0}]},)"
      R"({"backend":"thread","pid":0,"staging_used":0,"staging_bytes":0,"chunk_bytes":0,)"
      R"("checkpoints":0,"journals":0,"unplaced":0,"committed":0,"failed":0,)"
      R"("flushes":0,"flush_bytes_per_s":0,"tiers":[]}]}]
)";
  EXPECT_EQ(as_json({job}), expected);
}

}  // namespace
}  // namespace gpusnap
