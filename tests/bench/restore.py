#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how reading ahead changes a restore: how long it waits for files at the cut, and how
long its replay lasts. A program with much device memory on the software GPU is restored from a
store that gives a fixed number of bytes a second (tests/bench/slow_store.cpp; the store lies in
memory), after a replay that lasts at least as long as the read. All ways take turns, so that each
meets the same machine.

In the replay the host either sleeps or computes; when it computes, reading ahead takes processor
time from it.

Ends with 1 if reading ahead leaves more than half of the wait, or makes the replay longer by more
than 2 % and by more than the rounds differ. With --check only results that do not depend on time
count."""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
MOST_WAIT = 0.5  # of that without reading ahead
MOST_LONGER = 1.02  # than the replay without it
LOADED = re.compile(r'device memory loaded in (\d+) ms.*waited (\d+) ms for files, '
                    r'read ahead (\d+) MiB(?:; from SSD (\d+) MiB)?')


class Bench:
    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.build = arguments.build.resolve()
        self.folder = folder
        self.store = os.path.join(folder, 'store')
        self.ssd = os.path.join(folder, 'ssd')
        os.makedirs(self.ssd)
        self.hosts = {'sleeps': {'HOARD_PAUSE': str(arguments.pause)},
                      'computes': {'HOARD_PAUSE': '0', 'HOARD_WORK': str(arguments.work)}}
        little = {'GPUSNAP_HOST_CACHE': '%dM' % (arguments.mib // 2)}
        self.ways = {
            'off': {'GPUSNAP_READ_AHEAD': 'off'},
            'memory': {},
            'half of it in memory': little,
            'half in memory, half on SSD': {**little, 'GPUSNAP_SSD': self.ssd,
                                            'GPUSNAP_PLACEMENT': 'cache-only'},
        }

    def start(self, node, preload, **settings):
        """`node`: those of the same name share a backend, and its staging memory."""
        build = self.build
        libraries = [str(build / 'interpose' / 'libgpusnap.so'),
                     str(build / 'tests' / 'bench' / 'libslow_store.so')]
        kept = {k: v for k, v in os.environ.items()
                if not k.startswith(('GPUSNAP_', 'SIMCUDA_', 'LD_', 'SLOW_', 'HOARD_'))}
        environment = dict(kept, LD_LIBRARY_PATH=str(build / 'tools' / 'simcuda'))
        if preload:
            environment.update({
                'LD_PRELOAD': ':'.join(libraries), 'GPUSNAP_PFS': self.store,
                'GPUSNAP_JOB': 'restore', 'GPUSNAP_EVERY': 'off', 'GPUSNAP_LOG': 'info',
                'GPUSNAP_COMPRESS': 'off', 'GPUSNAP_DEVICE_CACHE': '8M',
                'GPUSNAP_HOST_CACHE': '%dM' % (self.arguments.mib * 2),
                'GPUSNAP_NODE': self.folder + node, 'XDG_RUNTIME_DIR': self.folder,
                'GPUSNAP_BACKEND_IDLE': '300ms'})
        environment.update(settings)
        command = [str(build / 'tests' / 'apps' / 'hoard'), str(self.arguments.steps),
                   str(self.arguments.mib)]
        return subprocess.Popen(['setarch', '-R'] + command, env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def finish(self, program):
        output, errors = program.communicate()
        if program.returncode != 0:
            sys.exit('restore: the program failed:\n' + errors)
        return output

    def save(self):
        """One checkpoint, with the last step; what the program puts out."""
        plain = self.finish(self.start('', False))
        saved = self.finish(self.start('save', True, HOARD_PAUSE='0', GPUSNAP_ORG='b+f',
                                       GPUSNAP_EVERY='syncs:%d' % (self.arguments.steps - 1)))
        if saved != plain:
            sys.exit('restore: the saved run puts out something else')
        return plain

    def restore(self, way, host, expected):
        """Seconds of the replay, seconds that files were waited for, MiB ahead in memory, on SSD."""
        begun = time.monotonic()
        program = self.start(way.replace(' ', '-'), True, GPUSNAP_RESTORE='latest',
                             SLOW_FOLDER=self.store, SLOW_READS=str(self.arguments.rate * 1e6),
                             **self.hosts[host], **self.ways[way])
        said, loaded, at = [], None, 0
        for line in program.stderr:
            said.append(line)
            found = LOADED.search(line)
            if found:
                loaded, at = found, time.monotonic()
        output = self.finish(program)
        if loaded is None:
            sys.exit('restore: nothing was loaded:\n' + ''.join(said))
        if output != expected:
            sys.exit('restore: ' + way + ': the restored run puts out something else')
        took, waited, memory, ssd = (int(text or 0) for text in loaded.groups())
        return at - begun - took / 1e3, waited / 1e3, memory, ssd

    def rounds(self, host, expected):
        """Returns the results of each way, and the load meanwhile."""
        results, loads = {}, [os.getloadavg()[0]]
        for _ in range(self.arguments.rounds):
            for way in self.ways:
                results.setdefault(way, []).append(self.restore(way, host, expected))
            loads.append(os.getloadavg()[0])
        for way, found in results.items():
            self.check(way, found)
        return results, loads

    def check(self, way, results):
        """Checks what holds in each round, however fast the round was."""
        for _, _, memory, ssd in results:
            right = {'off': memory == 0 and ssd == 0, 'memory': ssd == 0,
                     'half of it in memory': ssd == 0 and memory <= self.arguments.mib // 2}
            if not right.get(way, True):
                sys.exit('restore: %s: %d MiB in memory, %d MiB on SSD' % (way, memory, ssd))


def report(results):
    print(f'{"read ahead":30}{"waited at the cut":>32}{"replay":>32}{"memory":>9}{"SSD":>6}')
    for way, found in results.items():
        replay, waited, memory, ssd = zip(*found)
        print(f'{way:30}{spread(waited):>32}{spread(replay):>32}{min(memory):9}{min(ssd):6}')
    print(flush=True)


def spread(values):
    return f'{statistics.median(values):8.3f} s {min(values):8.3f} to {max(values):.3f}'


def state(build):
    commit = subprocess.run(['git', '-C', str(TOP), 'describe', '--always', '--dirty'],
                            capture_output=True, text=True, check=False).stdout.strip()
    return f'commit {commit or "unknown"}, build {build}, {os.cpu_count()} processors'


def judge(results):
    """Names each way that is beyond a bar, one line each."""
    replay = {way: [each[0] for each in found] for way, found in results.items()}
    waited = {way: statistics.median(each[1] for each in found)
              for way, found in results.items()}
    base = statistics.median(replay['off'])
    noise = max(replay['off']) - min(replay['off'])
    wrong = []
    for way in ('memory', 'half in memory, half on SSD'):
        if waited[way] > MOST_WAIT * waited['off']:
            wrong.append(f'{way}: waits {waited[way]:.3f} s, without reading ahead {waited["off"]:.3f} s')
        longer = statistics.median(replay[way]) - base
        if longer > (MOST_LONGER - 1) * base and longer > noise:
            wrong.append(f'{way}: the replay lasts {longer / base * 100:.1f} % longer')
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', type=pathlib.Path, required=True)
    parser.add_argument('--mib', type=int, default=256, help='device memory')
    parser.add_argument('--rate', type=float, default=150, help='MB a second from the store')
    parser.add_argument('--steps', type=int, default=60)
    parser.add_argument('--pause', type=int, default=40, help='milliseconds of each step')
    parser.add_argument('--work', type=int, default=40, help='MiB that each step computes')
    parser.add_argument('--rounds', type=int, default=7)
    parser.add_argument('--check', action='store_true', help='no bars, for a machine that is not quiet')
    arguments = parser.parse_args()

    wrong = []
    with tempfile.TemporaryDirectory(prefix='gpusnap-restore-', dir='/dev/shm') as folder:
        bench = Bench(arguments, folder)
        print(state(bench.build))
        expected = bench.save()
        for host in bench.hosts:
            results, loads = bench.rounds(host, expected)
            print(f'{arguments.mib} MiB at {arguments.rate:g} MB/s, the host {host}, '
                  f'{arguments.rounds} rounds, load {min(loads):.1f} to {max(loads):.1f}; '
                  'median, least to most')
            report(results)
            wrong += [f'the host {host}: {line}' for line in judge(results)]
        time.sleep(1)  # the backends end
    if not arguments.check:
        for line in wrong:
            print('beyond the bar: ' + line)
    sys.exit(1 if wrong and not arguments.check else 0)


if __name__ == '__main__':
    main()
