#include "tools/simcuda/machine/decoder.h"

#include <algorithm>
#include <unordered_map>

#include "tools/simcuda/machine/order.h"

namespace simcuda {

namespace ptx = gpusnap::ptx;

bool Modifiers::take(std::string_view name) {
  for (size_t i = 0; i < names_.size(); ++i) {
    if (!taken_[i] && names_[i] == name) {
      taken_[i] = true;
      return true;
    }
  }
  return false;
}

int Modifiers::take_one(std::initializer_list<std::string_view> choices) {
  int index = 0;
  for (const std::string_view choice : choices) {
    if (take(choice)) return index;
    ++index;
  }
  return -1;
}

ptx::Type Modifiers::take_type() {
  for (size_t i = 0; i < names_.size(); ++i) {
    const ptx::Type type = ptx::type_from_name(names_[i]);
    if (!taken_[i] && type != ptx::Type::kNone) {
      taken_[i] = true;
      return type;
    }
  }
  return ptx::Type::kNone;
}

std::string_view Modifiers::left() const {
  for (size_t i = 0; i < names_.size(); ++i) {
    if (!taken_[i]) return names_[i];
  }
  return {};
}

std::optional<Shape> shape_of(ptx::Type type) {
  using T = ptx::Type;
  switch (type) {
    case T::kB8:
    case T::kU8:
      return Shape{Num::kU8, 16, false, false};
    case T::kS8:
      return Shape{Num::kS8, 16, false, true};
    case T::kB16:
    case T::kU16:
    case T::kF16:
    case T::kBF16:
      return Shape{Num::kU16, 16, false, false};
    case T::kS16:
      return Shape{Num::kS16, 16, false, true};
    case T::kB32:
    case T::kU32:
    case T::kF16x2:
    case T::kBF16x2:
      return Shape{Num::kU32, 32, false, false};
    case T::kS32:
      return Shape{Num::kS32, 32, false, true};
    case T::kB64:
    case T::kU64:
      return Shape{Num::kU64, 64, false, false};
    case T::kS64:
      return Shape{Num::kS64, 64, false, true};
    case T::kF32:
      return Shape{Num::kF32, 32, true, true};
    case T::kF64:
      return Shape{Num::kF64, 64, true, true};
    default:
      return std::nullopt;
  }
}

Num unsigned_of(uint32_t bits) {
  return bits == 16 ? Num::kU16 : bits == 32 ? Num::kU32 : Num::kU64;
}
Num signed_of(uint32_t bits) {
  return bits == 16 ? Num::kS16 : bits == 32 ? Num::kS32 : Num::kS64;
}

Decoder::Decoder(const Layout& layout, Code& code, uint32_t function)
    : layout_(layout),
      code_(code),
      index_(function),
      out_(code.functions[function]),
      module_(*code.module),
      function_(code.module->functions[function]),
      handlers_(handlers()),
      slots_(function_.registers.size(), kNoSlot) {}

const std::vector<Decoder::Entry>& Decoder::table() {
  using D = Decoder;
  static const std::vector<Entry> kTable = {
      {"add", &D::add_sub},
      {"sub", &D::add_sub},
      {"addc", &D::add_sub},
      {"subc", &D::add_sub},
      {"mul", &D::multiply},
      {"mul24", &D::multiply},
      {"mad", &D::mad_fma},
      {"mad24", &D::mad_fma},
      {"madc", &D::mad_fma},
      {"fma", &D::mad_fma},
      {"div", &D::divide},
      {"rem", &D::divide},
      {"min", &D::min_max},
      {"max", &D::min_max},
      {"abs", &D::abs_neg},
      {"neg", &D::abs_neg},
      {"sad", &D::sad},
      {"rcp", &D::root_and_reciprocal},
      {"sqrt", &D::root_and_reciprocal},
      {"rsqrt", &D::root_and_reciprocal},
      {"ex2", &D::approximate},
      {"lg2", &D::approximate},
      {"sin", &D::approximate},
      {"cos", &D::approximate},
      {"tanh", &D::approximate},
      {"copysign", &D::copysign},
      {"testp", &D::testp},
      {"and", &D::logic},
      {"or", &D::logic},
      {"xor", &D::logic},
      {"not", &D::logic},
      {"cnot", &D::logic},
      {"shl", &D::shift},
      {"shr", &D::shift},
      {"shf", &D::funnel_shift},
      {"lop3", &D::lop3},
      {"popc", &D::count_bits},
      {"clz", &D::count_bits},
      {"bfind", &D::count_bits},
      {"brev", &D::count_bits},
      {"fns", &D::count_bits},
      {"bfe", &D::bit_field},
      {"bfi", &D::bit_field},
      {"prmt", &D::prmt},
      {"bmsk", &D::bit_mask},
      {"szext", &D::sign_extend},
      {"dp4a", &D::dot_product},
      {"dp2a", &D::dot_product},
      {"mov", &D::mov},
      {"selp", &D::selp},
      {"slct", &D::slct},
      {"setp", &D::setp},
      {"set", &D::set},
      {"cvt", &D::cvt},
      {"ld", &D::ld},
      {"ldu", &D::ld},
      {"st", &D::st},
      {"prefetch", &D::prefetch},
      {"prefetchu", &D::prefetch},
      {"discard", &D::prefetch},
      {"applypriority", &D::prefetch},
      {"membar", &D::fence},
      {"fence", &D::fence},
      {"cvta", &D::cvta},
      {"isspacep", &D::isspacep},
      {"createpolicy", &D::create_policy},
      {"mapa", &D::map_rank},
      {"getctarank", &D::map_rank},
      {"cp", &D::copy_async},
      {"mbarrier", &D::message_barrier},
      {"mma", &D::mma},
      {"wmma", &D::wmma},
      {"ldmatrix", &D::ldmatrix},
      {"stmatrix", &D::stmatrix},
      {"movmatrix", &D::movmatrix},
      {"atom", &D::atom},
      {"red", &D::atom},
      {"tex", &D::tex},
      {"tld4", &D::tld4},
      {"txq", &D::txq},
      {"suq", &D::txq},
      {"suld", &D::suld},
      {"sust", &D::sust},
      {"sured", &D::sured},
      {"vabsdiff", &D::video},
      {"vabsdiff2", &D::video},
      {"vabsdiff4", &D::video},
      {"vadd", &D::video},
      {"vadd2", &D::video},
      {"vadd4", &D::video},
      {"vavrg2", &D::video},
      {"vavrg4", &D::video},
      {"vmad", &D::video},
      {"vmax", &D::video},
      {"vmax2", &D::video},
      {"vmax4", &D::video},
      {"vmin", &D::video},
      {"vmin2", &D::video},
      {"vmin4", &D::video},
      {"vset", &D::video},
      {"vset2", &D::video},
      {"vset4", &D::video},
      {"vshl", &D::video},
      {"vshr", &D::video},
      {"vsub", &D::video},
      {"vsub2", &D::video},
      {"vsub4", &D::video},
      {"bra", &D::bra},
      {"brx", &D::brx},
      {"call", &D::call},
      {"ret", &D::ret},
      {"exit", &D::exit},
      {"trap", &D::trap},
      {"brkpt", &D::trap},
      {"bar", &D::bar},
      {"barrier", &D::bar},
      {"shfl", &D::shfl},
      {"vote", &D::vote},
      {"match", &D::match},
      {"redux", &D::redux},
      {"elect", &D::elect},
      {"activemask", &D::activemask},
      {"nanosleep", &D::nanosleep},
      {"pragma", &D::nothing},
      {"griddepcontrol", &D::nothing},
      {"setmaxnreg", &D::nothing},
      {"pmevent", &D::nothing},
  };
  return kTable;
}

void Decoder::fail(std::string reason) {
  if (reason_.empty()) reason_ = std::move(reason);
}

void Decoder::instruction(uint32_t index) {
  static const std::unordered_map<std::string_view, void (Decoder::*)()> kByName = [] {
    std::unordered_map<std::string_view, void (Decoder::*)()> map;
    for (const Entry& e : table()) map.emplace(e.opcode, e.decode);
    return map;
  }();
  in_ = &function_.instructions[index];
  in_index_ = index;
  hints_ = 0;
  first_op_.push_back(static_cast<uint32_t>(out_.ops.size()));
  const auto found = kByName.find(in_->opcode);
  if (found == kByName.end()) return fail("unknown instruction");
  (this->*found->second)();
}

bool Decoder::run(LoadError* error) {
  const FunctionLayout& layout = layout_.function(index_);
  out_.source = &function_;
  out_.frame_bytes = layout.frame_bytes;
  out_.stack_bytes = layout_.stack_bytes(index_);
  const auto places = [this](const std::vector<ptx::Variable>& variables,
                             const std::vector<uint64_t>& offsets, std::vector<Place>& to) {
    for (size_t i = 0; i < variables.size(); ++i) {
      Place place{false, kNoSlot, offsets[i], variables[i].size};
      if (variables[i].space == Space::kReg) {
        for (uint32_t r = 0; r < function_.registers.size(); ++r) {
          if (function_.registers[r].name != variables[i].name) continue;
          place = {true, register_slot(r), 0, register_bits(r) / 8};
          break;
        }
      }
      to.push_back(place);
    }
  };
  places(function_.parameters, layout.parameters, out_.parameters);
  places(function_.returns, layout.results, out_.results);
  out_.ops.reserve(function_.instructions.size() + 1);
  for (uint32_t i = 0; i < function_.instructions.size() && !failed(); ++i) instruction(i);
  if (failed()) {
    *error = {in_->line, std::string(in_->text), reason_};
    return false;
  }
  finish();
  return true;
}

// Labels may point one past the last instruction: there the function returns.
void Decoder::finish() {
  first_op_.push_back(static_cast<uint32_t>(out_.ops.size()));
  for (Op& op : out_.ops) {
    if (op.kind == OpKind::kBranch) op.target = first_op_[op.target];
  }
  for (std::vector<uint32_t>& list : out_.branch_targets) {
    for (uint32_t& target : list) target = first_op_[target];
  }
  Op& end = out_.ops.emplace_back();
  end.kind = function_.is_kernel ? OpKind::kExit : OpKind::kReturn;
  end.instruction =
      function_.instructions.empty() ? 0 : static_cast<uint32_t>(function_.instructions.size() - 1);
  order_for_meeting(out_);
  out_.register_bytes = (static_cast<uint64_t>(register_bytes_) + 63) / 64 * 64;
  out_.decoded = true;
}

Op& Decoder::emit(Handler handler, std::initializer_list<int32_t> slots) {
  if (handler == nullptr) fail("no such form of the instruction");
  Op& op = out_.ops.emplace_back();
  op.run = handler;
  std::copy(slots.begin(), slots.end(), op.slot);
  op.instruction = in_index_;
  if (in_->guard != ptx::kNoIndex) {
    op.guard = register_slot(in_->guard);
    op.guard_negated = in_->guard_negated;
  }
  return op;
}

Op& Decoder::emit_control(OpKind kind) {
  static constexpr Handler kNothing = [](WarpView&, const Op&, uint32_t) { return true; };
  Op& op = emit(kNothing);
  op.kind = kind;
  return op;
}

Op& Decoder::emit_rounded(Handler handler, Rounding rounding,
                          std::initializer_list<int32_t> slots) {
  Op& op = emit(handler, slots);
  op.rounding = rounding;
  if (rounding != Rounding::kNearest) {
    op.inner = op.run;
    op.run = handlers_.rounded;
  }
  return op;
}

}  // namespace simcuda
