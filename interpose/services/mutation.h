// Deliberate mistakes of the engine, so that the test of random programs can be shown to find them.
// They exist only in the library that tests/oracle builds, with GPUSNAP_ORACLE defined; in the
// product every mutated() is a constant and nothing of them is compiled.
//
// ORACLE_MUTATION names the one to make.
#pragma once

namespace gpusnap {

enum class Mutation {
  kClearPendingEarly,  // "clear-pending-early": a zone counts as saved before its copy is done
  kSkipDuplicate,      // "skip-duplicate": a zone that is about to be written is not duplicated
  kSkipEventWait,      // "skip-event-wait": a writing call does not wait for the copies before it
  kSkipHashCompare,    // "skip-hash-compare": what was saved is not compared with the cut's hash
  kBuildOnMemory,  // "build-on-memory": an increment is compared with one that is in memory only
  kDeliverLate,    // "deliver-late": a host function begins without a copy that has arrived
  // In the replay's scheduler, which its own test compiles:
  kSkipTurn,          // a thread does not wait until its entry is the next one
  kExchangeOneSide,   // a thread takes another one's place, and that one keeps it
  kCutOneEarly,       // the program is live when all calls but one have been made
  kSkipMemoryBefore,  // memory is got early without that which was got before it
};

#ifdef GPUSNAP_ORACLE
bool mutated(Mutation mutation);
#else
constexpr bool mutated(Mutation) {
  return false;
}
#endif

}  // namespace gpusnap
