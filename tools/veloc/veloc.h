/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints that a program writes and reads back by itself: VeloC's client interface, and the
 * calls by which a program says in which order it will read checkpoints back (GPU cache and
 * prefetch paper, section 4.3). Memory may be the host's or a CUDA device's. docs/history.md tells
 * users about configuration and choices.
 *
 * All functions return VELOC_SUCCESS or VELOC_FAILURE where nothing else is said; a failure is
 * told on standard error in one line. One thread at a time may call them, after VELOC_Init() and
 * before VELOC_Finalize(). "Collective": all processes of the communicator have to make the call.
 *
 * Programs without MPI define VELOC_NO_MPI, or have no mpi.h, and call VELOC_Init_single().
 */
#ifndef GPUSNAP_VELOC_H
#define GPUSNAP_VELOC_H

#include <stddef.h>

#if !defined(VELOC_NO_MPI) && defined(__has_include)
#if __has_include(<mpi.h>)
#include <mpi.h>
#define GPUSNAP_VELOC_MPI 1
#endif
#endif

#define VELOC_SUCCESS (0)
#define VELOC_FAILURE (-1)

/* Bytes of the buffers that VELOC_Route_file() fills, with the final zero. Names of checkpoints are
 * names of folders: at most 128 letters, digits, '.', '_' and '-', not first a '.'. */
#define VELOC_MAX_NAME (1024)

#define VELOC_CKPT_ALL (0)
#define VELOC_CKPT_SOME (1)
#define VELOC_CKPT_REST (2)

#define VELOC_RECOVER_ALL (0)
#define VELOC_RECOVER_SOME (1)
#define VELOC_RECOVER_REST (2)

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Beginning and end */

/* A single process. `id` tells its checkpoints from those of others that share a folder: of number
 * 0 they are called NAME, of number 7 NAME-7. */
int VELOC_Init_single(unsigned int id, const char* cfg_file);
/* `drain`: waits until all checkpoints are on the persistent folder; else those that were restored
 * already need not get there. Collective. */
int VELOC_Finalize(int drain);

/* ---- Memory */

/* From now on the `count` elements of `base_size` bytes at `ptr`, host or device memory, belong to
 * checkpoints under the number `id`. Replaces what had that number. No bytes: as unprotected. */
int VELOC_Mem_protect(int id, void* ptr, size_t count, size_t base_size);
int VELOC_Mem_unprotect(int id);
/* Unprotects all. */
int VELOC_Mem_clear(void);

/* ---- Writing */

/* Returns when the protected memory may be changed: its bytes are in the fastest tier that has
 * room, and get to slower ones in the background. What was launched on the default stream before is
 * waited for; other non-blocking streams are the program's to synchronise. A version is written
 * once by a run, and replaces that of an earlier run. Collective. */
int VELOC_Checkpoint(const char* name, int version);
/* The same in three steps. Between begin and end, files may be written to the places that
 * VELOC_Route_file() gives. `success`: 0 gives the checkpoint up. */
int VELOC_Checkpoint_begin(const char* name, int version);
int VELOC_Checkpoint_mem(void);
/* VELOC_CKPT_SOME: only the listed numbers; VELOC_CKPT_REST: all others. */
int VELOC_Checkpoint_selective(int mode, int* ids, int id_count);
int VELOC_Checkpoint_end(int success);
/* Waits until all checkpoints of this process are on the persistent folder. Fails if one could not
 * get there since the last call. */
int VELOC_Checkpoint_wait(void);
/* 1: nothing is on its way; 0: something is. */
int VELOC_Backend_ready(void);

/* ---- Reading */

/* The newest version that all processes can restore; with a `version` above 0 only those before it.
 * VELOC_FAILURE: there is none. Collective. */
int VELOC_Restart_test(const char* name, int version);
/* Fills the protected memory from the fastest tier that has the checkpoint. Each number that is
 * protected must be in the checkpoint, with no more bytes than are protected. Collective. */
int VELOC_Restart(const char* name, int version);
/* The same in three steps. */
int VELOC_Restart_begin(const char* name, int version);
int VELOC_Recover_mem(void);
int VELOC_Recover_selective(int mode, int* ids, int id_count);
int VELOC_Restart_end(int success);
/* As VELOC_Recover_selective(), in earlier releases of VeloC. */
int VELOC_Restart_mem(int mode, int* ids, int id_count);
/* Between begin and end: the bytes that the checkpoint has under the number, or VELOC_FAILURE. */
int VELOC_Recover_size(int id);
/* The same of any checkpoint; 0: it has none. A null `name`: the one that was used last. */
size_t VELOC_Recover_size_of(const char* name, int version, int id);

/* Between begin and end of a checkpoint or restart: where the file of that name has to be written,
 * or can be read. `routed` has VELOC_MAX_NAME bytes. */
int VELOC_Route_file(const char* original, char* routed);

/* ---- Foreknowledge */

/* A hint: the program will restore this checkpoint after all that it enqueued before. It may not be
 * written yet, and the program may restore others. A null `name`: the one that was used last, or
 * that will be used first. */
int VELOC_Prefetch_enqueue(const char* name, int version);
/* Checkpoints that were enqueued are now brought to faster tiers. Else the first restart begins it.
 */
int VELOC_Prefetch_start(void);

/* ---- What VELOC_Init() below gives the library of the program's MPI, which is compiled with the
 * program, so that one library serves every MPI. */

struct gpusnap_veloc_ranks {
  int rank;
  int ranks;
  void* context;
  /* Collective: replaces each of the numbers by its least over the processes. 0: done. */
  int (*least)(void* context, long long* numbers, int count);
  /* The library does not need the context any more. */
  void (*release)(void* context);
};
int gpusnap_veloc_init(const struct gpusnap_veloc_ranks* ranks, const char* cfg_file);

#ifdef __cplusplus
}
#endif

#ifdef GPUSNAP_VELOC_MPI

#include <stdlib.h>

static inline int gpusnap_veloc_least(void* context, long long* numbers, int count) {
  return MPI_Allreduce(MPI_IN_PLACE, numbers, count, MPI_LONG_LONG_INT, MPI_MIN,
                       *(MPI_Comm*)context) == MPI_SUCCESS
             ? 0
             : -1;
}

static inline void gpusnap_veloc_release(void* context) {
  MPI_Comm_free((MPI_Comm*)context);
  free(context);
}

/* Collective. The communicator is duplicated: messages of the library and of the program do not
 * meet. VELOC_Finalize() has to come before MPI_Finalize(). */
static inline int VELOC_Init(MPI_Comm comm, const char* cfg_file) {
  struct gpusnap_veloc_ranks ranks;
  MPI_Comm* own = (MPI_Comm*)malloc(sizeof(MPI_Comm));
  if (own == NULL || MPI_Comm_dup(comm, own) != MPI_SUCCESS) {
    free(own);
    return VELOC_FAILURE;
  }
  MPI_Comm_rank(*own, &ranks.rank);
  MPI_Comm_size(*own, &ranks.ranks);
  ranks.context = own;
  ranks.least = gpusnap_veloc_least;
  ranks.release = gpusnap_veloc_release;
  return gpusnap_veloc_init(&ranks, cfg_file);
}

#endif

#ifdef __cplusplus

/* The calls as listing 1 of the paper has them: of bytes, and of the checkpoint's name that was
 * used last. */
inline int VELOC_Mem_protect(int id, void* ptr, size_t bytes) {
  return VELOC_Mem_protect(id, ptr, bytes, 1);
}
inline int VELOC_Prefetch_enqueue(int version) {
  return VELOC_Prefetch_enqueue(nullptr, version);
}
inline int VELOC_Restart(int version) {
  return VELOC_Restart(static_cast<const char*>(nullptr), version);
}
inline size_t VELOC_Recover_size(int version, int id) {
  return VELOC_Recover_size_of(nullptr, version, id);
}
inline size_t VELOC_Recover_size(const char* name, int version, int id) {
  return VELOC_Recover_size_of(name, version, id);
}

#endif

#endif
