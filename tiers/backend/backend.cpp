// SPDX-License-Identifier: Apache-2.0
#include "tiers/backend/backend.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "tiers/backend/backend_report.h"
#include "tiers/backend/background.h"
#include "tiers/backend/checkpoint_receiver.h"
#include "tiers/backend/chunk_flow.h"
#include "tiers/backend/growth.h"
#include "tiers/backend/journal_receiver.h"
#include "tiers/backend/keeper.h"
#include "tiers/backend/local_tiers.h"
#include "tiers/backend/message.h"
#include "tiers/backend/post_commit.h"
#include "tiers/backend/tier_list.h"
#include "tiers/backend/turns.h"
#include "tiers/mutex.h"
#include "tiers/no_throw.h"
#include "tiers/staging/server.h"
#include "tiers/store.h"

namespace gpusnap {

namespace {

constexpr auto kReapEvery = std::chrono::milliseconds(200);
constexpr auto kLongestWait = std::chrono::milliseconds(100);
constexpr auto kReapSoon = std::chrono::milliseconds(5);
// A report to observers is no older than this plus the loop's longest wait.
constexpr auto kTellEvery = std::chrono::milliseconds(50);
constexpr auto kKeepEvery = std::chrono::minutes(1);
constexpr auto kLookAtWaitsEvery = std::chrono::milliseconds(50);

struct Stream {
  uint32_t life = 0;
  std::shared_ptr<CheckpointReceiver> part;
  std::shared_ptr<JournalReceiver> journal;
  std::string journal_file;
  bool ready = false;  // the part takes slots
  bool sealed = false;
  bool ended = false;  // the journal has ended
  bool abandoned = false;
  bool was_kept = false;                        // the part stayed in memory until it came here
  bool opens_direct = false;                    // a file for its client is being made
  std::vector<StagingServer::Arrival> waiting;  // slots, until the part is ready
};

class Server final : public Backend {
 public:
  Server(FileSystem& files, StagingMemory& memory, Options options,
         std::unique_ptr<LocalTiers> tiers, std::unique_ptr<Placement> placement,
         uint64_t chunk_slots)
      : files_(files),
        memory_(memory),
        options_(std::move(options)),
        chunk_bytes_(chunk_slots * memory.bytes(0).size()),
        server_(memory),
        tiers_(std::move(tiers)),
        placement_(std::move(placement)),
        flow_(*placement_, server_, monotonic_clock(),
              flow_options(*tiers_, memory.slots().size(), chunk_slots, options_.flushes),
              {[this](uint32_t slot, bool stored) { release(slot, stored); },
               [this](std::function<void()> then) { post(std::move(then)); }}) {}

  // A backend that cannot go on behaves like a killed one: clients see that the area has no server,
  // and another backend, if there can be one, finds everything in the area and in the files.
  void run() override {
    const Status served = no_throw("serve programs", [this] {
      serve();
      return Status();
    });
    if (!served.ok()) {
      stop();
      (void)no_throw("tell of a failure", [&] {
        warn(served);
        return Status();
      });
    }
    growth_.stop();
    if (stopping_.load(std::memory_order_acquire)) leave_all();
    keep_flushes();
    if (!served.ok()) memory_.header().server.store(0, std::memory_order_release);
  }

  void drain() override {
    draining_.store(true, std::memory_order_release);
    memory_.header().filled.ring();
  }
  void stop() override {
    stopping_.store(true, std::memory_order_release);
    memory_.header().filled.ring();
  }

  BackendCounters counters() const override {
    BackendCounters now;
    for (size_t tier = 0; tier < placement_->tiers(); ++tier) {
      now.tiers.push_back(placement_->counters(tier));
      now.placed.push_back(flow_.placed(tier));
    }
    now.flush_bandwidth = placement_->flush_bandwidth();
    now.waiting = placement_->waiting();
    now.flushes = flow_.flushes();
    now.checkpoints = checkpoints_;
    now.journals = journals_;
    now.committed = committed_;
    now.failed = failed_;
    return now;
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Event = std::function<void()>;

  void serve() {
    growth_.start();
    find_before();
    (void)handle_news();
    tend_leftovers();
    auto reaped = Clock::now();
    auto busy = reaped;
    bool rung = false;  // although nothing was found: a client may have gone
    while (!stopping_.load(std::memory_order_acquire)) {
      const uint32_t seen = server_.changes();
      const bool any_event = handle_events();
      const bool some = handle_news() || any_event;
      const auto now = Clock::now();
      const bool soon = rung || draining_.load(std::memory_order_acquire);
      const bool reaps = now - reaped >= (soon ? kReapSoon : kReapEvery);
      look_at_waits(now);
      if (reaps) {
        server_.reap();
        reaped = now;
      }
      const uint32_t free = server_.free_slots();
      growth_.observe(free, is_transferring());
      const bool is_full = free == 0 && !growth_.has_more();
      flow_.relieve(is_full);
      if (is_full) spill_journals();
      keeper_.tend(now, is_full, sending_ > 0, draining_.load(std::memory_order_acquire));
      answer_clients();
      end_journals();
      if (is_due(try_again_at_, now) || is_due(look_again_at_, now)) try_leftovers_again();
      for (const size_t tier : tiers_->recovered(now)) flow_.resume(tier + 1);
      tell(now);
      keep_now_and_then(now);
      if (!is_idle()) busy = now;
      if (is_over(now - busy)) return;
      // Reaping may have caused events: look again before waiting.
      if (reaps) continue;
      server_.wait(seen, soon ? kReapSoon : kLongestWait);
      rung = !some && server_.changes() != seen;
    }
  }

  static bool is_due(const std::optional<Clock::time_point>& at, Clock::time_point now) {
    return at && now >= *at;
  }

  // Keeps flushes from slowing the programs' own files.
  void look_at_waits(Clock::time_point now) {
    if (now - looked_at_waits_ < kLookAtWaitsEvery || !flow_.wants_waits()) return;
    looked_at_waits_ = now;
    flow_.waited(server_.threads_waiting_for_devices());
  }

  // Publishes the counters for observers.
  void tell(Clock::time_point now) {
    if (now - told_ < kTellEvery) return;
    told_ = now;
    memory_.header().report.say(report_of(counters(), *placement_, chunk_bytes_));
  }

  // Saves the store's speed for the next backend.
  void keep_flushes() {
    const std::optional<double> rate = placement_->ended_flush_bandwidth();
    const Status kept = no_throw("keep the speed of flushes", [&] {
      return rate ? tiers_->keep_flushes(*rate, flow_.best_flushes()) : Status();
    });
    // kBusy: another backend is saving its own.
    if (!kept.ok() && kept.code() != Code::kBusy) warn(kept);
  }

  // Saves regularly: the backend may be killed.
  void keep_now_and_then(Clock::time_point now) {
    if (now - kept_ < kKeepEvery || !placement_->has_flushed()) return;
    kept_ = now;
    const Status added = background_.add([this] { keep_flushes(); });
    if (!added.ok()) warn(added);
  }

  // Lets the loop's thread call `event`. Any thread.
  void post(Event event) {
    {
      const MutexLock lock(events_mutex_);
      events_.push_back(std::move(event));
    }
    memory_.header().filled.ring();
  }

  bool handle_events() {
    std::vector<Event> events;
    {
      const MutexLock lock(events_mutex_);
      events.swap(events_);
    }
    for (const Event& event : events) event();
    return !events.empty();
  }

  // Counts, for each open stream, the slots that were handed over before this backend's first look.
  void find_before() {
    before_.resize(kMostStreams);
    for (uint32_t stream = 0; stream < kMostStreams; ++stream) {
      const Owned<StreamState> word = memory_.streams()[stream].word.load();
      // A stream that is being opened still has the number of its former life.
      const bool is_open = word.state == StreamState::kOpen || is_sealed(word.state);
      before_[stream] = {word.life, is_open ? server_.slots(stream) : 0};
    }
  }

  bool handle_news() {
    const StagingServer::News news = server_.look();
    give_up_and_open(news);
    for (const StagingServer::Arrival& arrival : news.arrived) arrive(arrival);
    if (!before_.empty()) {
      for (const auto& [index, stream] : streams_) {
        if (stream.journal) stream.journal->all_found();
      }
      before_.clear();
    }
    for (const uint32_t stream : news.sealed) seal(stream);
    return !news.opened.empty() || !news.arrived.empty() || !news.sealed.empty() ||
           !news.abandoned.empty();
  }

  // One at a time: a program may have begun and abandoned many since the last look.
  void give_up_and_open(const StagingServer::News& news) {
    const Status why(Code::kInvalid, "the checkpoint was abandoned");
    std::set<uint32_t> abandoned(news.abandoned.begin(), news.abandoned.end());
    for (const uint32_t stream : news.opened) abandoned.erase(stream);
    for (const uint32_t stream : abandoned) give_up(stream, why);
    for (const uint32_t stream : news.opened) {
      open(stream);
      if (std::ranges::find(news.abandoned, stream) != news.abandoned.end()) give_up(stream, why);
    }
  }

  void open(uint32_t index) {
    const std::string text(server_.text(index));
    const bool is_journal = server_.kind(index) == StreamKind::kJournal;
    const Status opened = is_journal ? open_journal(index, text) : open_checkpoint(index, text);
    if (opened.ok()) return;
    warn(opened);
    server_.end(index, opened);
  }

  Status open_journal(uint32_t index, const std::string& text) {
    const Result<JournalText> journal = parse_journal(text);
    if (!journal.ok()) return journal.status();
    const uint32_t life = server_.life(index);
    const bool is_old = !before_.empty() && before_[index].first == life;
    JournalReceiver::Setting setting;
    setting.file = journal->file;
    setting.before = is_old ? before_[index].second : 0;
    if (is_old) setting.spills_before = server_.spills(index, life);
    if (setting.spills_before > 0) {
      setting.find_spills = [this, file = journal->file] { return find_spills(file); };
    }
    setting.look_again = options_.try_again;
    setting.spawn = options_.spawn;
    JournalReceiver::Actions actions;
    actions.progress = [this, index](uint64_t slots) { server_.progress(index, slots); };
    actions.spills = [this, index, life](uint32_t count) {
      server_.set_spills(index, life, count);
    };
    actions.local_failed = [this](const std::string& path, const Status& why) {
      post([this, path, why] { local_failed(path, why); });
    };
    actions.ended = [this, index, life](const Status& status) {
      post([this, index, life, status] { journal_ended(index, life, status); });
    };
    auto started = JournalReceiver::start(files_, std::move(setting), std::move(actions));
    if (!started.ok()) return started.status();
    const MutexLock lock(streams_mutex_);
    Stream& stream = streams_[index];
    stream.life = life;
    stream.journal = std::move(started.value());
    stream.journal_file = journal->file;
    ++journals_;
    return {};
  }

  // Called by a journal's thread.
  Result<std::vector<std::string>> find_spills(const std::string& journal) {
    auto found = tiers_->spills_of(journal);
    if (!found.ok()) {
      post([this, why = found.status()] {
        if (told_unreadable_.insert(why.message()).second) warn(why);
      });
    }
    return found;
  }

  // No slot is free: moves slots of journals that wait for the store to a local tier.
  void spill_journals() {
    for (const auto& [index, stream] : streams_) {
      if (!stream.journal || !stream.journal->keeps_slots()) continue;
      const std::optional<size_t> tier = flow_.reserve_spill();
      if (!tier) return;
      stream.journal->spill(
          {tiers_->new_spill(*tier - 1, stream.journal_file), chunk_bytes_,
           [this, tier = *tier] { post([this, tier] { flow_.give_back_spill(tier); }); }});
    }
  }

  std::vector<std::string> journals_with_spills() const {
    std::vector<std::string> files;
    for (const auto& [index, stream] : streams_) {
      if (stream.journal && server_.spills(index, stream.life) > 0) {
        files.push_back(stream.journal_file);
      }
    }
    return files;
  }

  // Tends the parts that dead backends left: keeps the local copies of parts that are in the store,
  // finishes parts that are whole, and removes the others. A part that cannot be read stays.
  void tend_leftovers() {
    LocalTiers::LeftBehind left = tiers_->leftovers();
    note_unreadable(left.unlisted);
    tiers_->remove_spills_but_of(journals_with_spills());
    std::ranges::stable_sort(left.parts, {}, [](const LocalTiers::Leftover& leftover) {
      return leftover.copies.empty() ? 0 : leftover.copies.front().modified_unix_ns;
    });
    for (const LocalTiers::Leftover& leftover : left.parts) {
      if (lives(leftover) || tiers_->keep_copies(leftover)) continue;
      if (!leftover.readable.ok()) {
        note_unreadable(leftover.readable);
        continue;
      }
      if (!leftover.sealed || leftover.committed) {
        tiers_->remove(leftover);
        continue;
      }
      open_leftover(leftover);
    }
  }

  // A device may answer another time. Nothing waits for that: the next backend tries again.
  void note_unreadable(const Status& why) {
    if (why.ok()) return;
    if (told_unreadable_.insert(why.message()).second) warn(why);
    if (is_of_device(why)) look_again_at_ = Clock::now() + options_.try_again;
  }

  void open_leftover(const LocalTiers::Leftover& leftover) {
    CheckpointReceiver::Setting setting = setting_for(*leftover.text);
    setting.chunk_folders = leftover.folders;
    setting.is_leftover = true;
    const Status opened = take_part(next_leftover_++, 0, std::move(setting));
    if (!opened.ok()) warn(opened);
  }

  // Takes up parts that are whole on local tiers and whose store, or local tier, has failed.
  void try_leftovers_again() {
    try_again_at_.reset();
    look_again_at_.reset();
    const LocalTiers::LeftBehind left = tiers_->leftovers();
    note_unreadable(left.unlisted);
    for (const LocalTiers::Leftover& leftover : left.parts) {
      if (lives(leftover)) continue;
      note_unreadable(leftover.readable);
      const bool is_whole = leftover.readable.ok() && leftover.sealed && !leftover.committed;
      if (is_whole) open_leftover(leftover);
    }
  }

  // Returns whether an existing stream has that part.
  bool lives(const LocalTiers::Leftover& leftover) const {
    return std::ranges::any_of(streams_, [&](const auto& entry) {
      if (!entry.second.part) return false;
      const CheckpointText& text = entry.second.part->text();
      if (text.rank != leftover.rank || text.run != leftover.run) return false;
      const std::vector<std::string> folders = tiers_->folders_for(text);
      return std::ranges::find(folders, leftover.folders.front()) != folders.end();
    });
  }

  Status open_checkpoint(uint32_t index, const std::string& text) {
    const Result<CheckpointText> parsed = parse_checkpoint(text);
    if (!parsed.ok()) return parsed.status();
    const uint32_t life = server_.life(index);
    const Keeping keeping = server_.keeping(index, life);
    keeper_.begins(job_folder(parsed.value()), parsed.value());
    if (parsed->in_memory && (keeping == Keeping::kNo || keeping == Keeping::kStays)) {
      keeper_.open(index, job_folder(parsed.value()), parsed.value());
      return {};
    }
    return take_new_part(index, parsed.value(), before_.empty() || before_[index].first != life,
                         keeping == Keeping::kLeaves);
  }

  Status take_new_part(uint32_t index, const CheckpointText& text, bool is_new, bool was_whole) {
    CheckpointReceiver::Setting setting = setting_for(text);
    setting.chunk_folders = tiers_->folders_for(text);
    setting.is_new = is_new;
    setting.has_durable_journal = was_whole;
    return take_part(index, server_.life(index), std::move(setting));
  }

  Status send_kept(const Keeper::Leaving& part) {
    Status taken = take_new_part(part.stream, part.text, true, part.is_whole);
    if (!taken.ok()) return taken;
    Stream& stream = streams_.at(part.stream);
    stream.waiting = part.slots;
    stream.sealed = part.is_whole;
    stream.was_kept = true;
    ++sending_;
    return taken;
  }

  // `index`: of the stream, or at least kMostStreams for a part without a stream.
  Status take_part(uint32_t index, uint32_t life, CheckpointReceiver::Setting setting) {
    const CheckpointText checkpoint = setting.text;
    const std::string job = job_folder(checkpoint);
    CheckpointReceiver::Actions actions;
    actions.ready = [this, index, life](const std::vector<FoundChunk>& found) {
      post([this, index, life, found] { ready(index, life, found); });
    };
    actions.make_journal_durable = [this](const ManifestText::Journal& journal,
                                          const std::function<bool()>& gave_up) {
      return make_durable(journal, gave_up);
    };
    actions.wait_for_turn = [this, job, checkpoint](const std::function<bool()>& gave_up) {
      return turns_.wait(job, checkpoint.rank, checkpoint.epoch, gave_up);
    };
    actions.local_failed = [this](const std::string& path, const Status& why) {
      post([this, path, why] { local_failed(path, why); });
    };
    actions.held = [this, index, life] {
      if (index < kMostStreams) server_.held(index, life);
    };
    actions.committed = [this, index, checkpoint] { committed(index, checkpoint); };
    actions.ended = [this, index, life](const Status& status) {
      post([this, index, life, status] { part_ended(index, life, status); });
    };
    if (Status alone = turns_.enter(job, checkpoint.rank, checkpoint.epoch); !alone.ok()) {
      return alone;
    }
    auto started = CheckpointReceiver::start(files_, std::move(setting), std::move(actions));
    if (!started.ok()) {
      turns_.leave(job, checkpoint.rank, checkpoint.epoch);
      return started.status();
    }
    const MutexLock lock(streams_mutex_);
    Stream& stream = streams_[index];
    stream.life = life;
    stream.part = std::move(started.value());
    ++checkpoints_;
    return {};
  }

  static std::string job_folder(const CheckpointText& text) {
    return text.store + "/" + sanitise_job(text.job);
  }

  CheckpointReceiver::Setting setting_for(const CheckpointText& text) {
    CheckpointReceiver::Setting setting;
    setting.text = text;
    setting.store.block_bytes = memory_.bytes(0).size();
    setting.store.chunk_bytes = options_.chunk_bytes;
    setting.store.workers = options_.workers;
    setting.store.writes = options_.writes;
    setting.spawn = options_.spawn;
    setting.cache = &tiers_->cache();
    auto& compression = compressions_[text_of(text.compression)];
    if (!compression) {
      compression = std::make_shared<Compression>(text.compression, monotonic_clock());
    }
    setting.compression = compression;
    return setting;
  }

  // Null if there is no such stream any more.
  Stream* find(uint32_t index, uint32_t life) {
    const auto found = streams_.find(index);
    return found != streams_.end() && found->second.life == life ? &found->second : nullptr;
  }

  void arrive(const StagingServer::Arrival& arrival) {
    if (keeper_.has(arrival.stream)) return keeper_.arrived(arrival);
    const auto found = streams_.find(arrival.stream);
    if (found == streams_.end()) return server_.release(arrival.slot);  // of one that was refused
    Stream& stream = found->second;
    if (stream.journal) return add_to_journal(*stream.journal, arrival);
    if (!stream.ready) return stream.waiting.push_back(arrival);
    if (!stream.part->expect(arrival.sequence)) return server_.release(arrival.slot);
    if (server_.is_direct(arrival.slot)) return add_direct(stream, arrival);
    if (!server_.pieces(arrival.slot).empty()) {
      return flow_.arrived(stream.part, arrival.slot, arrival.sequence);
    }
    stream.part->add_manifest(arrival.sequence, server_.bytes(arrival.slot),
                              [this, slot = arrival.slot](bool stored) { release(slot, stored); });
  }

  void add_direct(Stream& stream, const StagingServer::Arrival& arrival) {
    const std::span<const std::byte> bytes = server_.bytes(arrival.slot);
    auto chunk = parse_direct_chunk(std::vector<std::byte>(bytes.begin(), bytes.end()));
    Status good = chunk.status();
    if (good.ok()) {
      const auto tier = tiers_->tier_of(stream.part->direct_path(chunk->number));
      if (tier) {
        return flow_.arrived_direct(stream.part, arrival.slot, arrival.sequence, *tier + 1,
                                    std::move(chunk.value()));
      }
      good = {Code::kInvalid, "a checkpoint came with a chunk that is in no file of its own"};
    }
    stream.part->fail(good);
    release(arrival.slot, false);
  }

  // Makes files for clients that write chunks directly.
  void answer_clients() {
    for (auto& [index, stream] : streams_) {
      const bool takes = stream.part && stream.ready && !stream.sealed && !stream.abandoned &&
                         index < kMostStreams;
      if (!takes || stream.opens_direct || !server_.is_asked_for_file(index)) continue;
      stream.opens_direct = true;
      flow_.reserve_direct(stream.part, [this, index = index, life = stream.life](
                                            uint32_t number, const std::string& path) {
        Stream* const asking = find(index, life);
        if (asking == nullptr) return;
        asking->opens_direct = false;
        server_.answer(index, number, path, path.empty() ? 0 : chunk_bytes_);
      });
    }
  }

  void add_to_journal(JournalReceiver& journal, const StagingServer::Arrival& arrival) {
    const std::span<const Piece> pieces = server_.pieces(arrival.slot);
    const std::span<const std::byte> bytes = server_.bytes(arrival.slot);
    const uint64_t size = pieces.size() == 1 ? std::min(pieces[0].size, uint64_t{bytes.size()}) : 0;
    const uint64_t offset = pieces.size() == 1 ? pieces[0].offset : 0;
    journal.add({arrival.sequence, offset, bytes.first(size),
                 [this, slot = arrival.slot](bool written) { release(slot, written); }});
  }

  // On shutdown, keeps slots whose bytes exist nowhere else. Any thread.
  void release(uint32_t slot, bool stored) {
    if (!stored && stopping_.load(std::memory_order_acquire)) return;
    server_.release(slot);
  }

  void ready(uint32_t index, uint32_t life, const std::vector<FoundChunk>& found) {
    Stream* const stream = find(index, life);
    if (stream == nullptr) return;
    stream->ready = true;
    for (const FoundChunk& chunk : found) adopt(stream->part, chunk);
    for (const auto& arrival : std::exchange(stream->waiting, {})) arrive(arrival);
    if (stream->sealed) seal_part(index, *stream);
  }

  void adopt(const std::shared_ptr<CheckpointReceiver>& part, const FoundChunk& chunk) {
    if (const auto tier = tiers_->tier_of(chunk.path)) return flow_.adopt(part, *tier + 1, chunk);
    part->fail({Code::kDamaged, chunk.path + " is a chunk, and not on a local tier"});
  }

  void seal(uint32_t index) {
    if (keeper_.has(index)) return keeper_.seal(index);
    const auto found = streams_.find(index);
    if (found == streams_.end()) return;
    Stream& stream = found->second;
    stream.sealed = true;
    if (stream.journal) return stream.journal->seal(server_.slots(index));
    if (stream.ready) seal_part(index, stream);
  }

  void seal_part(uint32_t index, Stream& stream) {
    flow_.seal(*stream.part);
    stream.part->seal(server_.slots(index));
  }

  void give_up(uint32_t index, const Status& why) {
    if (keeper_.has(index)) return keeper_.give_up(index, why);
    const auto found = streams_.find(index);
    if (found == streams_.end()) return server_.end(index, why);
    if (found->second.part) {
      found->second.abandoned = true;
      found->second.part->fail(why);
      // Limits the number of threads: later parts may be abandoned as soon as this one.
      if (options_.spawn) found->second.part->wait();
      return;
    }
    // The client abandoned the journal: the bytes in the file stay.
    const std::shared_ptr<JournalReceiver> journal = take_out(index).journal;
    server_.end(index, why);
  }

  Stream take_out(uint32_t index) {
    const MutexLock lock(streams_mutex_);
    Stream stream = std::move(streams_.at(index));
    streams_.erase(index);
    --(stream.part ? checkpoints_ : journals_);
    return stream;
  }

  void part_ended(uint32_t index, uint32_t life, const Status& status) {
    if (find(index, life) == nullptr) return;
    const Stream stream = take_out(index);
    const CheckpointText& text = stream.part->text();
    turns_.leave(job_folder(text), text.rank, text.epoch);
    ++(status.ok() ? committed_ : failed_);
    if (stream.was_kept) --sending_;
    // Warns if no client will ask for the outcome.
    const bool is_repeated = tells_again(stream, status);
    if (!status.ok() && !stream.abandoned && !has_client(index) && !is_repeated) warn(status);
    // Before anything else, so that the next backend finds slots without an owner.
    if (index < kMostStreams) server_.end(index, status);
    if (status.ok()) finish_later(text);
    if (stream.part->waits_for_another_try()) try_again_at_ = Clock::now() + options_.try_again;
    flow_.drop(*stream.part, status);
    for (const auto& arrival : stream.waiting) release(arrival.slot, status.ok());
  }

  // Whether the failing store was reported since the last commit: further tries fail alike.
  bool tells_again(const Stream& stream, const Status& status) {
    if (status.ok()) told_of_store_ = false;
    const bool fails = stream.part->waits_for_another_try();
    return fails && std::exchange(told_of_store_, true);
  }

  void local_failed(const std::string& path, const Status& why) {
    const auto tier = tiers_->tier_of(path);
    if (!tier) return;
    if (tiers_->fail(*tier, Clock::now()) && options_.warn) {
      options_.warn("checkpoints go without the local tier " + tiers_->tiers()[*tier].name +
                    " for a while: " + why.message());
    }
    flow_.suspend(*tier + 1);
  }

  void finish_later(const CheckpointText& text) {
    keeper_.committed(job_folder(text), text);
    CheckpointReceiver::Setting setting = setting_for(text);
    if (options_.spawn) setting.store.workers = 1;
    const Status added = background_.add([this, setting] {
      const Status done =
          in_background({files_, setting.text, setting.store, *setting.compression, setting.spawn,
                         [this] { return ends_merging(); }, *setting.cache, options_.protection});
      if (!done.ok()) warn(done);
      memory_.header().filled.ring();
    });
    if (!added.ok()) warn(added);
  }

  // Waits while any checkpoint is in flight: checkpoints use the store first.
  bool ends_merging() const {
    constexpr auto kBetweenLooks = std::chrono::milliseconds(5);
    const auto ends = [this] { return stopping_.load() || draining_.load(); };
    while (!ends() && checkpoints_.load() > 0) std::this_thread::sleep_for(kBetweenLooks);
    return ends();
  }

  void journal_ended(uint32_t index, uint32_t life, const Status& status) {
    Stream* const stream = find(index, life);
    if (stream == nullptr) return;
    stream->ended = true;
    if (status.ok()) return;
    {
      const MutexLock lock(streams_mutex_);
      failed_journals_[index] = {life, status};
    }
    const Stream failed = take_out(index);
    if (server_.is_orphan(index)) warn(status);
    server_.end(index, status);
  }

  // Ends journals that are whole and that no checkpoint can name any more.
  void end_journals() {
    std::vector<uint32_t> over;
    for (const auto& [index, stream] : streams_) {
      if (stream.journal && stream.ended && !is_needed(index, stream.life)) over.push_back(index);
    }
    for (const uint32_t index : over) {
      const Stream stream = take_out(index);
      server_.end(index, {});
    }
  }

  bool is_needed(uint32_t journal, uint32_t life) const {
    if (keeper_.needs({journal, life, 0})) return true;
    return std::ranges::any_of(streams_, [&](const auto& entry) {
      if (!entry.second.part) return false;
      ManifestText::Journal named;
      const auto needs = entry.second.part->needs(named);
      return needs == CheckpointReceiver::Needs::kUnknown ||
             (needs == CheckpointReceiver::Needs::kJournal && named.stream == journal &&
              named.life == life);
    });
  }

  // By a part's thread.
  Status make_durable(const ManifestText::Journal& named, const std::function<bool()>& gave_up) {
    const auto until = Clock::now() + std::chrono::seconds(2);
    for (;;) {
      if (const auto journal = find_journal(named)) {
        return journal->make_durable(named.slots, gave_up);
      }
      if (Status failure = failure_of(named); !failure.ok()) return failure;
      // It may have been opened while streams were looked at.
      if (gave_up() || Clock::now() > until) {
        return {Code::kNotFound, "the journal of a checkpoint was abandoned"};
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  std::shared_ptr<JournalReceiver> find_journal(const ManifestText::Journal& named) {
    const MutexLock lock(streams_mutex_);
    const auto found = streams_.find(named.stream);
    const bool is_it = found != streams_.end() && found->second.life == named.life;
    return is_it ? found->second.journal : nullptr;
  }

  Status failure_of(const ManifestText::Journal& named) {
    const MutexLock lock(streams_mutex_);
    const auto found = failed_journals_.find(named.stream);
    const bool is_it = found != failed_journals_.end() && found->second.first == named.life;
    return is_it ? found->second.second : Status();
  }

  // By a part's thread.
  void committed(uint32_t index, const CheckpointText& text) {
    const Status done = no_throw("tidy up after a checkpoint", [&] {
      return after_commit(
          files_, turns_, text, [this, index] { return has_client(index); }, tiers_->cache(),
          options_.protection);
    });
    if (!done.ok()) warn(done);
  }

  bool has_client(uint32_t index) const {
    return index < kMostStreams && server_.has_running_client(index);
  }

  void warn(const Status& status) const {
    if (options_.warn) options_.warn(status.message());
  }

  // Returns whether a client is handing over a part now. A sealed part only moves to slower
  // devices.
  bool is_transferring() const {
    return keeper_.is_filling() || std::ranges::any_of(streams_, [](const auto& entry) {
             const auto& [index, stream] = entry;
             return index < kMostStreams && stream.part && !stream.sealed && !stream.abandoned;
           });
  }

  bool is_idle() const {
    const bool is_protecting = options_.protection != nullptr && options_.protection->is_busy();
    return streams_.empty() && keeper_.is_empty() && !background_.is_busy() && !is_protecting &&
           server_.is_idle();
  }

  bool is_over(std::chrono::nanoseconds idle) {
    if (!is_idle()) return false;
    if (draining_.load(std::memory_order_acquire)) return true;
    if (try_again_at_) return false;
    return options_.idle.count() > 0 && idle >= options_.idle && server_.close();
  }

  // Reports streams that end meanwhile, and leaves all others to the next backend.
  void leave_all() {
    keeper_.leave();
    // Parts leave before their journals, so that a journal that leaves does not fail its part.
    for (const auto& [index, stream] : streams_) {
      if (stream.part) stream.part->leave();
    }
    for (const auto& [index, stream] : streams_) {
      if (stream.part) stream.part->wait();
    }
    for (const auto& [index, stream] : streams_) {
      if (stream.journal) stream.journal->leave();
    }
    bool more = true;
    while (more) {
      (void)no_throw("tell of an end", [&] {
        more = handle_events();
        return Status();
      });
    }
    while (!streams_.empty()) (void)take_out(streams_.begin()->first);
  }

  FileSystem& files_;
  StagingMemory& memory_;
  const Options options_;
  const uint64_t chunk_bytes_;
  StagingServer server_;
  const std::unique_ptr<LocalTiers> tiers_;
  const std::unique_ptr<Placement> placement_;
  ChunkFlow flow_;
  Turns turns_;
  std::map<std::string, std::shared_ptr<Compression>> compressions_;  // by setting
  std::vector<std::pair<uint32_t, uint64_t>>
      before_;  // by stream: life, slots; until the first look

  uint32_t next_leftover_ = kMostStreams;           // the number of the next part without a stream
  std::optional<Clock::time_point> try_again_at_;   // keeps the backend running
  std::optional<Clock::time_point> look_again_at_;  // does not keep it running
  std::set<std::string> told_unreadable_;
  bool told_of_store_ = false;  // the user knows that the store fails parts on local tiers

  Growth growth_{memory_,
                 {options_.spawn, options_.growth, options_.forerunners, options_.growth_bytes,
                  options_.note}};
  Clock::time_point told_;
  Clock::time_point looked_at_waits_;
  Clock::time_point kept_ = Clock::now();

  std::atomic<bool> stopping_{false};
  std::atomic<bool> draining_{false};
  std::atomic<uint64_t> checkpoints_{0};
  std::atomic<uint64_t> journals_{0};
  std::atomic<uint64_t> committed_{0};
  std::atomic<uint64_t> failed_{0};

  Mutex events_mutex_;
  std::vector<Event> events_ GUARDED_BY(events_mutex_);

  Background background_{options_.spawn};

  Mutex streams_mutex_;  // the loop's thread changes streams_ with it, and reads them without
  std::map<uint32_t, Stream> streams_;
  // The last failed journal of each stream: its life, and the reason.
  std::map<uint32_t, std::pair<uint32_t, Status>> failed_journals_ GUARDED_BY(streams_mutex_);

  size_t sending_ = 0;  // parts that stayed in memory and are in flight now
  // The last member: its thread uses the others.
  Keeper keeper_{
      server_,
      memory_,
      options_.spawn,
      options_.keeps,
      {[this](const ManifestText::Journal& journal, const std::function<bool()>& gave_up) {
         return make_durable(journal, gave_up);
       },
       [this](const Keeper::Leaving& part) { return send_kept(part); },
       [this](std::function<void()> then) { post(std::move(then)); },
       [this](const Status& why) { warn(why); }}};
};

}  // namespace

Result<std::unique_ptr<Backend>> Backend::make(FileSystem& files, StagingMemory& memory,
                                               Options options) {
  return no_throw("start the backend", [&]() -> Result<std::unique_ptr<Backend>> {
    const uint64_t slots = memory.slots().size();
    const uint64_t slot_bytes = memory.bytes(0).size();
    // At most a quarter of the pool, so that some chunks are filled while others are written.
    const uint64_t chunk_slots =
        std::clamp<uint64_t>(options.chunk_bytes / slot_bytes, 1, std::max<uint64_t>(slots / 4, 1));
    const auto warn = [&](const std::string& line) {
      if (options.warn) options.warn(line);
    };
    auto local = LocalTiers::open(files, options.ssd, options.name, options.policy,
                                  chunk_slots * slot_bytes, warn);
    const PlacementPolicy policy =
        local->tiers().empty() ? PlacementPolicy::kCacheOnly : options.policy;
    const std::optional<FlushRecord>& earlier = local->earlier_flushes();
    auto placement = Placement::make(
        all_tiers(*local, slots, chunk_slots, options.cache_bytes / slot_bytes),
        // While the store's speed is unknown, only the cache is certainly faster.
        {policy, earlier ? earlier->bytes_per_second : memory_rate(*local) / 2, 16});
    if (!placement.ok()) return placement.status();
    return std::unique_ptr<Backend>(
        std::make_unique<Server>(files, memory, std::move(options), std::move(local),
                                 std::move(placement.value()), chunk_slots));
  });
}

}  // namespace gpusnap
