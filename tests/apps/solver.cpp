// Conjugate gradients on the Poisson equation, one right-hand side after the other. How many
// iterations a right-hand side takes is decided by sums that come back from the device.
#include "solver.h"

#include "app.h"
#include "solver_ptx.h"

namespace app {

constexpr double kTolerance = 1e-5;

double total(const std::vector<double>& sums) {
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

// The sum in the order in which the device adds.
double block_sums(const std::vector<double>& values) {
  std::vector<double> sums;
  for (size_t begin = 0; begin < values.size(); begin += kSolverThreads) {
    std::vector<double> part(values.begin() + static_cast<std::ptrdiff_t>(begin),
                             values.begin() + static_cast<std::ptrdiff_t>(begin + kSolverThreads));
    for (size_t half = kSolverThreads / 2; half > 0; half /= 2) {
      for (size_t at = 0; at < half; ++at) part[at] += part[at + half];
    }
    sums.push_back(part[0]);
  }
  return total(sums);
}

struct Solution {
  std::vector<double> values;
  int iterations = 0;
  double residual = 0;
};

double norm_of(const std::vector<double>& values) {
  std::vector<double> squares;
  squares.reserve(values.size());
  for (const double value : values) squares.push_back(value * value);
  return block_sums(squares);
}

Solution solve_on_host(const std::vector<double>& right) {
  Solution result{std::vector<double>(right.size(), 0.0), 0, norm_of(right)};
  std::vector<double> residual = right, direction = right, product(right.size());
  while (result.residual > kTolerance) {
    std::vector<double> terms(right.size());
    for (int at = 0; at < kUnknowns; ++at) {
      const auto i = static_cast<size_t>(at);
      product[i] = laplacian(direction.data(), at);
      terms[i] = direction[i] * product[i];
    }
    const double step = result.residual / block_sums(terms);
    for (size_t i = 0; i < right.size(); ++i) {
      result.values[i] += step * direction[i];
      residual[i] -= step * product[i];
    }
    const double norm = norm_of(residual);
    const double weight = norm / result.residual;
    for (size_t i = 0; i < right.size(); ++i) {
      direction[i] = residual[i] + weight * direction[i];
    }
    result.residual = norm;
    ++result.iterations;
  }
  return result;
}

class Solver {
 public:
  Solution solve(const std::vector<double>& right) {
    Solution result{{}, 0, norm_of(right)};
    CHECK(cuMemsetD32_v2(solution_.address(), 0, solution_.bytes() / 4));
    residual_.upload(right);
    direction_.upload(right);
    const Shape shape{.blocks = kSolverBlocks, .threads = kSolverThreads};
    while (result.residual > kTolerance) {
      launch(apply_, shape, nullptr, direction_.address(), product_.address(), sums_.address());
      const double step = result.residual / total(sums_.download());
      launch(improve_, shape, nullptr, solution_.address(), residual_.address(),
             direction_.address(), product_.address(), step, sums_.address());
      const double norm = total(sums_.download());
      launch(turn_, shape, nullptr, direction_.address(), residual_.address(),
             norm / result.residual);
      result.residual = norm;
      ++result.iterations;
    }
    result.values = solution_.download();
    return result;
  }

 private:
  Module module_{kSolverPtx};
  CUfunction apply_ = module_.function("apply");
  CUfunction improve_ = module_.function("improve");
  CUfunction turn_ = module_.function("turn");
  Buffer<double> solution_{kUnknowns}, residual_{kUnknowns}, direction_{kUnknowns},
      product_{kUnknowns}, sums_{kSolverBlocks};
};

int run(int steps) {
  const Device device(ContextKind::kPrimary);
  Solver solver;
  Random random(3);
  for (int step = 1; step <= steps; ++step) {
    std::vector<double> right(kUnknowns, 0.0);
    for (int source = 0; source < 4 + step; ++source) {
      right[random.below(kUnknowns)] += static_cast<double>(random.unit());
    }
    const Solution found = solver.solve(right);
    const Solution expected = solve_on_host(right);
    std::printf("system %d: %d iterations, residual %.12g, digest %016" PRIx64 "\n", step,
                found.iterations, found.residual, digest(found.values));
    must_equal("solution", found.values, expected.values);
    if (found.iterations != expected.iterations) fail("solver", "another number of iterations");
  }
  return finish();
}

}  // namespace app

int main(int argc, char** argv) {
  return app::run(app::steps_from(argc, argv, 24));
}
