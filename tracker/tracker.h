// The tracker's interface: which memory the device can write (memory_map.h), which of it a snapshot
// still has to save (zone_table.h), and what device code says about itself (image.h, ptx.h). No
// I/O, no threads of its own, no CUDA.
#pragma once

#include "tracker/image.h"
#include "tracker/kernel_writes.h"
#include "tracker/memory_map.h"
#include "tracker/ptx.h"
#include "tracker/write_set.h"
#include "tracker/zone_table.h"
