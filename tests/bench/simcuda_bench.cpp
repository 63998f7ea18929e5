// How fast the software GPU is: thread instructions a second on one core.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <vector>

#include "tools/simcuda/machine.h"

namespace {

constexpr const char* kText = R"(
.version 8.0
.target sm_75
.address_size 64

// Five points of a plane of width n.
.visible .entry stencil(.param .u64 from, .param .u64 to, .param .u32 n) {
  .reg .pred %p; .reg .b32 %r<16>; .reg .b64 %rd<8>; .reg .f32 %f<12>;
  ld.param.u64 %rd1, [from]; ld.param.u64 %rd2, [to]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;
  mov.u32 %r6, %ctaid.y; mov.u32 %r7, %ntid.y; mov.u32 %r8, %tid.y; mad.lo.s32 %r9, %r6, %r7, %r8;
  sub.s32 %r10, %r1, 1;
  setp.lt.s32 %p, %r5, 1; @%p bra DONE;
  setp.ge.s32 %p, %r5, %r10; @%p bra DONE;
  setp.lt.s32 %p, %r9, 1; @%p bra DONE;
  setp.ge.s32 %p, %r9, %r10; @%p bra DONE;
  mad.lo.s32 %r11, %r9, %r1, %r5;
  mul.wide.s32 %rd3, %r11, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
  mul.wide.s32 %rd6, %r1, 4; add.s64 %rd7, %rd4, %rd6; sub.s64 %rd0, %rd4, %rd6;
  ld.global.f32 %f1, [%rd4]; ld.global.f32 %f2, [%rd4+-4]; ld.global.f32 %f3, [%rd4+4];
  ld.global.f32 %f4, [%rd7]; ld.global.f32 %f5, [%rd0];
  add.f32 %f6, %f2, %f3; add.f32 %f7, %f4, %f5; add.f32 %f8, %f6, %f7;
  fma.rn.f32 %f9, %f1, 0fC0800000, %f8; fma.rn.f32 %f10, %f9, 0f3DCCCCCD, %f1;
  st.global.f32 [%rd5], %f10;
DONE: ret;
}

// c = a * b, one element a thread.
.visible .entry multiply(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) {
  .reg .pred %p; .reg .b32 %r<16>; .reg .b64 %rd<12>; .reg .f32 %f<6>;
  ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [c]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;
  mov.u32 %r6, %ctaid.y;
  mul.lo.s32 %r7, %r6, %r1; mul.wide.s32 %rd4, %r7, 4; add.s64 %rd1, %rd1, %rd4;
  mul.wide.s32 %rd5, %r5, 4; add.s64 %rd2, %rd2, %rd5; mul.wide.s32 %rd6, %r1, 4;
  mov.f32 %f1, 0f00000000; mov.u32 %r8, 0;
LOOP:
  ld.global.f32 %f2, [%rd1]; ld.global.f32 %f3, [%rd2]; fma.rn.f32 %f1, %f2, %f3, %f1;
  add.s64 %rd1, %rd1, 4; add.s64 %rd2, %rd2, %rd6; add.s32 %r8, %r8, 1;
  setp.lt.s32 %p, %r8, %r1; @%p bra LOOP;
  add.s32 %r9, %r7, %r5; mul.wide.s32 %rd7, %r9, 4; add.s64 %rd3, %rd3, %rd7;
  st.global.f32 [%rd3], %f1; ret;
}

// Sums of 256 doubles each, in shared memory.
.visible .entry reduce(.param .u64 from, .param .u64 to) {
  .reg .pred %p; .reg .b32 %r<10>; .reg .b64 %rd<8>; .reg .f64 %d<4>;
  .shared .align 8 .b8 part[2048];
  ld.param.u64 %rd1, [from]; ld.param.u64 %rd2, [to];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; shl.b32 %r3, %r2, 8; add.s32 %r3, %r3, %r1;
  mul.wide.u32 %rd3, %r3, 8; add.s64 %rd3, %rd1, %rd3; ld.global.f64 %d1, [%rd3];
  mov.u32 %r4, part; shl.b32 %r5, %r1, 3; add.s32 %r4, %r4, %r5; st.shared.f64 [%r4], %d1;
  mov.u32 %r6, 128;
LOOP:
  bar.sync 0;
  setp.ge.u32 %p, %r1, %r6; @%p bra NEXT;
  shl.b32 %r7, %r6, 3; add.s32 %r8, %r4, %r7;
  ld.shared.f64 %d1, [%r4]; ld.shared.f64 %d2, [%r8]; add.f64 %d1, %d1, %d2; st.shared.f64 [%r4], %d1;
NEXT:
  shr.u32 %r6, %r6, 1; setp.ne.u32 %p, %r6, 0; @%p bra LOOP;
  setp.ne.u32 %p, %r1, 0; @%p bra DONE;
  mul.wide.u32 %rd4, %r2, 8; add.s64 %rd4, %rd2, %rd4; st.global.f64 [%rd4], %d1;
DONE: ret;
}
)";

constexpr uint64_t kBase = 0x0000'a000'0000'0000;
constexpr uint64_t kArrayBytes = 8 << 20;

struct Bench {
  std::unique_ptr<simcuda::Program> program;
  std::vector<std::vector<std::byte>> arrays;
  std::shared_ptr<simcuda::ExtentTable> table = std::make_shared<simcuda::ExtentTable>();
  simcuda::Counters counters;
  std::atomic<bool> cancel{false};

  Bench() : arrays(3, std::vector<std::byte>(kArrayBytes)) {
    auto parsed = gpusnap::ptx::parse(kText);
    simcuda::LoadError error;
    program = simcuda::Program::decode(std::move(parsed.module), &error);
    program->bind();
    for (uint64_t i = 0; i < arrays.size(); ++i) {
      table->extents.push_back({address(i), kArrayBytes, arrays[i].data(), true});
    }
  }
  static uint64_t address(uint64_t array) { return kBase + array * kArrayBytes * 2; }

  void run(benchmark::State& state, const char* kernel, simcuda::Dim3 grid, simcuda::Dim3 block,
           const std::vector<uint64_t>& parameters) {
    simcuda::Launch launch;
    launch.kernel = program->kernel(kernel);
    launch.grid = grid;
    launch.block = block;
    launch.parameters = reinterpret_cast<const std::byte*>(parameters.data());
    launch.memory = table;
    for (auto step : state) {
      const simcuda::Fault fault = simcuda::run(launch, counters, cancel);
      if (fault.kind != simcuda::Fault::Kind::kNone) state.SkipWithError(fault.message.c_str());
    }
    state.counters["thread_instructions"] = benchmark::Counter(
        static_cast<double>(counters.thread_instructions.load()), benchmark::Counter::kIsRate);
  }
};

void stencil(benchmark::State& state) {
  Bench bench;
  bench.run(state, "stencil", {16, 64, 1}, {32, 8, 1}, {Bench::address(0), Bench::address(1), 512});
}
BENCHMARK(stencil)->Unit(benchmark::kMillisecond);

void multiply(benchmark::State& state) {
  Bench bench;
  bench.run(state, "multiply", {1, 128, 1}, {128, 1, 1},
            {Bench::address(0), Bench::address(1), Bench::address(2), 128});
}
BENCHMARK(multiply)->Unit(benchmark::kMillisecond);

void reduce(benchmark::State& state) {
  Bench bench;
  bench.run(state, "reduce", {512, 1, 1}, {256, 1, 1}, {Bench::address(0), Bench::address(1)});
}
BENCHMARK(reduce)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
