// One host thread of a random program: it makes steps that are drawn one after the other.
#pragma once

#include <algorithm>
#include <barrier>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/oracle/actor.h"
#include "tests/oracle/random_kernels.h"

namespace oracle {

// Where actors hand memory to each other, or let another one work on it.
struct Exchange {
  // Whether a context has several actors. While one captures, another one's waiting for the whole
  // context is an error; so is its legacy work.
  bool shared_contexts = false;
  // Whether they have several contexts: what one has then stays in its context, and is lent.
  bool lends = false;
  // Features that some programs do without.
  bool mapped = false;  // virtual memory management: a checkpoint has megabytes more for it
  bool pools = true;    // stream-ordered memory
  bool shared = true;   // memory that the host sees too
  bool guesses = true;  // kernels whose writes nobody can tell
  struct Offer {
    std::unique_ptr<Memory> given;
    Memory* lent = nullptr;
    CUcontext context = nullptr;
    CUdevice device = 0;
    CUevent ready = nullptr;   // behind what its owner has done to it
    CUevent worked = nullptr;  // behind what was done to what was lent
  };
  explicit Exchange(unsigned actors) : offers(actors), all_there(actors) {}
  std::vector<Offer> offers;
  std::barrier<> all_there;
};

class Program : public Actor {
  static constexpr uint64_t kPage = 4096, kMostPinned = 40000;

 public:
  Program(uint64_t seed, unsigned number, CUcontext context, unsigned steps, Exchange& exchange)
      : Actor(seed, number, context, steps, exchange.pools), number_(number), exchange_(exchange) {}

  void run();

 protected:
  // ---- the beginning and the end (program.cpp)
  void load_module();
  void unload_module();
  Memory* variable(const char* name);
  void make_pinned();
  void make_managed();
  void release_shared();
  virtual void finish();

  // ---- one step
  virtual void act();
  void memory_step();
  void mapped_step();
  void allocate_pitched();
  void other_context();
  void wait_step();
  void fill(Memory& memory);
  // Mixes the memory, as the host gets it, into the program's number.
  void look(Memory& memory);

  // ---- with other actors (exchange_steps.cpp)
  virtual void exchange();
  void give();
  void lend();
  void work_on(const Exchange::Offer& other, Memory& mine, CUstream stream);
  void peer_copy(const Part& to, CUcontext to_context, const Part& from, CUcontext from_context,
                 CUstream stream);

  // ---- kernels (launch_steps.cpp)
  void launch_step();
  void launch_on_one(uint64_t kind);
  void launch_on_two(uint64_t kind);
  void launch_spread();
  void launch_through_memory();
  void launch_through_variable();
  void launch_through_table();
  const std::vector<unsigned char>& pointers_to(const std::vector<Part>& parts);
  const std::vector<unsigned char>& boxes_of(const std::vector<Part>& parts, CUdeviceptr address,
                                             unsigned value);
  CUfunction function(const char* name);
  // By name, on enough threads for `items` or fewer.
  template <class... A>
  bool launch(const char* name, CUstream stream, uint64_t items, A... arguments);

  // ---- graphs (graph_steps.cpp)
  struct Recipe;
  struct BuiltGraph;
  void captured_graph();
  CUgraph capture(const Part& from, const Part& to, uint64_t kinds);
  void built_graph();
  Recipe draw_recipe(CUevent end);
  CUgraph inner_graph(const Recipe& recipe);
  void add_nodes(BuiltGraph& built, const Recipe& recipe);
  void change_nodes(const BuiltGraph& built, CUgraphExec exec, Recipe& recipe, const Recipe& other);
  void run_graph(CUgraphExec exec, const std::vector<Part>& parts);
  void memory_graph();
  CUgraph capture_memory(const Part& from, Memory& lasting);

  // ---- copies and sets (copy_steps.cpp)
  void set_step();
  void write_words();
  void copy_step();
  void copy_from_host();
  void copy_within();
  void copy_batch();
  void copy_boxes(const Part& to, const Part& from, uint64_t each, uint64_t count, bool use_ptsz,
                  CUstream given);
  void copy_box();
  void shared_step();
  void host_function();

  const unsigned number_;
  Exchange& exchange_;
  CUmodule module_ = nullptr;
  Memory *counters_ = nullptr, *salts_ = nullptr, *target_ = nullptr;
  Memory *pinned_ = nullptr, *managed_ = nullptr;
  unsigned char* pinned_bytes_ = nullptr;
  bool registered_ = false;  // they are of these:
  // From the main thread, whose memory lies at the same place in every run.
  std::vector<unsigned char> own_bytes_ = std::vector<unsigned char>(kMostPinned + 2 * kPage);
  // The argument of a host function.
  struct Note {
    unsigned char* bytes;
    uint64_t count;
    unsigned value;
  };
  std::deque<Note> notes_;
  std::deque<uint64_t> calls_;  // of host functions in graphs
};

template <class... A>
bool Program::launch(const char* name, CUstream stream, uint64_t items, A... arguments) {
  constexpr unsigned kThreads = 64;  // of a block; what reverse() expects
  trace("  launch %s\n", name);
  void* parameters[] = {&arguments...};
  const auto blocks = static_cast<unsigned>(
      std::min<uint64_t>((items + kThreads - 1) / kThreads, 1 + draw_.below(64)));
  const auto [use_ptsz, given] = given_as(stream);
  if (draw_.chance(80)) {
    return TRY((use_ptsz ? cuLaunchKernel_ptsz : cuLaunchKernel)(
        function(name), blocks, 1, 1, kThreads, 1, 1, 0, given, parameters, nullptr));
  }
  CUlaunchConfig config{};
  config.gridDimX = blocks;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = kThreads;
  config.hStream = given;
  return TRY((use_ptsz ? cuLaunchKernelEx_ptsz : cuLaunchKernelEx)(&config, function(name),
                                                                   parameters, nullptr));
}

}  // namespace oracle
