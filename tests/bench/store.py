#!/usr/bin/env python3
"""Measures how checkpoints get to the store: the whole way from ranks through the real backend.

  scripts/bench store [--folder FOLDER] [--rounds N] [--only PART]... [--svg FOLDER] [--json]

Parts:
  device    write and read throughput beside a loop of large blocks that uses the backend's I/O
            engine and does nothing else, on the same device, by io_uring and by threads; memory
  compress  GPUSNAP_COMPRESS auto, off and 1, on the device and on ones of a set speed, by data
  merge     how much longer a checkpoint takes on average, the first and full one included, while
            merges of the ones before are under way
  pipeline  uncompressed; each block compressed, then stored; both at the same time; as auto decides:
            by the size of buffers, by data, and by the speed of the tier. These are not figures 10
            to 12 of the PCCR paper, which vary the window of the compression and the number of
            processes, and compress checkpoints of the NPB on a GPU

A rank hands over one slot of made-up bytes again and again: all blocks of a checkpoint are the same.

All that is compared is measured in turn, in the same run; the median of N rounds counts (default 5).
Takes about 8 minutes.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import backend_runs  # noqa: E402 (beside this file)
import svg  # noqa: E402

GB = 1e9

RANKS = 4
SPEEDS = ['50M', '100M', '200M', '400M']
DATA = ['smooth', 'random']
LATER = 0.97  # off / auto, at least
FASTER = 1.3  # the same on a tier of so many bytes a second, with data that shrink
SLOW = ['50M', '100M']
AIM = 0.95  # of the loop

WRITES, SLOT = 8, '4M'  # the defaults: each write may have a slot's size of memory
SMALL = 16 << 20        # of memory: threads, what compressors need, what the ranks hand over

BUFFERS = ['64K', '256K', '1M', '4M', '16M']
SCALES = ['25M', '50M', '100M', '200M', '400M', '800M']
KINDS = ['zeros', 'smooth', 'random']
# Serial: with one write at a time nothing is compressed before the block before is stored.
WAYS = {'uncompressed': {'compress': 'off'}, 'serial': {'compress': '1', 'writes': 1},
        'pipelined': {'compress': '1'}, 'auto': {'compress': 'auto'}}


def scaled(options, bytes_of_rank):
    return bytes_of_rank // (10 if options.quick else 1)


def allowed_memory(keys):
    """The memory that the settings allow: the staging area, and compression buffers if any."""
    buffers = 0
    if keys.get('compress', 'off') != 'off':
        buffers = keys['ranks'] * keys.get('writes', WRITES) * backend_runs.size(keys['slot'])
    return backend_runs.size(keys['cache']) + buffers + SMALL


def memory_of(reports, keys):
    return {'memory': max(report['memory'] for report in reports),
            'memory_allowed': allowed_memory(keys)}


def print_memory(found):
    within = all(each['memory'] <= each['memory_allowed'] for each in found.values())
    most = max(found.values(), key=lambda each: each['memory'] / each['memory_allowed'])
    print(f'\nmemory, at its peak more than before: {most["memory"] / 2**20:.0f} MiB where the settings '
          f'allow {most["memory_allowed"] / 2**20:.0f}, at most{"" if within else ": ABOVE THE SETTINGS"}')


def device(runs, options):
    each = scaled(options, 512 << 20)
    total = RANKS * each
    keys = {'ranks': RANKS, 'bytes': each, 'cache': '192M', 'slot': SLOT, 'chunk': '16M', 'reads': 1}
    ways = {}
    for threads in (0, 1):
        ways[f'plain {threads}'] = {**keys, 'what': 'plain', 'threads': threads}
        ways[f'backend {threads}'] = {**keys, 'threads': threads}
    compared = runs.compare(ways)
    found = {}
    for threads in (0, 1):
        plain, ours = compared[f'plain {threads}'], compared[f'backend {threads}']
        io = ours[0]['io']
        if io in found:
            continue  # no io_uring here
        found[io] = {
            'bytes': total,
            'write_plain': total / backend_runs.median(plain, 'plain_write'),
            'write': total / backend_runs.median(ours, 'complete'),
            'write_ratio': backend_runs.ratio(plain, ours, 'plain_write', 'complete'),
            'read_plain': total / backend_runs.median(plain, 'plain_read'),
            'read': total / backend_runs.median(ours, 'read'),
            'read_ratio': backend_runs.ratio(plain, ours, 'plain_read', 'read'),
            'local': backend_runs.median(ours, 'local'),
            **memory_of(ours, keys),
        }
    return found


def print_device(found):
    rows = []
    for io, each in found.items():
        for what in ('write', 'read'):
            ratio = each[f'{what}_ratio']
            rows.append((f'{what}, {io}', f'{each[what + "_plain"] / GB:.2f} GB/s',
                         f'{each[what] / GB:.2f} GB/s',
                         f'{ratio:.0%}{"" if ratio >= AIM else " BELOW"}'))
    print(backend_runs.table(['', 'loop on the engine', 'backend', 'of it'], rows))
    print_memory(found)


def compress(runs, options):
    found = {}
    for data in DATA:
        for speed in [None, *SPEEDS]:
            each = scaled(options, (64 if speed in SLOW else 192) << 20)
            keys = {'ranks': 2, 'bytes': each, 'cache': '64M', 'slot': SLOT, 'chunk': '16M',
                    'data': data}
            if speed:
                keys['pfs'] = f'1:{speed}'
            compared = runs.compare({how: {**keys, 'compress': how} for how in ('off', 'auto', '1')})
            found[f'{data}, {speed or "device"}'] = {
                **{how: backend_runs.median(reports, 'complete')
                   for how, reports in compared.items()},
                'speedup': backend_runs.ratio(compared['off'], compared['auto'], 'complete'),
                'aim': FASTER if speed in SLOW and data == 'smooth' else LATER,
                **memory_of(compared['auto'], {**keys, 'compress': 'auto'})}
    return found


def print_compress(found):
    rows = [(name, *(f'{each[how]:.2f} s' for how in ('off', 'auto', '1')),
             f'{each["speedup"]:.2f}{"" if each["speedup"] >= each["aim"] else " BELOW"}',
             f'{each["aim"]:.2f}') for name, each in found.items()]
    print(backend_runs.table(['data, tier', 'off', 'auto', 'level 1', 'off / auto', 'aim'], rows))
    print_memory(found)


def merge(runs, options):
    """Checkpoints that are waited for, increments all but the first; merged when there is time for it,
    or never. The mean time of all of them."""
    keys = {'ranks': 2, 'bytes': scaled(options, 64 << 20), 'cache': '64M', 'slot': '1M',
            'chunk': '4M', 'checkpoints': 12, 'every_slot': 5, 'synchronous': 1}
    found = {}
    for speed in ['50M', '200M']:
        for pause in [0, 250]:
            each = {**keys, 'pfs': f'1:{speed}', 'compute_ms': pause}
            compared = runs.compare({'off': {**each, 'chain': 0}, 'on': {**each, 'chain': 4}})
            found[f'{speed}, every {pause} ms'] = {
                **{how: backend_runs.median(reports, 'local') / keys['checkpoints']
                   for how, reports in compared.items()},
                'longer': backend_runs.ratio(compared['on'], compared['off'], 'local'),
                'stored': backend_runs.ratio(compared['on'], compared['off'], 'stored')}
    return found


def print_merge(found):
    rows = [(name, f'{each["off"]:.3f} s', f'{each["on"]:.3f} s', f'{each["longer"]:.2f}',
             f'{each["stored"]:.1f}') for name, each in found.items()]
    print(backend_runs.table(['tier, time between', 'not merged', 'merged', 'ratio',
                              'bytes written, ratio'], rows))


def ways_of(runs, options, **keys):
    """Way -> bytes of data a second; and what memory the one that overlaps took."""
    each = scaled(options, 64 << 20)
    keys = {'ranks': 1, 'bytes': each, 'cache': '64M', 'slot': '1M', 'chunk': '16M',
            'data': 'smooth', 'pfs': '1:200M', **keys}
    compared = runs.compare({way: {**keys, **how} for way, how in WAYS.items()})
    return {**{way: each / backend_runs.median(reports, 'complete')
               for way, reports in compared.items()},
            **memory_of(compared['pipelined'], {**keys, **WAYS['pipelined']})}


def pipeline(runs, options):
    few = backend_runs.few
    return {
        'buffers': {buffer: ways_of(runs, options, slot=buffer) for buffer in few(options, BUFFERS)},
        'data': {data: ways_of(runs, options, data=data) for data in few(options, KINDS)},
        'tiers': {speed: ways_of(runs, options, pfs=f'1:{speed}') for speed in few(options, SCALES)}}


TITLES = {'buffers': 'buffers (tier of 200M, smooth data)',
          'data': 'data (tier of 200M, buffers of 1 MiB)',
          'tiers': 'tier, bytes a second (smooth data, buffers of 1 MiB)'}


def print_pipeline(found):
    for what, by in found.items():
        rows = [(name, *(f'{each[way] / 1e6:.0f} MB/s' for way in WAYS))
                for name, each in by.items()]
        print(backend_runs.table([TITLES[what], *WAYS], rows) + '\n')
    print_memory({(what, name): each for what, by in found.items() for name, each in by.items()})


def draw_pipeline(found):
    panels = []
    for what, by in found.items():
        rows = [[each[way] / 1e6 for way in WAYS] for each in by.values()]
        panels.append(svg.Panel(f'By {TITLES[what]}', 'MB/s of data', height=260).bars(
            list(by), list(WAYS), rows))
    return svg.figure(panels)


def draw_compress(found):
    names = list(found)
    rows = [[found[name][how] for how in ('off', 'auto', '1')] for name in names]
    return svg.figure([svg.Panel('Time until durable by GPUSNAP_COMPRESS', 's').bars(names, ['off', 'auto', 'level 1'], rows)])


PARTS = {'device': backend_runs.Part(device, print_device),
         'compress': backend_runs.Part(compress, print_compress, draw_compress),
         'merge': backend_runs.Part(merge, print_merge),
         'pipeline': backend_runs.Part(pipeline, print_pipeline, draw_pipeline)}


if __name__ == '__main__':
    backend_runs.run_parts('store', __doc__, PARTS)
