// SPDX-License-Identifier: Apache-2.0
#include "tiers/levels/coding.h"

#include <isa-l/erasure_code.h>

#include <algorithm>
#include <set>

namespace gpusnap::levels {

namespace {

constexpr size_t kTableBytes = 32;  // of one coefficient

// A row for each shard; those of data shards are the identity.
std::vector<uint8_t> matrix_of(const LevelScheme& scheme) {
  std::vector<uint8_t> matrix(size_t{scheme.shards()} * scheme.data);
  gf_gen_cauchy1_matrix(matrix.data(), static_cast<int>(scheme.shards()),
                        static_cast<int>(scheme.data));
  return matrix;
}

std::vector<uint8_t> tables_of(uint32_t columns, uint32_t rows, std::span<uint8_t> coefficients) {
  std::vector<uint8_t> tables(kTableBytes * columns * rows);
  ec_init_tables(static_cast<int>(columns), static_cast<int>(rows), coefficients.data(),
                 tables.data());
  return tables;
}

// ISA-L takes a length as an int, and neither its tables nor its sources as constants, though it
// changes neither.
void multiply(size_t bytes, uint32_t columns, uint32_t rows, const std::vector<uint8_t>& tables,
              std::span<const std::byte* const> from, std::span<std::byte* const> to) {
  constexpr size_t kMost = size_t{1} << 30;
  unsigned char* sources[kMostDataShards + kMostParityShards];
  unsigned char* targets[kMostDataShards + kMostParityShards];
  for (size_t done = 0; done < bytes;) {
    const size_t now = std::min(bytes - done, kMost);
    for (size_t i = 0; i < columns; ++i) {
      sources[i] = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(from[i] + done));
    }
    for (size_t i = 0; i < rows; ++i) {
      targets[i] = reinterpret_cast<unsigned char*>(to[i] + done);
    }
    ec_encode_data(static_cast<int>(now), static_cast<int>(columns), static_cast<int>(rows),
                   const_cast<uint8_t*>(tables.data()), sources, targets);
    done += now;
  }
}

}  // namespace

Encoder::Encoder(const LevelScheme& scheme) : scheme_(scheme) {
  std::vector<uint8_t> matrix = matrix_of(scheme);
  const size_t identity = size_t{scheme.data} * scheme.data;
  tables_ = tables_of(scheme.data, scheme.parity, std::span(matrix).subspan(identity));
}

void Encoder::encode(size_t bytes, std::span<const std::byte* const> data,
                     std::span<std::byte* const> parity) const {
  multiply(bytes, scheme_.data, scheme_.parity, tables_, data, parity);
}

Result<Recovery> Recovery::make(const LevelScheme& scheme, std::span<const uint32_t> present,
                                std::span<const uint32_t> wanted) {
  const auto is_shard = [&](uint32_t shard) { return shard < scheme.shards(); };
  const std::set<uint32_t> different(present.begin(), present.end());
  if (different.size() != scheme.data || present.size() != scheme.data ||
      !std::ranges::all_of(present, is_shard) || !std::ranges::all_of(wanted, is_shard) ||
      wanted.size() > scheme.shards()) {
    return Status(Code::kInvalid, "shards cannot be computed from so few others");
  }
  const uint32_t data = scheme.data;
  const std::vector<uint8_t> matrix = matrix_of(scheme);
  std::vector<uint8_t> rows;
  for (const uint32_t shard : present) {
    rows.insert(rows.end(), matrix.begin() + shard * data, matrix.begin() + (shard + 1) * data);
  }
  std::vector<uint8_t> inverse(size_t{data} * data);
  if (gf_invert_matrix(rows.data(), inverse.data(), static_cast<int>(data)) != 0) {
    return Status(Code::kInvalid, "the coding matrix cannot be inverted");
  }
  // The row of a shard times the inverse: data from what is present, then the shard from data.
  std::vector<uint8_t> coefficients(wanted.size() * data);
  for (size_t i = 0; i < wanted.size(); ++i) {
    for (uint32_t column = 0; column < data; ++column) {
      uint8_t sum = 0;
      for (uint32_t k = 0; k < data; ++k) {
        sum ^= gf_mul(matrix[size_t{wanted[i]} * data + k], inverse[size_t{k} * data + column]);
      }
      coefficients[i * data + column] = sum;
    }
  }
  Recovery recovery(data, static_cast<uint32_t>(wanted.size()));
  if (!wanted.empty()) recovery.tables_ = tables_of(data, recovery.wanted_, coefficients);
  return recovery;
}

void Recovery::recover(size_t bytes, std::span<const std::byte* const> present,
                       std::span<std::byte* const> wanted) const {
  if (wanted_ > 0) multiply(bytes, present_, wanted_, tables_, present, wanted);
}

}  // namespace gpusnap::levels
