// Pointers that live in device memory: tables of pools, rings of nodes linked by kernels, totals
// that are reached only through the nodes. No kernel is given the address of what it changes.
#include "pointers.h"

#include "app.h"
#include "pointers_ptx.h"

namespace app {

struct HostNodes {
  std::vector<unsigned> next = std::vector<unsigned>(kNodes);
  std::vector<unsigned> key = std::vector<unsigned>(kNodes);
  std::vector<unsigned long long> total = std::vector<unsigned long long>(kNodes, 0);

  HostNodes() {
    for (unsigned at = 0; at < kNodes; ++at) key[at] = at * 2654435761u;
  }
  void link(const std::vector<unsigned>& order) {
    for (unsigned at = 0; at < kNodes; ++at) next[order[at]] = order[(at + 1) % kNodes];
  }
  void walk() {
    for (unsigned self = 0; self < kNodes; ++self) {
      unsigned visited = self;
      for (unsigned hop = 0; hop < kHops; ++hop) {
        visited = next[visited];
        total[self] = mixed(total[self], key[visited]);
      }
    }
  }
  void rekey() {
    for (unsigned self = 0; self < kNodes; ++self) {
      key[self] = key[self] * 1664525u + next[self];
    }
  }
};

void shuffle(std::vector<unsigned>& order, Random& random) {
  for (unsigned at = kNodes - 1; at > 0; --at) std::swap(order[at], order[random.below(at + 1)]);
}

int run(int steps) {
  const Device device(ContextKind::kOwn);
  const Module module(kPointersPtx);
  CUfunction link = module.function("link");
  CUfunction walk = module.function("walk");
  CUfunction rekey = module.function("rekey");
  const Shape shape{.blocks = kNodes / 128, .threads = 128};

  std::vector<Buffer<Node>> pools;
  std::vector<Buffer<unsigned long long>> totals;
  std::vector<CUdeviceptr> pool_table, total_table;
  for (unsigned pool = 0; pool < kPools; ++pool) {
    pools.emplace_back(kPoolNodes);
    totals.emplace_back(std::vector<unsigned long long>(kPoolNodes, 0));
    pool_table.push_back(pools.back().address());
    total_table.push_back(totals.back().address());
  }
  const Buffer<CUdeviceptr> pools_on_device(pool_table), totals_on_device(total_table);
  launch(module.function("set_up"), shape, nullptr, pools_on_device.address(),
         totals_on_device.address());

  HostNodes host;
  std::vector<unsigned> order(kNodes);
  for (unsigned at = 0; at < kNodes; ++at) order[at] = at;
  Buffer<unsigned> order_on_device(order);
  Random random(23);
  for (int step = 1; step <= steps; ++step) {
    if (step % 4 == 1) {
      shuffle(order, random);
      order_on_device.upload(order);
      launch(link, shape, nullptr, pools_on_device.address(), order_on_device.address());
      host.link(order);
    }
    launch(walk, shape, nullptr, pools_on_device.address());
    launch(rekey, shape, nullptr, pools_on_device.address());
    host.walk();
    host.rekey();
    const auto pool = static_cast<size_t>(step) % kPools;
    const std::vector<unsigned long long> seen = totals[pool].download();
    std::printf("step %d: pool %zu, digest %016" PRIx64 "\n", step, pool, digest(seen));
    const auto begin = host.total.begin() + static_cast<std::ptrdiff_t>(pool * kPoolNodes);
    must_equal("totals", seen, std::vector<unsigned long long>(begin, begin + kPoolNodes));
  }
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 300));
}
