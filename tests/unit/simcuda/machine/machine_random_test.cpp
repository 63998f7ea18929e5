// Random programs with branches and loops that diverge, against an evaluator of one thread.
#include <array>
#include <sstream>

#include "tests/unit/simcuda/machine/values.h"

namespace simcuda::test::random_test {
namespace {

constexpr uint32_t kPrograms = 3000;
constexpr size_t kOfEach = 6;  // registers of each class

// The registers of a thread, by class, as bits.
enum Class : uint8_t { kHalfWord, kWord, kLong, kSingle, kDouble, kPredicate, kClasses };
constexpr const char* kPrefix[] = {"%h", "%r", "%x", "%f", "%d", "%p"};
constexpr uint32_t kWidth[] = {16, 32, 64, 32, 64, 1};
using Thread = std::array<std::array<uint64_t, kOfEach>, kClasses>;
constexpr size_t kThreadBytes = kClasses * kOfEach * 8;

using Sources = std::array<uint64_t, 3>;
struct Operation {
  const char* name;
  Class to;
  std::vector<Class> from;
  uint64_t (*apply)(const Sources&);
};

int32_t s32(uint64_t x) {
  return static_cast<int32_t>(static_cast<uint32_t>(x));
}
int64_t s64(uint64_t x) {
  return static_cast<int64_t>(x);
}
template <class T>
T opaque(T x) {
  volatile T v = x;
  return v;
}
uint64_t single(float r) {
  return std::isnan(r) ? 0x7fffffff : bits(opaque(r));
}
// The payload is the first NaN's.
uint64_t twofold(double r, const Sources& s, size_t count) {
  if (!std::isnan(r)) return bits(r);
  for (size_t i = 0; i < count; ++i) {
    if (std::isnan(f64(s[i]))) return s[i] | uint64_t{1} << 51;
  }
  return 0xfff8000000000000;
}
template <class F>
uint64_t rounded(const char* mode, const F& f) {
  const HostRounding host(mode);
  return f();
}

#define OPERATION(...) [](const Sources& s) -> uint64_t { return __VA_ARGS__; }

const std::vector<Operation>& operations() {
  constexpr Class H = kHalfWord, W = kWord, L = kLong, F = kSingle, D = kDouble, P = kPredicate;
  static const std::vector<Operation> kList = {
      {"add.s32", W, {W, W}, OPERATION(s[0] + s[1])},
      {"sub.s32", W, {W, W}, OPERATION(s[0] - s[1])},
      {"mul.lo.s32", W, {W, W}, OPERATION(s[0] * s[1])},
      {"mul.hi.u32", W, {W, W}, OPERATION(s[0] * s[1] >> 32)},
      {"mul.wide.s32",
       L,
       {W, W},
       OPERATION(static_cast<uint64_t>(int64_t{s32(s[0])} * int64_t{s32(s[1])}))},
      {"mul.wide.u32", L, {W, W}, OPERATION(s[0] * s[1])},
      {"mad.lo.s32", W, {W, W, W}, OPERATION(s[0] * s[1] + s[2])},
      {"mad.wide.u32", L, {W, W, L}, OPERATION(s[0] * s[1] + s[2])},
      {"div.u32", W, {W, W}, OPERATION(s[1] == 0 ? ~uint64_t{0} : s[0] / s[1])},
      {"rem.u32", W, {W, W}, OPERATION(s[1] == 0 ? s[0] : s[0] % s[1])},
      {"min.s32", W, {W, W}, OPERATION(s32(s[0]) < s32(s[1]) ? s[0] : s[1])},
      {"max.u32", W, {W, W}, OPERATION(s[0] > s[1] ? s[0] : s[1])},
      {"and.b32", W, {W, W}, OPERATION(s[0] & s[1])},
      {"xor.b32", W, {W, W}, OPERATION(s[0] ^ s[1])},
      {"not.b32", W, {W}, OPERATION(~s[0])},
      {"neg.s32", W, {W}, OPERATION(0 - s[0])},
      {"shl.b32", W, {W, W}, OPERATION(s[1] > 31 ? 0 : s[0] << s[1])},
      {"shr.u32", W, {W, W}, OPERATION(s[1] > 31 ? 0 : s[0] >> s[1])},
      {"shr.s32",
       W,
       {W, W},
       OPERATION(static_cast<uint64_t>(s32(s[0]) >> (s[1] > 31 ? 31 : s[1])))},
      {"popc.b32", W, {W}, OPERATION(static_cast<uint64_t>(std::popcount(s[0])))},
      {"clz.b32",
       W,
       {W},
       OPERATION(static_cast<uint64_t>(std::countl_zero(static_cast<uint32_t>(s[0]))))},
      {"selp.b32", W, {W, W, P}, OPERATION(s[2] ? s[0] : s[1])},
      {"add.s64", L, {L, L}, OPERATION(s[0] + s[1])},
      {"sub.s64", L, {L, L}, OPERATION(s[0] - s[1])},
      {"mul.lo.s64", L, {L, L}, OPERATION(s[0] * s[1])},
      {"and.b64", L, {L, L}, OPERATION(s[0] & s[1])},
      {"or.b64", L, {L, L}, OPERATION(s[0] | s[1])},
      {"shl.b64", L, {L, W}, OPERATION(s[1] > 63 ? 0 : s[0] << s[1])},
      {"shr.s64",
       L,
       {L, W},
       OPERATION(static_cast<uint64_t>(s64(s[0]) >> (s[1] > 63 ? 63 : s[1])))},
      {"min.s64", L, {L, L}, OPERATION(s64(s[0]) < s64(s[1]) ? s[0] : s[1])},
      {"popc.b64", W, {L}, OPERATION(static_cast<uint64_t>(std::popcount(s[0])))},
      {"selp.b64", L, {L, L, P}, OPERATION(s[2] ? s[0] : s[1])},
      {"add.s16", H, {H, H}, OPERATION(s[0] + s[1])},
      {"mul.lo.s16", H, {H, H}, OPERATION(s[0] * s[1])},
      {"mul.wide.u16", W, {H, H}, OPERATION(s[0] * s[1])},
      {"xor.b16", H, {H, H}, OPERATION(s[0] ^ s[1])},
      {"max.u16", H, {H, H}, OPERATION(s[0] > s[1] ? s[0] : s[1])},
      {"cvt.u16.u32", H, {W}, OPERATION(s[0])},
      {"cvt.s32.s16",
       W,
       {H},
       OPERATION(static_cast<uint64_t>(static_cast<int16_t>(static_cast<uint16_t>(s[0]))))},
      {"cvt.u32.u64", W, {L}, OPERATION(s[0])},
      {"cvt.s64.s32", L, {W}, OPERATION(static_cast<uint64_t>(int64_t{s32(s[0])}))},
      {"cvt.u64.u32", L, {W}, OPERATION(s[0])},
      {"cvt.rn.f32.s32", F, {W}, OPERATION(single(static_cast<float>(s32(s[0]))))},
      {"cvt.rn.f64.s32", D, {W}, OPERATION(bits(static_cast<double>(s32(s[0]))))},
      {"cvt.rzi.s32.f32",
       W,
       {F},
       OPERATION(std::isnan(f32(s[0]))   ? 0
                 : f32(s[0]) >= 0x1p31f  ? 0x7fffffff
                 : f32(s[0]) <= -0x1p31f ? 0x80000000
                                         : static_cast<uint64_t>(static_cast<int32_t>(f32(s[0]))))},
      {"cvt.rn.f32.f64", F, {D}, OPERATION(single(static_cast<float>(opaque(f64(s[0])))))},
      {"add.f32", F, {F, F}, OPERATION(single(f32(s[0]) + f32(s[1])))},
      {"sub.f32", F, {F, F}, OPERATION(single(f32(s[0]) - f32(s[1])))},
      {"mul.f32", F, {F, F}, OPERATION(single(f32(s[0]) * f32(s[1])))},
      {"mul.ftz.f32",
       F,
       {F, F},
       OPERATION(single(flush(opaque(flush(f32(s[0])) * flush(f32(s[1]))))))},
      {"fma.rn.f32", F, {F, F, F}, OPERATION(single(std::fma(f32(s[0]), f32(s[1]), f32(s[2]))))},
      {"div.rn.f32", F, {F, F}, OPERATION(single(f32(s[0]) / f32(s[1])))},
      {"sqrt.rn.f32", F, {F}, OPERATION(single(std::sqrt(f32(s[0]))))},
      {"add.rm.f32",
       F,
       {F, F},
       OPERATION(rounded("rm", [&] { return single(opaque(f32(s[0])) + opaque(f32(s[1]))); }))},
      {"mul.rp.f32",
       F,
       {F, F},
       OPERATION(rounded("rp", [&] { return single(opaque(f32(s[0])) * opaque(f32(s[1]))); }))},
      {"neg.f32", F, {F}, OPERATION(s[0] ^ 0x80000000)},
      {"abs.f32", F, {F}, OPERATION(s[0] & 0x7fffffff)},
      {"selp.f32", F, {F, F, P}, OPERATION(s[2] ? s[0] : s[1])},
      {"add.f64", D, {D, D}, OPERATION(twofold(f64(s[0]) + f64(s[1]), s, 2))},
      {"mul.f64", D, {D, D}, OPERATION(twofold(f64(s[0]) * f64(s[1]), s, 2))},
      {"fma.rn.f64",
       D,
       {D, D, D},
       OPERATION(twofold(std::fma(f64(s[0]), f64(s[1]), f64(s[2])), s, 3))},
      {"div.rz.f64",
       D,
       {D, D},
       OPERATION(rounded(
           "rz", [&] { return twofold(opaque(opaque(f64(s[0])) / opaque(f64(s[1]))), s, 2); }))},
      {"setp.lt.s32", P, {W, W}, OPERATION(s32(s[0]) < s32(s[1]))},
      {"setp.hs.u32", P, {W, W}, OPERATION(s[0] >= s[1])},
      {"setp.ne.s16", P, {H, H}, OPERATION(s[0] != s[1])},
      {"setp.gt.s64", P, {L, L}, OPERATION(s64(s[0]) > s64(s[1]))},
      {"setp.lt.f32", P, {F, F}, OPERATION(f32(s[0]) < f32(s[1]))},
      {"setp.geu.f64", P, {D, D}, OPERATION(!(f64(s[0]) < f64(s[1])))},
      {"setp.lt.xor.u32", P, {W, W, P}, OPERATION((s[0] < s[1]) != (s[2] != 0))},
      {"and.pred", P, {P, P}, OPERATION(s[0] & s[1])},
      {"not.pred", P, {P}, OPERATION(s[0] ^ 1)},
      {"mov.b32", W, {F}, OPERATION(s[0])},
      {"mov.b64", D, {L}, OPERATION(s[0])},
  };
  return kList;
}

// A statement is an operation, or a block that some of the threads run, once or several times.
struct Statement {
  const Operation* operation = nullptr;
  size_t to = 0;
  std::array<size_t, 3> from{};
  bool immediate = false;  // instead of the second source
  uint64_t constant = 0;
  int guard = -1;  // predicate; of a block: which branch
  bool negated = false;
  std::vector<Statement> then, otherwise;
  uint32_t rounds = 0;  // of a loop: this and the low bits of word `to`, which are a count
};

class Program {
 public:
  explicit Program(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 1) {
    body_ = block(24 + pick(24), 0);
  }
  std::string text();
  void run(Thread& thread) const { run(body_, thread); }
  uint64_t pick(uint64_t n) { return next_random(state_) % n; }

 private:
  std::vector<Statement> block(size_t length, int depth);
  Statement plain();
  void emit(const std::vector<Statement>& list);
  void emit_operation(const Statement& s);
  static void run(const std::vector<Statement>& list, Thread& thread);
  static void run_operation(const Statement& s, Thread& thread);

  uint64_t state_;
  std::vector<Statement> body_;
  std::ostringstream out_;
  int labels_ = 0;
};

Statement Program::plain() {
  Statement s;
  s.operation = &operations()[pick(operations().size())];
  s.to = pick(kOfEach);
  for (size_t& from : s.from) from = pick(kOfEach);
  const auto& from = s.operation->from;
  const Class second = from.size() > 1 ? from[1] : kPredicate;
  s.immediate = pick(4) == 0 && (second == kWord || second == kLong);
  s.constant = pick(2) == 0 ? pick(40) : pick(uint64_t{1} << 31);
  if (pick(5) == 0) s.guard = static_cast<int>(pick(kOfEach));
  s.negated = pick(2) == 0;
  return s;
}

std::vector<Statement> Program::block(size_t length, int depth) {
  std::vector<Statement> list;
  while (list.size() < length) {
    if (depth >= 3 || pick(8) != 0) {
      list.push_back(plain());
      continue;
    }
    Statement s;
    s.then = block(1 + pick(6), depth + 1);
    if (pick(3) == 0) {
      s.rounds = static_cast<uint32_t>(1 + pick(3));
      s.to = pick(kOfEach);
    } else {
      s.guard = static_cast<int>(pick(kOfEach));
      s.negated = pick(2) == 0;
      if (pick(2) == 0) s.otherwise = block(1 + pick(6), depth + 1);
    }
    list.push_back(std::move(s));
  }
  return list;
}

void Program::run_operation(const Statement& s, Thread& thread) {
  const Operation& op = *s.operation;
  if (s.guard >= 0 && (thread[kPredicate][static_cast<size_t>(s.guard)] != 0) == s.negated) return;
  Sources sources{};
  for (size_t i = 0; i < op.from.size(); ++i) sources[i] = thread[op.from[i]][s.from[i]];
  if (s.immediate) sources[1] = s.constant;
  const uint64_t r = op.apply(sources);
  const uint32_t width = kWidth[op.to];
  thread[op.to][s.to] = width == 64 ? r : r & ((uint64_t{1} << width) - 1);
}

void Program::run(const std::vector<Statement>& list, Thread& thread) {
  for (const Statement& s : list) {
    if (s.operation != nullptr) {
      run_operation(s, thread);
    } else if (s.rounds != 0) {
      const uint64_t count = s.rounds + (thread[kWord][s.to] & 3);
      for (uint64_t i = 0; i < count; ++i) run(s.then, thread);
    } else {
      const bool taken = (thread[kPredicate][static_cast<size_t>(s.guard)] != 0) != s.negated;
      run(taken ? s.then : s.otherwise, thread);
    }
  }
}

void Program::emit_operation(const Statement& s) {
  const Operation& op = *s.operation;
  if (s.guard >= 0) out_ << (s.negated ? "@!%p" : "@%p") << s.guard << " ";
  out_ << op.name << " " << kPrefix[op.to] << s.to;
  for (size_t i = 0; i < op.from.size(); ++i) {
    out_ << ", ";
    if (i == 1 && s.immediate) {
      out_ << s.constant;
    } else {
      out_ << kPrefix[op.from[i]] << s.from[i];
    }
  }
  out_ << ";\n";
}

void Program::emit(const std::vector<Statement>& list) {
  for (const Statement& s : list) {
    if (s.operation != nullptr) {
      emit_operation(s);
      continue;
    }
    const int label = labels_++;
    if (s.rounds != 0) {
      out_ << "{ .reg .b32 %n; .reg .pred %again; and.b32 %n, %r" << s.to << ", 3; add.u32 %n, %n, "
           << s.rounds << ";\nL" << label << ":\n";
      emit(s.then);
      out_ << "sub.u32 %n, %n, 1; setp.ne.u32 %again, %n, 0; @%again bra L" << label << "; }\n";
      continue;
    }
    out_ << (s.negated ? "@%p" : "@!%p") << s.guard << " bra E" << label << ";\n";
    emit(s.then);
    out_ << "bra J" << label << ";\nE" << label << ":\n";
    emit(s.otherwise);
    out_ << "J" << label << ":\n";
  }
}

// Every thread loads its registers, runs, and stores them.
std::string Program::text() {
  out_.str("");
  out_ << ".visible .entry k(.param .u64 memory) {\n.reg .b16 %h<6>; .reg .b32 %r<6>; .reg .b64 "
          "%x<6>; .reg .f32 %f<6>; .reg .f64 %d<6>; .reg .pred %p<6>;\n"
          ".reg .b64 %m; .reg .b64 %o; .reg .b32 %t;\nld.param.u64 %m, [memory]; mov.u32 %t, "
          "%tid.x; mul.wide.u32 %o, %t, "
       << kThreadBytes << "; add.u64 %m, %m, %o;\n";
  for (const bool load : {true, false}) {
    for (size_t c = 0; c < kClasses; ++c) {
      for (size_t i = 0; i < kOfEach; ++i) {
        const std::string at = "[%m+" + std::to_string((c * kOfEach + i) * 8) + "]";
        const std::string name = kPrefix[c] + std::to_string(i);
        if (c == kPredicate) {
          out_ << (load ? "ld.global.b32 %t, " + at + "; setp.ne.u32 " + name + ", %t, 0;\n"
                        : "selp.b32 %t, 1, 0, " + name + "; st.global.b32 " + at + ", %t;\n");
          continue;
        }
        const std::string type = ".b" + std::to_string(kWidth[c]) + " ";
        out_ << (load ? "ld.global" + type + name + ", " + at + ";\n"
                      : "st.global" + type + at + ", " + name + ";\n");
      }
    }
    if (load) emit(body_);
  }
  out_ << "ret; }\n";
  return out_.str();
}

std::vector<Thread> threads_for(Program& program) {
  std::vector<Thread> threads(1 + program.pick(64));
  const auto halves = integer_edges(16), words = integer_edges(32), longs = integer_edges(64);
  const auto singles = float_edges(), doubles = double_edges();
  for (Thread& t : threads) {
    for (size_t i = 0; i < kOfEach; ++i) {
      t[kHalfWord][i] = halves[program.pick(halves.size())];
      t[kWord][i] = words[program.pick(words.size())];
      t[kLong][i] = longs[program.pick(longs.size())];
      t[kSingle][i] = program.pick(2) == 0 ? bits(static_cast<float>(program.pick(1000)) / 8 - 50)
                                           : singles[program.pick(singles.size())];
      t[kDouble][i] = program.pick(2) == 0 ? bits(static_cast<double>(program.pick(1000)) / 8 - 50)
                                           : doubles[program.pick(doubles.size())];
      t[kPredicate][i] = program.pick(2);
    }
  }
  return threads;
}

bool agrees(uint64_t seed) {
  Program program(seed);
  const std::string text = program.text();
  std::vector<Thread> threads = threads_for(program);
  Machine machine(text);
  if (!machine.ok()) {
    ADD_FAILURE() << "seed " << seed << ": " << machine.error().instruction << ": "
                  << machine.error().reason;
    return false;
  }
  const uint64_t memory = machine.buffer(threads);
  const auto count = static_cast<uint32_t>(threads.size());
  const Fault fault = machine.launch("k", {1, 1, 1}, {count, 1, 1}, {memory});
  EXPECT_EQ(fault.message, "") << "seed " << seed;
  const auto got = machine.read<Thread>(memory, count);
  for (uint32_t t = 0; t < count; ++t) {
    program.run(threads[t]);
    for (size_t c = 0; c < kClasses; ++c) {
      for (size_t i = 0; i < kOfEach; ++i) {
        if (got[t][c][i] == threads[t][c][i]) continue;
        ADD_FAILURE() << "seed " << seed << " thread " << t << " " << kPrefix[c] << i << std::hex
                      << ": got " << got[t][c][i] << ", want " << threads[t][c][i] << "\n"
                      << text;
        return false;
      }
    }
  }
  return true;
}

TEST(Random, ProgramsDoWhatTheirThreadsDoAlone) {
  int failures = 0;
  for (uint64_t seed = 1; seed <= kPrograms && failures < 2; ++seed) {
    if (!agrees(seed)) ++failures;
  }
}

}  // namespace
}  // namespace simcuda::test::random_test
