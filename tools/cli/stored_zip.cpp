// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/stored_zip.h"

#include <isa-l/crc.h>

#include <utility>

#include "tiers/levels/byte_coder.h"

namespace gpusnap {
namespace {

using levels::ByteWriter;

constexpr uint32_t kPolynomial = 0xedb88320;  // of CRC-32, the lowest power in the highest bit
constexpr uint32_t kOne = 0x80000000;         // the polynomial 1

constexpr uint16_t kVersion = 45;               // of a reader: it knows ZIP64
constexpr uint32_t kElsewhere = 0xffffffff;     // the number is in the ZIP64 field
constexpr uint16_t kNoDate = 0, kNewYear = 33;  // 1980-01-01, the first that there is
constexpr uint16_t kZip64 = 1;
constexpr size_t kLocalHeaderBytes = 30 + 20;  // without the name
constexpr size_t kDirectoryEndBytes = 56;

// The product of two polynomials over GF(2), modulo that of the CRC.
uint32_t multiply(uint32_t one, uint32_t other) {
  uint32_t product = 0;
  for (uint32_t bit = kOne; bit != 0; bit >>= 1) {
    if ((one & bit) != 0) product ^= other;
    other = (other >> 1) ^ ((other & 1) != 0 ? kPolynomial : 0);
  }
  return product;
}

// The CRC of bytes with that one, and as many zeros behind them, without what zeros add by
// themselves: it is multiplied by x to the power of their bits.
uint32_t shift(uint32_t crc, uint64_t zeros) {
  uint32_t power = kOne >> 8;  // x to the 8th: one byte
  for (; zeros != 0; zeros >>= 1) {
    if ((zeros & 1) != 0) crc = multiply(crc, power);
    power = multiply(power, power);
  }
  return crc;
}

}  // namespace

void PieceCrc::add(uint64_t offset, std::span<const std::byte> bytes) {
  const uint32_t crc =
      crc32_gzip_refl(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  crc_ ^= shift(crc, total_ - offset - bytes.size());
}

uint64_t StoredZip::add(std::string name, uint64_t bytes) {
  const uint64_t at = end_;
  const uint64_t begin = at + kLocalHeaderBytes + name.size();
  files_.push_back({std::move(name), bytes, at});
  end_ = begin + bytes;
  return begin;
}

std::vector<std::byte> StoredZip::local_header(size_t file, uint32_t crc) const {
  const File& entry = files_[file];
  ByteWriter header;
  header.number(uint32_t{0x04034b50}).number(kVersion).number(uint16_t{0}).number(uint16_t{0});
  header.number(kNoDate).number(kNewYear).number(crc).number(kElsewhere).number(kElsewhere);
  header.number(static_cast<uint16_t>(entry.name.size())).number(uint16_t{20});
  header.raw(std::as_bytes(std::span(entry.name)));
  header.number(kZip64).number(uint16_t{16}).number(entry.bytes).number(entry.bytes);
  return header.take();
}

std::vector<std::byte> StoredZip::directory(std::span<const uint32_t> crcs) const {
  ByteWriter directory;
  for (size_t i = 0; i < files_.size(); ++i) {
    const File& entry = files_[i];
    directory.number(uint32_t{0x02014b50}).number(kVersion).number(kVersion);
    directory.number(uint16_t{0}).number(uint16_t{0}).number(kNoDate).number(kNewYear);
    directory.number(crcs[i]).number(kElsewhere).number(kElsewhere);
    directory.number(static_cast<uint16_t>(entry.name.size())).number(uint16_t{28});
    // No comment, the first disk, no attributes.
    directory.number(uint16_t{0}).number(uint16_t{0}).number(uint16_t{0}).number(uint32_t{0});
    directory.number(kElsewhere).raw(std::as_bytes(std::span(entry.name)));
    directory.number(kZip64).number(uint16_t{24});
    directory.number(entry.bytes).number(entry.bytes).number(entry.at);
  }
  const uint64_t bytes = directory.bytes().size();
  const uint64_t files = files_.size();
  directory.number(uint32_t{0x06064b50}).number(uint64_t{kDirectoryEndBytes - 12});
  directory.number(kVersion).number(kVersion).number(uint32_t{0}).number(uint32_t{0});
  directory.number(files).number(files).number(bytes).number(end_);
  directory.number(uint32_t{0x07064b50}).number(uint32_t{0}).number(end_ + bytes);
  directory.number(uint32_t{1});
  directory.number(uint32_t{0x06054b50}).number(uint16_t{0}).number(uint16_t{0});
  directory.number(uint16_t{0xffff}).number(uint16_t{0xffff});
  directory.number(kElsewhere).number(kElsewhere).number(uint16_t{0});
  return directory.take();
}

}  // namespace gpusnap
