#!/usr/bin/env python3
"""NVIDIA's own driver library, without a GPU: the tables of interpose/ against what it exports and what its
cuGetProcAddress answers, and programs that behave the same with and without the preloaded library up to "no
device".

The library is fetched as the distribution's package (genuine_package.py) and kept in the build folder; where
it cannot be had, everything is skipped and the reason is said. Differences that are known are in
genuine_driver.table.
"""
import os
import re
import shutil
import subprocess
import sys
import unittest

import genuine_package
import harness

FOLDER = os.path.join(harness.BUILD, 'genuine-driver')
PROBE = os.path.join(harness.SOURCE, 'tests', 'e2e', 'genuine_probe.py')
PYTHON_ENVS = os.environ.get('GPUSNAP_TEST_PYTHON_ENVS', os.path.join(harness.SOURCE, '.cache'))
LEGACY, PER_THREAD = 1, 2  # kinds of null stream, as the flags of cuGetProcAddress have them
PER_THREAD_SINCE = 7000
NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE

# Asks the driver API from Python what it answers without a device.
PYTHON_PROGRAM = '''
import ctypes
driver = ctypes.CDLL('libcuda.so.1')
value, name = ctypes.c_int(7), ctypes.c_char_p()
print('version', driver.cuDriverGetVersion(ctypes.byref(value)), value.value)
print('allocate before init', driver.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(64)))
result = driver.cuInit(0)
print('init', result, driver.cuGetErrorName(result, ctypes.byref(name)), name.value)
print('count', driver.cuDeviceGetCount(ctypes.byref(value)), value.value)
print('context', driver.cuCtxCreate_v2(ctypes.byref(ctypes.c_void_p()), 0, 0))
print('allocate', driver.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(64)))
print('synchronise', driver.cuCtxSynchronize())
print('again', driver.cuInit(0))
'''
# The same of the runtime API, by its library's name.
RUNTIME_PROGRAM = '''
import ctypes, sys
runtime = ctypes.CDLL(sys.argv[1])
runtime.cudaGetErrorName.restype = ctypes.c_char_p
value = ctypes.c_int(7)
def tell(what, result, *more):
    print(what, result, runtime.cudaGetErrorName(result).decode(), *more)
tell('driver', runtime.cudaDriverGetVersion(ctypes.byref(value)), value.value)
tell('runtime', runtime.cudaRuntimeGetVersion(ctypes.byref(value)), value.value)
tell('count', runtime.cudaGetDeviceCount(ctypes.byref(value)), value.value)
tell('allocate', runtime.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(64)))
tell('stream', runtime.cudaStreamCreate(ctypes.byref(ctypes.c_void_p())))
tell('synchronise', runtime.cudaDeviceSynchronize())
tell('last', runtime.cudaGetLastError())
'''
# The question to each client that is at hand.
CLIENTS = {
    'torch': 'import torch; print(torch.cuda.is_available(), torch.cuda.device_count())',
    'cupy': 'import cupy; print(cupy.cuda.is_available())',
    'numba': 'from numba import cuda; print(cuda.is_available())',
    'tinygrad': 'from tinygrad import Device; Device["CUDA"]',
}

driver_folder = None  # where libcuda.so.1 lies
summary = []


def say(line):
    print('genuine driver:', line, flush=True)


def setUpModule():
    global driver_folder
    try:
        unpacked, version = genuine_package.fetch('libcuda1', FOLDER, say)
    except genuine_package.NotToBeHad as reason:
        summary.append('skipped: %s' % reason)
        raise unittest.SkipTest(str(reason)) from None
    driver_folder = genuine_package.find_library(unpacked, 'libcuda.so.1')
    summary.append('libcuda1 %s' % version)


# ---- the tables ----

class Row:
    """One symbol of hooks.table: what cuGetProcAddress has to answer `name` with, from `since` on."""

    def __init__(self, symbol, name, since, null_stream):
        self.symbol = symbol
        self.name = name
        self.since = since
        self.null_stream = null_stream


def rows_of_hooks():
    for line in lines_of('interpose/cuda/hooks.table'):
        symbol, name, since, variant, *_ = line.split()
        yield Row(symbol, name, int(since), LEGACY)
        if variant != '-':
            yield Row('%s_%s' % (symbol, variant), name, max(int(since), PER_THREAD_SINCE), PER_THREAD)


def lines_of(path):
    with open(os.path.join(harness.SOURCE, path)) as file:
        for line in file:
            if line.strip() and not line.startswith('#'):
                yield line.rstrip('\n')


def by_reason(path):
    """Names and the reason that each stands below."""
    reasons = {}
    for line in lines_of(path):
        if line.startswith(' '):
            reasons[line.strip()] = reason
        else:
            reason = line.rstrip(':')
    return reasons


def base_name(symbol):
    return re.sub(r'(_v\d+)?(_ptsz|_ptds)?$', '', symbol)


class Answers:
    """The answers that genuine_probe.py printed."""

    def __init__(self, text):
        self.version = None
        self.foreign = None  # functions that are not the driver's
        self.symbols = {}    # symbol: what dlsym finds
        self.functions = {}  # (name, version, null stream): the symbol that cuGetProcAddress_v2 gives
        self.lines = []
        for line in text.splitlines():
            kind, *rest = line.split()
            if kind == 'foreign':
                self.foreign = int(rest[0])
                continue
            self.lines.append(line)
            if kind == 'version':
                self.version = int(rest[1])
            elif kind == 'dlsym':
                self.symbols[rest[0]] = rest[1]
            else:
                self.functions[rest[0], int(rest[1]), int(rest[2])] = rest[-1]


def exported():
    """The driver API's functions among what the library exports; cudbg... is for debuggers."""
    listed = subprocess.run(['nm', '-D', '--defined-only', os.path.join(driver_folder, 'libcuda.so.1')],
                            check=True, capture_output=True, text=True).stdout
    names = {line.split()[-1].split('@')[0] for line in listed.splitlines()}
    return {name for name in names if re.match(r'cu[A-Z]', name)}


class GenuineCase(harness.TestCase):
    def driver_environment(self, preloaded, *libraries):
        """In which programs get the genuine driver, and leave nothing where they run."""
        return self.environment(LD_LIBRARY_PATH=':'.join([driver_folder, *libraries]),
                                LD_PRELOAD=harness.LIBRARY if preloaded else None,
                                HOME=self.folder, PYTHONDONTWRITEBYTECODE='1')

    def outcome(self, command, preloaded, *libraries):
        run = self.start(command, self.driver_environment(preloaded, *libraries))
        status = run.wait(self.timeout)
        return status, run.output.decode(errors='replace'), run.errors

    def same(self, command, *libraries):
        """Checks that a command does the same with the library as without it."""
        plain = self.outcome(command, False, *libraries)
        self.assertEqual(self.outcome(command, True, *libraries), plain, ' '.join(command))
        return plain


class Tables(GenuineCase):
    @classmethod
    def setUpClass(cls):
        cls.rows = list(rows_of_hooks())
        cls.passed = by_reason('interpose/cuda/passed_through.table')
        cls.known = by_reason('tests/e2e/genuine_driver.table')
        cls.hooked = {row.symbol for row in cls.rows} | {
            row.symbol + form for row in cls.rows for form in ('_ptsz', '_ptds')}
        cls.passed_names = set(map(base_name, cls.passed))
        cls.exports = exported()
        cls.names = sorted(cls.exports | {row.symbol for row in cls.rows} | set(cls.passed))
        since = {row.since for row in cls.rows}
        cls.versions = sorted(since | {version - 1 for version in since} | {max(since) + 10})
        cls.asked = {}

    def ask(self, preloaded):
        """The driver's answers, asked for once."""
        if preloaded not in self.asked:
            self.asked[preloaded] = self.ask_now(preloaded)
        return self.asked[preloaded]

    def ask_now(self, preloaded):
        say('asking for %d names at %d versions%s' % (
            len(self.names), len(self.versions), ', with the library' if preloaded else ''))
        asked = subprocess.run([sys.executable, PROBE] + [str(version) for version in self.versions],
                               input='\n'.join(self.names), env=self.driver_environment(preloaded),
                               capture_output=True, text=True, check=False)
        self.assertEqual((asked.returncode, asked.stderr), (0, ''))
        return Answers(asked.stdout)

    def is_explained(self, symbol, version):
        """Whether the table of differences says why the driver lacks it."""
        reason = self.known.get(symbol, '')
        since = re.match(r'since (\d+)$', reason)
        return int(since[1]) > version if since else reason != ''

    def problem_of_row(self, row, answers):
        found = answers.functions[row.name, row.since, row.null_stream]
        before = answers.functions[row.name, row.since - 1, row.null_stream]
        default = answers.functions[row.name, row.since, 0]
        if answers.symbols[row.symbol] != row.symbol:
            return 'is not exported'
        if found != row.symbol:
            return 'is not what the driver answers %s with at %d: %s' % (row.name, row.since, found)
        if before == row.symbol:
            return 'is what the driver answers %s with before %d, too' % (row.name, row.since)
        if row.null_stream == LEGACY and default != row.symbol:
            return 'is not what the driver answers %s with by default: %s' % (row.name, default)
        return None

    def test_every_row_is_what_the_driver_answers(self):
        answers = self.ask(preloaded=False)
        agree, newer, explained, problems = 0, 0, [], []
        for row in self.rows:
            if row.since > answers.version:
                newer += 1
                if row.symbol in self.exports:
                    problems.append('%s is exported by a driver for CUDA %d, which is before %d' % (
                        row.symbol, answers.version, row.since))
                continue
            problem = self.problem_of_row(row, answers)
            if problem is None:
                agree += 1
            elif row.symbol in self.known:
                explained.append(row.symbol)
            else:
                problems.append('%s %s' % (row.symbol, problem))
        self.assertEqual(problems, [])
        self.assertGreater(agree, 250)
        summary.append('hooks.table: %d of %d symbols agree, %d are newer than CUDA %d.%d, %d explained%s' % (
            agree, len(self.rows), newer, answers.version // 1000, answers.version % 1000 // 10,
            len(explained), ''.join('\n    %s: %s' % (symbol, self.known[symbol]) for symbol in explained)))

    def test_every_export_is_in_a_table(self):
        hooked = {row.symbol for row in self.rows}
        explained = {symbol for symbol in self.exports - hooked
                     if base_name(symbol) not in self.passed and symbol in self.known}
        unknown = {symbol for symbol in self.exports - hooked - explained
                   if base_name(symbol) not in self.passed}
        self.assertEqual(sorted(unknown), [], 'exported, and in none of the tables')
        self.assertGreater(len(self.exports), 400)
        summary.append('exports: %d of %d are in the tables, %d explained' % (
            len(self.exports - explained), len(self.exports), len(explained)))

    def test_every_symbol_of_the_tables_is_exported(self):
        version = self.ask(preloaded=False).version
        since = {row.symbol: row.since for row in self.rows}
        lacking = {symbol for symbol in set(since) | set(self.passed) if symbol not in self.exports}
        newer = {symbol for symbol in lacking if since.get(symbol, 0) > version}
        unknown = {symbol for symbol in lacking - newer if not self.is_explained(symbol, version)}
        self.assertEqual(sorted(unknown), [], 'in the tables, and not exported')
        summary.append('symbols of the tables: %d of %d are exported, the rest is newer or explained' % (
            len(set(since) | set(self.passed)) - len(lacking), len(set(since) | set(self.passed))))

    def with_thunks(self, line):
        """The line as it is where functions that no table has are thunks."""
        def is_known(symbol):
            return symbol in self.hooked or base_name(symbol) in self.passed_names
        words = line.split()
        for place in (2,) if words[0] == 'dlsym' else (5, 8) if words[0] == 'ask' else ():
            if words[place].startswith('cu') and not is_known(words[place]):
                words[place] = '?'
        return ' '.join(words)

    def test_the_library_answers_as_the_driver_does(self):
        """For every query, the wrapper is that of the function that the driver answers with; a thunk,
        which has no name, where no table has it."""
        plain, preloaded = self.ask(preloaded=False), self.ask(preloaded=True)
        differing = [pair for pair in zip(map(self.with_thunks, plain.lines), preloaded.lines)
                     if pair[0] != pair[1]]
        self.assertEqual(differing[:10], [], '%d answers differ' % len(differing))
        self.assertEqual(len(plain.lines), len(preloaded.lines))
        self.assertEqual(plain.foreign, 0)
        self.assertGreater(preloaded.foreign, 250)
        summary.append('look-ups with the library: %d answers, all as without it' % len(plain.lines))


# ---- programs ----

def toolkit_libraries():
    """Where the toolkit has its shared runtime; None without a toolkit."""
    nvcc = shutil.which('nvcc') or '/usr/local/cuda/bin/nvcc'
    found = []
    if os.path.exists(nvcc):
        top = os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))
        found = [os.path.join(top, folder) for folder in ('lib64', 'lib')]
    return next((folder for folder in found
                 if any(name.startswith('libcudart.so.') for name in os.listdir(folder))), None)


def interpreters():
    """Each Python that may have a client: this one, and those made for other tests."""
    found = [sys.executable]
    if os.path.isdir(PYTHON_ENVS):
        found += [os.path.join(PYTHON_ENVS, name, 'bin', 'python') for name in sorted(os.listdir(PYTHON_ENVS))]
    return [path for path in found if os.path.exists(path)]


def has_module(interpreter, module):
    asked = 'import importlib.util, sys; sys.exit(importlib.util.find_spec(%r) is None)' % module
    return subprocess.run([interpreter, '-c', asked], capture_output=True, check=False).returncode == 0


# They ask the library for memory of the device.
ASK_FOR_MEMORY = ('offload/acc_memory', 'offload/acc_pools', 'offload/omp_memory')


class Programs(GenuineCase):
    """Up to "no device". On a machine with a GPU whose kernel module is another, the driver says that."""

    def programs_end_alike(self, names, *libraries, needs_device=lambda name: True):
        for name in names:
            with self.subTest(program=name):
                steps, _ = harness.PROGRAMS[name.removesuffix('_static')]
                status, output, errors = self.same([harness.app(name), steps], *libraries)
                self.assertEqual(status != 0, needs_device(name), output)
                # One that is ended by a signal has said nothing.
                self.assertTrue(status < 0 or output + errors)
        return len(names)

    def test_programs_with_offload_regions(self):
        """The host runs regions where there is no device; memory of a device cannot be had."""
        names = harness.built(name for name in harness.PROGRAMS if name.startswith('offload/'))
        if not names:
            self.skipTest('gcc makes no code for devices here')
        count = self.programs_end_alike(names, needs_device=ASK_FOR_MEMORY.__contains__)
        summary.append('offload regions: %d programs end as without the library' % count)

    def test_programs_of_the_driver_api(self):
        names = harness.built(name for name in harness.PROGRAMS if '/' not in name)
        self.assertTrue(names)
        count = self.programs_end_alike(names)
        summary.append('driver API from C++: %d programs end as without the library' % count)

    def test_programs_of_the_static_runtime(self):
        names = harness.built(name + '_static' for name in harness.PROGRAMS
                              if name.startswith('runtime/'))
        if not names:
            self.skipTest('no toolkit')
        count = self.programs_end_alike(names)
        summary.append('static runtime: %d programs end as without the library' % count)

    def test_programs_of_the_shared_runtime(self):
        names = harness.built(name for name in harness.PROGRAMS if name.startswith('runtime/'))
        libraries = toolkit_libraries()
        if not names or libraries is None:
            self.skipTest('no toolkit')
        count = self.programs_end_alike(names, libraries)
        summary.append('shared runtime: %d programs end as without the library' % count)

    def test_the_driver_api_from_python(self):
        status, output, errors = self.same([sys.executable, '-c', PYTHON_PROGRAM])
        self.assertEqual((status, errors), (0, ''))
        self.assertNotIn('init 0 ', output)
        summary.append('driver API from Python: the same answers')

    def test_an_older_runtime(self):
        """One that is not newer than the driver, and goes further with it."""
        try:
            unpacked, version = genuine_package.fetch('libcudart11.0', FOLDER, say)
        except genuine_package.NotToBeHad as reason:
            self.skipTest(str(reason))
        folder = genuine_package.find_library(unpacked, 'libcudart.so.11.0')
        status, output, errors = self.same(
            [sys.executable, '-c', RUNTIME_PROGRAM, os.path.join(folder, 'libcudart.so.11.0')])
        self.assertEqual((status, errors), (0, ''))
        self.assertIn('count %d ' % NO_DEVICE, output)
        summary.append('shared runtime %s: the same answers' % version)

    def test_clients_that_are_at_hand(self):
        found = [(interpreter, module) for interpreter in interpreters() for module in CLIENTS
                 if has_module(interpreter, module)]
        if not found:
            self.skipTest('none of %s is installed' % ', '.join(CLIENTS))
        for interpreter, module in found:
            with self.subTest(client=module):
                self.same([interpreter, '-c', CLIENTS[module]])
        summary.append('Python clients: %s, the same' % ', '.join(module for _, module in found))


if __name__ == '__main__':
    try:
        harness.main()
    finally:
        print('genuine driver:', '\n  '.join(summary), flush=True)
