// One host thread of a random program that makes calls of every family that is followed, besides
// those that the programs of tests/oracle make. Its output depends on its seed alone. Answers of
// the driver that do not (times, whether a stream is busy) go into device memory and are compared
// with what the host remembers of them: this shows whether a restored run was told the same.
#pragma once

#include <deque>

#include "tests/oracle/program.h"

namespace calls {

using oracle::Exchange;
using oracle::Memory;
using oracle::Part;

// State that the actors of one program have in common.
struct Meeting {
  explicit Meeting(unsigned actors) : seen(actors) {}
  std::vector<uint64_t> seen;
  unsigned count = 0;  // of meetings
  // An actor that kills the program, as it comes to a step of its: by RANDOM_CALLS_KILL=ACTOR:STEP.
  unsigned kill_actor = 0, kill_step = 0;  // 0: none
};

class Caller : public oracle::Program {
 public:
  Caller(uint64_t seed, unsigned number, CUcontext context, unsigned steps, Exchange& exchange,
         Meeting& meeting)
      : Program(seed, number, context, steps, exchange), meeting_(meeting) {}

 private:
  // ---- the table of steps, and what comes between them (caller.cpp)
  struct Step {
    const char* name;
    unsigned weight;
    void (Caller::*take)();
  };
  static const std::vector<Step>& steps();
  void act() override;
  void exchange() override;
  void finish() override;
  void oracle_step() { Program::act(); }
  // Memory for one use alone, which no step picks by chance.
  Memory& own_memory(uint64_t size);
  void drop(Memory& memory);
  // A launch of any handle that stands for a kernel.
  template <class... A>
  void launch_handle(CUfunction function, CUstream stream, uint64_t items, A... arguments);

  // ---- what comes to the host behind its back (mail_steps.cpp)
  struct Letter {
    unsigned char* bytes = nullptr;
    uint64_t size = 0;
    bool pinned = false;
    std::vector<unsigned char> pageable;
    CUstream stream = nullptr;
    CUevent sent = nullptr;
  };
  Letter& new_letter(uint64_t size, CUstream stream);
  void send_step();
  void send_batch(const Part& from, CUstream stream);
  void open_step();
  void open(Letter& letter);
  void throw_away(Letter& letter);
  void open_all();

  // ---- what host functions change on its way (tile_steps.cpp)
  struct Tile {
    unsigned char* bytes = nullptr;
    uint64_t size = 0, sum = 1;
    unsigned pause_us = 0;
    CUevent ready = nullptr;
  };
  static void change_tile(void* tile);
  void tile_step();
  void bring_tile();
  void take_tile();

  // ---- what the driver tells, not the same in every run (answer_steps.cpp)
  void note(const void* answer, size_t size);
  void check_answers();
  void busy_step();
  void timing_step();
  void free_memory_step();

  // ---- arrays, textures and surfaces (array_steps.cpp)
  struct Array {
    CUarray array = nullptr;
    CUmipmappedArray whole = nullptr;  // of which it is a level
    size_t width = 0, height = 0;      // in words; no height: of one dimension
    bool surface = false;
    CUtexObject texture = 0;
    CUsurfObject handle = 0;
    Memory* order = nullptr;  // stands for it where streams are ordered
    uint64_t rows() const { return height == 0 ? 1 : height; }
    uint64_t bytes() const { return width * rows() * 4; }
  };
  void array_step();
  Array& make_array();
  void make_levels(Array& array);
  void drop_array(size_t at);
  Array& pick_array();
  void fill_array();
  void copy_array_to_memory();
  void copy_array_from_memory();
  void copy_array_to_array();
  void copy_line(Array& array);
  void look_at_array(Array& array);
  void surface_step();
  void texture_step();
  void line_texture_step();

  // ---- libraries, linked code, launches of before CUDA 4 (code_steps.cpp)
  void need_library();
  void prepare_legacy();
  void drop_library();
  CUfunction kernel_of_library(const char* name);
  void library_step();
  void legacy_step();
  void link_step();
  void enumerate_step();
  void attribute_step();
  void occupancy_step();
  void cooperative_step();
  void packed_step();

  // ---- contexts, devices, streams, pools (context_steps.cpp)
  void stack_step();
  void context_settings_step();
  void device_step();
  void stream_settings_step();
  void pool_settings_step();
  void callback_step();
  void recorded_event_step();

  // ---- compressed data (pack_steps.cpp)
  void unpack_step();

  // ---- memory that migrates (managed_steps.cpp)
  void managed_step();
  void discard();

  // ---- graphs that stay (made_graph_steps.cpp)
  struct MadeGraph {
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    Memory* words = nullptr;          // what its nodes change
    unsigned char* letter = nullptr;  // page-locked memory that it copies them to
    std::unique_ptr<uint64_t> calls;  // of its host function
  };
  // A graph of which each node comes behind the last one.
  struct Chain {
    CUgraph graph = nullptr;
    CUgraphNode last = nullptr;
    CUgraphNode before = nullptr;
    size_t count() const { return last == nullptr ? 0 : 1; }
    // Calls write the new node where they read the last one from.
    const CUgraphNode* after() { return &(before = last); }
  };
  void made_graph_step();
  void make_graph();
  void add_kernel(Chain& chain, CUdeviceptr words, uint64_t count);
  void add_copy(Chain& chain, const CUDA_MEMCPY3D& copy);
  void add_inside(Chain& chain, const Memory& words);
  void add_signs(Chain& chain, MadeGraph& made);
  void capture_into(Chain& chain, Memory& words);
  void instantiate(MadeGraph& made, bool may_be_cloned);
  void launch_made_graph(MadeGraph& made);
  void drop_made_graph(size_t at);

  Meeting& meeting_;
  unsigned step_ = 0;
  std::deque<Letter> letters_;
  std::deque<Tile> tiles_;
  std::vector<unsigned char> answers_;  // what the device has, too
  Memory* answers_memory_ = nullptr;
  Memory* packed_ = nullptr;
  Memory* unpacked_ = nullptr;
  std::deque<Array> arrays_;
  CUlibrary library_ = nullptr;
  Memory* tally_ = nullptr;      // the library's variable
  CUfunction legacy_ = nullptr;  // of the library, with what has been set for it
  std::deque<MadeGraph> graphs_;
};

template <class... A>
void Caller::launch_handle(CUfunction function, CUstream stream, uint64_t items, A... arguments) {
  void* parameters[] = {&arguments...};
  const auto blocks = static_cast<unsigned>(std::clamp<uint64_t>((items + 63) / 64, 1, 32));
  const auto [use_ptsz, given] = given_as(stream);
  CHECK((use_ptsz ? cuLaunchKernel_ptsz : cuLaunchKernel)(function, blocks, 1, 1, 64, 1, 1, 0,
                                                          given, parameters, nullptr));
}

}  // namespace calls
