#!/usr/bin/env python3
"""A client that nobody here wrote: tinygrad trains on its CUDA device, is killed and restored."""
import os
import subprocess
import unittest

import harness

ENVIRONMENT = os.environ.get('GPUSNAP_TEST_PYTHON_ENV',
                             os.path.join(harness.SOURCE, '.cache', 'tinygrad'))
STEPS = '40'


def make_environment():
    """The reason why there is none, or nothing."""
    made = subprocess.run([os.path.join(harness.SOURCE, 'scripts', 'python-env'), ENVIRONMENT],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return '' if made.returncode == 0 else harness.tail(made.stderr, 1) or 'no reason given'


class Tinygrad(harness.TestCase):
    timeout = 240
    command = [os.path.join(ENVIRONMENT, 'bin', 'python'),
               os.path.join(harness.SOURCE, 'tests', 'e2e', 'digits.py'), STEPS]
    # The PTX back end of its CUDA device, without CUDA graphs and without its cache on disk.
    device = {'DEV': 'CUDA:PTX', 'JIT': '2', 'CACHELEVEL': '0'}

    @classmethod
    def setUpClass(cls):
        reason = make_environment()
        if reason:
            raise unittest.SkipTest('the Python packages cannot be installed: ' + reason)

    def environment(self, **settings):
        return super().environment(XDG_CACHE_HOME=self.folder, **self.device, **settings)

    def test_killed_and_restored(self):
        stats = os.path.join(self.folder, 'stats')
        reference = self.reference(self.command, SIMCUDA_STATS=stats)
        self.assertTrue(reference.output.endswith(b'ok\n'), reference.output[-200:])
        losses = [float(line.split()[-1]) for line in reference.output.splitlines()
                  if b': loss ' in line]
        self.assertEqual(len(losses), int(STEPS))
        self.assertLess(losses[-1], losses[0] / 2, 'it does not learn')
        launched = harness.launches(stats)
        for kill in range(harness.KILLS if harness.SOAK else 1):
            with self.subTest(kill=kill):
                self.saved_and_killed(self.command, reference, 'syncs:20')
                self.settle()
                before = self.launches_before(self.complete()[0]['id'])
                stats = os.path.join(self.folder, 'stats-%d' % kill)
                run = self.finish(self.start_restored(self.command, SIMCUDA_STATS=stats,
                                                      GPUSNAP_EVERY='syncs:20'))
                self.assert_same_output(run, reference)
                self.assertEqual(harness.launches(stats), launched - before)


if __name__ == '__main__':
    harness.main()
