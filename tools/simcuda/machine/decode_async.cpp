// Copies that go on by themselves, and the barriers in shared memory that count them.
#include "tools/simcuda/machine/async.h"
#include "tools/simcuda/machine/decoder.h"
#include "tools/simcuda/machine/special.h"

namespace simcuda {

namespace ptx = gpusnap::ptx;

// Every copy is made at once: the forms that wait find nothing to wait for.
void Decoder::copy_async() {
  Modifiers mods(in_->modifiers);
  if (!mods.take("async")) return fail("no such form of the instruction");
  if (mods.take("bulk")) return copy_bulk(mods);
  if (mods.take("mbarrier")) {
    const bool arrive = mods.take("arrive");
    const bool counted = mods.take("noinc");
    const Space space = take_space(mods);
    const Type type = mods.take_type();
    finished(mods);
    if (!arrive || type != Type::kB64) return fail("no such form of the instruction");
    if (!expect_operands(1, 1)) return;
    Op access;
    if (!address(operand(0), space, access)) return;
    // Where it is not counted, it adds an arrival before, which is then there: nothing changes.
    Op& op = emit(message_barrier_handler(counted ? MessageOp::kArrive : MessageOp::kLook),
                  {kNoSlot, constant(1, 32)});
    op.slot[kAddressSlot] = access.slot[kAddressSlot];
    op.immediate = access.immediate;
    op.flags = access.flags;
    op.code = access.code;
    return;
  }
  const int wait = mods.take_one({"commit_group", "wait_group", "wait_all"});
  if (wait >= 0) {
    finished(mods);
    if (!expect_operands(wait == 1 ? 1 : 0, wait == 1 ? 1 : 0)) return;
    emit_control(OpKind::kPlain);
    return;
  }
  const int cache = mods.take_one({"ca", "cg"});
  const int to = mods.take_one({"shared", "shared::cta"});
  const bool from = mods.take("global");
  mods.take_one({"L2::64B", "L2::128B", "L2::256B"});
  if (!take_policy(mods)) return;
  finished(mods);
  if (cache < 0 || to < 0 || !from) return fail("no such form of the instruction");
  if (!expect_operands(3, 4)) return;
  const auto* bytes = std::get_if<ptx::IntegerOperand>(&operand(2).value);
  const bool known = bytes != nullptr && (bytes->value == 16 ||
                                          (cache == 0 && (bytes->value == 4 || bytes->value == 8)));
  if (!known) return fail("no such number of bytes");
  const int32_t target = generic_address(operand(0), Space::kShared);
  const int32_t source = generic_address(operand(1), Space::kGlobal);
  int32_t given = kNoSlot, ignored = kNoSlot;
  bool negated = false;
  if (operands() == 4) {
    const auto* reg = std::get_if<ptx::RegisterOperand>(&operand(3).value);
    if (reg != nullptr && register_bits(reg->index) == 1) {
      ignored = read_predicate(operand(3), &negated);
    } else {
      given = read(3, 32);
    }
  }
  Op& op = emit(copy_handler(), {target, source, given, ignored});
  op.vector = static_cast<uint8_t>(bytes->value);
  op.code = negated ? 1 : 0;
  op.hint = memory_ops_++;
  ++memory_ops_;  // one for each side
}

// In bulk: by one thread, of as many bytes as it says.
void Decoder::copy_bulk(Modifiers& mods) {
  if (mods.take("commit_group") || mods.take("wait_group")) {
    mods.take("read");
    finished(mods);
    if (!expect_operands(0, 1)) return;
    emit_control(OpKind::kPlain);
    return;
  }
  if (mods.take("prefetch")) {
    mods.take("L2");
    mods.take("global");
    if (!take_policy(mods)) return;
    finished(mods);
    if (!expect_operands(2, 2)) return;
    emit_control(OpKind::kPlain);
    return;
  }
  // The first space named is where it goes.
  const auto& names = in_->modifiers;
  const bool out = names.size() > 2 && names[2] == "global";
  const int to = mods.take_one({"shared::cluster", "shared::cta"});
  const bool global = mods.take("global");
  const bool from_block = !global && mods.take_one({"shared::cta", "shared::cluster"}) >= 0;
  const bool counted = mods.take("mbarrier::complete_tx::bytes");
  const bool grouped = mods.take("bulk_group");
  if (!take_policy(mods)) return;
  finished(mods);
  if (to < 0 || (!global && !from_block) || out != grouped || out == counted) {
    return fail("no such form of the instruction");
  }
  if (!expect_operands(out ? 3 : 4, out ? 3 : 4)) return;
  const int32_t target = generic_address(operand(0), out ? Space::kGlobal : Space::kShared);
  const int32_t source =
      generic_address(operand(1), out || !global ? Space::kShared : Space::kGlobal);
  const int32_t bytes = read(2, 32);
  const int32_t barrier = out ? kNoSlot : generic_address(operand(3), Space::kShared);
  emit(bulk_copy_handler(), {target, source, bytes, barrier}).hint = memory_ops_++;
  ++memory_ops_;
}

void Decoder::message_barrier() {
  Modifiers mods(in_->modifiers);
  const int kind = mods.take_one({"init", "inval", "arrive", "arrive_drop", "expect_tx",
                                  "complete_tx", "test_wait", "try_wait", "pending_count"});
  const bool arrives = kind == 2 || kind == 3;
  const bool waits = kind == 6 || kind == 7;
  const bool expects = arrives && mods.take("expect_tx");
  if (arrives && !expects) mods.take("noComplete");
  const bool parity = waits && mods.take("parity");
  mods.take_one({"release", "acquire", "relaxed"});
  mods.take_one({"cta", "cluster"});
  const Space space = take_space(mods);
  const Type type = mods.take_type();
  finished(mods);
  if (kind < 0 || type != Type::kB64) return fail("no such form of the instruction");
  if (kind == 8) {
    if (!expect_operands(2, 2)) return;
    const int32_t d = written(0, 32);
    emit(pending_count_handler(), {d, read(1, 64)});
    return;
  }
  const size_t first = arrives || waits ? 1 : 0;
  const size_t most = kind == 1 ? 1 : waits ? first + 3 : first + 2;
  const size_t least = kind == 1 ? 1 : arrives && !expects ? first + 1 : first + 2;
  if (!expect_operands(least, most)) return;
  Op access;
  if (!address(operand(first), space, access)) return;
  int32_t result = kNoSlot;
  if (waits) {
    result = written_predicate(operand(0));
  } else if (arrives && !std::holds_alternative<ptx::SinkOperand>(operand(0).value)) {
    result = written(0, 64);
  }
  int32_t value = constant(1, 32);
  if (operands() > first + 1) value = read(first + 1, waits && !parity ? 64 : 32);
  if (waits && operands() == first + 3) read(first + 2, 32);
  constexpr MessageOp kOps[] = {MessageOp::kInit,      MessageOp::kInvalidate, MessageOp::kArrive,
                                MessageOp::kDrop,      MessageOp::kExpect,     MessageOp::kComplete,
                                MessageOp::kTestState, MessageOp::kTestState};
  MessageOp what = kOps[kind];
  if (parity) what = MessageOp::kTestParity;
  if (expects) what = kind == 2 ? MessageOp::kArriveExpecting : MessageOp::kDropExpecting;
  Op& op = emit(message_barrier_handler(what), {result, value});
  op.slot[kAddressSlot] = access.slot[kAddressSlot];
  op.immediate = access.immediate;
  op.flags = access.flags;
  op.code = access.code;
  op.hint = access.hint;
  // A waiting lane asks again and again: let the lanes that it waits for run.
  if (waits) op.kind = OpKind::kYield;
}

}  // namespace simcuda
