// Precompiled for the sources of the preloaded library: most of them need the session.
#include "interpose/step.h"
#include "tools/pch/standard.h"
