// SPDX-License-Identifier: Apache-2.0
//
// SPANK plug-in of Slurm: `srun --gpusnap=10m ./solver` gives each task what `gpusnap run` gives a
// program: the preloaded library, the settings, the job's name, and no address randomisation.
// In plugstack.conf:
//
//   optional /opt/gpusnap/lib/gpusnap/spank_gpusnap.so
//   library=/opt/gpusnap/lib/gpusnap/libgpusnap.so
//
// A task whose node lacks the library runs without checkpoints, and a line says so.
#include <limits.h>
#include <slurm/spank.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <unistd.h>

SPANK_PLUGIN(gpusnap, 1)

enum { kLongestValue = 64 << 10, kLongestName = 256 };

// Each option sets a variable of the task. The first one turns gpusnap on.
static struct spank_option options[] = {
    {"gpusnap", "WHEN", "take checkpoints: 10m, auto, syncs:50, off (GPUSNAP_EVERY)", 1, 0, NULL},
    {"gpusnap-store", "FOLDER", "durable folder for checkpoints (GPUSNAP_PFS)", 1, 0, NULL},
    {"gpusnap-stop-signal", "SIGNALS",
     "signals after which a checkpoint is taken and each task ends with status 76: USR1,TERM "
     "(GPUSNAP_STOP_SIGNAL)",
     1, 0, NULL},
};
static const char* const variables[] = {"GPUSNAP_EVERY", "GPUSNAP_PFS", "GPUSNAP_STOP_SIGNAL"};
enum { kOptions = sizeof options / sizeof options[0] };

static const char* library_of(int count, char* arguments[]) {
  static const char kName[] = "library=";
  for (int i = 0; i < count; ++i) {
    if (strncmp(arguments[i], kName, sizeof kName - 1) == 0) return arguments[i] + sizeof kName - 1;
  }
  return NULL;
}

static int is_set(spank_t spank, const char* name) {
  char value[2];
  const spank_err_t result = spank_getenv(spank, name, value, sizeof value);
  return result == ESPANK_NOSPACE || (result == ESPANK_SUCCESS && value[0] != '\0');
}

static void preload(spank_t spank, const char* library) {
  char* const before = malloc(kLongestValue);
  char* const value = malloc(kLongestValue + PATH_MAX + 1);
  if (before != NULL && value != NULL) {
    const int any = spank_getenv(spank, "LD_PRELOAD", before, kLongestValue) == ESPANK_SUCCESS &&
                    before[0] != '\0';
    snprintf(value, kLongestValue + PATH_MAX + 1, "%s%s%s", library, any ? ":" : "",
             any ? before : "");
    spank_setenv(spank, "LD_PRELOAD", value, 1);
  }
  free(before);
  free(value);
}

// As `gpusnap run --resume` names it: a requeued job keeps its number.
static void name_job(spank_t spank) {
  char name[kLongestName];
  char job[kLongestName + 16];
  uint32_t number = 0;
  if (is_set(spank, "GPUSNAP_JOB")) return;
  if (spank_getenv(spank, "SLURM_JOB_NAME", name, sizeof name) != ESPANK_SUCCESS) return;
  if (spank_get_item(spank, S_JOB_ID, &number) != ESPANK_SUCCESS) return;
  snprintf(job, sizeof job, "%s-%u", name, (unsigned)number);
  spank_setenv(spank, "GPUSNAP_JOB", job, 1);
}

int slurm_spank_init(spank_t spank, int count, char* arguments[]) {
  (void)count;
  (void)arguments;
  for (size_t i = 0; i < kOptions; ++i) {
    const spank_err_t result = spank_option_register(spank, &options[i]);
    if (result != ESPANK_SUCCESS) {
      slurm_error("gpusnap: no option --%s: %s", options[i].name, spank_strerror(result));
      return -1;
    }
  }
  return 0;
}

// In the task's process, as its user, before it becomes the program.
int slurm_spank_task_init(spank_t spank, int count, char* arguments[]) {
  char* values[kOptions] = {NULL};
  for (size_t i = 0; i < kOptions; ++i) {
    if (spank_option_getopt(spank, &options[i], &values[i]) != ESPANK_SUCCESS) values[i] = NULL;
  }
  if (values[0] == NULL) return 0;
  const char* const library = library_of(count, arguments);
  if (library == NULL || access(library, R_OK) != 0) {
    slurm_error("gpusnap: no library %s (library= in plugstack.conf): it runs without checkpoints",
                library == NULL ? "is named" : library);
    return 0;
  }
  for (size_t i = 0; i < kOptions; ++i) {
    if (values[i] != NULL) spank_setenv(spank, variables[i], values[i], 1);
  }
  preload(spank, library);
  name_job(spank);
  // Python lays out its dictionaries by a random number otherwise, and does not repeat itself.
  if (!is_set(spank, "PYTHONHASHSEED")) spank_setenv(spank, "PYTHONHASHSEED", "0", 1);
  const int now = personality(0xffffffff);
  if (now != -1) personality((unsigned long)now | ADDR_NO_RANDOMIZE);
  return 0;
}
