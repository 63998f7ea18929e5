// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/array_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tiers/levels/byte_coder.h"
#include "tools/cli/range_text.h"
#include "tools/cli/text.h"

namespace gpusnap {
namespace {

constexpr std::pair<const char*, ArrayFormat> kFormats[] = {
    {"raw", ArrayFormat::kRaw},
    {"npy", ArrayFormat::kNpy},
    {"npz", ArrayFormat::kNpz},
    {"safetensors", ArrayFormat::kSafetensors}};

std::vector<std::byte> as_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// Where an array comes from, for who has nothing but the file.
std::string origin_of(const ExtractedArray& array) {
  const SavedRange& range = array.saved();
  return fmt::format("{} {} at 0x{:x}", name_of_kind(range), show_origin(range), range.address);
}

}  // namespace

std::optional<ArrayFormat> find_array_format(std::string_view name) {
  for (const auto& [known, format] : kFormats) {
    if (name == known) return format;
  }
  return std::nullopt;
}

const char* name_of(ArrayFormat format) {
  return std::ranges::find(kFormats, format, [](const auto& known) { return known.second; })->first;
}

bool holds_several(ArrayFormat format) {
  return format == ArrayFormat::kNpz || format == ArrayFormat::kSafetensors;
}

Status check_type(ArrayFormat format, const ElementType& type) {
  const bool is_numpy = format == ArrayFormat::kNpy || format == ArrayFormat::kNpz;
  const bool has_type = is_numpy                              ? type.npy != nullptr
                        : format == ArrayFormat::kSafetensors ? type.safetensors != nullptr
                                                              : true;
  if (has_type) return {};
  return {Code::kInvalid, fmt::format("{} files have no {}; give another --dtype or --format",
                                      name_of(format), type.name)};
}

std::string npy_header(const ElementType& type, const std::vector<uint64_t>& shape) {
  constexpr size_t kUnit = 64, kFixed = 10;
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                 type.npy, fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  const size_t used = kFixed + text.size() + 1;
  text.append((kUnit - used % kUnit) % kUnit, ' ');
  text += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

ArrayFile::ArrayFile(ArrayFormat format, const std::string& id,
                     std::vector<const ExtractedArray*> arrays)
    : format_(format), arrays_(std::move(arrays)) {
  if (format_ == ArrayFormat::kSafetensors) {
    lay_out_tensors(id);
    return;
  }
  for (const ExtractedArray* array : arrays_) {
    headers_.push_back(format_ == ArrayFormat::kRaw ? "" : npy_header(*array->type, array->shape));
  }
  if (format_ == ArrayFormat::kNpz) {
    lay_out_archive();
    return;
  }
  at_ = {headers_[0].size()};
  end_ = at_[0] + arrays_[0]->bytes;
}

void ArrayFile::lay_out_archive() {
  for (size_t i = 0; i < arrays_.size(); ++i) {
    const uint64_t bytes = headers_[i].size() + arrays_[i]->bytes;
    at_.push_back(zip_.add(arrays_[i]->name() + ".npy", bytes) + headers_[i].size());
    crcs_.emplace_back(bytes);
    crcs_.back().add(0, std::as_bytes(std::span(headers_[i])));
  }
  end_ = zip_.directory_at();
}

void ArrayFile::lay_out_tensors(const std::string& id) {
  constexpr size_t kUnit = 8;
  Json json;
  json.begin_object().key("__metadata__").begin_object();
  json.key("checkpoint").value(id);
  for (const ExtractedArray* array : arrays_) json.key(array->name()).value(origin_of(*array));
  json.end_object();
  uint64_t begin = 0;
  for (const ExtractedArray* array : arrays_) {
    json.key(array->name()).begin_object();
    json.key("dtype").value(array->type->safetensors);
    json.key("shape").begin_array();
    for (const uint64_t dimension : array->shape) json.value(dimension);
    json.end_array();
    json.key("data_offsets").begin_array().value(begin).value(begin + array->bytes).end_array();
    json.end_object();
    at_.push_back(begin);
    begin += array->bytes;
  }
  std::string text = json.end_object().text();
  text.append((kUnit - text.size() % kUnit) % kUnit, ' ');
  const uint64_t first = sizeof(uint64_t) + text.size();
  for (uint64_t& at : at_) at += first;
  end_ = first + begin;
  headers_ = {std::move(text)};
}

std::string ArrayFile::name() const {
  return arrays_[0]->name() + "." + name_of(format_);
}

uint64_t ArrayFile::bytes() const {
  return end_;
}

void ArrayFile::note(size_t array, uint64_t offset, std::span<const std::byte> bytes) {
  if (format_ == ArrayFormat::kNpz) crcs_[array].add(headers_[array].size() + offset, bytes);
}

std::vector<ArrayFile::Part> ArrayFile::frame() const {
  if (format_ == ArrayFormat::kRaw) return {};
  if (format_ == ArrayFormat::kNpy) return {{0, as_bytes(headers_[0])}};
  if (format_ == ArrayFormat::kSafetensors) {
    levels::ByteWriter header;
    header.number(uint64_t{headers_[0].size()}).raw(std::as_bytes(std::span(headers_[0])));
    return {{0, header.take()}};
  }
  std::vector<Part> parts;
  std::vector<uint32_t> crcs;
  for (size_t i = 0; i < arrays_.size(); ++i) {
    crcs.push_back(crcs_[i].value());
    std::vector<std::byte> header = zip_.local_header(i, crcs.back());
    const auto npy = std::as_bytes(std::span(headers_[i]));
    const uint64_t begin = at_[i] - npy.size() - header.size();
    header.insert(header.end(), npy.begin(), npy.end());
    parts.push_back({begin, std::move(header)});
  }
  parts.push_back({zip_.directory_at(), zip_.directory(crcs)});
  return parts;
}

}  // namespace gpusnap
