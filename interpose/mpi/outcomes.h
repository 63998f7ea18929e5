// Outcomes that the program sees and that depend on when messages arrive: which message a receive
// from anybody matched, whether a test found its request complete, which of several was complete
// first, the time. While recording each such outcome goes into the journal; a replay makes it come
// out the same way.
//
// Outcomes are numbered in the order of the calls. They are in the journal beside the entries of
// hooked calls, but no thread waits for its turn with one: a replay has a reader of its own that
// goes ahead of the one for calls, since a receive must be told its source when it is posted, which
// may be long before the entry that says it. One thread of the program makes MPI calls, so their
// order is that of the program.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "interpose/journal/replayer.h"
#include "tiers/file_system.h"

namespace gpusnap::mpi {

// The outcome of a call; the call's name says how to read it.
using Values = std::vector<int32_t>;

// The name of what a receive from anybody matched: its number is that of the call which posted it,
// its values are source and tag.
inline constexpr std::string_view kMatched = "matched";

// The first value of a collective of all ranks at which a cut was made. There is a second one where
// the ranks met within it, since they share device memory.
inline constexpr int32_t kIsCut = 1;

// Reads the outcomes of a checkpoint's journal in their order. One thread.
class OutcomeReader {
 public:
  static Result<std::unique_ptr<OutcomeReader>> open(FileSystem& files, const std::string& folder,
                                                     const Manifest& manifest);
  explicit OutcomeReader(std::unique_ptr<Replayer> replayer) : replayer_(std::move(replayer)) {}

  // The values of that call; nothing where the journal has none: it was made after the cut, or by
  // a process that did not record then. Calls are asked for in rising order. `name`: of the call
  // that asks; another call's is kInvalid, and says both.
  Result<std::optional<Values>> take(std::string_view name, uint64_t number);
  // The match of the receive from anybody that was posted by that call; nothing if it had matched
  // nothing by the cut. Once for each.
  Result<std::optional<Values>> matched(uint64_t posted);
  // Nothing is left but what take() has passed.
  Result<bool> at_end();

 private:
  struct Outcome {
    std::string name;
    uint64_t number = 0;  // of the first call
    uint64_t count = 1;   // of calls
    Values values;
    uint64_t last() const { return number + count - 1; }
  };
  // One more from the journal. False: there is none.
  Result<bool> read_one();

  std::unique_ptr<Replayer> replayer_;
  bool ended_ = false;
  std::deque<Outcome> ahead_;  // read and not taken
  std::map<uint64_t, Values> matched_;
};

}  // namespace gpusnap::mpi
