// SPDX-License-Identifier: Apache-2.0
//
// Makes schedules for given problems of load balancing, and measures how long that takes.
//
//   schedules ROUNDS EVERY < PROBLEMS
//
// Each line of the input is a problem: the number of devices, their remainders, their spare memory,
// the bandwidths of their links to the host, and those between them by rows; all in bytes. For
// each, one line of JSON is printed, in the same order: by schedule, how long its slowest link
// takes, and the nanoseconds of each round that it took to make it. Rounds go over all problems, so
// that no problem is scheduled twice in a row. `balance` is also measured once for the first COLD
// problems after the caches have been filled with other memory ("cold_ns").
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "tiers/balance/balance.h"
#include "tiers/balance/greedy.h"
#include "tiers/balance/min_time.h"

namespace gpusnap::balance {

namespace {

constexpr size_t kCaches = 64 << 20;  // more bytes than a core's caches have
constexpr size_t kLine = 64;

[[noreturn]] void fail(const std::string& line) {
  std::fprintf(stderr, "schedules: %s\n", line.c_str());
  std::exit(64);
}

Plan by_units(const Problem& problem) {
  return min_time(problem).value();
}
Plan exact(const Problem& problem) {
  return balance(problem).value();
}
Plan to_host(const Problem& problem) {
  return baseline(problem).value();
}
Plan by_greed(const Problem& problem) {
  return greedy(problem).value();
}

struct Schedule {
  const char* name;
  Plan (*make)(const Problem& problem);
};
constexpr Schedule kSchedules[] = {
    {"baseline", to_host}, {"greedy", by_greed}, {"min_time", by_units}, {"balance", exact}};

struct Measured {
  double seconds = 0;
  std::vector<int64_t> ns;
};

Measured& measure(const Schedule& schedule, const Problem& problem, Measured& measured) {
  const auto begin = std::chrono::steady_clock::now();
  const Plan plan = schedule.make(problem);
  const auto end = std::chrono::steady_clock::now();
  measured.seconds = seconds(problem, plan);
  measured.ns.push_back(std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count());
  return measured;
}

// Problems come from balance.py, and every device has a link to the host, so there is a plan.
Problem read(const std::string& line) {
  std::istringstream words(line);
  size_t devices = 0;
  words >> devices;
  if (!words || devices > kMaxDevices) fail("no number of devices: " + line);
  Problem problem(devices);
  for (auto* values :
       {&problem.remainders, &problem.spare, &problem.host_bandwidth, &problem.peer_bandwidth}) {
    for (uint64_t& value : *values) words >> value;
  }
  std::string more;
  if (!words || words >> more) fail("not the numbers of a problem: " + line);
  if (const Result<Plan> plan = baseline(problem); !plan.ok()) fail(plan.status().message());
  return problem;
}

void print(const std::vector<Measured>& schedules, const std::vector<int64_t>& cold) {
  const auto list = [](const std::vector<int64_t>& values) {
    std::string text;
    for (const int64_t value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
    return text;
  };
  std::printf("{");
  for (size_t i = 0; i < schedules.size(); ++i) {
    std::printf(R"("%s": {"seconds": %.17g, "ns": [%s]}, )", kSchedules[i].name,
                schedules[i].seconds, list(schedules[i].ns).c_str());
  }
  std::printf("\"cold_ns\": [%s]}\n", list(cold).c_str());
}

int run(int rounds, size_t every) {
  std::vector<Problem> problems;
  for (std::string line; std::getline(std::cin, line);) problems.push_back(read(line));
  std::vector<std::vector<Measured>> all(problems.size(),
                                         std::vector<Measured>(std::size(kSchedules)));
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < problems.size(); ++i) {
      for (size_t s = 0; s < std::size(kSchedules); ++s) {
        measure(kSchedules[s], problems[i], all[i][s]);
      }
    }
  }
  std::vector<unsigned char> other(kCaches);
  for (size_t i = 0; i < problems.size(); ++i) {
    Measured measured;
    if (every > 0 && i % every == 0) {
      for (size_t at = 0; at < other.size(); at += kLine) ++other[at];
      measure(kSchedules[std::size(kSchedules) - 1], problems[i], measured);
    }
    print(all[i], measured.ns);
  }
  return 0;
}

}  // namespace

}  // namespace gpusnap::balance

int main(int argc, char** argv) {
  const int rounds = argc == 3 ? std::atoi(argv[1]) : 0;
  const int every = argc == 3 ? std::atoi(argv[2]) : -1;
  if (rounds < 1 || every < 0) gpusnap::balance::fail("usage: schedules ROUNDS EVERY < PROBLEMS");
  return gpusnap::balance::run(rounds, static_cast<size_t>(every));
}
