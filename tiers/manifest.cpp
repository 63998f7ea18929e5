// SPDX-License-Identifier: Apache-2.0
#include "tiers/manifest.h"

#include <flatbuffers/flatbuffers.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "tiers/checksum.h"
#include "tiers/format.h"
#include "tiers/manifest_generated.h"
#include "tiers/no_throw.h"

namespace gpusnap {

namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

// Returns whether the manifest fits even if it takes the most bytes that it can: FlatBuffers end at
// 2 GiB.
bool fits(const Manifest& m) {
  constexpr uint64_t kLimit = 1U << 30;
  uint64_t bytes = m.extents.size() * (sizeof(stored::Extent) + sizeof(stored::Block));
  for (const Extent& extent : m.extents) bytes += extent.parts.size() * sizeof(uint64_t);
  const auto add = [&bytes](const std::string& text) { bytes += text.size() + 128; };
  for (const SavedRange& range : m.ranges) add(range.name);
  for (const SegmentRef& segment : m.segments) add(segment.file);
  for (const JournalPart& part : m.journal) add(part.file);
  for (const std::string& argument : m.program.arguments) add(argument);
  for (const SavedDevice& device : m.program.devices) add(device.name);
  for (const SavedLibrary& library : m.program.libraries) add(library.path + library.build_id);
  for (const InputFile& input : m.program.inputs) add(input.path);
  for (const SavedReading& reading : m.readings) add(reading.thread + reading.bytes);
  for (const std::string* text : {&m.job, &m.run, &m.host, &m.library_version, &m.program.path,
                                  &m.program.folder, &m.program.device}) {
    add(*text);
  }
  return bytes < kLimit;
}

// One offset for each; `put` makes it.
template <class T, class Put>
auto put_each(FlatBufferBuilder& builder, const std::vector<T>& all, const Put& put) {
  std::vector<decltype(put(all.front()))> offsets;
  offsets.reserve(all.size());
  for (const T& one : all) offsets.push_back(put(one));
  return builder.CreateVector(offsets);
}

Offset<stored::Program> put_program(FlatBufferBuilder& builder, const ProgramIdentity& program) {
  const auto text = [&](const std::string& string) { return builder.CreateString(string); };
  const auto devices = put_each(builder, program.devices, [&](const SavedDevice& d) {
    return stored::CreateDevice(builder, text(d.name), d.memory, d.major, d.minor);
  });
  const auto libraries = put_each(builder, program.libraries, [&](const SavedLibrary& l) {
    return stored::CreateLibrary(builder, text(l.path), text(l.build_id));
  });
  const auto inputs = put_each(builder, program.inputs, [&](const InputFile& i) {
    return stored::CreateInput(builder, text(i.path), i.size, i.modified_ns, i.checksum,
                               i.has_checksum);
  });
  return stored::CreateProgram(builder, text(program.path), program.size, program.hash,
                               builder.CreateVectorOfStrings(program.arguments),
                               text(program.folder), text(program.device), program.driver_version,
                               devices, program.device_count, libraries, inputs);
}

auto put_ranges(FlatBufferBuilder& builder, const std::vector<SavedRange>& ranges) {
  std::vector<Offset<stored::Range>> offsets;
  offsets.reserve(ranges.size());
  for (const SavedRange& range : ranges) {
    const auto name =
        range.name.empty() ? Offset<flatbuffers::String>() : builder.CreateString(range.name);
    offsets.push_back(stored::CreateRange(builder, range.kind, range.address, range.size,
                                          range.call_site, range.ordinal, range.module, name,
                                          range.life, range.fresh));
  }
  return builder.CreateVector(offsets);
}

auto put_extents(FlatBufferBuilder& builder, const std::vector<Extent>& extents) {
  stored::Extent* to = nullptr;
  const auto vector = builder.CreateUninitializedVectorOfStructs(extents.size(), &to);
  for (const Extent& e : extents) {
    *to++ = stored::Extent(e.offset, e.size, e.segment_offset, e.checksum, e.range, e.segment);
  }
  return vector;
}

auto put_parts(FlatBufferBuilder& builder, const std::vector<Extent>& extents) {
  std::vector<uint64_t> parts;
  for (const Extent& e : extents) parts.insert(parts.end(), e.parts.begin(), e.parts.end());
  return parts.empty() ? Offset<flatbuffers::Vector<uint64_t>>() : builder.CreateVector(parts);
}

// Whether the extent goes on where the one before it ends, in the same block.
bool goes_on(const Extent& extent, const Extent& before) {
  return extent.form != Form::kStored && before.form == extent.form &&
         extent.segment == before.segment && extent.segment_offset == before.segment_offset &&
         extent.within == before.within + before.size;
}

auto put_blocks(FlatBufferBuilder& builder, const std::vector<Extent>& extents) {
  std::vector<stored::Block> blocks;
  for (uint32_t i = 0; i < extents.size(); ++i) {
    const Extent& e = extents[i];
    if (e.form == Form::kStored) continue;
    const uint32_t first = i;
    while (i + 1 < extents.size() && goes_on(extents[i + 1], extents[i])) ++i;
    blocks.emplace_back(e.block_stored, first, i + 1 - first, static_cast<uint8_t>(e.form));
  }
  return blocks.empty() ? Offset<flatbuffers::Vector<const stored::Block*>>()
                        : builder.CreateVectorOfStructs(blocks);
}

auto put_segments(FlatBufferBuilder& builder, const std::vector<SegmentRef>& segments) {
  std::vector<Offset<stored::Segment>> offsets;
  offsets.reserve(segments.size());
  for (const SegmentRef& segment : segments) {
    offsets.push_back(
        stored::CreateSegment(builder, builder.CreateString(segment.file), segment.size));
  }
  return builder.CreateVector(offsets);
}

auto put_journal(FlatBufferBuilder& builder, const std::vector<JournalPart>& parts) {
  std::vector<Offset<stored::JournalPart>> offsets;
  offsets.reserve(parts.size());
  for (const JournalPart& part : parts) {
    offsets.push_back(stored::CreateJournalPart(builder, builder.CreateString(part.file),
                                                part.file_bytes, part.stream_bytes, part.entries));
  }
  return builder.CreateVector(offsets);
}

auto put_readings(FlatBufferBuilder& builder, const std::vector<SavedReading>& readings) {
  using Readings = Offset<flatbuffers::Vector<Offset<stored::Reading>>>;
  return readings.empty() ? Readings() : put_each(builder, readings, [&](const SavedReading& r) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(r.bytes.data());
    return stored::CreateReading(builder, builder.CreateString(r.thread), r.source, r.ended,
                                 builder.CreateVector(bytes, r.bytes.size()));
  });
}

Offset<stored::ChosenInterval> put_interval(FlatBufferBuilder& builder,
                                            const plan::ChosenInterval& interval) {
  if (interval == plan::ChosenInterval()) return {};
  return stored::CreateChosenInterval(
      builder, interval.interval_s, interval.stall_s, interval.latency_s,
      interval.between_failures_s, interval.measurements, interval.store_every,
      interval.memory_stall_s, interval.memory_latency_s, interval.memory_measurements,
      interval.failures, interval.run_s);
}

std::vector<std::byte> with_header(std::span<const std::byte> body) {
  const auto header = encode_manifest_header({body.size(), checksum(body)});
  std::vector<std::byte> bytes(header.size() + body.size());
  std::memcpy(bytes.data(), header.data(), header.size());
  std::memcpy(bytes.data() + header.size(), body.data(), body.size());
  return bytes;
}

// Copies out of a verified buffer. In a hostile one many places can point at one long string; what
// is copied in all is no more than the body has bytes.
class Taker {
 public:
  explicit Taker(size_t body_bytes) : budget_(body_bytes) {}

  bool exceeded() const { return exceeded_; }
  // Returns why the content makes no sense as a manifest; null: it does.
  const char* nonsense() const { return nonsense_; }

  static plan::ChosenInterval interval(const stored::ChosenInterval* from) {
    if (from == nullptr) return {};
    return {from->interval_s(),
            from->stall_s(),
            from->latency_s(),
            from->between_failures_s(),
            from->measurements(),
            from->store_every(),
            from->memory_stall_s(),
            from->memory_latency_s(),
            from->memory_measurements(),
            from->failures(),
            from->run_s()};
  }

  Manifest manifest(const stored::Manifest& from) {
    Manifest m;
    m.job = text(from.job());
    m.epoch = from.epoch();
    m.rank = from.rank();
    m.ranks = from.ranks();
    m.run = text(from.run());
    m.host = text(from.host());
    m.library_version = text(from.library_version());
    m.cut_unix_ns = from.cut_unix_ns();
    m.stall_ns = from.stall_ns();
    m.zone_bytes = from.zone_bytes();
    m.calls = from.calls();
    m.launches = from.launches();
    m.parent = from.parent();
    m.parent_checksum = from.parent_checksum();
    m.chain = from.chain();
    m.replaces = from.replaces();
    if (const stored::CallCounts* calls = from.meanwhile(); calls != nullptr) {
      m.meanwhile = {calls->launches_free(),   calls->launches_waited(), calls->launches_guessed(),
                     calls->launches_opaque(), calls->others_free(),     calls->others_waited()};
    }
    if (const stored::Waits* waits = from.waits(); waits != nullptr) {
      m.waits = {waits->calls_ns(), waits->frees_ns(), waits->streams_ns()};
    }
    m.program = program(*from.program());
    each(from.ranges(), [&](const stored::Range* r) {
      m.ranges.push_back({r->kind(), r->address(), r->size(), r->call_site(), r->ordinal(),
                          r->module_(), text(r->name()), r->life(), r->fresh()});
    });
    if (from.extents() != nullptr) m.extents.reserve(from.extents()->size());
    each_struct(from.extents(), [&](const stored::Extent& e) {
      m.extents.push_back(
          {e.range(), e.offset(), e.size(), e.segment(), e.segment_offset(), e.checksum()});
    });
    each_struct(from.blocks(), [&](const stored::Block& block) { take(block, m.extents); });
    if (from.parts() != nullptr) take_parts(*from.parts(), m.extents);
    each(from.segments(), [&](const stored::Segment* s) {
      m.segments.push_back({text(s->file()), s->size()});
    });
    each(from.journal(), [&](const stored::JournalPart* p) {
      m.journal.push_back({text(p->file()), p->file_bytes(), p->stream_bytes(), p->entries()});
    });
    m.program_write = from.program_write();
    m.direct_bytes = from.direct_bytes();
    m.peer_bytes = from.peer_bytes();
    m.job_run = from.job_run();
    m.since_stored = from.since_stored();
    m.interval = interval(from.interval());
    each(from.readings(), [&](const stored::Reading* r) {
      m.readings.push_back({text(r->thread()), r->source(), r->ended(), bytes(r->bytes())});
    });
    return m;
  }

 private:
  template <class T, class F>
  void each(const flatbuffers::Vector<T>* vector, F f) {
    if (vector == nullptr) return;
    for (flatbuffers::uoffset_t i = 0; i < vector->size() && !exceeded_; ++i) f(vector->Get(i));
  }

  // Each is copied out: the verifier does not check that structs in a vector are aligned.
  template <class T, class F>
  void each_struct(const flatbuffers::Vector<const T*>* vector, F f) {
    if (vector == nullptr) return;
    for (flatbuffers::uoffset_t i = 0; i < vector->size(); ++i) {
      T value;
      std::memcpy(static_cast<void*>(&value), vector->Data() + i * sizeof(T), sizeof(T));
      f(value);
    }
  }

  void take(const stored::Block& block, std::vector<Extent>& extents) {
    if (block.first() < next_ || block.first() >= extents.size() || block.count() == 0 ||
        block.count() > extents.size() - block.first()) {
      nonsense_ = "an extent of a block is not there, or is there twice";
    } else if (!is_form(block.form()) || static_cast<Form>(block.form()) == Form::kStored) {
      nonsense_ = "a block is compressed in a form that is none";
    } else {
      next_ = block.first() + block.count();
      put(block, std::span(extents).subspan(block.first(), block.count()));
    }
  }

  void put(const stored::Block& block, std::span<Extent> extents) {
    uint64_t bytes = 0;
    for (Extent& extent : extents) {
      if (extent.segment != extents[0].segment ||
          extent.segment_offset != extents[0].segment_offset) {
        nonsense_ = "the extents of a block lie at different places";
      }
      extent.form = static_cast<Form>(block.form());
      extent.block_stored = block.stored();
      extent.within = bytes;
      if (extent.size > kMostBlockBytes - bytes) {
        nonsense_ = "a block is larger than it may be";
        return;
      }
      bytes += extent.size;
    }
    for (Extent& extent : extents) extent.block_bytes = bytes;
    if (block.stored() == 0 || block.stored() >= bytes) {
      nonsense_ = "a block is not smaller than its extents";
    }
  }

  // Gives each extent that can have several parts its checksums, in order. No checksum may be left
  // over.
  void take_parts(const flatbuffers::Vector<uint64_t>& parts, std::vector<Extent>& extents) {
    uint64_t next = 0;
    for (Extent& extent : extents) {
      if (extent.form != Form::kStored || extent.size == 0) continue;
      const uint64_t count = Extent::parts_in(extent.offset, extent.size);
      if (count == 1) continue;
      if (count > parts.size() - next) {
        nonsense_ = "an extent has not as many checksums as parts";
        return;
      }
      extent.parts.resize(count);
      // Nor are numbers in a vector known to be aligned.
      std::memcpy(extent.parts.data(), parts.Data() + next * sizeof(uint64_t),
                  count * sizeof(uint64_t));
      next += count;
    }
    if (next != parts.size()) nonsense_ = "there are more checksums than parts";
  }

  std::string text(const flatbuffers::String* string) {
    if (string == nullptr) return {};
    exceeded_ = exceeded_ || string->size() > budget_;
    if (exceeded_) return {};
    budget_ -= string->size();
    return string->str();
  }

  std::string bytes(const flatbuffers::Vector<uint8_t>* from) {
    if (from == nullptr) return {};
    exceeded_ = exceeded_ || from->size() > budget_;
    if (exceeded_) return {};
    budget_ -= from->size();
    return {reinterpret_cast<const char*>(from->data()), from->size()};
  }

  ProgramIdentity program(const stored::Program& from) {
    ProgramIdentity program;
    program.path = text(from.path());
    program.size = from.size();
    program.hash = from.hash();
    each(from.arguments(),
         [&](const auto* argument) { program.arguments.push_back(text(argument)); });
    program.folder = text(from.folder());
    program.device = text(from.device());
    program.driver_version = from.driver_version();
    each(from.devices(), [&](const stored::Device* d) {
      program.devices.push_back({text(d->name()), d->memory(), d->major(), d->minor()});
    });
    program.device_count = from.device_count();
    each(from.libraries(), [&](const stored::Library* l) {
      program.libraries.push_back({text(l->path()), text(l->build_id())});
    });
    each(from.inputs(), [&](const stored::Input* i) {
      program.inputs.push_back(
          {text(i->path()), i->size(), i->modified_ns(), i->checksum(), i->has_checksum()});
    });
    return program;
  }

  size_t budget_;
  bool exceeded_ = false;
  const char* nonsense_ = nullptr;
  size_t next_ = 0;  // extent that may be of a block
};

bool lies_within(uint64_t offset, uint64_t size, uint64_t whole) {
  return offset <= whole && size <= whole - offset;
}

Status check_names(const Manifest& m) {
  const bool printable = std::none_of(m.job.begin(), m.job.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  if (m.job.empty() || !printable) return damaged("the job's name is not a name");
  for (const SegmentRef& segment : m.segments) {
    if (!is_plain_name(segment.file)) return damaged("a segment's file name is not a plain name");
  }
  for (const JournalPart& part : m.journal) {
    if (!is_plain_name(part.file)) return damaged("a journal part's file name is not a plain name");
  }
  return {};
}

Status check_extent(const Manifest& m, const Extent& e) {
  if (e.range >= m.ranges.size()) return damaged("an extent belongs to a range that is not there");
  if (e.segment >= m.segments.size()) {
    return damaged("an extent lies in a segment that is not there");
  }
  if (e.size == 0 || !lies_within(e.offset, e.size, m.ranges[e.range].size)) {
    return damaged("an extent reaches beyond its range");
  }
  if (e.segment_offset < kSegmentHeaderBytes ||
      !lies_within(e.segment_offset, e.stored(), m.segments[e.segment].size)) {
    return damaged("an extent reaches beyond its segment");
  }
  return {};
}

Status check_chain(const Manifest& m) {
  if ((m.parent == 0) != (m.chain == 0)) {
    return damaged("its parent and its number of ancestors do not agree");
  }
  if (m.parent != 0 && m.parent >= m.epoch) return damaged("its parent is no earlier checkpoint");
  if (m.parent != 0 && m.replaces != 0) return damaged("it was merged and has a parent");
  if (m.chain > kMostAncestors) return damaged("it has more ancestors than it can have");
  for (size_t range = 0; m.parent != 0 && range < m.ranges.size(); ++range) {
    if (m.ranges[range].fresh || m.ranges[range].life != 0) continue;
    return damaged("range " + std::to_string(range) + " is to be in the parent and has no life");
  }
  return {};
}

// Every byte of every range by exactly one extent; by at most one where the parent has the range.
Status check_cover(const Manifest& m) {
  std::vector<uint32_t> order(m.extents.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(m.extents[a].range, m.extents[a].offset) <
           std::pair(m.extents[b].range, m.extents[b].offset);
  });
  size_t next = 0;
  for (size_t range = 0; range < m.ranges.size(); ++range) {
    const bool whole = m.parent == 0 || m.ranges[range].fresh;
    uint64_t covered = 0;
    for (; next < order.size() && m.extents[order[next]].range == range; ++next) {
      const Extent& e = m.extents[order[next]];
      if (e.offset < covered || (e.offset > covered && whole)) {
        return damaged("range " + std::to_string(range) +
                       (e.offset < covered ? " is saved twice" : " is not saved") + " at byte " +
                       std::to_string(std::min(e.offset, covered)));
      }
      covered = e.offset + e.size;
    }
    if (whole && covered != m.ranges[range].size) {
      return damaged("range " + std::to_string(range) + " is not saved at byte " +
                     std::to_string(covered));
    }
  }
  return {};
}

Status check_journal(const Manifest& m) {
  uint64_t stream_bytes = 0;
  uint64_t entries = 0;
  for (const JournalPart& part : m.journal) {
    if (part.file_bytes < kJournalHeaderBytes) return damaged("a journal part is too short");
    if (__builtin_add_overflow(stream_bytes, part.stream_bytes, &stream_bytes) ||
        __builtin_add_overflow(entries, part.entries, &entries)) {
      return damaged("the journal is longer than it can be");
    }
  }
  return {};
}

// Whether it has its extents yet.
enum class Stage { kWhole, kWithoutExtents };

Status check(const Manifest& m, Stage stage) {
  if (m.rank >= m.ranks) return damaged("its rank is not one of the job's");
  if (Status names = check_names(m); !names.ok()) return names;
  if (Status chain = check_chain(m); !chain.ok()) return chain;
  if (!m.interval.is_sound()) return damaged("the interval that it tells of cannot be");
  uint64_t all = 0;
  for (const SavedRange& range : m.ranges) {
    if (__builtin_add_overflow(all, range.size, &all)) {
      return damaged("its ranges are larger than memory can be");
    }
  }
  for (const Extent& extent : m.extents) {
    if (Status good = check_extent(m, extent); !good.ok()) return good;
  }
  if (stage == Stage::kWhole) {
    if (Status cover = check_cover(m); !cover.ok()) return cover;
  } else if (!m.extents.empty() || !m.segments.empty()) {
    return damaged("it has extents already");
  }
  return check_journal(m);
}

Result<Manifest> decode_body(std::span<const std::byte> body, Stage stage) {
  constexpr flatbuffers::uoffset_t kDepth = 8;
  // Each table takes four bytes at least, and tables may not share: linear in the body.
  const auto most_tables = static_cast<flatbuffers::uoffset_t>(body.size() / 4 + 1);
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(body.data()), body.size(), kDepth,
                                 most_tables);
  if (!stored::VerifyManifestBuffer(verifier)) return damaged("its body is not well-formed");
  Taker taker(body.size());
  Manifest manifest = taker.manifest(*stored::GetManifest(body.data()));
  if (taker.exceeded()) return damaged("its body is not well-formed");
  if (taker.nonsense() != nullptr) return damaged(taker.nonsense());
  if (Status good = check(manifest, stage); !good.ok()) return good;
  return manifest;
}

Result<Manifest> decode(std::span<const std::byte> bytes, Stage stage) {
  const Result<ManifestHeader> header = decode_manifest_header(bytes);
  if (!header.ok()) return header.status();
  const auto body = bytes.subspan(kManifestHeaderBytes);
  if (body.size() != header->body_bytes) {
    return damaged("it has " + std::to_string(body.size()) +
                   " bytes behind its header instead of " + std::to_string(header->body_bytes));
  }
  if (checksum(body) != header->body_checksum) return damaged("its checksum is wrong");
  if (body.size() >= FLATBUFFERS_MAX_BUFFER_SIZE) return damaged("it is longer than it can be");
  // FlatBuffers reads integers in place.
  if (reinterpret_cast<uintptr_t>(body.data()) % sizeof(uint64_t) != 0) {
    return decode_body(std::vector<std::byte>(body.begin(), body.end()), stage);
  }
  return decode_body(body, stage);
}

}  // namespace

uint64_t Extent::parts_in(uint64_t offset, uint64_t size) {
  const uint64_t last = size - 1 > std::numeric_limits<uint64_t>::max() - offset
                            ? std::numeric_limits<uint64_t>::max()
                            : offset + (size - 1);
  return last / kPartBytes - offset / kPartBytes + 1;
}

Extent::Part Extent::part(size_t number) const {
  if (parts.empty()) return {0, size, checksum};
  const uint64_t first = offset / kPartBytes;
  const uint64_t begin = number == 0 ? 0 : (first + number) * kPartBytes - offset;
  return {begin, std::min((first + number + 1) * kPartBytes - offset, size), parts[number]};
}

size_t Extent::part_at(uint64_t byte) const {
  return parts.empty() ? 0 : (offset + byte) / kPartBytes - offset / kPartBytes;
}

uint64_t Manifest::bytes() const {
  return std::accumulate(ranges.begin(), ranges.end(), uint64_t{0},
                         [](uint64_t sum, const SavedRange& range) { return sum + range.size; });
}

uint64_t Manifest::own_bytes() const {
  return std::accumulate(extents.begin(), extents.end(), uint64_t{0},
                         [](uint64_t sum, const Extent& extent) { return sum + extent.size; });
}

bool is_of_same_run(const Manifest& one, const Manifest& other) {
  const bool by_program = one.by_program() || other.by_program();
  return one.job_run == other.job_run && (!by_program || one.run == other.run);
}

std::vector<std::byte> encode(const Manifest& m) {
  if (!fits(m)) return {};
  FlatBufferBuilder builder(4096 + m.extents.size() * sizeof(stored::Extent));
  const auto job = builder.CreateString(m.job);
  const auto run = builder.CreateString(m.run);
  const auto host = builder.CreateString(m.host);
  const auto version = builder.CreateString(m.library_version);
  const auto program = put_program(builder, m.program);
  const auto ranges = put_ranges(builder, m.ranges);
  const auto extents = put_extents(builder, m.extents);
  const auto blocks = put_blocks(builder, m.extents);
  const auto parts = put_parts(builder, m.extents);
  const auto segments = put_segments(builder, m.segments);
  const auto journal = put_journal(builder, m.journal);
  const auto readings = put_readings(builder, m.readings);
  const auto interval = put_interval(builder, m.interval);
  const CallCounts& calls = m.meanwhile;
  const stored::CallCounts meanwhile(calls.launches_free, calls.launches_waited,
                                     calls.launches_guessed, calls.launches_opaque,
                                     calls.others_free, calls.others_waited);
  const stored::Waits waits(m.waits.calls_ns, m.waits.frees_ns, m.waits.streams_ns);
  builder.Finish(
      stored::CreateManifest(
          builder, job, m.epoch, m.rank, m.ranks, run, host, version, m.cut_unix_ns, m.stall_ns,
          m.zone_bytes, m.calls, m.launches, program, ranges, extents, segments, journal, m.parent,
          m.parent_checksum, m.chain, &meanwhile, blocks, m.replaces, parts, readings, &waits,
          m.program_write, m.direct_bytes, m.peer_bytes, m.job_run, interval, m.since_stored),
      stored::ManifestIdentifier());
  return with_header(std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize())));
}

Result<Manifest> decode_manifest(std::span<const std::byte> bytes) {
  return no_throw("read a manifest", [&] { return decode(bytes, Stage::kWhole); });
}

Result<Manifest> decode_manifest_without_extents(std::span<const std::byte> bytes) {
  return no_throw("read a manifest", [&] { return decode(bytes, Stage::kWithoutExtents); });
}

}  // namespace gpusnap
