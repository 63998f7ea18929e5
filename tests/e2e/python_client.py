"""Shared by the tests of Python clients that others wrote: their packages, and how they are run,
killed and restored."""
import os
import struct
import subprocess
import unittest

import harness

ENVIRONMENTS = os.environ.get('GPUSNAP_TEST_PYTHON_ENVS', os.path.join(harness.SOURCE, '.cache'))


def distinct_kernels(stats):
    """Kernels that simcuda has run at least once, by a SIMCUDA_STATS file."""
    with open(stats, 'rb') as file:
        file.seek(120)
        return struct.unpack('<Q', file.read(8))[0]


def python_with(packages):
    """An interpreter that has what requirements-PACKAGES.txt names. Skips the test where it cannot be
    had."""
    folder = os.path.join(ENVIRONMENTS, packages)
    requirements = os.path.join(harness.SOURCE, 'tests', 'e2e', 'requirements-%s.txt' % packages)
    made = subprocess.run([os.path.join(harness.SOURCE, 'scripts', 'python-env'), folder,
                           requirements],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise unittest.SkipTest('the Python packages cannot be installed: ' +
                                (harness.tail(made.stderr, 1) or 'no reason given'))
    return os.path.join(folder, 'bin', 'python')


class PythonClient(harness.TestCase):
    timeout = 240
    packages = ''  # requirements-PACKAGES.txt says which
    program = ''
    steps = 20
    every = 'syncs:20'
    device = {}  # settings that the client reads

    @classmethod
    def setUpClass(cls):
        cls.command = [python_with(cls.packages),
                       os.path.join(harness.SOURCE, 'tests', 'e2e', cls.program), str(cls.steps)]

    def environment(self, **settings):
        environment = super().environment(**self.device, **settings)
        for name in ('CUDA_HOME', 'CUDA_PATH'):  # what is pinned is taken, not the machine's toolkit
            environment.pop(name, None)
        return environment

    def undisturbed(self):
        """The run that others are compared with, and how many launches it made of how many kernels."""
        stats = os.path.join(self.folder, 'stats')
        reference = self.reference(self.command, SIMCUDA_STATS=stats)
        return reference, harness.launches(stats), distinct_kernels(stats)

    def kill_and_restore(self, reference, launched):
        for kill in range(harness.KILLS):
            with self.subTest(kill=kill):
                self.saved_and_killed(self.command, reference, self.every)
                self.settle()
                before = self.launches_before(self.complete()[0]['id'])
                stats = os.path.join(self.folder, 'stats-%d' % kill)
                run = self.finish(self.start_restored(self.command, SIMCUDA_STATS=stats,
                                                      GPUSNAP_EVERY=self.every))
                self.assert_same_output(run, reference)
                self.assertGreater(before, 0)
                self.assertEqual(harness.launches(stats), launched - before)
