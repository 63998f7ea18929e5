#include "tools/simcuda/machine/print.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>

#include "tools/simcuda/machine.h"

namespace simcuda {
namespace {

constexpr size_t kMostText = 1 << 16;  // of one string
constexpr int kMostWidth = 4096;

// Memory as one lane sees it.
class LaneMemory {
 public:
  LaneMemory(const WarpView& warp, uint32_t lane) : w_(warp), lane_(lane) {}

  // Null where it cannot be read.
  const std::byte* find(uint64_t address, uint64_t bytes) const {
    if (address - kLocalWindow < kWindowBytes) {
      return within(w_.local + lane_ * w_.local_bytes, w_.local_bytes, address - kLocalWindow,
                    bytes);
    }
    if (address - kSharedWindow < kWindowBytes) {
      return within(w_.shared, w_.shared_bytes, address - kSharedWindow, bytes);
    }
    if (address - kParameterWindow < kWindowBytes) {
      return within(w_.parameters, w_.parameter_bytes, address - kParameterWindow, bytes);
    }
    const Extent* end = w_.extents + w_.extent_count;
    const Extent* after =
        std::upper_bound(w_.extents, end, address,
                         [](uint64_t a, const Extent& extent) { return a < extent.address; });
    if (after == w_.extents) return nullptr;
    const Extent& extent = after[-1];
    return within(extent.host, extent.size, address - extent.address, bytes);
  }

  std::string string(uint64_t address) const {
    std::string text;
    for (; text.size() < kMostText; ++address) {
      const std::byte* at = find(address, 1);
      if (at == nullptr) return text + '?';
      if (*at == std::byte{0}) break;
      text += static_cast<char>(*at);
    }
    return text;
  }

 private:
  static const std::byte* within(const std::byte* base, uint64_t size, uint64_t at,
                                 uint64_t bytes) {
    return at < size && size - at >= bytes ? base + at : nullptr;
  }

  const WarpView& w_;
  uint32_t lane_;
};

// Arguments lie one after the other, each at a multiple of its size.
class Arguments {
 public:
  Arguments(const LaneMemory& memory, uint64_t address) : memory_(memory), at_(address) {}
  template <class T>
  T next() {
    at_ = (at_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    T value{};
    if (const std::byte* from = memory_.find(at_, sizeof value)) {
      std::memcpy(&value, from, sizeof value);
    }
    at_ += sizeof(T);
    ++count_;
    return value;
  }
  int32_t count() const { return count_; }

 private:
  const LaneMemory& memory_;
  uint64_t at_;
  int32_t count_ = 0;
};

// One conversion of a format: %[flags][width][.precision][size]type
struct Conversion {
  std::string host;  // as the host's printf() wants it, without size and type
  bool wide = false;
  char type = 0;
  size_t length = 0;
};

bool is_one_of(char c, std::string_view set) {
  return c != 0 && set.find(c) != std::string_view::npos;
}

std::optional<Conversion> parse(std::string_view text, Arguments& arguments) {
  Conversion c;
  size_t at = 1;
  const auto peek = [&] { return at < text.size() ? text[at] : '\0'; };
  const auto number = [&] {
    if (peek() == '*') {
      ++at;
      c.host += std::to_string(std::clamp(arguments.next<int32_t>(), -kMostWidth, kMostWidth));
      return;
    }
    int value = 0;
    bool any = false;
    for (; is_one_of(peek(), "0123456789"); ++at, any = true) {
      value = std::min(value * 10 + (text[at] - '0'), kMostWidth);
    }
    if (any) c.host += std::to_string(value);
  };
  c.host = "%";
  for (; is_one_of(peek(), "-+ #0"); ++at) c.host += text[at];
  number();
  if (peek() == '.') {
    c.host += '.';
    ++at;
    number();
  }
  for (; is_one_of(peek(), "hlLqjzt"); ++at) c.wide = c.wide || text[at] != 'h';
  c.type = peek();
  c.length = at + 1;
  if (!is_one_of(c.type, "diouxXcsaAeEfFgGp%")) return std::nullopt;
  return c;
}

template <class T>
void append(std::string& text, const std::string& conversion, T value) {
  char buffer[2 * kMostWidth + 512];
  // The format is the device's, checked and put together again above.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  const int length = std::snprintf(buffer, sizeof buffer, conversion.c_str(), value);
#pragma GCC diagnostic pop
  if (length > 0)
    text.append(buffer, std::min<size_t>(static_cast<size_t>(length), sizeof buffer - 1));
}

void append(std::string& text, const Conversion& c, Arguments& arguments,
            const LaneMemory& memory) {
  switch (c.type) {
    case '%':
      text += '%';
      return;
    case 's': {
      const auto address = arguments.next<uint64_t>();
      const std::string value = address == 0 ? "(null)" : memory.string(address);
      if (c.host == "%") {
        text += value;
      } else {
        append(text, c.host + 's', value.c_str());
      }
      return;
    }
    case 'p':
      return append(text, c.host + 'p', reinterpret_cast<void*>(arguments.next<uint64_t>()));
    case 'c':
      return append(text, c.host + 'c', arguments.next<int32_t>());
    case 'a':
    case 'A':
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      return append(text, c.host + c.type, arguments.next<double>());
    default:
      if (c.wide) return append(text, c.host + "ll" + c.type, arguments.next<int64_t>());
      return append(text, c.host + c.type, arguments.next<int32_t>());
  }
}

}  // namespace

int32_t format(const WarpView& warp, uint32_t lane, uint64_t format_address,
               uint64_t arguments_address, std::string& text) {
  if (format_address == 0) return -1;
  const LaneMemory memory(warp, lane);
  const std::string format = memory.string(format_address);
  Arguments arguments(memory, arguments_address);
  for (size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      text += format[at++];
      continue;
    }
    const auto conversion = parse(std::string_view(format).substr(at), arguments);
    if (!conversion) {
      text += format[at++];
      continue;
    }
    append(text, *conversion, arguments, memory);
    at += conversion->length;
  }
  return arguments.count();
}

}  // namespace simcuda
