// Fetches from textures, reads and writes of surfaces, and questions about both. Handles are 64-bit
// values; the address of a texture or surface that a module declares is its handle.
#include <algorithm>

#include "tools/simcuda/machine/decoder.h"
#include "tools/simcuda/machine/texture.h"

namespace simcuda {

namespace ptx = gpusnap::ptx;

namespace {

bool has_32_bits(ptx::Type type) {
  return type == ptx::Type::kF32 || type == ptx::Type::kU32 || type == ptx::Type::kS32 ||
         type == ptx::Type::kB32;
}

}  // namespace

void Decoder::emit_texture(const TextureSite& site) {
  out_.textures.push_back(std::make_unique<TextureSite>(site));
  const auto kept = reinterpret_cast<uintptr_t>(out_.textures.back().get());
  emit(texture_handler()).immediate = static_cast<int64_t>(kept);
}

// [handle]
const ptx::AddressOperand* Decoder::image_handle(size_t index, TextureSite& site) {
  const auto* at = std::get_if<ptx::AddressOperand>(&operand(index).value);
  const auto* symbol = at == nullptr ? nullptr : std::get_if<ptx::Symbol>(&at->base);
  if (symbol != nullptr && symbol->scope == ptx::SymbolScope::kModuleVariable && at->offset == 0 &&
      module_.variables[symbol->index].reference ==
          (site.surface ? ptx::Reference::kSurface : ptx::Reference::kTexture)) {
    site.handle = symbol_constant(layout_.global(symbol->index), 0, 64);
    return at;
  }
  const auto* reg = at == nullptr ? nullptr : std::get_if<ptx::RegisterOperand>(&at->base);
  if (reg == nullptr || at->offset != 0 || register_bits(reg->index) != 64) {
    fail("a texture or surface is named by its handle in a 64-bit register, or by a reference");
    return nullptr;
  }
  site.handle = register_slot(reg->index);
  return at;
}

// [handle, {coordinates}]: behind those that the geometry takes one more may follow, unused.
bool Decoder::image_place(size_t index, Modifiers& mods, TextureSite& site, bool are_floats) {
  const int geometry = mods.take_one({"1d", "2d", "3d", "a1d", "a2d", "cube", "acube"});
  if (geometry < 0) {
    fail("no such geometry: multisampled images are not supported");
    return false;
  }
  site.cube = geometry > 4;
  if (site.cube && (site.surface || !are_floats || site.level_from == LevelFrom::kGradient)) {
    fail("cube maps are supported by tex with a direction, without gradients, alone");
    return false;
  }
  const bool layered = geometry > 2 && geometry != 5;
  site.dimensions = static_cast<uint32_t>(site.cube ? 3 : layered ? geometry - 2 : geometry + 1);
  const ptx::AddressOperand* at = image_handle(index, site);
  if (at == nullptr) return false;
  const size_t wanted = site.dimensions + (layered ? 1 : 0);
  if (at->coordinates.size() < wanted || at->coordinates.size() > 4) {
    fail("the number of coordinates does not match the geometry");
    return false;
  }
  size_t next = 0;
  if (layered) site.layer = read(at->coordinates[next++], 32);
  for (uint32_t d = 0; d < site.dimensions; ++d) {
    site.at[d] = read(at->coordinates[next++], 32, are_floats);
  }
  return !failed();
}

// {a, b, c, d}, or that and a predicate.
void Decoder::texel_destination(TextureSite& site) {
  const Operand* texel = &operand(0);
  if (const auto* pair = std::get_if<ptx::PairOperand>(&texel->value)) {
    texel = &pair->elements[0];
    site.resident = written_predicate(pair->elements[1]);
  }
  const std::vector<const Operand*> channels = elements(*texel, 4);
  for (size_t c = 0; c < channels.size() && !failed(); ++c) {
    if (std::holds_alternative<ptx::SinkOperand>(channels[c]->value)) continue;
    site.values[c] = written(*channels[c], 32);
  }
}

void Decoder::tex() {
  Modifiers mods(in_->modifiers);
  TextureSite site;
  const int level = mods.take_one({"base", "level", "grad"});
  if (level >= 0) site.level_from = static_cast<LevelFrom>(level);
  if (!mods.take("v4")) return fail("only results of four values are supported");
  const Type to = mods.take_type();
  const Type from = mods.take_type();
  if (!has_32_bits(to) || (from != Type::kF32 && from != Type::kS32)) {
    return fail("no such type for this instruction");
  }
  const bool by_place = from == Type::kS32;
  site.op = by_place ? TextureOp::kFetch : TextureOp::kSample;
  const size_t sources = site.level_from == LevelFrom::kGradient ? 4
                         : site.level_from == LevelFrom::kGiven  ? 3
                                                                 : 2;
  if (!expect_operands(sources, sources) || !image_place(1, mods, site, !by_place)) return;
  finished(mods);
  if (site.level_from == LevelFrom::kGiven) site.level = read(2, 32, !by_place);
  if (site.level_from == LevelFrom::kGradient) {
    if (by_place) return fail("no such type for this instruction");
    for (uint32_t which = 0; which < 2; ++which) {
      const size_t given = site.dimensions == 3 ? 4 : site.dimensions;
      const auto parts = elements(operand(2 + which), static_cast<uint32_t>(given));
      for (uint32_t d = 0; d < site.dimensions && !failed(); ++d) {
        (which == 0 ? site.dx : site.dy)[d] = read(*parts[d], 32, true);
      }
    }
  }
  texel_destination(site);
  if (!failed()) emit_texture(site);
}

void Decoder::tld4() {
  Modifiers mods(in_->modifiers);
  TextureSite site;
  site.op = TextureOp::kGather;
  const int component = mods.take_one({"r", "g", "b", "a"});
  if (component < 0) return fail("it must say which component");
  site.component = static_cast<uint32_t>(component);
  if (!mods.take("v4")) return fail("only results of four values are supported");
  if (!has_32_bits(mods.take_type()) || mods.take_type() != Type::kF32) {
    return fail("no such type for this instruction");
  }
  if (!expect_operands(2, 2) || !image_place(1, mods, site, true)) return;
  finished(mods);
  if (site.dimensions != 2) return fail("no such geometry");
  texel_destination(site);
  if (!failed()) emit_texture(site);
}

void Decoder::txq() {
  Modifiers mods(in_->modifiers);
  TextureSite site;
  site.op = TextureOp::kQuery;
  site.surface = in_->opcode == "suq";
  const bool of_level = mods.take("level");
  const int query = mods.take_one(
      {"width", "height", "depth", "array_size", "num_mipmap_levels", "normalized_coords"});
  if (query < 0 || (site.surface && (query > 3 || of_level))) return fail("no such question");
  site.query = static_cast<ImageQuery>(query);
  if (mods.take_type() != Type::kB32) return fail("no such type for this instruction");
  finished(mods);
  const size_t count = of_level ? 3 : 2;
  if (!expect_operands(count, count) || image_handle(1, site) == nullptr) return;
  if (of_level) site.level = read(2, 32);
  site.value_count = 1;
  site.values[0] = written(0, 32);
  if (!failed()) emit_texture(site);
}

// suld and sust: what they share.
bool Decoder::surface_access(Modifiers& mods, size_t place, TextureSite& site) {
  site.surface = true;
  const int vector = mods.take_one({"v2", "v4"});
  site.value_count = vector < 0 ? 1 : vector == 0 ? 2 : 4;
  mods.take_one({"ca", "cg", "cs", "cv", "wb", "wt"});
  const int edge = mods.take_one({"trap", "clamp", "zero"});
  if (edge >= 0) site.edge = static_cast<SurfaceEdge>(edge);
  return image_place(place, mods, site, false);
}

void Decoder::suld() {
  Modifiers mods(in_->modifiers);
  TextureSite site;
  site.op = TextureOp::kLoad;
  if (!mods.take("b")) return fail("only loads of bytes (.b) are supported");
  const std::optional<Shape> shape = shape_of(mods.take_type());
  if (!shape || shape->is_float) return fail("no such type for this instruction");
  if (!expect_operands(2, 2) || !surface_access(mods, 1, site)) return;
  finished(mods);
  surface_values(operand(0), *shape, site);
  if (!failed()) emit_texture(site);
}

void Decoder::sust() {
  Modifiers mods(in_->modifiers);
  TextureSite site;
  site.op = TextureOp::kStore;
  site.formatted = mods.take("p");
  if (!site.formatted && !mods.take("b")) return fail("it must say .b or .p");
  const Type type = mods.take_type();
  const std::optional<Shape> shape = shape_of(type);
  if (!shape || (site.formatted ? !has_32_bits(type) : shape->is_float)) {
    return fail("no such type for this instruction");
  }
  if (!expect_operands(2, 2) || !surface_access(mods, 0, site)) return;
  finished(mods);
  surface_values(operand(1), *shape, site);
  if (!failed()) emit_texture(site);
}

// The values of a load or a store. Registers may be wider than what is moved.
void Decoder::surface_values(const Operand& list, const Shape& shape, TextureSite& site) {
  const std::vector<const Operand*> values = elements(list, site.value_count);
  site.bytes = shape.num == Num::kU8 || shape.num == Num::kS8 ? 1 : shape.bits / 8;
  site.value_bits = shape.bits;
  for (const Operand* value : values) {
    if (const auto* reg = std::get_if<ptx::RegisterOperand>(&value->value)) {
      site.value_bits = std::max(site.value_bits, register_bits(reg->index));
    }
  }
  for (size_t v = 0; v < values.size() && !failed(); ++v) {
    if (site.op == TextureOp::kStore) {
      site.values[v] = read(*values[v], site.value_bits, shape.is_float);
    } else if (!std::holds_alternative<ptx::SinkOperand>(values[v]->value)) {
      site.values[v] = written(*values[v], site.value_bits);
    }
  }
}

void Decoder::sured() {
  Modifiers mods(in_->modifiers);
  TextureSite site;
  site.op = TextureOp::kReduce;
  site.formatted = mods.take("p");
  if (!site.formatted && !mods.take("b")) return fail("it must say .b or .p");
  const int reduction = mods.take_one({"add", "and", "or", "min", "max"});
  constexpr AtomicOp kReductions[] = {AtomicOp::kAdd, AtomicOp::kAnd, AtomicOp::kOr, AtomicOp::kMin,
                                      AtomicOp::kMax};
  if (reduction < 0) return fail("no such operation");
  site.reduction = kReductions[reduction];
  const std::optional<Shape> shape = shape_of(mods.take_type());
  if (!shape || shape->is_float || shape->bits < 32 || (site.formatted && shape->bits != 32)) {
    return fail("no such type for this instruction");
  }
  site.is_signed = shape->is_signed;
  site.value_bits = shape->bits;
  site.bytes = shape->bits / 8;
  if (!expect_operands(2, 2) || !surface_access(mods, 0, site)) return;
  finished(mods);
  if (site.value_count != 1) return fail("no such form of the instruction");
  site.values[0] = read(1, site.value_bits);
  if (!failed()) emit_texture(site);
}

}  // namespace simcuda
