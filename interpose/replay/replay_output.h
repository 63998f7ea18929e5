// The program's standard output in a replay: the program has written it before, up to the cut. In
// the process that `gpusnap restore` has marked, the output goes to memory of ours from the
// program's first line on, and not again to where it belongs; from the cut on it does.
//
// Bytes that the C library held at the cut, not written yet, are still to be written: the cut says
// how many. So it does not matter that the library may write in other pieces in a replay.
// Terminals are left alone, since programs write to them in another way than to files, and so is
// standard error, where a program says why it cannot go on.
#pragma once

#include <cstdint>

namespace gpusnap {

// Recording: bytes of standard output that the C library has not written yet.
uint64_t held_output();

// The replay has come to the cut, where so many were held: what is written from now on goes where
// it belongs. Every descriptor of the program's that was made from its standard output does.
void go_on_with_output(uint64_t held);
// There will be no cut: what was kept back, or the end of it, may say why.
void show_output();
// Now and then in a replay: lets go of all that was kept back but its end.
void trim_output();

}  // namespace gpusnap
