// Looks for what runs on this node, asks it, and puts together what there is to show.
#pragma once

#include <chrono>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/cli/job_in_store.h"
#include "tools/cli/job_status.h"

namespace gpusnap {

class JobLook {
 public:
  struct Wanted {
    std::string job;                       // as the user calls it; empty: all
    std::string store;                     // folder; empty: all
    std::chrono::nanoseconds patience{0};  // with processes, and with a store
  };
  explicit JobLook(Wanted wanted) : wanted_(std::move(wanted)) {}

  // By name.
  std::vector<JobStatus> jobs();
  // The backend that programs of this node use where they are told nothing else.
  static BackendStatus backend_of_node();

 private:
  bool is_wanted(const std::string& job, const std::string& store) const;
  std::vector<JobStatus> running_jobs() const;
  void add_from_store(JobStatus& job);
  // Nothing where the store does not answer in time; it is not asked again before it has.
  std::optional<Result<JobInStore>> look_into_store(const JobStatus& job);

  const Wanted wanted_;
  std::map<std::string, std::future<Result<JobInStore>>> late_;  // by store
};

}  // namespace gpusnap
