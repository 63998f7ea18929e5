#!/usr/bin/env python3
"""The benchmark of organisations, in small: that each stalls its program no longer than it should.

The bounds are multiples of what is measured, relative to a full copy that blocks: twice where the link
decides, and more where little but the cut is left. Times are those of the virtual clock, and a busy host
can only add to them: so the least of several runs counts, and no more runs are made than it takes to
see that it is within its bound. A regression is beyond it in all of them.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import sys
import types
import unittest

import organisations

sys.path.insert(0, str(organisations.TOP / 'tests'))
import patience  # noqa: E402

BUILD = pathlib.Path(os.environ['GPUSNAP_TEST_BUILD'])
SCRIPT = pathlib.Path(organisations.__file__)
MEMORY = 16  # MiB, with a device buffer of a quarter
# Slower than in the figures: what the host takes counts less.
TO_HOST = 5e9  # bytes a second of the virtual clock
COPYING = MEMORY * 2**20 / TO_HOST * 1e3  # milliseconds
TRIES = 5

# Stalls relative to a full copy that blocks.
BOUNDS = {
    'stencil': {'b+i': 0.6, 'nb+f': 1.5, 'nb+i': 0.6, 'nb+i+h': 0.6, 'nb+i-fg+h': 0.6,
                'nb+f+h+d': 0.1, 'nb+i+h+d': 0.1, 'nb+i-fg+h+d': 0.1},
    'adaptive': {'b+i': 0.65, 'nb+i+h+d': 0.2, 'nb+i-fg+h+d': 0.3},
}


def gpu_suite():
    """scripts/gpu-suite, as a module."""
    module = types.ModuleType('gpu_suite')
    module.__file__ = str(organisations.TOP / 'scripts' / 'gpu-suite')
    text = pathlib.Path(module.__file__).read_text(encoding='utf-8')
    exec(compile(text, module.__file__, 'exec'), module.__dict__)
    return module


class GpuSuite(unittest.TestCase):
    def test_it_measures_a_program_that_writes(self):
        """Several times; by the software GPU here."""
        module = gpu_suite()
        module.ROUNDS = 2
        suite = module.Suite(BUILD, True, None, 1)
        self.addCleanup(shutil.rmtree, suite.folder)
        suite.snapshots([MEMORY])
        self.assertEqual(suite.failed, {})
        found, = suite.figures.values()
        self.assertEqual(len(found['stalls_s']), 2)
        self.assertEqual(found['stall_s'], statistics.median(found['stalls_s']))
        self.assertGreater(found['plain_copy_s'], 0)
        # It overwrites a quarter of its memory.
        self.assertGreater(found['stored_bytes'], MEMORY * 2**20 / 5)
        self.assertLess(found['stored_bytes'], MEMORY * 2**20 / 3)

    def test_it_reads_checkpoints_back(self):
        """With either keeper: the program compares all bytes."""
        module = gpu_suite()
        suite = module.Suite(BUILD, True, None, 1)
        self.addCleanup(shutil.rmtree, suite.folder)
        suite.history(1e6)
        self.assertEqual(suite.failed, {})
        self.assertEqual(len(suite.figures), len(module.SHOT_ORDERS) * len(module.KEEPERS))
        for name, (found,) in suite.figures.items():
            self.assertEqual(found['wrong_words'], 0, name)
            self.assertGreater(found['restores_waited_s'], 0, name)

    def test_it_begins_no_shot_after_its_time(self):
        suite = gpu_suite().Suite(BUILD, True, None, 1)
        self.addCleanup(shutil.rmtree, suite.folder)
        suite.history(-1)
        self.assertEqual((suite.figures, suite.failed), ({}, {}))


class Organisations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        os.environ['SIMCUDA_BANDWIDTH'] = 'to_host:%d' % TO_HOST
        cls.bench = organisations.Bench(argparse.Namespace(
            build=BUILD, memory=MEMORY, rounds=1, gpu=False, device_cache=None))
        cls.bench.check_build()

    def least(self, program, organisation, second, is_enough=lambda milliseconds: False):
        """The least time of a run; makes no more runs than needed."""
        times = []
        while len(times) < TRIES and not (times and is_enough(min(times))):
            times.append(self.bench.timed(program, organisation, second, None, None)[0])
        return min(times)

    def compare(self, program):
        without = min(self.bench.timed(program, organisations.BASE, False, None, None)[0]
                      for _ in range(3))
        blocking = self.least(program, organisations.BASE, True,
                              lambda total: total - without < 1.5 * COPYING) - without
        print('%s: %.3f ms without, %.3f ms for a full copy that blocks' % (
            program, without, blocking))
        with self.subTest(program=program, organisation=organisations.BASE):
            # No less than the link takes, and little more.
            self.assertGreater(blocking, 0.9 * COPYING)
            self.assertLess(blocking, 1.5 * COPYING)
        for organisation, bound in BOUNDS[program].items():
            with self.subTest(program=program, organisation=organisation):
                stall = self.least(program, organisation, True,
                                   lambda total: total - without < bound * COPYING) - without
                print('%s, %s: %.3f of at most %.2f' % (
                    program, organisation, stall / COPYING, bound), flush=True)
                self.assertLess(stall, bound * COPYING)

    def test_stencil(self):
        self.compare('stencil')

    def test_adaptive(self):
        self.compare('adaptive')

    def test_a_build_that_is_not_there_is_named(self):
        done = patience.run([SCRIPT, '--build', '/nonexistent'], 200)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count('\n'), 1, done.stderr)
        self.assertIn('/nonexistent', done.stderr)


if __name__ == '__main__':
    unittest.main()
