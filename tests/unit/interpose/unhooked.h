// The hooks' answers to the rest of the library, in a test whose calls are not hooked: symbols of
// the driver are those of the software GPU, and the name of hook N is "callN".
#pragma once

namespace gpusnap {

// Names hook N "call(N + `inserted`)" from now on, as in a build that has other hooks before it.
void insert_hooks(unsigned inserted);

}  // namespace gpusnap
