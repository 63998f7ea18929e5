#!/usr/bin/env python3
"""The cost of making staging memory ready (the deep-tiers showcase, slides 23 to 28, 62 to 64).

  scripts/bench startup [--only PART]... [--assume KEY=VALUE]... [--svg FOLDER] [--json]

Three ways: direct pin (all is allocated and pinned before the program goes on), concurrent touch (a
thread of each process touches, whatever goes on, and pins at the end) and ours.

Parts:
  rates   how fast this machine touches staging memory, alone and beside copies, and, where there is a
          GPU, how fast its driver registers memory. On the software GPU that rate is an assumption.
  model   a node of 1 to 8 GPUs on a virtual clock, with 5 to 60 ms between checkpoints. The decisions
          of "ours" are those of the product (TouchPlan). Every constant is printed with its source.
          The bars are what the showcase publishes.
  run     short programs on the software GPU, whose registrations take the time that --pinning says.
          Only the differences between the ways mean anything. The bar: ours is not slower than
          direct pin.

  --assume KEY=VALUE   another constant of the model, such as touch=2e9
  --intervals, --processes   of the model, comma-separated
  --rounds N           of rates and run (default 5)
  --svg FOLDER         writes startup-model.svg there
  --json               prints JSON instead of tables

Exits with 1 if a bar is missed.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import svg  # noqa: E402 (beside this file)

TOP = pathlib.Path(__file__).resolve().parents[2]
DIRECT, CONCURRENT, OURS = 'direct pin', 'concurrent touch', 'ours'
WAYS = {DIRECT: 'at-once', CONCURRENT: 'concurrent', OURS: 'stepwise'}  # GPUSNAP_PIN
MODEL_WAYS = {DIRECT: 'direct', CONCURRENT: 'concurrent', OURS: 'ours'}
INTERVALS, PROCESSES = [5, 10, 20, 30, 40, 50, 60], [1, 2, 4, 8]  # slide 26
PUBLISHED = {'checkpoint wait': 12.5, 'total I/O': 7.8, 'at scale': 13.6}  # slides 27 and 28

HPDC = 'GPU cache and prefetch paper'
# Key of startup_model: value, what it is, source.
CONSTANTS = {
    'copy': (1e12, 'copy within a device, B/s', f'{HPDC}, section 5.1'),
    'link': (25e9, 'pinned memory to and from two devices, B/s', f'{HPDC}, section 5.1'),
    'registering': (4e9, 'registration of memory, B/s', f'{HPDC}, section 4.1.4, which includes that '
                    'it is allocated; assumed for memory that has been touched, too'),
    'fresh_registering': (4e9, 'registration of memory that nobody has touched, B/s', 'the same'),
    'shares_registering': (1, 'that is of the whole node', 'slide 24: registrations contend in the '
                           'driver; that their sum stays the same is assumed'),
    'unpinned': (13e9, 'other memory to and from a device, B/s', 'assumed to be what one processor '
                 'copies out of its cache: the part rates on the 2-core VM, 2026-11-26'),
    'touch': (1.9e9, 'touching by one thread, B/s', 'the part rates on the 2-core VM, 2026-11-26: '
              'shared memory of 4 KiB pages'),
    'competing': (0.5, 'of its speed, what is left to touching and to a transfer beside each other',
                  'assumed: they share the memory evenly. The part rates finds no less than 0.9 of '
                  'one thread beside one copy, which says nothing of 32'),
    'threads': (32, 'forerunner threads of the node', 'the most that gpusnapd starts, from 64 '
                'processors on; that they do not slow each other is assumed'),
    'size': (200e6, 'bytes of a checkpoint', 'slide 23'),
    'checkpoints': (180, 'checkpoints of a process', 'as many as its caches hold; ours'),
    'device_cache': (4 * 2**30, 'bytes for each process', f'{HPDC}, section 5.3.4'),
    'host_cache': (32 * 2**30, 'bytes for each process', f'{HPDC}, section 5.3.4'),
}


class Failed(Exception):
    pass


def state(build):
    commit = subprocess.run(['git', '-C', str(TOP), 'describe', '--always', '--dirty'],
                            capture_output=True, text=True, check=False).stdout.strip()
    return f'commit {commit or "unknown"}, build {build}, {os.cpu_count()} processors'


def spread(values, form='.3f'):
    return f'{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})'


def built(build, name):
    program = build / 'tests' / 'bench' / 'startup' / name
    if not os.access(program, os.X_OK):
        raise Failed(f'{program} is not there: build it first')
    return program


# ---- rates

def measure_rates(bench):
    program, loads = built(bench.build, 'startup_rates'), [os.getloadavg()[0]]
    found = []
    for _ in range(bench.options.rounds):
        done = subprocess.run([program, str(bench.options.mib), str(max((os.cpu_count() or 2) // 2, 2))],
                              env=environment(bench.build, GPUSNAP_LOG='error'), text=True,
                              capture_output=True, check=False)
        if done.returncode != 0:
            raise Failed(done.stderr.strip() or f'{program}: exit code {done.returncode}')
        found.append(json.loads(done.stdout))
        loads.append(os.getloadavg()[0])
    device = found[0]['device']
    rows = {'touch': 'touching, one thread', 'touch_by_all': 'touching, half of the processors, at least 2',
            'copy': 'copies by one processor', 'touch_beside_copy': 'touching beside copies',
            'copy_beside_touch': 'copies beside touching'}
    bench.say(f'Rates in GB/s of processor time: {bench.options.mib} MiB, {bench.options.rounds} rounds, load '
              f'{min(loads):.1f} to {max(loads):.1f}; large pages: '
              f'{"yes" if found[0]["large_pages"] else "none"}')
    for key, label in rows.items():
        bench.say(f'  {label:46}{spread([f[key] / 1e9 for f in found], ".2f")}')
    genuine = bool(device) and 'simcuda' not in device.lower()
    if genuine:
        bench.say(f'  {"registration on " + device:46}'
                  f'{spread([f["registering"] / 1e9 for f in found], ".2f")}')
    else:
        bench.say('  registration: not measured, there is no GPU; the model assumes '
                  f'{CONSTANTS["registering"][0] / 1e9:g} GB/s')
    return {'rounds': found, 'genuine': genuine}


# ---- model

class Model:
    def __init__(self, build, assume):
        self.program = built(build, 'startup_model')
        self.constants = {key: value[0] for key, value in CONSTANTS.items()}
        unknown = set(assume) - set(self.constants)
        if unknown:
            raise Failed(f'the model has no constant {", ".join(sorted(unknown))}')
        self.constants.update(assume)

    def run(self, cells, **more):
        """The result of each cell (way, processes, interval)."""
        lines = []
        for way, processes, interval in cells:
            words = dict(self.constants, **more, way=MODEL_WAYS[way], processes=processes,
                         interval_ms=interval)
            lines.append(' '.join(f'{key}={value}' for key, value in words.items()))
        done = subprocess.run([self.program], input='\n'.join(lines) + '\n', text=True,
                              capture_output=True, check=False)
        if done.returncode != 0:
            raise Failed(done.stderr.strip())
        return dict(zip(cells, map(json.loads, done.stdout.splitlines()), strict=True))


def total(result):
    return result['checkpoint_wait_s'] + result['restore_wait_s']


def ratios(found, processes, intervals, wait):
    """How many times longer direct pin waits, by interval."""
    return {i: wait(found[DIRECT, processes, i]) / wait(found[OURS, processes, i])
            for i in intervals}


def checkpoint_wait(result):
    return result['checkpoint_wait_s']


def simulate(bench):
    options = bench.options
    model = Model(bench.build, options.assume)
    cells = [(way, p, i) for p in options.processes for i in options.intervals for way in WAYS]
    found = model.run(cells)
    bench.say('\nModel. Its constants:')
    for key, (_, what, source) in CONSTANTS.items():
        source = 'given by --assume' if key in options.assume else source
        bench.say(f'  {key:19}{model.constants[key]:<14g}{what} ({source})')
    for processes in options.processes:
        model_table(bench, found, processes)
    last = max(options.processes)
    for name, processes, wait in (('checkpoint wait', min(options.processes), checkpoint_wait),
                                  ('total I/O', min(options.processes), total),
                                  ('at scale', last, total)):
        by_interval = ratios(found, processes, options.intervals, wait)
        best = max(by_interval, key=by_interval.get)
        bench.bar(f'{name}, {processes} process{"es" if processes > 1 else ""}: direct pin waits up to',
                  by_interval[best], PUBLISHED[name],
                  f'at {best} ms; least {min(by_interval.values()):.1f} times')
    vary(bench, model, last)
    bench.drawings['startup-model'] = draw(options, found)
    return [{'way': way, 'processes': p, 'interval_ms': i, **found[way, p, i]} for way, p, i in cells]


# Other assumptions.
VARIATIONS = {
    # scripts/gpu-suite, part facts, 2026-11-26.
    'registered as on one H200': {'registering': 17.9e9, 'fresh_registering': 3.0e9},
    'registrations do not slow each other': {'shares_registering': 0},
    'touching beside a transfer costs a twentieth': {'competing': 0.95},
    'memory that is not pinned is half as fast': {'unpinned': 6.5e9},
    'one forerunner thread': {'threads': 1},
    'four forerunner threads': {'threads': 4},
    'ours without the pause': {'pauses': 0},
}


def vary(bench, model, processes):
    intervals = bench.options.intervals
    cells = [(way, processes, i) for i in intervals for way in (DIRECT, OURS)]
    bench.say(f'\n  Other assumptions, {processes} processes, by how much direct pin waits longer in all:')
    bench.say(f'  {"":46}' + ''.join(f'{i:6} ms' for i in intervals))
    for label, words in {'as above': {}, **VARIATIONS}.items():
        found = ratios(model.run(cells, **words), processes, intervals, total)
        bench.say(f'  {label:46}' + ''.join(f'{found[i]:9.1f}' for i in intervals))


def model_table(bench, found, processes):
    bench.say(f'\n  {processes} process{"es" if processes > 1 else ""}: seconds waited, checkpoints + '
              'restores; direct pin beside ours')
    bench.say(f'  {"interval":>10}' + ''.join(f'{way:>20}' for way in WAYS) +
              f'{"checkpoints":>14}{"total":>8}')
    for interval in bench.options.intervals:
        row = [found[way, processes, interval] for way in WAYS]
        direct, ours = found[DIRECT, processes, interval], found[OURS, processes, interval]
        bench.say(f'  {interval:7} ms' + ''.join(
            f'{r["checkpoint_wait_s"]:12.2f} + {r["restore_wait_s"]:5.2f}' for r in row) +
                  f'{checkpoint_wait(direct) / checkpoint_wait(ours):14.1f}'
                  f'{total(direct) / total(ours):8.1f}')


def draw(options, found):
    panels = []
    for processes in options.processes:
        panels.append(svg.Panel(f'Waiting for checkpoints and restores, {processes} of 8 GPUs (model)',
                                'seconds', height=240).bars(
            [f'{i} ms' for i in options.intervals], list(WAYS),
            [[total(found[way, processes, i]) for way in WAYS] for i in options.intervals]))
    return svg.figure(panels)


# ---- run

def environment(build, **settings):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(('GPUSNAP_', 'SIMCUDA_'))}
    return dict(kept, LD_LIBRARY_PATH=str(build / 'tools' / 'simcuda'), **settings)


def start(bench, folder, number, way, every):
    options, build = bench.options, bench.build
    command = [str(build / 'tests' / 'apps' / options.program), str(options.steps)]
    settings = {'SIMCUDA_PINNING': options.pinning}
    if way:
        command = ['setarch', '-R'] + command
        settings.update(LD_PRELOAD=str(build / 'interpose' / 'libgpusnap.so'), GPUSNAP_PFS=folder,
                        GPUSNAP_JOB=f'startup{number}', GPUSNAP_EVERY=every, GPUSNAP_NODE=folder,
                        XDG_RUNTIME_DIR=folder, GPUSNAP_BACKEND_IDLE='300ms', GPUSNAP_WAIT='memory',
                        GPUSNAP_HOST_CACHE=options.cache, GPUSNAP_DEVICE_CACHE='64M',
                        GPUSNAP_LOG='info', GPUSNAP_PIN=WAYS[way])
    return subprocess.Popen(command, env=environment(build, **settings), text=True,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def run_together(bench, processes, way, every):
    """Seconds until the last of them ends, and how many checkpoints were taken."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        programs = [start(bench, folder, n, way, every) for n in range(processes)]
        said = [program.communicate()[1] for program in programs]
        seconds = time.monotonic() - begun
        for program, errors in zip(programs, said):
            if program.returncode != 0:
                raise Failed('a program failed:\n' + errors)
        wait_for_backend(folder)
    return seconds, sum(text.count('info: checkpoint startup') for text in said)


def is_used(folder):
    """By the environment of a process of ours."""
    for path in pathlib.Path('/proc').glob('[0-9]*/environ'):
        try:
            if f'GPUSNAP_NODE={folder}\0'.encode() in path.read_bytes():
                return True
        except OSError:
            continue  # it has ended, or is another user's
    return False


def wait_for_backend(folder):
    """It ends by itself, once nothing is left to be written into the folder."""
    until = time.monotonic() + 60
    while is_used(folder):
        if time.monotonic() > until:
            raise Failed('a backend does not end')
        time.sleep(0.05)


def run_programs(bench):
    options, results, loads = bench.options, {}, [os.getloadavg()[0]]
    cells = [(p, i) for p in options.run_processes for i in options.run_intervals]
    for _ in range(options.rounds):
        for processes, interval in cells:
            for way in [None, *WAYS]:
                measured = run_together(bench, processes, way, f'{interval}ms')
                results.setdefault((processes, interval, way), []).append(measured)
        loads.append(os.getloadavg()[0])
    bench.say(f'\n{options.program} {options.steps} on the software GPU; {options.cache} of staging '
              f'memory, {options.pinning} registered in a second (assumed); {options.rounds} rounds, '
              f'load {min(loads):.1f} to {max(loads):.1f}; seconds until the last process ends')
    medians = {}
    for processes, interval in cells:
        for way in [None, *WAYS]:
            seconds = [s for s, _ in results[processes, interval, way]]
            taken = statistics.median(n for _, n in results[processes, interval, way])
            medians[processes, interval, way] = statistics.median(seconds)
            bench.say(f'  {processes} processes, {interval:3} ms: {way or "without the library":22}'
                      f'{spread(seconds)}   {taken:g} checkpoints')
    worst = min(medians[p, i, DIRECT] / medians[p, i, OURS] for p, i in cells)
    bench.bar('programs: direct pin takes at least', worst, 1, 'of the time with ours', 'ours')
    return [{'processes': p, 'interval_ms': i, 'way': way or 'plain', 'rounds': found}
            for (p, i, way), found in results.items()]


# ---- all

class Bench:
    def __init__(self, options):
        self.options, self.build = options, options.build.resolve()
        self.bars, self.drawings = [], {}

    def say(self, *words):
        if not self.options.json:
            print(*words, flush=True)

    def bar(self, name, value, least, note, source='published'):
        self.bars.append({'bar': name, 'value': value, 'least': least, 'source': source,
                          'met': value >= least, 'note': note})


PARTS = {'rates': measure_rates, 'model': simulate, 'run': run_programs}


def numbers(text):
    return [int(word) for word in text.split(',')]


def assumption(text):
    key, _, value = text.partition('=')
    return key, float(value)


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', type=pathlib.Path, default=pathlib.Path('build'))
    parser.add_argument('--only', action='append', choices=PARTS)
    parser.add_argument('--assume', action='append', type=assumption, default=[])
    parser.add_argument('--intervals', type=numbers, default=INTERVALS)
    parser.add_argument('--processes', type=numbers, default=PROCESSES)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--mib', type=int, default=1024, help='of memory, for rates')
    parser.add_argument('--program', default='stencil', help='for run')
    parser.add_argument('--steps', type=int, default=240)
    parser.add_argument('--cache', default='1G', help='staging memory, for run')
    parser.add_argument('--pinning', default='2G', help='bytes registered in a second, for run')
    parser.add_argument('--run-processes', type=numbers, default=[1, 2])
    parser.add_argument('--run-intervals', type=numbers, default=[20, 60])
    parser.add_argument('--svg', type=pathlib.Path)
    parser.add_argument('--json', action='store_true')
    options = parser.parse_args(words)
    options.assume = dict(options.assume)
    return options


def measure(options):
    bench = Bench(options)
    bench.say(state(options.build))
    found = {part: PARTS[part](bench) for part in options.only or PARTS}
    if bench.bars:
        bench.say('\nBars')
    for bar in bench.bars:
        bench.say(f'  {"met   " if bar["met"] else "MISSED"} {bar["bar"]} {bar["value"]:.2f} times '
                  f'({bar["source"]}: {bar["least"]:g}); {bar["note"]}')
    if options.json:
        print(json.dumps({'state': state(options.build), 'parts': found, 'bars': bench.bars}, indent=1))
    if options.svg:
        options.svg.mkdir(parents=True, exist_ok=True)
        for name, drawing in bench.drawings.items():
            (options.svg / f'{name}.svg').write_text(drawing, encoding='utf-8')
    return 0 if all(bar['met'] for bar in bench.bars) else 1


def main():
    try:
        sys.exit(measure(parse(sys.argv[1:])))
    except Failed as failed:
        sys.exit(f'startup: {failed}')


if __name__ == '__main__':
    main()
