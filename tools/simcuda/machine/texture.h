// Instructions on textures and surfaces.
#pragma once

#include <cstdint>

#include "tools/simcuda/machine/handlers.h"
#include "tools/simcuda/machine/op.h"

namespace simcuda {

enum class TextureOp : uint8_t { kSample, kFetch, kGather, kQuery, kLoad, kStore, kReduce };
enum class ImageQuery : uint8_t { kWidth, kHeight, kDepth, kArraySize, kLevels, kNormalized };
enum class LevelFrom : uint8_t { kBase, kGiven, kGradient };
// The effect of an access outside of a surface.
enum class SurfaceEdge : uint8_t { kTrap, kClamp, kZero };

// One such instruction: more operands than an Op has slots.
struct TextureSite {
  TextureOp op = TextureOp::kSample;
  bool surface = false;                         // what the handle is of
  int32_t handle = kNoSlot;                     // 64 bits
  uint32_t dimensions = 1;                      // as the instruction says
  bool cube = false;                            // three, of a direction
  int32_t layer = kNoSlot;                      // 32 bits
  int32_t at[3] = {kNoSlot, kNoSlot, kNoSlot};  // 32 bits: f32 of samples, else integers
  int32_t values[4] = {kNoSlot, kNoSlot, kNoSlot, kNoSlot};
  uint32_t value_count = 4;
  uint32_t value_bits = 32;    // of their slots
  int32_t resident = kNoSlot;  // a predicate: always true

  LevelFrom level_from = LevelFrom::kBase;
  int32_t level = kNoSlot;  // f32 of samples, else an integer
  int32_t dx[3] = {kNoSlot, kNoSlot, kNoSlot}, dy[3] = {kNoSlot, kNoSlot, kNoSlot};
  uint32_t component = 0;  // that a gather takes
  ImageQuery query = ImageQuery::kWidth;

  uint32_t bytes = 4;      // of one value of a surface access
  bool formatted = false;  // by elements, converted to the surface's format
  SurfaceEdge edge = SurfaceEdge::kTrap;
  AtomicOp reduction = AtomicOp::kAdd;
  bool is_signed = false;  // what is reduced
};

// Op::immediate is the address of a TextureSite that lives as long as the code.
Handler texture_handler();

}  // namespace simcuda
