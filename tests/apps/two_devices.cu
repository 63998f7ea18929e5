// The work of each device. The variables exist once on each.
#include "two_devices.h"

extern "C" {
DEVICE unsigned weights[kLanes];
DEVICE unsigned steps_made;
}

KERNEL void step(unsigned* lanes) {
  const unsigned at = global_index();
  lanes[at] = stepped(lanes[at], weights[at]);
  if (at == 0) steps_made = steps_made + 1;
}

// The weights follow the lanes of the other device.
KERNEL void learn(const unsigned* others) {
  const unsigned at = global_index();
  weights[at] = weights[at] ^ others[at] >> 7;
}
