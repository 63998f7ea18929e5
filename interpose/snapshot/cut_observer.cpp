#include "interpose/snapshot/cut_observer.h"

namespace gpusnap {

void observe_cut(const CutView&) {}

}  // namespace gpusnap
