#!/usr/bin/env python3
"""Measures barriers and small reductions with the library preloaded, between checkpoints, beside
those that go past it, in the same process, for each MPI that the build has. A cost that the library
adds to both alike does not show. The same is measured without the library, where the two are equal:
the difference that is left there is the noise. Prints medians. With more ranks than processors, a
rank that waits gives its processor away, and the scheduler decides the times."""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

LAUNCHERS = {'openmpi': ['mpirun.openmpi', '--oversubscribe'], 'mpich': ['mpiexec.mpich']}


def run(build, mpi, ranks, folder, preload):
    """Nanoseconds past the library and through it, by name."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(('GPUSNAP_', 'SIMCUDA_'))}
    crowded = ranks > len(os.sched_getaffinity(0))
    kept.update(LD_LIBRARY_PATH=str(build / 'tools' / 'simcuda'), OMPI_ALLOW_RUN_AS_ROOT='1',
                OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1',
                OMPI_MCA_mpi_yield_when_idle='1' if crowded else '0',
                GPUSNAP_PFS=folder, GPUSNAP_JOB='bench', GPUSNAP_EVERY='off',
                GPUSNAP_BACKEND='thread', GPUSNAP_LOG='error')
    libraries = [build / 'interpose' / 'libgpusnap.so'] if preload else []
    if mpi == 'mpich' and crowded:
        libraries.append(build / 'tests' / 'apps' / 'mpi' / 'mpich' / 'libyield.so')
    words = ['LD_PRELOAD=' + ':'.join(str(library) for library in libraries)]
    command = ['setarch', '-R', *LAUNCHERS[mpi], '-n', str(ranks), 'env', *words,
               str(build / 'tests' / 'bench' / ('barriers_' + mpi))]
    done = subprocess.run(command, env=kept, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit('barriers: %s with %d ranks failed (%d):\n%s' % (
            mpi, ranks, done.returncode, done.stdout + done.stderr))
    return {name: (float(plain), float(ours))
            for name, plain, ours in (line.split('\t') for line in done.stdout.splitlines())}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--build', type=pathlib.Path, required=True)
    parser.add_argument('--ranks', default='2,4,8', help='numbers of ranks, joined by commas')
    parser.add_argument('--rounds', type=int, default=5)
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    print('%-8s %5s  %-10s %12s %12s %8s %14s' % (
        'MPI', 'ranks', 'call', 'past us, ns', 'with us, ns', 'ratio', 'ratio without'))
    for mpi in LAUNCHERS:
        if not (build / 'tests' / 'bench' / ('barriers_' + mpi)).exists():
            continue
        for ranks in (int(word) for word in arguments.ranks.split(',')):
            with tempfile.TemporaryDirectory() as folder:
                ours, none = [], []
                for _ in range(arguments.rounds):
                    ours.append(run(build, mpi, ranks, folder, True))
                    none.append(run(build, mpi, ranks, folder, False))
            for name in ours[0]:
                middle = lambda rounds: sorted(
                    (each[name] for each in rounds),
                    key=lambda pair: pair[1] / pair[0])[arguments.rounds // 2]
                plain, through = middle(ours)
                before, after = middle(none)
                print('%-8s %5d  %-10s %12.0f %12.0f %8.2f %14.2f' % (
                    mpi, ranks, name, plain, through, through / plain, after / before))


if __name__ == '__main__':
    main()
