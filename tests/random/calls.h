// Shared by the random programs' own kernels and the host.
#pragma once

inline constexpr unsigned kTally = 700;  // words of their variable
