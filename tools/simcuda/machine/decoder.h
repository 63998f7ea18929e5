// From the syntax tree to operations. Code that is not known exactly is refused.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/simcuda/machine/code.h"
#include "tools/simcuda/machine/handlers.h"
#include "tools/simcuda/machine/layout.h"
#include "tools/simcuda/machine/matrix.h"

namespace simcuda {

// The modifiers of one instruction, taken one by one: what is left in the end was not understood.
class Modifiers {
 public:
  explicit Modifiers(const std::vector<std::string_view>& names)
      : names_(names), taken_(names.size(), false) {}
  bool take(std::string_view name);
  // The index in `choices` of the one that is there, or -1.
  int take_one(std::initializer_list<std::string_view> choices);
  // The next type in order; kNone where there is none left.
  gpusnap::ptx::Type take_type();
  // The first that was not taken, or empty.
  std::string_view left() const;

 private:
  const std::vector<std::string_view>& names_;
  std::vector<bool> taken_;
};

// A type as handlers know it.
struct Shape {
  Num num = Num::kU32;
  uint32_t bits = 32;  // of the slot
  bool is_float = false;
  bool is_signed = false;
};
std::optional<Shape> shape_of(gpusnap::ptx::Type type);
Num unsigned_of(uint32_t bits);
Num signed_of(uint32_t bits);

// Decodes one function. Every member that decodes an instruction reports by fail(); the caller
// looks at failed() once.
class Decoder {
 public:
  Decoder(const Layout& layout, Code& code, uint32_t function);
  // False: `error` is filled in.
  bool run(LoadError* error);

 private:
  using Type = gpusnap::ptx::Type;
  using Space = gpusnap::ptx::Space;
  using Operand = gpusnap::ptx::Operand;

  // One entry of the table of opcodes.
  struct Entry {
    std::string_view opcode;
    void (Decoder::*decode)();
  };
  static const std::vector<Entry>& table();

  void fail(std::string reason);
  bool failed() const { return !reason_.empty(); }
  void instruction(uint32_t index);
  void finish();

  // decode_operand.cpp: operands to slots
  size_t operands() const { return in_->operands.size() - hints_; }
  bool expect_operands(size_t least, size_t most);
  const Operand& operand(size_t index) const { return in_->operands[index]; }
  int32_t new_slot(uint32_t bits);
  int32_t constant(uint64_t value, uint32_t bits);
  int32_t symbol_constant(uint32_t global, uint64_t addend, uint32_t bits);
  int32_t register_slot(gpusnap::ptx::RegisterIndex index);
  uint32_t register_bits(gpusnap::ptx::RegisterIndex index) const;
  int32_t read(const Operand& operand, uint32_t bits, bool is_float = false);
  int32_t read(size_t index, uint32_t bits, bool is_float = false);
  int32_t read_predicate(const Operand& operand, bool* negated);
  int32_t written(const Operand& operand, uint32_t bits);
  int32_t written(size_t index, uint32_t bits) { return written(operand(index), bits); }
  int32_t written_predicate(const Operand& operand);
  // A register of at least `least` bits: its slot and width. Constants have `least` bits.
  int32_t read_wide(const Operand& operand, uint32_t least, uint32_t* bits, bool is_float = false);
  int32_t written_wide(const Operand& operand, uint32_t least, uint32_t* bits);
  int32_t special(std::string_view name, uint32_t bits);
  int32_t symbol_value(const gpusnap::ptx::SymbolOperand& operand, uint32_t bits);
  const gpusnap::ptx::Variable* variable(gpusnap::ptx::Symbol symbol) const;

  // Operations of the instruction at hand; a null handler fails.
  Op& emit(Handler handler, std::initializer_list<int32_t> slots = {});
  Op& emit_control(OpKind kind);
  // Under a rounding mode, where it is not the nearest.
  Op& emit_rounded(Handler handler, Rounding rounding, std::initializer_list<int32_t> slots);
  Rounding take_rounding(Modifiers& mods, bool* named = nullptr);
  void finished(const Modifiers& mods);

  // decode_arithmetic.cpp
  void add_sub();
  void multiply();
  void mad_fma();
  void divide();
  void min_max();
  void abs_neg();
  void sad();
  void root_and_reciprocal();
  void approximate();
  void copysign();
  void testp();
  void half_by_single(FloatOp op, Modifiers& mods, Type type);
  void relu(const Shape& shape, IntOp op, Num num);
  // Destination and `sources` operands, all of the shape.
  void elementwise(Handler handler, const Shape& shape, size_t sources,
                   Rounding rounding = Rounding::kNearest);
  void float_arithmetic(FloatOp op, Modifiers& mods, Type type, size_t sources);
  void half_arithmetic(HalfOp op, Modifiers& mods, Type type, size_t sources);
  void with_carry(IntOp op, const Shape& shape, size_t sources);
  bool integer_pair(IntOp op, Modifiers& mods);
  void integer_mad(Modifiers& mods, const Shape& shape);
  uint8_t take_flags(Modifiers& mods);

  // decode_bits.cpp
  void logic();
  void shift();
  void funnel_shift();
  void lop3();
  void count_bits();
  void bit_field();
  void prmt();
  void bit_mask();
  void sign_extend();
  void dot_product();
  void mov();
  void move_vector(const gpusnap::ptx::VectorOperand& parts, const Operand& whole, bool pack,
                   uint32_t bits);
  void selp();
  void slct();
  void setp();
  void set();
  void move_elements(Type type, uint32_t count);
  void move_wide(const Operand& to, const Operand& from);
  void setp_pair(Modifiers& mods, Compare compare_op, Combine combine, Type type);
  void set_half_pair(Compare compare_op, Type to, Type type);
  // One of the two values of a pair, or a half-precision value, as an f32.
  int32_t single_of(int32_t slot, Type type, bool upper = false);
  void compare(Modifiers& mods, int32_t p, int32_t q, size_t first, Combine combine,
               Compare compare_op, Type type);
  std::optional<Compare> take_compare(Modifiers& mods);
  Combine take_combine(Modifiers& mods);

  // decode_convert.cpp
  void cvt();
  void convert_integers(Type to, Type from, bool saturate);
  void convert_to_float(Type to, Type from, Rounding rounding, uint8_t flags);
  void convert_to_integer(Type to, Type from, Integral mode, uint8_t flags);
  void convert_floats(Type to, Type from, std::optional<Integral> integral, Rounding rounding,
                      uint8_t flags);
  void convert_pack(Modifiers& mods);
  void convert_pair(Type to, Rounding rounding, uint8_t flags);
  bool convert_small(Modifiers& mods);
  int32_t exact_source(size_t index, Type type);
  int32_t exact_destination(Type type, uint32_t* bits, int32_t* real);
  void finish_destination(Type type, int32_t exact, uint32_t bits, int32_t real);

  // decode_memory.cpp
  void ld();
  void st();
  void prefetch();
  void fence();
  void cvta();
  void isspacep();
  void atom();
  void vector_atom(AtomicOp op, AtomicType type, const Shape& shape, uint32_t count);
  void create_policy();
  void map_rank();
  int32_t generic_address(const Operand& operand, Space space);
  bool take_policy(Modifiers& mods);

  // decode_async.cpp
  void copy_async();
  void copy_bulk(Modifiers& mods);
  void message_barrier();

  // decode_matrix.cpp
  void mma();
  void wmma();
  void wmma_product();
  struct ProductTypes {
    MatrixSite::Element a, b, c, d;
  };
  struct MatrixSize {
    uint32_t m, n, k;
  };
  struct MatrixUse {
    bool opaque, written;
  };
  MatrixSite::Matrix matrix(const Operand& operand, MatrixSite::Element element,
                            MatrixSite::Role role, uint32_t rows, uint32_t columns, MatrixUse use);
  void product(MatrixSite site, const ProductTypes& types, const MatrixSize& size);
  Op& emit_matrix(Handler handler, MatrixSite site);
  // Looks at all but the registers. False: failed.
  bool row_matrices(Modifiers& mods, size_t address_at, Op* op);
  void emit_row_matrices(Handler handler, const Op& access);
  void ldmatrix();
  void stmatrix();
  void movmatrix();
  // Scopes, cache and eviction hints, which change nothing here; true: a strong access.
  bool take_access_modifiers(Modifiers& mods);
  Space take_space(Modifiers& mods);
  // Sets the space, base, offset and flags of an access. False: failed.
  bool address(const Operand& operand, Space space, Op& op);
  // The values of a load or store: one, or the elements of a vector.
  static std::optional<AtomicType> atomic_type_of(Type type);
  std::vector<const Operand*> elements(const Operand& operand, uint32_t count);

  // decode_texture.cpp
  void tex();
  void tld4();
  void txq();
  void suld();
  void sust();
  void sured();
  void emit_texture(const TextureSite& site);
  const gpusnap::ptx::AddressOperand* image_handle(size_t index, TextureSite& site);
  bool image_place(size_t index, Modifiers& mods, TextureSite& site, bool are_floats);
  void texel_destination(TextureSite& site);
  bool surface_access(Modifiers& mods, size_t place, TextureSite& site);
  void surface_values(const Operand& list, const Shape& shape, TextureSite& site);

  // decode_video.cpp
  void video();
  void video_mad(VideoSite& site);
  void video_scalar(Modifiers& mods, VideoSite& site);
  void video_elements(Modifiers& mods, VideoSite& site);
  void video_operands(VideoSite& site, bool with_c);
  bool video_modifiers(Modifiers& mods, VideoSite& site);
  int32_t video_source(size_t index);
  // A 32-bit integer type. False: failed.
  bool take_sign(Modifiers& mods, bool* is_signed);
  void emit_video(const VideoSite& site);

  // decode_control.cpp
  void bra();
  void brx();
  void call();
  void ret();
  void exit();
  void trap();
  void bar();
  void barrier_warp();
  void shfl();
  void vote();
  void match();
  void redux();
  void elect();
  void activemask();
  void nothing();
  void cluster_barrier();
  void nanosleep();
  Op& emit_sync(SyncOp code, std::initializer_list<int32_t> slots);
  bool place_of(const Operand& operand, const gpusnap::ptx::Variable& formal, Place& place);

  const Layout& layout_;
  Code& code_;
  uint32_t index_;
  CodeFunction& out_;
  const gpusnap::ptx::Module& module_;
  const gpusnap::ptx::Function& function_;
  const Handlers& handlers_;

  const gpusnap::ptx::Instruction* in_ = nullptr;
  uint32_t in_index_ = 0;
  std::string reason_;
  std::vector<int32_t> slots_;                                  // of registers, where they have one
  std::vector<uint32_t> first_op_;                              // of each instruction
  std::map<std::pair<uint64_t, uint32_t>, int32_t> constants_;  // value, bits
  int64_t register_bytes_ = 0;
  int64_t predicate_room_ = 0;  // bytes left in the last line of predicates
  int32_t constant_bytes_ = 0;
  int32_t condition_code_ = kNoSlot;
  size_t hints_ = 0;  // operands at the end that are cache policies
  uint16_t memory_ops_ = 0;
};

}  // namespace simcuda
