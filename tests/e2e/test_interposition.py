#!/usr/bin/env python3
"""The preloaded library in processes that it has no business in, beside other preloaded libraries,
and what it exports and needs. Needs no driver; paths come from the environment."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import patience  # noqa: E402

LIBRARY = os.environ['GPUSNAP_LIBRARY']      # libgpusnap.so
COUNTING = os.environ['COUNTING_LIBRARY']    # the same with handlers that count
FAKE_DRIVER = os.environ['FAKE_DRIVER']      # libcuda.so.1 that counts
HOOKS_TABLE = os.environ['HOOKS_TABLE']
HELPERS = pathlib.Path(os.environ['HELPERS'])
SECOND = str(HELPERS / 'libsecond_interposer.so')
NEXT_USER = str(HELPERS / 'libnext_user.so')
REACH = str(HELPERS / 'reach_driver')
DEEP_OPENER = str(HELPERS / 'deep_opener')
DEEP_BOUND = str(HELPERS / 'libdeep_bound.so')
LINKED = str(HELPERS / 'linked_to_driver')


def run(command, *preload, driver=False, **more):
    environment = {k: v for k, v in os.environ.items() if not k.startswith('GPUSNAP_')}
    environment.pop('LD_PRELOAD', None)
    if preload:
        environment['LD_PRELOAD'] = ':'.join(preload)
    if driver:
        environment['LD_LIBRARY_PATH'] = os.path.dirname(FAKE_DRIVER)
    done = patience.run(command, 60, env=environment, **more)
    return done.returncode, done.stdout, done.stderr


def table_symbols():
    for line in pathlib.Path(HOOKS_TABLE).read_text().splitlines():
        fields = line.split('#')[0].split()
        if fields:
            symbol, _, _, variant, *_ = fields
            yield symbol
            if variant != '-':
                yield f'{symbol}_{variant}'


def mpi_symbols():
    lines = pathlib.Path(HOOKS_TABLE).parent.parent.joinpath('mpi', 'exports.list').read_text().splitlines()
    return {line for line in lines if not line.startswith('#')}


class Inert(unittest.TestCase):
    def same(self, command, **more):
        plain = run(command, **more)
        self.assertEqual(run(command, LIBRARY, **more), plain)
        return plain

    def test_bash(self):
        code, output, _ = self.same(['bash', '-c', 'echo one; (echo two); ls / | sort | head -3; '
                                     'for i in 1 2 3; do true & done; wait; echo bad >&2; exit 7'])
        self.assertEqual(code, 7)
        self.assertTrue(output.startswith('one\ntwo\n'))

    def test_python(self):
        program = ('import ctypes, json, os, threading, subprocess, sqlite3, hashlib\n'
                   'print(len(os.listdir("/proc/self/task")))\n'  # no thread of ours
                   'print(hashlib.sha256(b"x").hexdigest())\n'
                   'print(ctypes.CDLL(None).abs(-3))\n'
                   'try: ctypes.CDLL(None).cuInit; print("a driver")\n'
                   'except AttributeError: print("no driver")\n'
                   'try: ctypes.CDLL(None).MPI_Init; print("an MPI")\n'
                   'except AttributeError: print("no MPI")\n'
                   'os.system("echo child")\n'
                   'raise SystemExit(5)\n')
        code, output, _ = self.same([sys.executable, '-u', '-c', program])
        self.assertEqual(code, 5)
        self.assertTrue(output.startswith('1\n'), output)
        self.assertIn('no driver', output)
        self.assertIn('no MPI', output)

    def test_compiler(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, 'hello.cpp').write_text(
                '#include <iostream>\n#include <thread>\nint main() {\n'
                '  std::thread([] { std::cout << "hello\\n"; }).join();\n  return 3;\n}\n')
            compiler = ['g++', '-O1', '-pthread', 'hello.cpp', '-o']
            plain = run([*compiler, 'plain'], cwd=folder)
            self.assertEqual(plain, (0, '', ''))
            self.assertEqual(run([*compiler, 'ours'], LIBRARY, cwd=folder), plain)
            self.assertEqual(pathlib.Path(folder, 'ours').read_bytes(),
                             pathlib.Path(folder, 'plain').read_bytes())
            self.assertEqual(self.same([f'{folder}/plain']), (3, 'hello\n', ''))

    def test_a_file_that_is_no_program(self):
        self.same(['bash', '-c', '/nowhere/at/all'])


class Library(unittest.TestCase):
    def test_exports_are_the_tables(self):
        lines = subprocess.run(['nm', '-D', '--defined-only', LIBRARY], check=True,
                               stdout=subprocess.PIPE).stdout.decode().splitlines()
        functions = {line.split()[2].split('@')[0] for line in lines if line.split()[1] != 'A'}
        self.assertEqual(functions, set(table_symbols()) | mpi_symbols() |
                         {'gpusnap_history_folder', 'gpusnap_same_as_recorded',
                          'dlopen', 'dlsym', 'dlvsym', 'pthread_create', 'thrd_create', 'open',
                          'open64', 'openat', 'openat64', '__open_2', '__open64_2', '__openat_2',
                          '__openat64_2', 'fopen', 'fopen64', 'time', 'gettimeofday', 'clock',
                          'timespec_get', 'clock_gettime', 'getrandom', 'getentropy', 'arc4random',
                          'arc4random_buf', 'arc4random_uniform', 'read', '__read_chk',
                          'pthread_cond_timedwait', 'pthread_cond_clockwait',
                          'pthread_mutex_timedlock', 'pthread_mutex_clocklock', 'sem_timedwait',
                          'pthread_rwlock_timedrdlock', 'pthread_rwlock_timedwrlock',
                          'pthread_rwlock_clockrdlock', 'pthread_rwlock_clockwrlock',
                          'sem_clockwait', 'cnd_timedwait', 'mtx_timedlock', 'clock_nanosleep',
                          'timerfd_settime', 'timer_settime', 'syscall', 'longjmp',
                          '_longjmp', 'siglongjmp', '__longjmp_chk'})

    def test_needs_the_c_library_alone(self):
        text = subprocess.run(['readelf', '-d', LIBRARY], check=True,
                              stdout=subprocess.PIPE).stdout.decode()
        needed = {line.split('[')[1].split(']')[0] for line in text.splitlines() if 'NEEDED' in line}
        self.assertLessEqual(needed, {'libc.so.6', 'libm.so.6', 'ld-linux-x86-64.so.2'})


class OtherLibraries(unittest.TestCase):
    # Lines that reach_driver prints with any library in between, except where it found functions.
    RESULTS = ['results 0 0, address 1000', 'driver: 1 1']

    def reach(self, *preload):
        code, output, errors = run([REACH], *preload, driver=True)
        self.assertEqual((code, errors), (0, ''))
        lines = output.splitlines()
        for line in self.RESULTS:
            self.assertIn(line, lines)
        return lines

    def test_alone(self):
        lines = self.reach(COUNTING)
        self.assertIn('cuInit from libcounting.so', lines)
        self.assertIn('cuMemAlloc_v2 from libcounting.so', lines)
        self.assertIn('cuDriverGetVersion from libcuda.so.1', lines)
        self.assertIn('handled: 1', lines)

    def test_from_a_library_that_is_bound_deeply(self):
        deep = run([DEEP_OPENER, DEEP_BOUND], driver=True)
        self.assertEqual(deep, (0, 'cuInit from libcuda.so.1\n', ''))
        for order in ((COUNTING,), (COUNTING, SECOND), (SECOND, COUNTING)):
            with self.subTest(order=order):
                code, output, errors = run([DEEP_OPENER, DEEP_BOUND], *order, driver=True)
                self.assertEqual((code, errors), (0, ''))
                self.assertIn('cuInit from libcounting.so', output.splitlines())

    def test_before_another_interposer(self):
        lines = self.reach(COUNTING, SECOND)
        self.assertIn('cuMemAlloc_v2 from libcounting.so', lines)
        self.assertEqual(lines.count('second: cuMemAlloc_v2'), 1)
        self.assertEqual(lines.count('second: getppid'), 1)
        self.assertIn('handled: 1', lines)

    def test_behind_another_interposer(self):
        lines = self.reach(SECOND, COUNTING)
        self.assertIn('cuMemAlloc_v2 from libsecond_interposer.so', lines)
        self.assertEqual(lines.count('second: cuMemAlloc_v2'), 1)
        self.assertEqual(lines.count('second: getppid'), 1)
        self.assertIn('handled: 1', lines)

    def test_next_still_means_behind_the_caller(self):
        for order in ((COUNTING, NEXT_USER), (NEXT_USER, COUNTING),
                      (NEXT_USER, COUNTING, SECOND), (NEXT_USER, SECOND, COUNTING)):
            with self.subTest(order=order):
                lines = self.reach(*order)
                self.assertEqual(lines.count('next: found'), 1)
                self.assertIn('handled: 1', lines)

    def test_program_linked_to_the_driver(self):
        plain = run([LINKED], driver=True)
        self.assertEqual(plain, (0, 'results 0 0, driver 1 1\n', ''))
        self.assertEqual(run([LINKED], COUNTING, driver=True), plain)
        self.assertEqual(run([LINKED], SECOND, COUNTING, driver=True), plain)


if __name__ == '__main__':
    unittest.main()
