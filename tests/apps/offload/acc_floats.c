/* OpenACC: double precision, and private arrays of each gang. */
#include "program.h"

enum { kPoints = 256, kTerms = 6 };

int main(int argc, char** argv) {
  static double values[kPoints], slopes[kPoints], host[kPoints];
  double terms[kTerms];
  int steps = steps_of(argc, argv);
  for (int i = 0; i < kPoints; ++i) host[i] = values[i] = i * 0.01 - 1;
#pragma acc data copy(values) create(slopes)
  for (int step = 0; step < steps; ++step) {
    double greatest = -1e300;
#pragma acc parallel loop gang private(terms) num_gangs(8) vector_length(32) reduction(max \
                                                                                       : greatest)
    for (int i = 0; i < kPoints; ++i) {
      double slope = 0;
      for (int k = 0; k < kTerms; ++k) terms[k] = 1 / (k + 1 + values[i] * values[i]);
      for (int k = 0; k < kTerms; ++k) slope += (k % 2 == 0 ? 1 : -values[i]) * terms[k];
      slopes[i] = slope;
      greatest = slope > greatest ? slope : greatest;
    }
#pragma acc parallel loop num_gangs(4) vector_length(32)
    for (int i = 0; i < kPoints; ++i) values[i] += 0.01 * slopes[i];
    for (int i = 0; i < kPoints; ++i) {
      double slope = 0;
      for (int k = 0; k < kTerms; ++k)
        slope += (k % 2 == 0 ? 1 : -host[i]) * (1 / (k + 1 + host[i] * host[i]));
      host[i] += 0.01 * slope;
    }
    printf("%d %.17g\n", step, greatest);
  }
  /* The compilers may contract what they multiply and add. */
  for (int i = 0; i < kPoints; ++i) {
    double difference = values[i] - host[i];
    check(difference < 1e-9 && difference > -1e-9, "a value", steps);
  }
  printf("%08x\nok\n", digest(values, sizeof values));
  return 0;
}
