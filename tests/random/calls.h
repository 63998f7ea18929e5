// What the random programs' own kernels share with the host.
#pragma once

inline constexpr unsigned kTally = 700;  // words of their variable
