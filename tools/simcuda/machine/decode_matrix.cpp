// The instructions of the tensor cores.
#include <algorithm>
#include <charconv>
#include <optional>

#include "tools/simcuda/machine/decoder.h"
#include "tools/simcuda/machine/matrix.h"

namespace simcuda {

namespace ptx = gpusnap::ptx;

namespace {

using Element = MatrixSite::Element;
using Role = MatrixSite::Role;
using Matrix = MatrixSite::Matrix;

std::optional<Element> element_of(std::string_view name) {
  struct Row {
    std::string_view name;
    Element element;
  };
  constexpr Row kRows[] = {
      {"f16", Element::kF16},   {"bf16", Element::kBF16}, {"tf32", Element::kTF32},
      {"f32", Element::kF32},   {"f64", Element::kF64},   {"e4m3", Element::kE4M3},
      {"e5m2", Element::kE5M2}, {"s8", Element::kS8},     {"u8", Element::kU8},
      {"s4", Element::kS4},     {"u4", Element::kU4},     {"b1", Element::kB1},
      {"s32", Element::kS32},
  };
  for (const Row& row : kRows) {
    if (row.name == name) return row.element;
  }
  return std::nullopt;
}

struct Size {
  uint32_t m = 0, n = 0, k = 0;
  bool operator==(const Size&) const = default;
};

// m16n8k16
std::optional<Size> size_of(std::string_view name) {
  Size size;
  const char* at = name.data();
  const char* const end = at + name.size();
  for (const auto& [letter, value] : {std::pair{'m', &size.m}, {'n', &size.n}, {'k', &size.k}}) {
    if (at == end || *at != letter) return std::nullopt;
    const auto parsed = std::from_chars(at + 1, end, *value);
    if (parsed.ec != std::errc()) return std::nullopt;
    at = parsed.ptr;
  }
  return at == end ? std::optional(size) : std::nullopt;
}

// The modifiers of mma and wmma, in any order but that of the types and layouts.
struct Words {
  std::optional<Size> size;
  std::vector<Element> elements;
  std::vector<bool> rows;  // layouts: row or column
  bool synchronised = false, aligned = false, saturate = false, popc = false;
  int bit_operation = -1;   // xor, and
  std::string_view action;  // of wmma: load, store, mma
  std::string_view part;    // of its loads and stores: a, b, c, d
  std::string_view unknown;
};

Words read_words(const std::vector<std::string_view>& modifiers) {
  Words w;
  for (const std::string_view word : modifiers) {
    if (const auto element = element_of(word)) {
      w.elements.push_back(*element);
    } else if (const auto size = size_of(word)) {
      w.size = size;
    } else if (word == "row" || word == "col") {
      w.rows.push_back(word == "row");
    } else if (word == "sync") {
      w.synchronised = true;
    } else if (word == "aligned") {
      w.aligned = true;
    } else if (word == "satfinite") {
      w.saturate = true;
    } else if (word == "xor" || word == "and") {
      w.bit_operation = word == "and" ? 1 : 0;
    } else if (word == "popc") {
      w.popc = true;
    } else if (word == "load" || word == "store" || word == "mma") {
      w.action = word;
    } else if (word == "a" || word == "b" || word == "c" || word == "d") {
      w.part = word;
    } else if (word != "rn" && word != "shared" && word != "global" && word != "shared::cta") {
      w.unknown = word;
    }
  }
  return w;
}

bool is_integer(Element element) {
  return element == Element::kS8 || element == Element::kU8 || element == Element::kS4 ||
         element == Element::kU4 || element == Element::kB1;
}

// The sizes of a product, by the type of its factors; sums are s32, f64, f32 or, for f16, f16.
bool is_known(const std::vector<Size>& sizes, const Size& size) {
  return std::find(sizes.begin(), sizes.end(), size) != sizes.end();
}
bool has_mma(Element element, const Size& size) {
  switch (element) {
    case Element::kF16:
    case Element::kBF16:
      return is_known({{16, 8, 8}, {16, 8, 16}}, size);
    case Element::kTF32:
      return is_known({{16, 8, 4}, {16, 8, 8}}, size);
    case Element::kF64:
      return is_known({{8, 8, 4}, {16, 8, 4}, {16, 8, 8}, {16, 8, 16}}, size);
    case Element::kE4M3:
    case Element::kE5M2:
      return is_known({{16, 8, 32}}, size);
    case Element::kS8:
    case Element::kU8:
      return is_known({{8, 8, 16}, {16, 8, 16}, {16, 8, 32}}, size);
    case Element::kS4:
    case Element::kU4:
      return is_known({{8, 8, 32}, {16, 8, 32}, {16, 8, 64}}, size);
    case Element::kB1:
      return is_known({{8, 8, 128}, {16, 8, 128}, {16, 8, 256}}, size);
    default:
      return false;
  }
}
bool has_wmma(Element element, const Size& size) {
  switch (element) {
    case Element::kF16:
    case Element::kBF16:
    case Element::kS8:
    case Element::kU8:
      return is_known({{16, 16, 16}, {32, 8, 16}, {8, 32, 16}}, size);
    case Element::kTF32:
      return is_known({{16, 16, 8}}, size);
    case Element::kF64:
      return is_known({{8, 8, 4}}, size);
    case Element::kS4:
    case Element::kU4:
      return is_known({{8, 8, 32}}, size);
    case Element::kB1:
      return is_known({{8, 8, 128}}, size);
    default:
      return false;
  }
}

// Both factors of one kind: signed and unsigned, or the two formats of 8 bits, go together.
bool go_together(Element a, Element b) {
  const bool small_float =
      (a == Element::kE4M3 || a == Element::kE5M2) && (b == Element::kE4M3 || b == Element::kE5M2);
  return a == b || small_float ||
         (is_integer(a) && is_integer(b) && bits_of(a) == bits_of(b) && bits_of(a) > 1);
}

bool is_sum_of(Element sum, Element factor) {
  if (is_integer(factor)) return sum == Element::kS32;
  if (factor == Element::kF64) return sum == Element::kF64;
  return sum == Element::kF32 || (factor == Element::kF16 && sum == Element::kF16);
}

// A lane holds elements of some matrices of wmma several times.
uint32_t opaque_registers(const Matrix& m) {
  const bool repeats = m.element == Element::kF16 && m.role != Role::kC;
  return repeats ? 8 : registers_of(m);
}

}  // namespace

Matrix Decoder::matrix(const Operand& operand, Element element, Role role, uint32_t rows,
                       uint32_t columns, MatrixUse use) {
  Matrix m;
  m.element = element;
  m.role = role;
  m.rows = rows;
  m.columns = columns;
  const uint32_t count = use.opaque ? opaque_registers(m) : registers_of(m);
  for (const Operand* value : elements(operand, count)) {
    if (failed()) break;
    const uint32_t bits = register_bits_of(element);
    m.slots.push_back(use.written ? written(*value, bits)
                                  : read(*value, bits, element == Element::kF64));
  }
  return m;
}

Op& Decoder::emit_matrix(Handler handler, MatrixSite site) {
  auto kept = std::make_unique<const MatrixSite>(std::move(site));
  Op& op = emit(handler);
  op.kind = OpKind::kAligned;
  op.immediate = reinterpret_cast<int64_t>(kept.get());
  out_.matrices.push_back(std::move(kept));
  return op;
}

// d = a * b + c
void Decoder::product(MatrixSite site, const ProductTypes& types, const MatrixSize& size) {
  if (!expect_operands(4, 4)) return;
  const bool opaque = site.opaque;
  // Sources first: what is written may be among them.
  site.a = matrix(operand(1), types.a, Role::kA, size.m, size.k, {opaque, false});
  site.b = matrix(operand(2), types.b, Role::kB, size.k, size.n, {opaque, false});
  site.c = matrix(operand(3), types.c, Role::kC, size.m, size.n, {opaque, false});
  site.d = matrix(operand(0), types.d, Role::kC, size.m, size.n, {opaque, true});
  if (!failed()) emit_matrix(matrix_multiply_handler(), std::move(site));
}

void Decoder::mma() {
  const Words w = read_words(in_->modifiers);
  if (!w.unknown.empty())
    return fail("modifier ." + std::string(w.unknown) + " is not supported here");
  if (!w.synchronised || !w.aligned || !w.size || w.elements.size() != 4 || !w.action.empty() ||
      w.rows != std::vector{true, false}) {
    return fail("no such form of the instruction");
  }
  const ProductTypes types{w.elements[1], w.elements[2], w.elements[3], w.elements[0]};
  const bool bits = types.a == Element::kB1;
  if (!has_mma(types.a, *w.size) || !go_together(types.a, types.b) ||
      !is_sum_of(types.c, types.a) || types.c != types.d ||
      (w.saturate && (bits || !is_integer(types.a))) || bits != (w.bit_operation >= 0) ||
      bits != w.popc) {
    return fail("no such form of the instruction");
  }
  MatrixSite site;
  site.saturate = w.saturate;
  site.bits_and = w.bit_operation == 1;
  product(std::move(site), types, {w.size->m, w.size->n, w.size->k});
}

void Decoder::wmma() {
  const Words w = read_words(in_->modifiers);
  if (!w.unknown.empty())
    return fail("modifier ." + std::string(w.unknown) + " is not supported here");
  if (!w.synchronised || !w.aligned || !w.size) return fail("no such form of the instruction");
  if (w.action == "mma") return wmma_product();
  if (w.action.empty() || w.elements.size() != 1 || w.rows.size() != 1 || w.part.size() != 1 ||
      w.saturate || w.popc || (w.action == "store") != (w.part == "d")) {
    return fail("no such form of the instruction");
  }
  const bool store = w.action == "store";
  const char part = w.part[0];
  const Element element = w.elements[0];
  const bool factor = part == 'a' || part == 'b';
  const bool sum = element == Element::kF32 || element == Element::kF16 ||
                   element == Element::kF64 || element == Element::kS32;
  if (factor ? !has_wmma(element, *w.size) : !sum) return fail("no such form of the instruction");
  if (factor && bits_of(element) < 8 && w.rows[0] != (part == 'a')) {
    return fail("no such form of the instruction");
  }
  if (!expect_operands(2, 3)) return;
  Modifiers mods(in_->modifiers);
  const Space space = take_space(mods);
  MatrixSite site;
  site.opaque = true;
  site.row_major = w.rows[0];
  site.base = generic_address(operand(store ? 0 : 1), space);
  if (failed()) return;
  const Role role = part == 'a' ? Role::kA : part == 'b' ? Role::kB : Role::kC;
  const uint32_t rows = part == 'b' ? w.size->k : w.size->m;
  const uint32_t columns = part == 'a' ? w.size->k : w.size->n;
  site.stride = operands() == 3 ? read(2, 32) : constant(site.row_major ? columns : rows, 32);
  site.scratch = new_slot(64);
  site.d = matrix(operand(store ? 1 : 0), element, role, rows, columns, {true, !store});
  if (failed()) return;
  emit_matrix(store ? matrix_store_handler() : matrix_load_handler(), std::move(site)).hint =
      memory_ops_++;
}

void Decoder::wmma_product() {
  const Words w = read_words(in_->modifiers);
  // For factors of f16 only the sums are named: d, c.
  const bool halves = w.elements.size() == 2;
  if ((!halves && w.elements.size() != 4) || w.rows.size() != 2) {
    return fail("no such form of the instruction");
  }
  const ProductTypes types =
      halves ? ProductTypes{Element::kF16, Element::kF16, w.elements[1], w.elements[0]}
             : ProductTypes{w.elements[1], w.elements[2], w.elements[3], w.elements[0]};
  const bool bits = types.a == Element::kB1;
  if (!has_wmma(types.a, *w.size) || !go_together(types.a, types.b) ||
      !is_sum_of(types.c, types.a) || !is_sum_of(types.d, types.a) ||
      (w.saturate && (bits || !is_integer(types.a))) || bits != (w.bit_operation >= 0) ||
      bits != w.popc) {
    return fail("no such form of the instruction");
  }
  MatrixSite site;
  site.opaque = true;
  site.saturate = w.saturate;
  site.bits_and = w.bit_operation == 1;
  product(std::move(site), types, {w.size->m, w.size->n, w.size->k});
}

// Up to four matrices of 8 by 8 elements of two bytes.
bool Decoder::row_matrices(Modifiers& mods, size_t address_at, Op* op) {
  const bool synchronised = mods.take("sync") && mods.take("aligned");
  const bool size = mods.take("m8n8");
  const int count = mods.take_one({"x1", "x2", "x4"});
  op->target = mods.take("trans") ? 1 : 0;
  const Space space = take_space(mods);
  const Type type = mods.take_type();
  finished(mods);
  if (!synchronised || !size || count < 0 || type != Type::kB16 ||
      (space != Space::kShared && space != Space::kGeneric)) {
    fail("no such form of the instruction");
    return false;
  }
  if (!expect_operands(2, 2)) return false;
  op->vector = static_cast<uint8_t>(1 << count);
  return address(operand(address_at), space, *op);
}

void Decoder::emit_row_matrices(Handler handler, const Op& access) {
  Op& op = emit(handler);
  std::copy(std::begin(access.slot), std::end(access.slot), op.slot);
  op.immediate = access.immediate;
  op.flags = access.flags;
  op.code = access.code;
  op.hint = access.hint;
  op.vector = access.vector;
  op.target = access.target;
  op.kind = OpKind::kAligned;
}

void Decoder::ldmatrix() {
  Modifiers mods(in_->modifiers);
  Op access;
  if (!row_matrices(mods, 1, &access)) return;
  const std::vector<const Operand*> values = elements(operand(0), access.vector);
  for (size_t i = 0; i < values.size() && !failed(); ++i) access.slot[i] = written(*values[i], 32);
  emit_row_matrices(rows_load_handler(), access);
}

void Decoder::stmatrix() {
  Modifiers mods(in_->modifiers);
  Op access;
  if (!row_matrices(mods, 0, &access)) return;
  const std::vector<const Operand*> values = elements(operand(1), access.vector);
  for (size_t i = 0; i < values.size() && !failed(); ++i) {
    // Registers alone: constants lie elsewhere.
    if (!std::holds_alternative<ptx::RegisterOperand>(values[i]->value)) {
      return fail("registers are wanted");
    }
    access.slot[i] = read(*values[i], 32);
  }
  emit_row_matrices(rows_store_handler(), access);
}

void Decoder::movmatrix() {
  Modifiers mods(in_->modifiers);
  const bool known =
      mods.take("sync") && mods.take("aligned") && mods.take("m8n8") && mods.take("trans");
  const Type type = mods.take_type();
  finished(mods);
  if (!known || type != Type::kB16) return fail("no such form of the instruction");
  if (!expect_operands(2, 2)) return;
  const int32_t d = written(0, 32);
  emit(transpose_handler(), {d, read(1, 32)}).kind = OpKind::kAligned;
}

}  // namespace simcuda
