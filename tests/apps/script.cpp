// A program whose calls to the driver are a text: script FILE. A line is a command and its
// arguments. "NAME: command" is given to a thread of that name; the program waits for this thread
// only at "join NAME". $VARIABLE stands for a thread's name that is in the environment. Commands
// are synchronous unless this list says otherwise. A thread that is given "NAME: command" gives it
// to another thread, which it makes if there is none yet.
//
//   stream NAME            a non-blocking stream; "default" is the legacy default stream
//   alloc NAME WORDS       device memory, set to junk of its own
//   alloc_async NAME WORDS STREAM
//   free NAME              free_async NAME STREAM
//   pin NAME WORDS         page-locked memory of zeros; unpin NAME
//   extent NAME            says how far it goes, as the driver tells from a place within it
//   stir NAME NUMBER STREAM       a kernel that writes all of it
//   stir_part NAME FIRST WORDS NUMBER STREAM
//   mix TO FROM STREAM            likewise, from another's words
//   point TABLE TO         the address of one, which may be page-locked, in the first words of the
//   other chase TABLE WORDS NUMBER STREAM     a kernel that writes where that leads; hunt: another
//   one follow TABLE TO NUMBER STREAM       the same; the place is an argument, too count NUMBER
//   STREAM    a kernel that writes a variable of the module set NAME NUMBER STREAM         copy TO
//   FROM STREAM unpack NAME FIRST WORDS NUMBER STREAM      a part of it, by decompression; how much
//   is not said new_set NAME NUMBER STREAM     a set by a call that is asked for as a newer CUDA
//   has it wait_for_host NAME STREAM      a kernel that ends when "release NAME" has been done gate
//   NAME STREAM       the stream itself waits for that flag NAME              makes what is waited
//   for, before a capture host NAME STREAM       a host function that ends then; then says that it
//   ran attend FILE STREAM     a host function that makes FILE.begun, and ends when there is FILE
//   rework FILE NAME STREAM       a host function that doubles the words of what "pin" made and
//                          adds one: the first half, then makes FILE.begun, then the rest when
//                          there is FILE
//   fetch NAME FROM STREAM        an asynchronous copy of the words to what "pin" made
//   store TO NAME STREAM          one of them from there
//   stick VARIABLE STREAM  a host function that ends when there is the file that this says in
//                          the environment; never, where that is empty
//   release NAME
//   signal NAME STREAM     release by the stream itself
//   bring NAME STREAM      its words into the host's own memory, by a batch
//   wait STREAM OTHER      one stream for what is in another now
//   sync STREAM            sync_all: the context
//   textures NAME NUMBER   so many of its words, and every second one is ended again
//   capture STREAM         end_capture STREAM: says what came of it; launches what was captured
//   trim                   what the default pool can let go of
//   load  unload           the module
//   physical NAME BYTES    drop NAME: the program has it no longer, but where it is mapped
//   tiles NAME BYTES       physical memory for sparse arrays
//   map NAME PHYSICAL      an address for it, one of several perhaps; unmap NAME
//   context   end_context  a second one, current meanwhile; what was made in it ends with it
//   device NUMBER          a context of its own on that device, of which no more use is made
//   primary                says whether the device's primary context is in use
//   bump NAME              the host adds one to each word of what "pin" made
//   tell NAME              a digest of it, as it is
//   print NAME             a digest of its words, when all is done that was begun
//   await FILE             goes on when there is such a file; make FILE makes one
//   pause MILLISECONDS
//   write FILE TEXT        a file of that line alone; append FILE TEXT
//   read FILE              says its first line
//   say TEXT
//   when VARIABLE COMMAND  does it where there is that in the environment
//   block                  waits for ever, for another thread
//   exit                   ends the program as it stands, with all that is on its way
//
// Its context is the first device's primary one, but for a text that begins with "own_context", or
// with "on_device NUMBER".
#include "script.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>

#include "app.h"
#include "script_ptx.h"

namespace app {

constexpr unsigned kThreads = 64;

// A gate that kernels and host functions wait for.
struct Flag {
  Pinned<unsigned> seen_by_device{1};
  std::atomic<bool> released{false};
  std::string name;
  explicit Flag(std::string what) : name(std::move(what)) { seen_by_device[0] = 0; }
};

// A thread that does what it is given, in order.
class Worker {
 public:
  Worker(CUcontext context, const std::string& name)
      : thread_([this, context] {
          CHECK(cuCtxSetCurrent(context));
          run();
        }) {
    (void)pthread_setname_np(thread_.native_handle(), name.c_str());
  }
  ~Worker() {
    give({});
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  void give(std::function<void()> act) {
    std::lock_guard lock(mutex_);
    acts_.push_back(std::move(act));
    changed_.notify_all();
  }
  void join() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return acts_.empty(); });
  }

 private:
  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !acts_.empty(); });
      const std::function<void()> act = acts_.front();
      lock.unlock();
      if (act == nullptr) return;
      act();
      lock.lock();
      acts_.pop_front();
      changed_.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> acts_;  // the first is being done
  std::thread thread_;
};

class Script {
 public:
  Script() {
    CHECK(cuCtxGetCurrent(&context_));
    streams_["default"] = CU_STREAM_LEGACY;
    load();
  }

  void run(const std::string& line) {
    std::istringstream words(line);
    std::string first;
    if (!(words >> first) || first.starts_with("#")) return;
    if (!first.ends_with(":")) return command(line);
    first.pop_back();
    const std::string name = thread_name(first);
    auto& worker = workers_[name];
    if (worker == nullptr) worker = std::make_unique<Worker>(context_, name);
    std::string rest;
    std::getline(words, rest);
    worker->give([this, rest] { run(rest); });
  }

 private:
  static std::string thread_name(const std::string& word) {
    return word.starts_with("$") ? std::getenv(word.c_str() + 1) : word;
  }

  struct Memory {
    CUdeviceptr address = 0;
    unsigned words = 0;
    size_t bytes() const { return words * sizeof(unsigned); }
  };
  struct Physical {
    CUmemGenericAllocationHandle handle = 0;
    size_t bytes = 0;
  };
  // One line, as it is being read.
  class Line {
   public:
    explicit Line(const std::string& text) : text_(text), words_(text) {}
    std::string word() {
      std::string word;
      if (!(words_ >> word)) fail(text_.c_str(), "a word is missing");
      return word;
    }
    unsigned number() { return static_cast<unsigned>(std::stoul(word())); }
    std::string rest() {
      std::string rest;
      std::getline(words_ >> std::ws, rest);
      return rest;
    }

   private:
    std::string text_;
    std::istringstream words_;
  };

  void command(const std::string& text) {
    Line line(text);
    const std::string name = line.word();
    if (memory_command(name, line) || kernel_command(name, line) || stream_command(name, line) ||
        other_command(name, line)) {
      return;
    }
    fail(text.c_str(), "no such command");
  }

  bool memory_command(const std::string& name, Line& line) {
    if (name == "alloc" || name == "alloc_async") {
      const std::string what = line.word();
      Memory memory;
      memory.words = line.number();
      if (name == "alloc") {
        CHECK(cuMemAlloc_v2(&memory.address, memory.bytes()));
        fill(memory);
      } else {
        CHECK(cuMemAllocAsync(&memory.address, memory.bytes(), stream(line)));
      }
      memory_[what] = memory;
    } else if (name == "free") {
      CHECK(cuMemFree_v2(take(line).address));
    } else if (name == "free_async") {
      const Memory gone = take(line);
      CHECK(cuMemFreeAsync(gone.address, stream(line)));
    } else if (name == "pin") {
      auto& words = pinned_[line.word()];
      words = std::make_unique<Pinned<unsigned>>(line.number());
      std::ranges::fill(words->span(), 0);
    } else if (name == "unpin") {
      pinned_.erase(line.word());
    } else if (name == "extent") {
      const Memory& of = memory(line);
      CUdeviceptr base = 0;
      size_t bytes = 0;
      CHECK(cuMemGetAddressRange_v2(&base, &bytes, of.address + sizeof(unsigned)));
      std::printf("from %td on, %zu bytes\n", static_cast<ptrdiff_t>(base - of.address), bytes);
    } else if (name == "point") {
      const CUdeviceptr table = memory(line).address, to = place_of(line.word());
      CHECK(cuMemcpyHtoD_v2(table, &to, sizeof to));
    } else if (name == "set" || name == "new_set") {
      const Memory& to = memory(line);
      const auto value = static_cast<unsigned char>(line.number());
      const auto call = name == "set" ? cuMemsetD8Async : newer_set();
      CHECK(call(to.address, value, to.bytes(), stream(line)));
    } else if (name == "textures") {
      make_textures(line);
    } else if (name == "unpack") {
      unpack(line);
    } else if (name == "copy") {
      const Memory &to = memory(line), &from = memory(line);
      CHECK(cuMemcpyDtoDAsync_v2(to.address, from.address, std::min(to.bytes(), from.bytes()),
                                 stream(line)));
    } else if (name == "trim") {
      CUmemoryPool pool = nullptr;
      CHECK(cuDeviceGetMemPool(&pool, 0));
      CHECK(cuMemPoolTrimTo(pool, 0));
    } else if (name == "physical") {
      make_physical(line, 0);
    } else if (name == "tiles") {
      make_physical(line, CU_MEM_CREATE_USAGE_TILE_POOL);
    } else if (name == "drop") {
      CHECK(cuMemRelease(physical_.at(line.word()).handle));
    } else if (name == "map") {
      Memory& memory = memory_[line.word()];
      memory = mapped(physical_.at(line.word()));
    } else if (name == "unmap") {
      const Memory gone = take(line);
      CHECK(cuMemUnmap(gone.address, gone.bytes()));
      CHECK(cuMemAddressFree(gone.address, gone.bytes()));
    } else if (name == "bump") {
      for (unsigned& word : pinned_.at(line.word())->span()) ++word;
    } else if (name == "tell") {
      const std::string what = line.word();
      const auto words = pinned_.at(what)->span();
      std::printf("%s %016" PRIx64 "\n", what.c_str(), digest(std::span<const unsigned>(words)));
    } else if (name == "print") {
      const std::string what = line.word();
      const Memory& from = memory_.at(what);
      std::vector<unsigned> words(from.words);
      CHECK(cuCtxSynchronize());
      CHECK(cuMemcpyDtoH_v2(words.data(), from.address, from.bytes()));
      std::printf("%s %016" PRIx64 "\n", what.c_str(), digest(words));
    } else {
      return false;
    }
    return true;
  }

  bool kernel_command(const std::string& name, Line& line) {
    const Shape shape{.blocks = 1, .threads = kThreads};
    if (name == "stir") {
      const Memory to = memory(line);
      const unsigned with = line.number();
      launch(function("stir"), shape, stream(line), to.address, to.words, with);
    } else if (name == "stir_part") {
      const CUdeviceptr to = memory(line).address + line.number() * sizeof(unsigned);
      const unsigned words = line.number(), with = line.number();
      launch(function("stir"), shape, stream(line), to, words, with);
    } else if (name == "mix") {
      const Memory to = memory(line), from = memory(line);
      launch(function("mix"), shape, stream(line), to.address, from.address,
             std::min(to.words, from.words));
    } else if (name == "chase" || name == "hunt") {
      const CUdeviceptr table = memory(line).address;
      const unsigned words = line.number(), with = line.number();
      launch(function(name.c_str()), shape, stream(line), table, words, with);
    } else if (name == "follow") {
      const CUdeviceptr table = memory(line).address;
      const Memory to = memory(line);
      const unsigned with = line.number();
      launch(function("follow"), shape, stream(line), table, to.address, to.words, with);
    } else if (name == "count") {
      const unsigned with = line.number();
      launch(function("count"), shape, stream(line), with);
    } else if (name == "wait_for_host") {
      const CUdeviceptr seen = flag(line).seen_by_device.device_address();
      launch(function("wait_for_host"), shape, stream(line), seen);
    } else if (name == "gate") {
      const CUdeviceptr seen = flag(line).seen_by_device.device_address();
      CHECK(cuStreamWaitValue32_v2(stream(line), seen, 1, CU_STREAM_WAIT_VALUE_GEQ));
    } else {
      return false;
    }
    return true;
  }

  bool stream_command(const std::string& name, Line& line) {
    if (name == "stream") {
      CHECK(cuStreamCreate(&streams_[line.word()], CU_STREAM_NON_BLOCKING));
    } else if (name == "sync") {
      CHECK(cuStreamSynchronize(stream(line)));
    } else if (name == "sync_all") {
      std::printf("sync_all: %s\n", name_of(cuCtxSynchronize()));
    } else if (name == "wait") {
      CUevent event = nullptr;
      CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
      const CUstream waits = stream(line);
      CHECK(cuEventRecord(event, stream(line)));
      CHECK(cuStreamWaitEvent(waits, event, 0));
      CHECK(cuEventDestroy_v2(event));
    } else if (name == "capture") {
      CHECK(cuStreamBeginCapture_v2(stream(line), CU_STREAM_CAPTURE_MODE_GLOBAL));
    } else if (name == "end_capture") {
      end_capture(stream(line));
    } else if (name == "signal") {
      const CUdeviceptr word = flag(line).seen_by_device.device_address();
      CHECK(cuStreamWriteValue32_v2(stream(line), word, 1, 0));
    } else if (name == "bring") {
      bring(line);
    } else if (name == "host") {
      Flag& waited_for = flag(line);
      CHECK(cuLaunchHostFunc(stream(line), run_host_function, &waited_for));
    } else if (name == "attend") {
      std::string& file = attended_.emplace_back(line.word());
      CHECK(cuLaunchHostFunc(stream(line), attend, &file));
    } else if (name == "rework") {
      Rework& rework = reworked_.emplace_back();
      rework.file = line.word();
      rework.words = pinned_.at(line.word())->span();
      CHECK(cuLaunchHostFunc(stream(line), run_rework, &rework));
    } else if (name == "fetch") {
      const auto words = pinned_.at(line.word())->span();
      const Memory& from = memory(line);
      CHECK(cuMemcpyDtoHAsync_v2(words.data(), from.address,
                                 std::min(words.size_bytes(), from.bytes()), stream(line)));
    } else if (name == "store") {
      const Memory& to = memory(line);
      const auto words = pinned_.at(line.word())->span();
      CHECK(cuMemcpyHtoDAsync_v2(to.address, words.data(), std::min(words.size_bytes(), to.bytes()),
                                 stream(line)));
    } else if (name == "stick") {
      char* const file = std::getenv(line.word().c_str());
      CHECK(cuLaunchHostFunc(stream(line), stick, file));
    } else {
      return false;
    }
    return true;
  }

  bool other_command(const std::string& name, Line& line) {
    if (name == "own_context" || name == "on_device") {
      // Seen before.
    } else if (name == "context") {
      CUcontext second = nullptr;
      CHECK(cuCtxCreate_v2(&second, 0, 0));
    } else if (name == "device") {
      CUcontext other = nullptr;
      CHECK(cuCtxCreate_v2(&other, 0, static_cast<CUdevice>(line.number())));
      CHECK(cuCtxSetCurrent(context_));
    } else if (name == "end_context") {
      CUcontext second = nullptr;
      CHECK(cuCtxGetCurrent(&second));
      CHECK(cuCtxDestroy_v2(second));
      CHECK(cuCtxSetCurrent(context_));
    } else if (name == "primary") {
      unsigned flags = 0;
      int active = 0;
      CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active));
      std::printf("primary context: %s\n", active != 0 ? "in use" : "not in use");
    } else if (name == "flag") {
      (void)flag(line);
    } else if (name == "release") {
      Flag& waited_for = flag(line);
      waited_for.released = true;
      __atomic_store_n(&waited_for.seen_by_device[0], 1u, __ATOMIC_SEQ_CST);
    } else if (name == "load") {
      load();
    } else if (name == "unload") {
      module_.reset();
    } else if (name == "await") {
      await(line.word());
    } else if (name == "pause") {
      std::this_thread::sleep_for(std::chrono::milliseconds(line.number()));
    } else if (name == "make") {
      std::ofstream(line.word()).put('\n');
    } else if (name == "read") {
      std::string first;
      std::getline(std::ifstream(line.word()), first);
      std::puts(first.c_str());
    } else if (name == "write" || name == "append") {
      const std::string file = line.word();
      std::ofstream(file, name == "append" ? std::ios::app : std::ios::trunc)
          << line.rest() << '\n';
    } else if (name == "join") {
      workers_.at(thread_name(line.word()))->join();
    } else if (name == "when") {
      if (std::getenv(line.word().c_str()) != nullptr) run(line.rest());
    } else if (name == "block") {
      block();
    } else if (name == "say") {
      std::puts(line.rest().c_str());
    } else if (name == "exit") {
      std::exit(0);
    } else {
      return false;
    }
    return true;
  }

  static void await(const std::string& file) {
    while (!std::filesystem::exists(file)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  static void attend(void* given) {
    const std::string& file = *static_cast<const std::string*>(given);
    std::ofstream(file + ".begun").put('\n');
    await(file);
  }
  struct Rework {
    std::span<unsigned> words;
    std::string file;
  };
  static void run_rework(void* given) {
    const Rework& rework = *static_cast<const Rework*>(given);
    const size_t half = rework.words.size() / 2;
    for (unsigned& word : rework.words.first(half)) word = word * 2 + 1;
    std::ofstream(rework.file + ".begun").put('\n');
    await(rework.file);
    for (unsigned& word : rework.words.subspan(half)) word = word * 2 + 1;
  }
  static void stick(void* given) {
    const auto* const file = static_cast<const char*>(given);
    if (file != nullptr) *file == '\0' ? block() : await(file);
  }
  static void block() {
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock lock(mutex);
    never.wait(lock, [] { return false; });
  }
  static void run_host_function(void* given) {
    Flag& flag = *static_cast<Flag*>(given);
    while (!flag.released) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::printf("host function %s\n", flag.name.c_str());
  }

  static const char* name_of(CUresult result) {
    const char* name = nullptr;
    return cuGetErrorName(result, &name) == CUDA_SUCCESS ? name : "unknown";
  }

  void make_textures(Line& line) {
    const Memory of = memory(line);
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear.devPtr = of.address;
    resource.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT32;
    resource.res.linear.numChannels = 1;
    resource.res.linear.sizeInBytes = of.bytes();
    const CUDA_TEXTURE_DESC description{};
    const unsigned count = line.number();
    for (unsigned i = 0; i < count; ++i) {
      CUtexObject texture = 0;
      CHECK(cuTexObjectCreate(&texture, &resource, &description, nullptr));
      if (i % 2 == 1) CHECK(cuTexObjectDestroy(texture));
    }
  }

  void end_capture(CUstream stream) {
    CUgraph graph = nullptr;
    const CUresult ended = cuStreamEndCapture(stream, &graph);
    std::printf("end_capture: %s\n", name_of(ended));
    if (ended != CUDA_SUCCESS) return;
    CUgraphExec exec = nullptr;
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
  }

  void bring(Line& line) {
    const Memory& from = memory(line);
    std::vector<unsigned> words(from.words);
    CUdeviceptr to = reinterpret_cast<CUdeviceptr>(words.data()), start = from.address;
    size_t bytes = from.bytes(), first = 0;
    CUmemcpyAttributes how{};
    how.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    CHECK(cuMemcpyBatchAsync_v2(&to, &start, &bytes, 1, &how, &first, 1, stream(line)));
  }

  // LZ4: a byte, a match that repeats it, and five of them at the end.
  void unpack(Line& line) {
    const CUdeviceptr to = memory(line).address + line.number() * sizeof(unsigned);
    size_t left = line.number() * sizeof(unsigned) - 1 - 4 - 15 - 5;
    const auto value = static_cast<unsigned char>(line.number());
    std::vector<unsigned char> packed{0x1f, value, 1, 0};
    for (; left >= 255; left -= 255) packed.push_back(255);
    packed.push_back(static_cast<unsigned char>(left));
    packed.insert(packed.end(), {0x50, value, value, value, value, value});
    CUdeviceptr from = 0, written = 0;
    CHECK(cuMemAlloc_v2(&from, packed.size()));
    CHECK(cuMemAlloc_v2(&written, sizeof(cuuint32_t)));
    CHECK(cuMemcpyHtoD_v2(from, packed.data(), packed.size()));
    CUmemDecompressParams piece{};
    piece.srcNumBytes = packed.size();
    piece.dstActBytes = reinterpret_cast<cuuint32_t*>(written);
    piece.src = reinterpret_cast<const void*>(from);
    piece.dst = reinterpret_cast<void*>(to);
    piece.algo = CU_MEM_DECOMPRESS_ALGORITHM_LZ4;
    CHECK(cuMemBatchDecompressAsync(&piece, 1, 0, nullptr, stream(line)));
  }

  static decltype(&cuMemsetD8Async) newer_set() {
    void* found = nullptr;
    CUdriverProcAddressQueryResult status{};
    CHECK(cuGetProcAddress_v2("cuMemsetD8Async", &found, GPUSNAP_CUDA_VERSION + 10, 0, &status));
    return reinterpret_cast<decltype(&cuMemsetD8Async)>(found);
  }

  static CUmemAllocationProp kind_of_physical() {
    CUmemAllocationProp kind{};
    kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    kind.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    return kind;
  }
  void make_physical(Line& line, unsigned short usage) {
    Physical& physical = physical_[line.word()];
    physical.bytes = line.number();
    CUmemAllocationProp kind = kind_of_physical();
    kind.allocFlags.usage = usage;
    CHECK(cuMemCreate(&physical.handle, physical.bytes, &kind, 0));
  }
  static Memory mapped(const Physical& physical) {
    const CUmemAccessDesc access{kind_of_physical().location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    Memory memory;
    memory.words = static_cast<unsigned>(physical.bytes / sizeof(unsigned));
    CHECK(cuMemAddressReserve(&memory.address, physical.bytes, 0, 0, 0));
    CHECK(cuMemMap(memory.address, physical.bytes, 0, physical.handle, 0));
    CHECK(cuMemSetAccess(memory.address, physical.bytes, &access, 1));
    return memory;
  }

  void fill(const Memory& memory) {
    std::vector<unsigned> words(memory.words);
    for (unsigned& word : words) word = random_.next();
    CHECK(cuMemcpyHtoD_v2(memory.address, words.data(), memory.bytes()));
  }
  void load() { module_ = std::make_unique<Module>(kScriptPtx); }
  CUfunction function(const char* name) { return module_->function(name); }
  CUstream stream(Line& line) { return streams_.at(line.word()); }
  const Memory& memory(Line& line) { return memory_.at(line.word()); }
  CUdeviceptr place_of(const std::string& name) {
    const auto words = pinned_.find(name);
    return words == pinned_.end() ? memory_.at(name).address : words->second->device_address();
  }
  Memory take(Line& line) { return memory_.extract(line.word()).mapped(); }
  Flag& flag(Line& line) {
    const std::string name = line.word();
    std::lock_guard lock(mutex_);
    auto& flag = flags_[name];
    if (flag == nullptr) flag = std::make_unique<Flag>(name);
    return *flag;
  }

  CUcontext context_ = nullptr;
  std::unique_ptr<Module> module_;
  // The first thread makes everything that threads use, except flags.
  std::map<std::string, CUstream> streams_;
  std::map<std::string, Memory> memory_;
  std::map<std::string, Physical> physical_;
  std::map<std::string, std::unique_ptr<Pinned<unsigned>>> pinned_;
  std::deque<std::string> attended_;  // files; where they are, they stay
  std::deque<Rework> reworked_;       // likewise
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Flag>> flags_;
  Random random_{17};
  std::map<std::string, std::unique_ptr<Worker>> workers_;
};

int run(const char* file) {
  std::ifstream lines(file);
  if (!lines) fail(file, "cannot be read");
  std::string line;
  std::getline(lines, line);
  std::istringstream words(line);
  std::string first;
  int ordinal = 0;
  words >> first;
  if (first == "on_device") words >> ordinal;
  const Device device(first == "own_context" ? ContextKind::kOwn : ContextKind::kPrimary, ordinal);
  Script script;
  do {
    script.run(line);
  } while (std::getline(lines, line));
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  if (argc != 2) app::fail(argv[0], "usage: FILE");
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return app::run(argv[1]);
}
