#include "tests/random/caller.h"

#include <signal.h>

#include <algorithm>
#include <numeric>

namespace calls {

const std::vector<Caller::Step>& Caller::steps() {
  static const std::vector<Step> all{
      {"what tests/oracle does", 50, &Caller::oracle_step},
      {"send", 9, &Caller::send_step},
      {"open", 8, &Caller::open_step},
      {"busy", 4, &Caller::busy_step},
      {"timing", 3, &Caller::timing_step},
      {"free memory", 2, &Caller::free_memory_step},
      {"array", 10, &Caller::array_step},
      {"library", 6, &Caller::library_step},
      {"legacy launch", 4, &Caller::legacy_step},
      {"link", 1, &Caller::link_step},
      {"enumerate", 1, &Caller::enumerate_step},
      {"attributes", 2, &Caller::attribute_step},
      {"occupancy", 1, &Caller::occupancy_step},
      {"cooperative launch", 2, &Caller::cooperative_step},
      {"packed launch", 2, &Caller::packed_step},
      {"stack of contexts", 2, &Caller::stack_step},
      {"settings of a context", 1, &Caller::context_settings_step},
      {"device", 1, &Caller::device_step},
      {"settings of a stream", 2, &Caller::stream_settings_step},
      {"settings of a pool", 2, &Caller::pool_settings_step},
      {"callback", 4, &Caller::callback_step},
      {"recorded event", 3, &Caller::recorded_event_step},
      {"managed", 4, &Caller::managed_step},
      {"unpack", 2, &Caller::unpack_step},
      {"graph that stays", 6, &Caller::made_graph_step},
      {"tile", 8, &Caller::tile_step},
  };
  return all;
}

void Caller::act() {
  ++step_;
  if (meeting_.kill_step == step_ && meeting_.kill_actor == number_) raise(SIGKILL);
  const auto& all = steps();
  const auto total =
      std::accumulate(all.begin(), all.end(), uint64_t{0},
                      [](uint64_t sum, const Step& step) { return sum + step.weight; });
  uint64_t at = draw_.below(total);
  auto step = all.begin();
  for (; at >= step->weight; ++step) at -= step->weight;
  oracle::trace("actor %u, step %u: %s, seen %016llx\n", number_, step_, step->name,
                static_cast<unsigned long long>(seen_));
  (this->*step->take)();
}

// All of them say what they have seen so far; one of them prints it.
void Caller::exchange() {
  Program::exchange();
  meeting_.seen[number_] = seen_;
  exchange_.all_there.arrive_and_wait();
  if (number_ == 0) {
    std::printf("meeting %u:", ++meeting_.count);
    for (const uint64_t seen : meeting_.seen) {
      std::printf(" %016llx", static_cast<unsigned long long>(seen));
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  exchange_.all_there.arrive_and_wait();
}

void Caller::finish() {
  open_all();
  while (!tiles_.empty()) take_tile();
  check_answers();
  while (!graphs_.empty()) drop_made_graph(0);
  while (!arrays_.empty()) {
    look_at_array(arrays_.front());
    drop_array(0);
  }
  drop_library();
  for (Memory* own : {answers_memory_, packed_, unpacked_}) {
    if (own != nullptr) drop(*own);
  }
  Program::finish();
}

Memory& Caller::own_memory(uint64_t size) {
  auto memory = std::make_unique<Memory>();
  memory->size = size;
  CHECK(cuMemAlloc_v2(&memory->address, size));
  others_.push_back(std::move(memory));
  return *others_.back();
}

void Caller::drop(Memory& memory) {
  if (memory.address != 0) CHECK(cuMemFree_v2(memory.address));
  std::erase_if(others_, [&memory](const auto& each) { return each.get() == &memory; });
}

}  // namespace calls
