// Branches, calls, barriers and the operations that a warp does together.
#include "tools/simcuda/machine/built_in.h"
#include "tools/simcuda/machine/decoder.h"
#include "tools/simcuda/machine/special.h"

namespace simcuda {

namespace ptx = gpusnap::ptx;

// The target is an instruction until finish() makes it an operation.
void Decoder::bra() {
  Modifiers mods(in_->modifiers);
  mods.take("uni");
  finished(mods);
  if (!expect_operands(1, 1)) return;
  const auto* label = std::get_if<ptx::LabelOperand>(&operand(0).value);
  if (label == nullptr) return fail("a label is wanted");
  emit_control(OpKind::kBranch).target = label->target;
}

void Decoder::brx() {
  Modifiers mods(in_->modifiers);
  const bool indexed = mods.take("idx");
  mods.take("uni");
  finished(mods);
  if (!indexed) return fail("no such form of the instruction");
  if (!expect_operands(2, 2)) return;
  const auto* list = std::get_if<ptx::LabelListOperand>(&operand(1).value);
  if (list == nullptr) return fail("a list of labels is wanted");
  const int32_t index = read(0, 32);
  Op& op = emit_control(OpKind::kBranchIndex);
  op.slot[1] = index;
  op.target = static_cast<uint32_t>(out_.branch_targets.size());
  out_.branch_targets.push_back(function_.branch_targets[list->index]);
}

// An argument or result of a call, as the caller sees it.
bool Decoder::place_of(const Operand& operand, const ptx::Variable& formal, Place& place) {
  if (const auto* symbol = std::get_if<ptx::SymbolOperand>(&operand.value)) {
    if (symbol->symbol.scope == ptx::SymbolScope::kLocalVariable && symbol->offset == 0) {
      const ptx::Variable& v = function_.variables[symbol->symbol.index];
      if (v.space == Space::kParam && v.size == formal.size) {
        place = {false, kNoSlot, layout_.function(index_).variables[symbol->symbol.index], v.size};
        return true;
      }
    }
    fail("a .param variable of the parameter's size is wanted");
    return false;
  }
  const uint64_t bytes = ptx::size_of(formal.type);
  if (formal.elements != 1 || formal.vector != 1 || bytes == 0 || bytes > 8) {
    fail("a register cannot hold that parameter");
    return false;
  }
  const auto bits = static_cast<uint32_t>(bytes == 1 ? 16 : bytes * 8);
  place = {true, read(operand, bits), 0, bytes};
  return !failed();
}

void Decoder::call() {
  Modifiers mods(in_->modifiers);
  mods.take("uni");
  finished(mods);
  if (failed()) return;
  CallSite site;
  size_t next = 0;
  const ptx::ListOperand* results = nullptr;
  const ptx::ListOperand* arguments = nullptr;
  if (next < operands()) results = std::get_if<ptx::ListOperand>(&operand(next).value);
  if (results != nullptr) ++next;
  if (next >= operands()) return fail("no function is named");
  const Operand& callee = operand(next++);
  if (next < operands()) arguments = std::get_if<ptx::ListOperand>(&operand(next).value);
  if (arguments != nullptr) ++next;

  const std::vector<ptx::Variable>* formal_results = nullptr;
  const std::vector<ptx::Variable>* formals = nullptr;
  if (const auto* symbol = std::get_if<ptx::SymbolOperand>(&callee.value)) {
    const ptx::Function& f = module_.functions[symbol->symbol.index];
    if (!f.has_body && !built_in_named(f.name)) {
      return fail("function " + f.name + " is not defined in the module");
    }
    site.function = symbol->symbol.index;
    formal_results = &f.returns;
    formals = &f.parameters;
  } else {
    const ptx::PrototypeOperand* prototype = nullptr;
    if (next < operands()) prototype = std::get_if<ptx::PrototypeOperand>(&operand(next).value);
    if (prototype == nullptr) return fail("a call through a register needs a prototype");
    site.address_slot = read(callee, 64);
    formal_results = &function_.prototypes[prototype->index].returns;
    formals = &function_.prototypes[prototype->index].parameters;
  }
  const auto places = [this](const ptx::ListOperand* list, const std::vector<ptx::Variable>& formal,
                             bool result, std::vector<Place>& to) {
    const size_t count = list == nullptr ? 0 : list->elements.size();
    if (count != formal.size()) return fail("the arguments do not match the function");
    for (size_t i = 0; i < count && !failed(); ++i) {
      const bool constant_result =
          result && !std::holds_alternative<ptx::RegisterOperand>(list->elements[i].value) &&
          !std::holds_alternative<ptx::SymbolOperand>(list->elements[i].value);
      if (constant_result) return fail("a result needs a register or a .param variable");
      place_of(list->elements[i], formal[i], to.emplace_back());
    }
  };
  places(results, *formal_results, true, site.results);
  places(arguments, *formals, false, site.arguments);
  Op& op = emit_control(OpKind::kCall);
  op.target = static_cast<uint32_t>(out_.calls.size());
  out_.calls.push_back(std::move(site));
}

void Decoder::ret() {
  Modifiers mods(in_->modifiers);
  mods.take("uni");
  finished(mods);
  if (!expect_operands(0, 0)) return;
  emit_control(function_.is_kernel ? OpKind::kExit : OpKind::kReturn);
}

void Decoder::exit() {
  finished(Modifiers(in_->modifiers));
  if (!expect_operands(0, 0)) return;
  emit_control(OpKind::kExit);
}

void Decoder::trap() {
  finished(Modifiers(in_->modifiers));
  if (!expect_operands(0, 0)) return;
  emit_control(OpKind::kTrap);
}

void Decoder::bar() {
  Modifiers mods(in_->modifiers);
  mods.take("cta");
  if (mods.take("warp")) return barrier_warp();
  if (mods.take("cluster")) return cluster_barrier();
  mods.take("aligned");
  const int kind = mods.take_one({"sync", "arrive", "red"});
  const int reduce = kind == 2 ? mods.take_one({"popc", "and", "or"}) : -1;
  const bool predicate_result = kind == 2 && mods.take("pred");
  const Type type = mods.take_type();
  finished(mods);
  if (kind < 0 ||
      (kind == 2 && (reduce < 0 || (reduce == 0) != (type == Type::kU32) ||
                     (reduce == 0) == predicate_result)) ||
      (kind != 2 && type != Type::kNone)) {
    return fail("no such form of the instruction");
  }
  BarrierSite site;
  site.arrive = kind == 1;
  size_t next = kind == 2 ? 1 : 0;
  const size_t last = operands() - (kind == 2 ? 1 : 0);
  if (!expect_operands(kind == 2 ? 3 : kind == 1 ? 2 : 1, kind == 2 ? 4 : 2)) return;
  if (kind == 2) {
    site.reduce = static_cast<BarrierSite::Reduce>(reduce + 1);
    site.result_slot = reduce == 0 ? written(0, 32) : written_predicate(operand(0));
    site.predicate_slot = read_predicate(operand(last), &site.predicate_negated);
  }
  site.id_slot = read(next++, 32);
  if (next < last) site.count_slot = read(next, 32);
  Op& op = emit_control(OpKind::kBarrier);
  op.target = static_cast<uint32_t>(out_.barriers.size());
  out_.barriers.push_back(site);
}

// slots: results 0 and 1, sources 2 to 4, member mask 5 (none: the lanes that are there).
Op& Decoder::emit_sync(SyncOp code, std::initializer_list<int32_t> slots) {
  Op& op = emit_control(OpKind::kWarpSync);
  op.code = static_cast<uint8_t>(code);
  size_t i = 0;
  for (const int32_t slot : slots) op.slot[i++] = slot;
  return op;
}

void Decoder::barrier_warp() {
  if (in_->modifiers.size() != 2 || in_->modifiers[1] != "sync") return fail("no such form");
  if (!expect_operands(1, 1)) return;
  const int32_t members = read(0, 32);
  emit_sync(SyncOp::kBarrier, {kNoSlot, kNoSlot, kNoSlot, kNoSlot, kNoSlot, members});
}

void Decoder::shfl() {
  Modifiers mods(in_->modifiers);
  const bool sync = mods.take("sync");
  const int mode = mods.take_one({"up", "down", "bfly", "idx"});
  const Type type = mods.take_type();
  finished(mods);
  if (mode < 0 || shape_of(type) == std::nullopt || shape_of(type)->bits != 32) {
    return fail("no such form of the instruction");
  }
  if (!expect_operands(sync ? 5 : 4, sync ? 5 : 4)) return;
  int32_t d = kNoSlot, p = kNoSlot;
  if (const auto* pair = std::get_if<ptx::PairOperand>(&operand(0).value)) {
    d = written(pair->elements[0], 32);
    p = written_predicate(pair->elements[1]);
  } else {
    d = written(0, 32);
  }
  const int32_t a = read(1, 32, shape_of(type)->is_float);
  const int32_t b = read(2, 32);
  const int32_t c = read(3, 32);
  const int32_t members = sync ? read(4, 32) : kNoSlot;
  emit_sync(static_cast<SyncOp>(static_cast<int>(SyncOp::kShflUp) + mode),
            {d, p, a, b, c, members});
}

void Decoder::vote() {
  Modifiers mods(in_->modifiers);
  const bool sync = mods.take("sync");
  const int mode = mods.take_one({"all", "any", "uni", "ballot"});
  const bool pred = mods.take("pred");
  const Type type = mods.take_type();
  finished(mods);
  if (mode < 0 || (mode == 3) == pred || (mode == 3) != (type == Type::kB32)) {
    return fail("no such form of the instruction");
  }
  if (!expect_operands(sync ? 3 : 2, sync ? 3 : 2)) return;
  bool negated = false;
  const int32_t d = mode == 3 ? written(0, 32) : written_predicate(operand(0));
  const int32_t a = read_predicate(operand(1), &negated);
  const int32_t members = sync ? read(2, 32) : kNoSlot;
  Op& op = emit_sync(static_cast<SyncOp>(static_cast<int>(SyncOp::kVoteAll) + mode),
                     {d, kNoSlot, a, kNoSlot, kNoSlot, members});
  op.flags = negated ? 1 : 0;
}

void Decoder::match() {
  Modifiers mods(in_->modifiers);
  const int mode = mods.take_one({"any", "all"});
  const bool sync = mods.take("sync");
  const Type type = mods.take_type();
  finished(mods);
  if (mode < 0 || !sync || (type != Type::kB32 && type != Type::kB64)) {
    return fail("no such form of the instruction");
  }
  if (!expect_operands(3, 3)) return;
  int32_t d = kNoSlot, p = kNoSlot;
  const auto* pair = std::get_if<ptx::PairOperand>(&operand(0).value);
  if (pair != nullptr && mode == 1) {
    d = written(pair->elements[0], 32);
    p = written_predicate(pair->elements[1]);
  } else {
    d = written(0, 32);
  }
  const uint32_t bits = type == Type::kB64 ? 64 : 32;
  const int32_t a = read(1, bits);
  const int32_t members = read(2, 32);
  Op& op = emit_sync(mode == 0 ? SyncOp::kMatchAny : SyncOp::kMatchAll,
                     {d, p, a, kNoSlot, kNoSlot, members});
  op.vector = static_cast<uint8_t>(bits);
}

void Decoder::redux() {
  Modifiers mods(in_->modifiers);
  const bool sync = mods.take("sync");
  const int mode = mods.take_one({"add", "min", "max", "and", "or", "xor"});
  const Type type = mods.take_type();
  finished(mods);
  const bool bits = mode >= 3;
  const bool sign = type == Type::kS32;
  if (!sync || mode < 0 || (bits ? type != Type::kB32 : type != Type::kU32 && !sign)) {
    return fail("no such form of the instruction");
  }
  constexpr SyncOp kUnsigned[] = {SyncOp::kReduceAdd, SyncOp::kReduceMin, SyncOp::kReduceMax,
                                  SyncOp::kReduceAnd, SyncOp::kReduceOr,  SyncOp::kReduceXor};
  constexpr SyncOp kSigned[] = {SyncOp::kReduceAdd, SyncOp::kReduceMinSigned,
                                SyncOp::kReduceMaxSigned};
  if (!expect_operands(3, 3)) return;
  const int32_t d = written(0, 32);
  const int32_t a = read(1, 32);
  const int32_t members = read(2, 32);
  emit_sync(sign ? kSigned[mode] : kUnsigned[mode], {d, kNoSlot, a, kNoSlot, kNoSlot, members});
}

void Decoder::activemask() {
  Modifiers mods(in_->modifiers);
  const Type type = mods.take_type();
  finished(mods);
  if (type != Type::kB32) return fail("no such form of the instruction");
  if (!expect_operands(1, 1)) return;
  const int32_t d = written(0, 32);
  emit(active_mask_handler(), {d});
}

void Decoder::nanosleep() {
  Modifiers mods(in_->modifiers);
  const Type type = mods.take_type();
  finished(mods);
  if (type != Type::kU32) return fail("no such form of the instruction");
  if (!expect_operands(1, 1)) return;
  read(0, 32);
  emit_control(OpKind::kYield);
}

// Says something about performance, or about launches that depend on one another: those wait for
// the whole of the one before.
void Decoder::nothing() {
  Modifiers mods(in_->modifiers);
  if (in_->opcode == "griddepcontrol") mods.take_one({"wait", "launch_dependents"});
  if (in_->opcode == "setmaxnreg") {
    mods.take_one({"inc", "dec"});
    mods.take("sync");
    mods.take("aligned");
    mods.take_type();
  }
  if (in_->opcode == "pmevent") mods.take("mask");
  finished(mods);
  emit_control(OpKind::kPlain);
}

// The lane that stands for the others.
void Decoder::elect() {
  Modifiers mods(in_->modifiers);
  const bool sync = mods.take("sync");
  finished(mods);
  if (!sync) return fail("no such form of the instruction");
  if (!expect_operands(2, 2)) return;
  const auto* pair = std::get_if<ptx::PairOperand>(&operand(0).value);
  if (pair == nullptr) return fail("a register and a predicate are wanted");
  const bool unused = std::holds_alternative<ptx::SinkOperand>(pair->elements[0].value);
  const int32_t d = unused ? kNoSlot : written(pair->elements[0], 32);
  const int32_t p = written_predicate(pair->elements[1]);
  const int32_t members = read(1, 32);
  emit_sync(SyncOp::kElect, {d, p, kNoSlot, kNoSlot, kNoSlot, members});
}

// A cluster is one block here. Lanes that have arrived wait in `wait` for the others to come there.
// That is later than it would have to be, never earlier.
void Decoder::cluster_barrier() {
  Modifiers mods(in_->modifiers);
  mods.take("cluster");
  const int kind = mods.take_one({"arrive", "wait"});
  mods.take_one({"release", "relaxed", "acquire"});
  mods.take("aligned");
  finished(mods);
  if (kind < 0) return fail("no such form of the instruction");
  if (!expect_operands(0, 0)) return;
  if (kind == 0) {
    emit(fence_handler());
    return;
  }
  BarrierSite site;
  site.of_cluster = true;
  Op& op = emit_control(OpKind::kBarrier);
  op.target = static_cast<uint32_t>(out_.barriers.size());
  out_.barriers.push_back(site);
}

}  // namespace simcuda
