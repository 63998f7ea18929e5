// Copies and sets. Every form is one box of bytes, rows of equal width at equal distances, from one
// place to another; what differs between the calls is only when the host may go on.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>
#include <vector>

#include "tools/simcuda/driver/driver.h"

namespace simcuda {
namespace {

__extension__ using Wide = unsigned __int128;  // for sums and products that must not wrap

// Where the program said that memory is.
enum class Place : uint8_t { kHost, kDevice, kAny };

struct Box {
  uint64_t width = 0;  // bytes
  uint64_t height = 1, depth = 1;
  bool empty() const { return width == 0 || height == 0 || depth == 0; }
  uint64_t bytes() const { return width * height * depth; }
};

// One end of a copy. Pitch and slice are the distances of rows and planes, in bytes.
struct End {
  uint64_t address = 0;
  uint64_t pitch = 0, slice = 0;
  Place place = Place::kAny;
  // If the end is an array: the place in it, x in bytes.
  std::shared_ptr<const Array> array = nullptr;
  uint64_t x = 0, y = 0, z = 0;
};

// One end as the host sees it.
struct Located {
  std::byte* host = nullptr;
  std::shared_ptr<const std::byte> bytes;  // keeps those of an array
  bool pageable = false;                   // not known to the driver
  bool on_device = false;                  // not host, pinned or managed memory
  int device = -1;                         // where that is known: not of an array
};

// Bytes from the first to the end of the last that an end of the box spans; 0 where that overflows.
uint64_t span_of(const Box& box, const End& end) {
  Wide span = static_cast<Wide>(end.slice) * (box.depth - 1) +
              static_cast<Wide>(end.pitch) * (box.height - 1) + box.width;
  return span >> 62 == 0 ? static_cast<uint64_t>(span) : 0;
}

CUresult locate(const Memory& memory, const Memory::Hold& hold, const Box& box, const End& end,
                Located* located) {
  if (end.array != nullptr) {
    located->host = end.array->image.at(end.x, end.y, end.z);
    located->bytes = end.array->bytes;
    located->on_device = true;
    return CUDA_SUCCESS;
  }
  uint64_t span = span_of(box, end);
  if (span == 0 || end.address == 0) return CUDA_ERROR_INVALID_VALUE;
  if (const Allocation* found = memory.find(hold, end.address)) {
    if (end.place == Place::kHost && !found->on_host()) return CUDA_ERROR_INVALID_VALUE;
    located->host = memory.resolve(hold, end.address, span);
    located->on_device = !found->on_host();
    located->device = found->device;
    return located->host == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  }
  if (end.place == Place::kDevice || memory.is_device_address(hold, end.address)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  located->host = reinterpret_cast<std::byte*>(end.address);
  located->pageable = true;
  return CUDA_SUCCESS;
}

struct Rows {
  std::byte* data = nullptr;
  uint64_t pitch = 0, slice = 0;
  Image tiled{};  // has tiles where the box lies in some: there from x, y, z on
  uint64_t x = 0, y = 0, z = 0;

  std::byte* row(uint64_t y_, uint64_t z_) const { return data + z_ * slice + y_ * pitch; }
  std::byte* at(uint64_t x_, uint64_t y_, uint64_t z_) const {
    return tiled.tile.row == 0 ? row(y_, z_) + x_ : tiled.at(x + x_, y + y_, z + z_);
  }
  // Bytes of a row that lie side by side from there on.
  uint64_t together(uint64_t x_) const {
    return tiled.tile.row == 0 ? UINT64_MAX : tiled.tile.row - (x + x_) % tiled.tile.row;
  }
};

Rows rows_of(const Located& located, const End& end) {
  Rows rows{located.host, end.pitch, end.slice};
  if (end.array == nullptr || end.array->image.tile.row == 0) return rows;
  rows.tiled = end.array->image;
  rows.x = end.x;
  rows.y = end.y;
  rows.z = end.z;
  return rows;
}

void move_rows(const Box& box, const Rows& to, const Rows& from) {
  for (uint64_t z = 0; z < box.depth; ++z) {
    for (uint64_t y = 0; y < box.height; ++y) {
      uint64_t bytes = 0;
      for (uint64_t x = 0; x < box.width; x += bytes) {
        bytes = std::min({box.width - x, to.together(x), from.together(x)});
        std::memmove(to.at(x, y, z), from.at(x, y, z), bytes);
      }
    }
  }
}

Engine engine_for(const Located& to, const Located& from) {
  if (to.on_device) return from.on_device ? Engine::kCopy : Engine::kToDevice;
  return Engine::kToHost;
}

// The devices of a copy from one to another, if links are set: it has an engine of its own.
DevicePair pair_of(const Driver& state, const Located& to, const Located& from) {
  const bool is_between = to.on_device && from.on_device && to.device >= 0 && from.device >= 0 &&
                          to.device != from.device;
  return is_between && state.settings.engines.links.is_set() ? DevicePair{from.device, to.device}
                                                             : DevicePair{};
}

CUresult injected(Faults& faults, Engine engine) {
  // Each counts for itself, whether or not another fails the call.
  bool any = faults.strike(FaultPoint::kCopy);
  bool to_host = engine == Engine::kToHost && faults.strike(FaultPoint::kCopyToHost);
  bool to_device = engine == Engine::kToDevice && faults.strike(FaultPoint::kCopyToDevice);
  return any || to_host || to_device ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

void count(Stats& stats, const Located& to, const Located& from, uint64_t bytes) {
  if (to.on_device && from.on_device) {
    stats.bytes_within_device += bytes;
  } else if (to.on_device) {
    stats.bytes_to_device += bytes;
  } else if (from.on_device) {
    stats.bytes_from_device += bytes;
  }
}

// `staged` holds what `in` is of, where that is a copy of what the program has.
WorkQueue::Task task_of_copy(Driver& state, Context& context, const Box& box, const Rows& out,
                             const Rows& in, std::shared_ptr<std::vector<std::byte>> staged,
                             const Located& target, const Located& source) {
  const Engine engine = engine_for(target, source);
  const DevicePair pair = pair_of(state, target, source);
  return [=, staged = std::move(staged), &state, &context] {
    state.engines.run(context, engine, pair, [&] {
      move_rows(box, out, in);
      count(state.stats, target, source, box.bytes());
      return Effort{box.bytes()};
    });
  };
}

enum class Wait : uint8_t { kSync, kAsync };

// Queues the copy; `until` is what the host has to wait for, if anything.
CUresult queue_copy(Driver& state, Context& context, Stream& stream, const Box& box, const End& to,
                    const End& from, Wait wait, Point* until) {
  auto hold = state.memory.hold();
  Located target;
  Located source;
  CUresult result = locate(state.memory, hold, box, to, &target);
  if (result != CUDA_SUCCESS) return result;
  result = locate(state.memory, hold, box, from, &source);
  if (result != CUDA_SUCCESS) return result;

  Engine engine = engine_for(target, source);
  result = injected(state.faults, engine);
  if (result != CUDA_SUCCESS) return result;

  const Rows out = rows_of(target, to);
  Rows in = rows_of(source, from);
  std::shared_ptr<std::vector<std::byte>> staged;
  if (wait == Wait::kAsync && source.pageable && !target.pageable) {
    // Pageable memory may change once the call returns: what it holds now is what is copied.
    staged = std::make_shared<std::vector<std::byte>>(box.bytes());
    Rows packed{staged->data(), box.width, box.width * box.height};
    move_rows(box, packed, in);
    in = packed;
  }
  Point point = context.submit(
      stream, task_of_copy(state, context, box, out, in, std::move(staged), target, source));
  // Copies within devices are never waited for; those into pageable memory always are.
  bool within = target.on_device && source.on_device;
  if (target.pageable || (wait == Wait::kSync && !within)) *until = std::move(point);
  return CUDA_SUCCESS;
}

// A copy as a node of a graph says it.
CUresult describe_copy(Driver& state, const Box& box, const End& to, const End& from, Work* work) {
  if (box.empty()) return CUDA_SUCCESS;
  const Memory::Plan plan(state.memory);
  Located target;
  Located source;
  CUresult result = locate(state.memory, plan.hold, box, to, &target);
  if (result == CUDA_SUCCESS) result = locate(state.memory, plan.hold, box, from, &source);
  if (result != CUDA_SUCCESS) return result;
  auto pitch = [&](const End& end) { return end.pitch != 0 ? end.pitch : box.width; };
  auto rows = [&](const End& end) { return end.slice != 0 ? end.slice / pitch(end) : box.height; };
  CUDA_MEMCPY3D copy{};
  const auto type = [](const End& end, const Located& located) {
    if (end.array != nullptr) return CU_MEMORYTYPE_ARRAY;
    return located.on_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  };
  copy.srcMemoryType = type(from, source);
  copy.dstMemoryType = type(to, target);
  if (from.array != nullptr) copy.srcArray = from.array->handle;
  if (to.array != nullptr) copy.dstArray = to.array->handle;
  copy.srcXInBytes = from.x;
  copy.srcY = from.y;
  copy.srcZ = from.z;
  copy.dstXInBytes = to.x;
  copy.dstY = to.y;
  copy.dstZ = to.z;
  if (source.on_device) copy.srcDevice = from.address;
  if (!source.on_device) copy.srcHost = reinterpret_cast<const void*>(from.address);
  if (target.on_device) copy.dstDevice = to.address;
  if (!target.on_device) copy.dstHost = reinterpret_cast<void*>(to.address);
  copy.srcPitch = pitch(from);
  copy.dstPitch = pitch(to);
  copy.srcHeight = rows(from);
  copy.dstHeight = rows(to);
  copy.WidthInBytes = box.width;
  copy.Height = box.height;
  copy.Depth = box.depth;
  *work = CopyCall{copy};
  return CUDA_SUCCESS;
}

CUresult copy(CUstream handle, const Box& box, const End& to, const End& from, Wait wait) {
  auto body = [&](Driver& state, Context& context, Stream& stream) {
    if (box.empty()) return CUDA_SUCCESS;
    Point until;
    CUresult result = queue_copy(state, context, stream, box, to, from, wait, &until);
    if (result != CUDA_SUCCESS) return result;
    until.wait();
    if (until.queue != nullptr) context.show_printed();
    return context.error();
  };
  if (wait == Wait::kSync) return queue_and_wait(handle, body);
  auto describe = [&](Driver& state, Context&, Work* work) {
    return describe_copy(state, box, to, from, work);
  };
  return queue_or_capture(handle, describe, body);
}

CUresult copy_linear(CUstream stream, uint64_t to, Place to_place, uint64_t from, Place from_place,
                     uint64_t size, Wait wait) {
  return copy(stream, {size}, {to, 0, 0, to_place}, {from, 0, 0, from_place}, wait);
}

// One copy of a batch.
struct BatchCopy {
  Box box;
  End to, from;
  CUmemcpySrcAccessOrder order = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  Located target, source;
  std::shared_ptr<std::vector<std::byte>> staged;  // what the source held at the call
  Engine engine = Engine::kCopy;
  DevicePair pair;

  void move() const {
    const Rows packed{staged != nullptr ? staged->data() : nullptr, box.width,
                      box.width * box.height};
    move_rows(box, rows_of(target, to), staged != nullptr ? packed : rows_of(source, from));
  }
};

constexpr Engine kCopyEngines[] = {Engine::kToHost, Engine::kToDevice, Engine::kCopy};

bool uses(const std::vector<BatchCopy>& copies, Engine engine) {
  return std::any_of(copies.begin(), copies.end(),
                     [&](const BatchCopy& copy) { return copy.engine == engine; });
}

bool is_known(CUmemcpySrcAccessOrder order, unsigned flags) {
  return (order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
          order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ||
          order == CU_MEMCPY_SRC_ACCESS_ORDER_ANY) &&
         flags <= CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
}

// The order of access of each copy; false where the lists are not as they have to be.
bool spread_attributes(size_t count, const CUmemcpyAttributes* attributes, const size_t* firsts,
                       size_t attribute_count, std::vector<CUmemcpySrcAccessOrder>* orders) {
  if (attributes == nullptr || firsts == nullptr || attribute_count == 0 ||
      attribute_count > count || firsts[0] != 0) {
    return false;
  }
  for (size_t i = 0; i < attribute_count; ++i) {
    const size_t end = i + 1 < attribute_count ? firsts[i + 1] : count;
    const CUmemcpySrcAccessOrder order = attributes[i].srcAccessOrder;
    if (!is_known(order, attributes[i].flags) || end <= firsts[i] || end > count) return false;
    orders->resize(end, order);
  }
  return true;
}

CUresult locate_batch(Driver& state, const Memory::Hold& hold, std::vector<BatchCopy>* copies,
                      size_t* at) {
  for (*at = 0; *at < copies->size(); ++*at) {
    BatchCopy& copy = (*copies)[*at];
    if (copy.box.empty()) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = locate(state.memory, hold, copy.box, copy.to, &copy.target);
    if (result == CUDA_SUCCESS) {
      result = locate(state.memory, hold, copy.box, copy.from, &copy.source);
    }
    if (result != CUDA_SUCCESS) return result;
    copy.engine = engine_for(copy.target, copy.source);
    copy.pair = pair_of(state, copy.target, copy.source);
    if (!copy.source.pageable || copy.order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM) continue;
    copy.staged = std::make_shared<std::vector<std::byte>>(copy.box.bytes());
    move_rows(copy.box, {copy.staged->data(), copy.box.width, copy.box.width * copy.box.height},
              rows_of(copy.source, copy.from));
  }
  *at = SIZE_MAX;
  return CUDA_SUCCESS;
}

// The copies of one engine, and of one link, as one operation. They have no order: done from the
// last to the first, so that one that reads what another writes shows.
Effort move_batch(Stats& stats, const std::vector<BatchCopy>& copies, Engine engine,
                  DevicePair pair) {
  Effort effort{.copies = 0};
  for (auto copy = copies.rbegin(); copy != copies.rend(); ++copy) {
    if (copy->engine != engine || copy->pair != pair) continue;
    copy->move();
    count(stats, copy->target, copy->source, copy->box.bytes());
    effort.bytes += copy->box.bytes();
    ++effort.copies;
  }
  return effort;
}

WorkQueue::Task task_of_batch(Driver& state, Context& context, std::vector<BatchCopy> copies) {
  return [&state, &context, copies = std::move(copies)] {
    for (Engine engine : kCopyEngines) {
      std::vector<DevicePair> pairs;
      for (const BatchCopy& copy : copies) {
        if (copy.engine != engine || std::count(pairs.begin(), pairs.end(), copy.pair) > 0)
          continue;
        pairs.push_back(copy.pair);
        state.engines.run(context, engine, copy.pair,
                          [&] { return move_batch(state.stats, copies, engine, copy.pair); });
      }
    }
  };
}

// `describe(std::vector<BatchCopy>*)` says what is to be copied; false where that makes no sense.
template <class Describe>
CUresult copy_batch(CUstream handle, size_t* failed, Describe&& describe) {
  size_t at = SIZE_MAX;  // no copy in particular
  const CUresult result = queue_in(handle, [&](Driver& state, Context& context, Stream& stream) {
    std::vector<BatchCopy> copies;
    if (stream.legacy || !describe(&copies)) return CUDA_ERROR_INVALID_VALUE;
    Point until;
    {
      auto hold = state.memory.hold();
      CUresult bad = locate_batch(state, hold, &copies, &at);
      if (bad != CUDA_SUCCESS) return bad;
      for (Engine engine : kCopyEngines) {
        if (uses(copies, engine)) bad = injected(state.faults, engine);
        if (bad != CUDA_SUCCESS) return bad;
      }
      const bool waits = std::any_of(copies.begin(), copies.end(),
                                     [](const BatchCopy& copy) { return copy.target.pageable; });
      Point point = context.submit(stream, task_of_batch(state, context, std::move(copies)));
      if (waits) until = std::move(point);
    }
    until.wait();
    if (until.queue != nullptr) context.show_printed();
    return context.error();
  });
  if (result != CUDA_SUCCESS && failed != nullptr) *failed = at;
  return result;
}

CUresult copy_plain_batch(const CUdeviceptr* to, const CUdeviceptr* from, const size_t* sizes,
                          size_t count, const CUmemcpyAttributes* attributes, const size_t* firsts,
                          size_t attribute_count, size_t* failed, CUstream stream) {
  return copy_batch(stream, failed, [&](std::vector<BatchCopy>* copies) {
    std::vector<CUmemcpySrcAccessOrder> orders;
    if (to == nullptr || from == nullptr || sizes == nullptr || count == 0 ||
        !spread_attributes(count, attributes, firsts, attribute_count, &orders)) {
      return false;
    }
    for (size_t i = 0; i < count; ++i) {
      BatchCopy& copy = copies->emplace_back();
      copy.box.width = sizes[i];
      copy.to.address = to[i];
      copy.from.address = from[i];
      copy.order = orders[i];
    }
    return true;
  });
}

// False where it is no pointer, or too narrow.
bool describe_end(const CUmemcpy3DOperand& operand, const Box& box, End* end) {
  const CUmemcpy3DOperandPointer& pointer = operand.op.ptr;
  if (operand.type != CU_MEMCPY_OPERAND_TYPE_POINTER) return false;  // there are no arrays
  const uint64_t pitch = pointer.rowLength != 0 ? pointer.rowLength : box.width;
  const uint64_t rows = pointer.layerHeight != 0 ? pointer.layerHeight : box.height;
  constexpr uint64_t kMost = uint64_t{1} << 31;
  if (pitch < box.width || rows < box.height || pitch > kMost || rows > kMost) return false;
  *end = {pointer.ptr, pitch, pitch * rows, Place::kAny};
  return true;
}

CUresult copy_box_batch(size_t count, const CUDA_MEMCPY3D_BATCH_OP* asked, size_t* failed,
                        unsigned long long flags, CUstream stream) {
  return copy_batch(stream, failed, [&](std::vector<BatchCopy>* copies) {
    if (asked == nullptr || count == 0 || flags != 0) return false;
    for (size_t i = 0; i < count; ++i) {
      BatchCopy& copy = copies->emplace_back();
      copy.box = {asked[i].extent.width, asked[i].extent.height, asked[i].extent.depth};
      copy.order = asked[i].srcAccessOrder;
      if (!is_known(copy.order, asked[i].flags) ||
          !describe_end(asked[i].dst, copy.box, &copy.to) ||
          !describe_end(asked[i].src, copy.box, &copy.from)) {
        return false;
      }
    }
    return true;
  });
}

uint64_t number(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

// The first byte and the pitches of one end of a 2D or 3D copy.
struct Corner {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  CUarray array;
  uint64_t pitch, rows;  // rows of a plane
  uint64_t x, y, z;
};

// Where the box fits into an array. 1D layers are planes of one row each.
bool end_in_array(const Box& box, const Corner& corner, End* end) {
  Driver* state = driver();
  if (state != nullptr) end->array = state->arrays.arrays.find(corner.array);
  if (end->array == nullptr) return false;
  const Image& image = end->array->image;
  const auto fits = [](uint64_t at, uint64_t size, uint64_t all) {
    return at <= all && size <= all - at;
  };
  end->pitch = image.pitch;
  end->slice = image.slice;
  end->x = corner.x;
  end->y = corner.y;
  end->z = corner.z;
  return fits(corner.x, box.width, image.row_bytes()) && fits(corner.y, box.height, image.height) &&
         fits(corner.z, box.depth, image.depth);
}

bool end_of(const Box& box, Corner corner, End* end) {
  switch (corner.type) {
    case CU_MEMORYTYPE_HOST:
      end->place = Place::kHost;
      end->address = number(corner.host);
      break;
    case CU_MEMORYTYPE_DEVICE:
      end->place = Place::kDevice;
      end->address = corner.device;
      break;
    case CU_MEMORYTYPE_UNIFIED:
      end->address = corner.device;
      break;
    case CU_MEMORYTYPE_ARRAY:
      return end_in_array(box, corner, end);
    default:
      return false;
  }
  if (corner.pitch == 0) corner.pitch = corner.x + box.width;
  if (corner.rows == 0) corner.rows = corner.y + box.height;
  if (corner.x > corner.pitch || box.width > corner.pitch - corner.x) return false;
  if (box.depth > 1 && (corner.y > corner.rows || box.height > corner.rows - corner.y))
    return false;
  constexpr uint64_t kMost = uint64_t{1} << 40;
  if (corner.pitch > kMost || corner.rows > kMost || corner.y > kMost || corner.z > kMost) {
    return false;
  }
  end->pitch = corner.pitch;
  Wide slice = static_cast<Wide>(corner.pitch) * corner.rows;
  Wide offset = slice * corner.z + static_cast<Wide>(corner.pitch) * corner.y + corner.x;
  if (slice >> 48 != 0 || offset >> 48 != 0) return false;
  end->slice = static_cast<uint64_t>(slice);
  end->address += static_cast<uint64_t>(offset);
  return true;
}

CUresult copy_2d(const CUDA_MEMCPY2D* c, CUstream stream, Wait wait) {
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Box box{c->WidthInBytes, c->Height, 1};
  End to;
  End from;
  if (!box.empty() && (!end_of(box,
                               {c->dstMemoryType, c->dstHost, c->dstDevice, c->dstArray,
                                c->dstPitch, 0, c->dstXInBytes, c->dstY, 0},
                               &to) ||
                       !end_of(box,
                               {c->srcMemoryType, c->srcHost, c->srcDevice, c->srcArray,
                                c->srcPitch, 0, c->srcXInBytes, c->srcY, 0},
                               &from))) {
    return in_context([](auto&, auto&) { return CUDA_ERROR_INVALID_VALUE; });
  }
  return copy(stream, box, to, from, wait);
}

// `size` bytes between a row of an array and memory, or a row of another array.
CUresult copy_row(CUmemorytype to_type, uint64_t to, CUarray to_array, CUmemorytype from_type,
                  uint64_t from, CUarray from_array, size_t size, CUstream stream, Wait wait) {
  CUDA_MEMCPY2D c{};
  c.dstMemoryType = to_type;
  c.srcMemoryType = from_type;
  c.dstArray = to_array;
  c.srcArray = from_array;
  if (to_type == CU_MEMORYTYPE_ARRAY) c.dstXInBytes = to;
  if (to_type == CU_MEMORYTYPE_DEVICE) c.dstDevice = to;
  if (to_type == CU_MEMORYTYPE_HOST) c.dstHost = reinterpret_cast<void*>(to);
  if (from_type == CU_MEMORYTYPE_ARRAY) c.srcXInBytes = from;
  if (from_type == CU_MEMORYTYPE_DEVICE) c.srcDevice = from;
  if (from_type == CU_MEMORYTYPE_HOST) c.srcHost = reinterpret_cast<const void*>(from);
  c.WidthInBytes = size;
  c.Height = 1;
  return copy_2d(&c, stream, wait);
}

// For CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER: with one address space the contexts say nothing new.
template <class Params>
bool ends_of(const Params& c, Box* box, End* to, End* from) {
  *box = {c.WidthInBytes, c.Height, c.Depth};
  if (c.srcLOD != 0 || c.dstLOD != 0) return false;
  if (box->empty()) return true;
  return end_of(*box,
                {c.dstMemoryType, c.dstHost, c.dstDevice, c.dstArray, c.dstPitch, c.dstHeight,
                 c.dstXInBytes, c.dstY, c.dstZ},
                to) &&
         end_of(*box,
                {c.srcMemoryType, c.srcHost, c.srcDevice, c.srcArray, c.srcPitch, c.srcHeight,
                 c.srcXInBytes, c.srcY, c.srcZ},
                from);
}

template <class Params>
CUresult copy_3d(const Params* c, CUstream stream, Wait wait) {
  if (c == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Box box;
  End to;
  End from;
  if (!ends_of(*c, &box, &to, &from)) {
    return in_context([](auto&, auto&) { return CUDA_ERROR_INVALID_VALUE; });
  }
  return copy(stream, box, to, from, wait);
}

// Words are stored whole: a kernel may be polling one of them. They are aligned, checked before.
template <class T>
void set_rows(const Box& box, const Rows& to, T value) {
  for (uint64_t y = 0; y < box.height; ++y) {
    T* row = reinterpret_cast<T*>(to.row(y, 0));
    for (uint64_t x = 0; x < box.width / sizeof(T); ++x) {
      std::atomic_ref<T>(row[x]).store(value, std::memory_order_relaxed);
    }
  }
}

template <>
void set_rows<uint8_t>(const Box& box, const Rows& to, uint8_t value) {
  for (uint64_t y = 0; y < box.height; ++y) std::memset(to.row(y, 0), value, box.width);
}

template <class T>
WorkQueue::Task task_of_set(Driver& state, Context& context, const Box& box, const Rows& rows,
                            bool on_device, unsigned value) {
  return [box, rows, value, on_device, &state, &context] {
    state.engines.run(context, Engine::kCompute, [&] {
      set_rows(box, rows, static_cast<T>(value));
      state.stats.bytes_set += box.bytes();
      return on_device ? Effort{box.bytes()} : Effort{0, box.bytes()};
    });
  };
}

CUresult make_set(Driver& state, Context& context, const Memory::Hold& hold,
                  const CUDA_MEMSET_NODE_PARAMS& set, WorkQueue::Task* task, Located* target) {
  const unsigned element = set.elementSize;
  if ((element != 1 && element != 2 && element != 4) || set.width > (uint64_t{1} << 46) ||
      set.dst % element != 0 || (set.height > 1 && set.pitch % element != 0) ||
      (set.height > 1 && set.pitch < set.width * element)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Box box{set.width * element, set.height, 1};
  if (box.empty()) return CUDA_SUCCESS;
  CUresult result =
      locate(state.memory, hold, box, {set.dst, set.pitch, 0, Place::kDevice}, target);
  if (result != CUDA_SUCCESS) return result;
  Rows rows{target->host, set.pitch, 0};
  *task = element == 1
              ? task_of_set<uint8_t>(state, context, box, rows, target->on_device, set.value)
          : element == 2
              ? task_of_set<uint16_t>(state, context, box, rows, target->on_device, set.value)
              : task_of_set<uint32_t>(state, context, box, rows, target->on_device, set.value);
  return CUDA_SUCCESS;
}

// `width` is counted in elements of T.
template <class T>
CUresult set(CUstream handle, CUdeviceptr address, size_t pitch, T value, size_t width,
             size_t height, Wait wait) {
  const CUDA_MEMSET_NODE_PARAMS set{address, pitch, value, sizeof(T), width, height};
  auto body = [&](Driver& state, Context& context, Stream& stream) {
    Point until;
    {
      auto hold = state.memory.hold();
      Located target;
      WorkQueue::Task task;
      CUresult result = make_set(state, context, hold, set, &task, &target);
      if (result != CUDA_SUCCESS) return result;
      if (!task) return CUDA_SUCCESS;
      Point point = context.submit(stream, std::move(task));
      // A set of device memory is not waited for even by the calls that are not called async.
      if (wait == Wait::kSync && !target.on_device) until = std::move(point);
    }
    until.wait();
    if (until.queue != nullptr) context.show_printed();
    return context.error();
  };
  if (wait == Wait::kSync) return queue_and_wait(handle, body);
  auto describe = [&](Driver& state, Context& context, Work* work) {
    const Memory::Plan plan(state.memory);
    Located target;
    WorkQueue::Task task;
    CUresult result = make_set(state, context, plan.hold, set, &task, &target);
    if (result == CUDA_SUCCESS && task) *work = SetCall{set};
    return result;
  };
  return queue_or_capture(handle, describe, body);
}

}  // namespace

CUresult copy_task(Driver& driver, Context& context, const Memory::Hold& hold,
                   const CUDA_MEMCPY3D& copy, WorkQueue::Task* task) {
  Box box;
  End to;
  End from;
  Located target;
  Located source;
  if (!ends_of(copy, &box, &to, &from)) return CUDA_ERROR_INVALID_VALUE;
  if (box.empty()) return CUDA_SUCCESS;
  CUresult result = locate(driver.memory, hold, box, to, &target);
  if (result == CUDA_SUCCESS) result = locate(driver.memory, hold, box, from, &source);
  if (result != CUDA_SUCCESS) return result;
  *task = task_of_copy(driver, context, box, rows_of(target, to), rows_of(source, from), nullptr,
                       target, source);
  return CUDA_SUCCESS;
}

CUresult set_task(Driver& driver, Context& context, const Memory::Hold& hold,
                  const CUDA_MEMSET_NODE_PARAMS& set, WorkQueue::Task* task) {
  Located target;
  return make_set(driver, context, hold, set, task, &target);
}

}  // namespace simcuda

using simcuda::copy_2d;
using simcuda::copy_3d;
using simcuda::copy_box_batch;
using simcuda::copy_linear;
using simcuda::copy_plain_batch;
using simcuda::copy_row;
using simcuda::number;
using simcuda::Place;
using simcuda::set;
using simcuda::Wait;

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size) {
  return copy_linear(nullptr, to, Place::kAny, from, Place::kAny, size, Wait::kSync);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  return copy_linear(stream, to, Place::kAny, from, Place::kAny, size, Wait::kAsync);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t size) {
  return copy_linear(nullptr, to, Place::kDevice, number(from), Place::kHost, size, Wait::kSync);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t size, CUstream stream) {
  return copy_linear(stream, to, Place::kDevice, number(from), Place::kHost, size, Wait::kAsync);
}

CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t size) {
  return copy_linear(nullptr, number(to), Place::kHost, from, Place::kDevice, size, Wait::kSync);
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t size, CUstream stream) {
  return copy_linear(stream, number(to), Place::kHost, from, Place::kDevice, size, Wait::kAsync);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size) {
  return copy_linear(nullptr, to, Place::kDevice, from, Place::kDevice, size, Wait::kSync);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  return copy_linear(stream, to, Place::kDevice, from, Place::kDevice, size, Wait::kAsync);
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t size) {
  return copy_linear(nullptr, to, Place::kDevice, from, Place::kDevice, size, Wait::kSync);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t size,
                           CUstream stream) {
  return copy_linear(stream, to, Place::kDevice, from, Place::kDevice, size, Wait::kAsync);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* parameters) {
  return copy_2d(parameters, nullptr, Wait::kSync);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* parameters) {
  return copy_2d(parameters, nullptr, Wait::kSync);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* parameters, CUstream stream) {
  return copy_2d(parameters, stream, Wait::kAsync);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* parameters) {
  return copy_3d(parameters, nullptr, Wait::kSync);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* parameters, CUstream stream) {
  return copy_3d(parameters, stream, Wait::kAsync);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* parameters) {
  return copy_3d(parameters, nullptr, Wait::kSync);
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* parameters, CUstream stream) {
  return copy_3d(parameters, stream, Wait::kAsync);
}

CUresult cuMemcpyHtoA_v2(CUarray to, size_t offset, const void* from, size_t size) {
  return copy_row(CU_MEMORYTYPE_ARRAY, offset, to, CU_MEMORYTYPE_HOST, number(from), nullptr, size,
                  nullptr, Wait::kSync);
}

CUresult cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void* from, size_t size,
                              CUstream stream) {
  return copy_row(CU_MEMORYTYPE_ARRAY, offset, to, CU_MEMORYTYPE_HOST, number(from), nullptr, size,
                  stream, Wait::kAsync);
}

CUresult cuMemcpyAtoH_v2(void* to, CUarray from, size_t offset, size_t size) {
  return copy_row(CU_MEMORYTYPE_HOST, number(to), nullptr, CU_MEMORYTYPE_ARRAY, offset, from, size,
                  nullptr, Wait::kSync);
}

CUresult cuMemcpyAtoHAsync_v2(void* to, CUarray from, size_t offset, size_t size, CUstream stream) {
  return copy_row(CU_MEMORYTYPE_HOST, number(to), nullptr, CU_MEMORYTYPE_ARRAY, offset, from, size,
                  stream, Wait::kAsync);
}

CUresult cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t size) {
  return copy_row(CU_MEMORYTYPE_ARRAY, offset, to, CU_MEMORYTYPE_DEVICE, from, nullptr, size,
                  nullptr, Wait::kSync);
}

CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t size) {
  return copy_row(CU_MEMORYTYPE_DEVICE, to, nullptr, CU_MEMORYTYPE_ARRAY, offset, from, size,
                  nullptr, Wait::kSync);
}

CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset,
                         size_t size) {
  return copy_row(CU_MEMORYTYPE_ARRAY, to_offset, to, CU_MEMORYTYPE_ARRAY, from_offset, from, size,
                  nullptr, Wait::kSync);
}

CUresult cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count,
                            CUmemcpyAttributes* attributes, size_t* firsts, size_t attribute_count,
                            size_t* failed, CUstream stream) {
  return copy_plain_batch(to, from, sizes, count, attributes, firsts, attribute_count, failed,
                          stream);
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from, size_t* sizes, size_t count,
                               CUmemcpyAttributes* attributes, size_t* firsts,
                               size_t attribute_count, CUstream stream) {
  return copy_plain_batch(to, from, sizes, count, attributes, firsts, attribute_count, nullptr,
                          stream);
}

CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP* copies, size_t* failed,
                              unsigned long long flags, CUstream stream) {
  return copy_box_batch(count, copies, failed, flags, stream);
}

CUresult cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP* copies,
                                 unsigned long long flags, CUstream stream) {
  return copy_box_batch(count, copies, nullptr, flags, stream);
}

CUresult cuMemsetD8_v2(CUdeviceptr address, unsigned char value, size_t count) {
  return set<uint8_t>(nullptr, address, 0, value, count, 1, Wait::kSync);
}

CUresult cuMemsetD16_v2(CUdeviceptr address, unsigned short value, size_t count) {
  return set<uint16_t>(nullptr, address, 0, value, count, 1, Wait::kSync);
}

CUresult cuMemsetD32_v2(CUdeviceptr address, unsigned value, size_t count) {
  return set<uint32_t>(nullptr, address, 0, value, count, 1, Wait::kSync);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr address, size_t pitch, unsigned char value, size_t width,
                         size_t height) {
  return set<uint8_t>(nullptr, address, pitch, value, width, height, Wait::kSync);
}

CUresult cuMemsetD2D16_v2(CUdeviceptr address, size_t pitch, unsigned short value, size_t width,
                          size_t height) {
  return set<uint16_t>(nullptr, address, pitch, value, width, height, Wait::kSync);
}

CUresult cuMemsetD2D32_v2(CUdeviceptr address, size_t pitch, unsigned value, size_t width,
                          size_t height) {
  return set<uint32_t>(nullptr, address, pitch, value, width, height, Wait::kSync);
}

CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t count, CUstream stream) {
  return set<uint8_t>(stream, address, 0, value, count, 1, Wait::kAsync);
}

CUresult cuMemsetD16Async(CUdeviceptr address, unsigned short value, size_t count,
                          CUstream stream) {
  return set<uint16_t>(stream, address, 0, value, count, 1, Wait::kAsync);
}

CUresult cuMemsetD32Async(CUdeviceptr address, unsigned value, size_t count, CUstream stream) {
  return set<uint32_t>(stream, address, 0, value, count, 1, Wait::kAsync);
}

CUresult cuMemsetD2D8Async(CUdeviceptr address, size_t pitch, unsigned char value, size_t width,
                           size_t height, CUstream stream) {
  return set<uint8_t>(stream, address, pitch, value, width, height, Wait::kAsync);
}

CUresult cuMemsetD2D16Async(CUdeviceptr address, size_t pitch, unsigned short value, size_t width,
                            size_t height, CUstream stream) {
  return set<uint16_t>(stream, address, pitch, value, width, height, Wait::kAsync);
}

CUresult cuMemsetD2D32Async(CUdeviceptr address, size_t pitch, unsigned value, size_t width,
                            size_t height, CUstream stream) {
  return set<uint32_t>(stream, address, pitch, value, width, height, Wait::kAsync);
}
