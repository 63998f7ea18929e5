#include "tracker/tile_map.h"

#include <gtest/gtest.h>

namespace gpusnap {
namespace {

constexpr TileMap::Extent kTile{128, 128, 1};

TileMap::Box box(uint32_t x, uint32_t y, uint32_t width, uint32_t height, uint32_t level = 0,
                 uint32_t layer = 0) {
  return {level, layer, x, y, 0, {width, height, 1}};
}

TEST(TileMap, CountsTheTilesOfMemory) {
  TileMap map;
  map.add(1, kTile, 7);
  EXPECT_TRUE(map.has(1));
  EXPECT_FALSE(map.has(2));
  map.map(1, box(0, 0, 256, 384), 5);
  EXPECT_EQ(map.tiles_of(5), 6u);
  EXPECT_EQ(map.tiles_of(6), 0u);
  map.map(1, box(128, 128, 128, 128), 6);
  EXPECT_EQ(map.tiles_of(5), 5u) << "other memory takes its place";
  EXPECT_EQ(map.tiles_of(6), 1u);
  map.map(1, box(0, 0, 256, 128), 0);
  EXPECT_EQ(map.tiles_of(5), 3u);
  map.map(1, box(0, 0, 256, 128), 0);
  EXPECT_EQ(map.tiles_of(5), 3u) << "nothing was mapped there";
  map.map(1, box(0, 0, 1280, 1280), 0);
  EXPECT_EQ(map.tiles_of(5), 0u);
  EXPECT_EQ(map.tiles_of(6), 0u);
}

TEST(TileMap, TheLastTilesMayBeCutOff) {
  TileMap map;
  map.add(1, kTile, 7);
  map.map(1, box(128, 0, 40, 128), 5);
  EXPECT_EQ(map.tiles_of(5), 1u);
  map.map(1, box(128, 0, 128, 128), 0);
  EXPECT_EQ(map.tiles_of(5), 0u) << "the same, told as a whole one";
}

TEST(TileMap, LevelsLayersAndTheTailAreApart) {
  TileMap map;
  map.add(1, kTile, 7);
  map.map(1, box(0, 0, 128, 128), 5);
  map.map(1, box(0, 0, 128, 128, 1), 5);
  map.map(1, box(0, 0, 128, 128, 0, 3), 5);
  map.map_tail(1, 0, 0, 2 * TileMap::kTileBytes, 5);
  map.map_tail(1, 1, TileMap::kTileBytes, TileMap::kTileBytes, 5);
  EXPECT_EQ(map.tiles_of(5), 6u);
  map.map_tail(1, 0, TileMap::kTileBytes, TileMap::kTileBytes, 0);
  EXPECT_EQ(map.tiles_of(5), 5u);
  map.map(1, box(0, 0, 128, 128), 0);
  EXPECT_EQ(map.tiles_of(5), 4u);
}

TEST(TileMap, BoxesHaveDepth) {
  TileMap map;
  map.add(1, {32, 32, 16}, 7);
  map.map(1, {0, 0, 32, 0, 16, {32, 64, 32}}, 5);
  EXPECT_EQ(map.tiles_of(5), 4u);
  map.map(1, {0, 0, 32, 0, 0, {32, 64, 32}}, 0);
  EXPECT_EQ(map.tiles_of(5), 2u);
}

TEST(TileMap, ArraysAndContextsGo) {
  TileMap map;
  map.add(1, kTile, 7);
  map.add(2, kTile, 8);
  map.add(3, kTile, 7);
  for (uint32_t array = 1; array <= 3; ++array) map.map(array, box(0, 0, 128, 128), 5);
  map.map_tail(3, 0, 0, TileMap::kTileBytes, 5);
  map.remove(1);
  EXPECT_EQ(map.tiles_of(5), 3u);
  EXPECT_FALSE(map.has(1));
  map.map(1, box(0, 0, 128, 128), 5);
  EXPECT_EQ(map.tiles_of(5), 3u) << "it is not there";
  map.remove_context(7);
  EXPECT_EQ(map.tiles_of(5), 1u);
  EXPECT_TRUE(map.has(2));
  EXPECT_FALSE(map.has(3));
}

}  // namespace
}  // namespace gpusnap
