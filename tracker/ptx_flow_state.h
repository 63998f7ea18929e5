// The data flow of one kernel: the registers of the functions that it reaches, and the memory that
// a thread keeps to itself. Only for ptx_flow*.cpp; the interface is ptx_flow.h.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tracker/ptx.h"
#include "tracker/ptx_effect.h"
#include "tracker/ptx_flow.h"
#include "tracker/ptx_flow_object.h"
#include "tracker/ptx_value.h"

namespace gpusnap::ptx {

class Flow {
 public:
  Flow(const Module& module, uint32_t kernel) : module_(module), kernel_(kernel) {}
  Writes run();

 private:
  struct State {
    uint32_t index = 0;  // in Module::functions
    std::vector<Value> registers;
  };
  // The instruction that is being looked at, with its function.
  struct At {
    State& state;
    const Function& function;
    const Instruction& instruction;
  };
  static constexpr uint64_t kMostSteps = 4'000'000;  // instructions looked at

  // ptx_flow.cpp
  State& reach(uint32_t function);
  template <class Visit>
  void for_each_instruction(Visit&& visit);
  void record(const At& at);
  void record_call(const At& at);
  void record_write(const At& at, const Value& address);
  void give_up(const At& at, const std::string& why);

  // ptx_flow_operand.cpp
  uint32_t object(uint32_t function, SymbolScope scope, uint32_t index);
  Value value_of(const At& at, const Operand& operand);
  Value value_of(const At& at, const Symbol& symbol, int64_t offset);
  Value address_of(const At& at, const AddressOperand& address);
  Value parameter_bytes(uint32_t offset, uint32_t size) const;
  Value load_parameter(const Source& place, uint32_t size) const;
  Value load_object(const At& at, uint32_t object, std::optional<int64_t> offset,
                    uint32_t size) const;
  Value load_from(const At& at, const Value& address, uint32_t size) const;
  void store_to(const Value& address, uint32_t size, const Value& value);
  void assign(const At& at, const Operand& to, const Value& value);
  void assign_register(State& state, Type type, RegisterIndex index, Value value);

  // ptx_flow_step.cpp
  void step(const At& at);
  void load(const At& at, Space space);
  void store(const At& at, Space space);
  void atomic(const At& at);
  void move(const At& at);
  void unpack(const At& at, const std::vector<Operand>& parts);
  Value pack(const At& at, const std::vector<Operand>& parts);
  void convert(const At& at);
  void convert_address(const At& at);
  void sum(const At& at);
  void choose(const At& at);
  void multiply_add(const At& at);
  void combine_bits(const At& at);
  void compute(const At& at, bool known);
  void call(const At& at);
  void pass(const At& at, const Operand& from, uint32_t function, uint32_t parameter);
  void give_back(const At& at, const Operand& to, uint32_t function, uint32_t which);
  uint32_t width_of(const At& at, const Operand& operand) const;

  const Module& module_;
  const uint32_t kernel_;
  std::deque<State> states_;  // of functions, in the order in which they are reached
  std::map<uint32_t, State*> by_function_;
  std::map<std::tuple<uint32_t, SymbolScope, uint32_t>, uint32_t> object_numbers_;
  std::vector<Object> objects_;
  bool changed_ = false;
  Writes writes_;
};

// The callee and the lists of a call; null where there are none.
struct CallParts {
  const ListOperand* results = nullptr;
  const Operand* callee = nullptr;
  const ListOperand* arguments = nullptr;
  uint32_t function = kNoIndex;  // kNoIndex: an indirect call
};
CallParts parts_of_call(const Instruction& instruction);

}  // namespace gpusnap::ptx
