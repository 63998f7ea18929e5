// The tool's exit statuses. A program that was started ends with its own.
#pragma once

namespace gpusnap {

enum ExitCode : int {
  kExitOk = 0,
  kExitDiffers = 1,        // diff: the checkpoints differ
  kExitUnfit = 1,          // doctor: something is bad
  kExitUsage = 64,         // unknown option, missing argument
  kExitDamaged = 65,       // a checkpoint is damaged
  kExitNoCheckpoint = 66,  // no complete checkpoint, or no store to look in
  kExitNoDeviceCode = 66,  // explain: nothing to explain
  kExitNoJob = 66,         // status: nothing of that job runs here
  kExitMismatch = 69,      // not the program, arguments, input or ranks of the checkpoint
  kExitInternal = 70,      // anything else; no checkpoint was taken
  kExitImpossible = 72,    // this program cannot be restored here
  kExitStore = 73,         // the store, or what extract makes, cannot be written
  kExitTooEarly = 75,      // wait: not durable in time
  kExitNotSaved = 77,      // stop: no checkpoint, so it was not stopped, or killed without one
  kExitSettings = 78,      // a setting or the program is not fit for checkpoints, and --strict
  kExitNotExecutable = 126,
  kExitNotFound = 127,
};

inline constexpr const char* kExitCodesHelp =
    "Exit status:\n"
    "  0 ok, 1 the checkpoints differ (diff) or something is bad (doctor), 64 usage,\n"
    "  65 damaged checkpoint,\n"
    "  66 no complete checkpoint (or nothing to explain or extract, or nothing of the job runs "
    "here),\n"
    "  69 not the program, arguments, input or ranks of the checkpoint, 70 any other failure,\n"
    "  71 the program does not repeat itself, 72 cannot be restored here,\n"
    "  73 store or output cannot be written, 75 not durable in time, 76 stopped after a checkpoint "
    "that was asked for,\n"
    "  77 not stopped, since no checkpoint could be made (stop), 78 bad setting (with --strict),\n"
    "  126 and 127 program not executable, not found; otherwise the program's own.";

}  // namespace gpusnap
