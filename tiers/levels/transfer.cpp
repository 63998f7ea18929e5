// SPDX-License-Identifier: Apache-2.0
#include "tiers/levels/transfer.h"

#include <algorithm>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "tiers/checksum.h"
#include "tiers/levels/coding.h"
#include "tiers/levels/groups.h"
#include "tiers/no_throw.h"

namespace gpusnap::levels {

namespace {

Status stopped() {
  return {Code::kBusy, "the backend ends"};
}

// Blocks of kUnitBytes.
class Blocks {
 public:
  explicit Blocks(size_t count) : bytes_(count * kBlockStride) {
    for (size_t i = 0; i < count; ++i) {
      writable_.push_back(bytes_.data() + i * kBlockStride);
      readable_.push_back(writable_.back());
    }
  }
  std::span<std::byte> operator[](size_t i) { return {writable_[i], kUnitBytes}; }
  std::span<std::byte* const> writable(size_t first, size_t count) const {
    return std::span(writable_).subspan(first, count);
  }
  std::span<const std::byte* const> readable(size_t first, size_t count) const {
    return std::span(readable_).subspan(first, count);
  }

 private:
  std::vector<std::byte> bytes_;
  std::vector<std::byte*> writable_;
  std::vector<const std::byte*> readable_;
};

using Writers = std::vector<std::unique_ptr<ShardWriter>>;

// At the same time: each waits for a device.
Status commit_all(Writers& writers) {
  std::vector<Status> done(writers.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < writers.size(); ++i) {
    threads.emplace_back([&writers, &done, i] {
      done[i] = no_throw("make a shard durable", [&] { return writers[i]->commit(); });
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto failed = std::ranges::find_if(done, [](const Status& each) { return !each.ok(); });
  return failed == done.end() ? Status() : *failed;
}

ShardHeader header_for(const ProtectRequest& request, const ImageReader& image) {
  const Manifest& manifest = image.manifest();
  ShardHeader header;
  header.part = request.part;
  header.scheme = request.scheme;
  header.image_bytes = image.bytes();
  const std::string name = name_of(request.scheme) + " " +
                           std::to_string(image.manifest_checksum()) + " " +
                           std::to_string(image.bytes());
  header.coding = std::max<uint64_t>(checksum(std::string_view(name)), 1);
  header.owner = request.owner_name;
  header.ranks = manifest.ranks;
  header.parent = manifest.parent;
  header.cut_unix_ns = manifest.cut_unix_ns;
  header.memory_bytes = manifest.bytes();
  header.job_run = manifest.job_run;
  return header;
}

Status code_and_put(ImageReader& image, const ShardHeader& header, Writers& writers,
                    const Stop& stop) {
  const LevelScheme& scheme = header.scheme;
  const Encoder encoder(scheme);
  Blocks blocks(scheme.shards());
  for (uint64_t left = header.image_bytes; left > 0;) {
    if (stop()) return stopped();
    for (uint32_t shard = 0; shard < scheme.data; ++shard) {
      const auto now = static_cast<size_t>(std::min<uint64_t>(left, kUnitBytes));
      if (Status read = image.read(blocks[shard].first(now)); !read.ok()) return read;
      std::ranges::fill(blocks[shard].subspan(now), std::byte{0});
      left -= now;
    }
    encoder.encode(kUnitBytes, blocks.readable(0, scheme.data),
                   blocks.writable(scheme.data, scheme.parity));
    for (uint32_t shard = 0; shard < scheme.shards(); ++shard) {
      if (Status put = writers[shard]->add(blocks[shard]); !put.ok()) return put;
    }
  }
  return commit_all(writers);
}

// So many shards of a part, read side by side.
class ShardSet {
 public:
  // Shards that can be opened, without `unusable`; data shards first, which need no computation.
  static Result<ShardSet> open(const Nodes& nodes, const PartCopies& copies,
                               const std::set<std::pair<uint32_t, uint32_t>>& unusable) {
    ShardSet set;
    Status why(Code::kNotFound, "too few shards of " + copies.about.part.job + "@" +
                                    std::to_string(copies.about.part.epoch) + " are left");
    for (const auto& [number, holders] : copies.shards) {
      if (set.numbers_.size() == copies.about.scheme.data) break;
      for (const uint32_t node : holders) {
        if (unusable.contains({number, node})) continue;
        auto reader = nodes[node]->get(copies.about.part, {copies.about.coding, number});
        if (reader.ok() && is_of(copies.about, reader.value()->header())) {
          set.numbers_.push_back(number);
          set.nodes_.push_back(node);
          set.readers_.push_back(std::move(reader.value()));
          break;
        }
        if (!reader.ok()) why = reader.status();
      }
    }
    if (set.numbers_.size() < copies.about.scheme.data) return why;
    return set;
  }

  const std::vector<uint32_t>& numbers() const { return numbers_; }

  // The next block of each. Which one failed is in `failed`.
  Status next(Blocks& blocks, std::pair<uint32_t, uint32_t>& failed) {
    for (size_t i = 0; i < readers_.size(); ++i) {
      if (Status read = readers_[i]->next(blocks[i]); !read.ok()) {
        failed = {numbers_[i], nodes_[i]};
        return read;
      }
    }
    return {};
  }

 private:
  static bool is_of(const ShardHeader& about, ShardHeader found) {
    found.number = about.number;
    found.owner = about.owner;
    return found == about;
  }

  std::vector<uint32_t> numbers_;
  std::vector<uint32_t> nodes_;
  std::vector<std::unique_ptr<ShardReader>> readers_;
};

// Reads a part's blocks and computes others of each stripe, from other shards again where one turns
// out to be unusable. `begin` comes before each try; `take` gets each stripe's wanted blocks, in
// the order of `wanted`, with their places in it.
template <class Begin, class Take>
Status recover(const Nodes& nodes, const PartCopies& copies, const std::vector<uint32_t>& wanted,
               const Stop& stop, Begin begin, Take take) {
  std::set<std::pair<uint32_t, uint32_t>> unusable;
  for (;;) {
    auto set = ShardSet::open(nodes, copies, unusable);
    if (!set.ok()) return set.status();
    const auto recovery = Recovery::make(copies.about.scheme, set->numbers(), wanted);
    if (!recovery.ok()) return recovery.status();
    if (Status begun = begin(); !begun.ok()) return begun;
    const size_t data = copies.about.scheme.data;
    Blocks blocks(data + wanted.size());
    Status read;
    std::pair<uint32_t, uint32_t> failed;
    for (uint64_t i = 0; i < copies.about.blocks() && read.ok(); ++i) {
      if (stop()) return stopped();
      read = set->next(blocks, failed);
      if (!read.ok()) break;
      recovery->recover(kUnitBytes, blocks.readable(0, data), blocks.writable(data, wanted.size()));
      for (size_t k = 0; k < wanted.size(); ++k) {
        if (Status taken = take(k, blocks[data + k]); !taken.ok()) return taken;
      }
    }
    if (read.ok()) return {};
    unusable.insert(failed);
  }
}

// Whether all shards are there already: only a part that has changed is sent once more.
bool is_protected(const Nodes& nodes, const ShardHeader& header,
                  const std::vector<uint32_t>& chosen) {
  const Catalogue catalogue = look_at(nodes, header.part.store, header.part.job, chosen);
  return std::ranges::any_of(catalogue.parts, [&](const PartCopies& each) {
    return each.about.part == header.part && each.about.coding == header.coding && each.is_whole();
  });
}

Status put_all(ImageReader& image, ShardHeader header, const Nodes& nodes,
               const std::vector<uint32_t>& chosen, const Stop& stop) {
  Writers writers;
  for (const uint32_t node : chosen) {
    header.number = static_cast<uint32_t>(writers.size());
    auto writer = nodes[node]->put(header);
    if (!writer.ok()) return writer.status();
    writers.push_back(std::move(writer.value()));
  }
  return code_and_put(image, header, writers, stop);
}

}  // namespace

Status protect(FileSystem& files, const Nodes& nodes, const ProtectRequest& request,
               const Stop& stop) {
  auto image = ImageReader::open(files, request.place);
  if (!image.ok()) return image.status();
  if (image.value()->manifest().run != request.part.run) {
    return {Code::kNotFound, "the checkpoint is another run's by now"};
  }
  const ShardHeader header = header_for(request, *image.value());
  const auto chosen = holders(request.owner, static_cast<uint32_t>(nodes.size()), request.scheme);
  if (!is_protected(nodes, header, chosen)) {
    Status put = put_all(*image.value(), header, nodes, chosen, stop);
    if (!put.ok()) return put;
  }
  for (const uint32_t node : chosen) {
    if (Status gone = nodes[node]->remove(request.part, header.coding); !gone.ok()) return gone;
  }
  return {};
}

Status repair(const Nodes& nodes, const PartCopies& copies, uint32_t owner, const Stop& stop) {
  const auto chosen = holders(owner, static_cast<uint32_t>(nodes.size()), copies.about.scheme);
  std::vector<uint32_t> wanted;
  for (uint32_t shard = 0; shard < chosen.size(); ++shard) {
    const auto found = copies.shards.find(shard);
    const bool is_there = found != copies.shards.end() &&
                          std::ranges::find(found->second, chosen[shard]) != found->second.end();
    if (!is_there) wanted.push_back(shard);
  }
  if (wanted.empty()) return {};
  Writers writers;
  const auto begin = [&]() -> Status {
    writers.clear();
    for (const uint32_t shard : wanted) {
      ShardHeader header = copies.about;
      header.number = shard;
      auto writer = nodes[chosen[shard]]->put(header);
      if (!writer.ok()) return writer.status();
      writers.push_back(std::move(writer.value()));
    }
    return {};
  };
  const auto take = [&](size_t i, std::span<const std::byte> block) {
    return writers[i]->add(block);
  };
  if (Status done = recover(nodes, copies, wanted, stop, begin, take); !done.ok()) return done;
  return commit_all(writers);
}

Status rebuild(FileSystem& files, const Nodes& nodes, const PartCopies& copies,
               const PartPlace& place,
               const std::function<void(uint64_t done, uint64_t total)>& progress) {
  std::vector<uint32_t> data;
  for (uint32_t shard = 0; shard < copies.about.scheme.data; ++shard) data.push_back(shard);
  std::unique_ptr<ImageWriter> image;
  uint64_t done = 0;
  const auto begin = [&] {
    image.reset();  // what it has made goes first
    image = std::make_unique<ImageWriter>(files, place, copies.about.image_bytes);
    done = 0;
    return Status();
  };
  const auto take = [&](size_t, std::span<const std::byte> block) {
    done = std::min(done + block.size(), copies.about.image_bytes);
    Status added = image->add(block);
    if (added.ok() && progress) progress(done, copies.about.image_bytes);
    return added;
  };
  Status read = recover(
      nodes, copies, data, [] { return false; }, begin, take);
  return read.ok() ? image->finish() : read;
}

}  // namespace gpusnap::levels
