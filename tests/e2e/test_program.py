#!/usr/bin/env python3
"""One program of tests/apps: undisturbed, watched, killed and restored: test_program.py NAME

Also run for every program of tests/apps/runtime, whose names hold a slash.
"""
import os
import sys
import unittest

import harness


class Program(harness.TestCase):
    name = None
    whole = None  # its undisturbed run, and how many launches that made

    def setUp(self):
        super().setUp()
        steps, self.every = harness.PROGRAMS[self.name]
        self.command = [harness.app(self.name), steps]
        self.program_settings = harness.PROGRAM_SETTINGS.get(self.name, {})
        self.stats = os.path.join(self.folder, 'stats')

    def undisturbed(self):
        if self.whole is None:
            type(self).whole = self.run_undisturbed()
        return self.whole

    def run_undisturbed(self):
        reference = self.reference(self.command, SIMCUDA_STATS=self.stats)
        self.assertTrue(reference.output.endswith(b'ok\n'), reference.output[-200:])
        self.assertGreater(len(reference.output.splitlines()), 2)
        # No checkpoint has what a kernel leaves in the device's heap.
        self.assertEqual(harness.heap_left(self.stats), 0)
        return reference, harness.launches(self.stats)

    def unexpected(self, errors):
        """The lines on standard error that are not expected of this program. Two kinds are
        expected: about its mistakes, and that it is found to write where its calls do not tell, and
        waits from then on. Programs with offload regions have several such kernels."""
        said = harness.SAID.get(self.name)
        lines = [line for line in errors.splitlines() if said is None or not line.startswith(said)]
        if self.name not in harness.TEARING:
            return lines
        torn = [line for line in lines if 'its calls did not tell of' in line]
        if self.name.startswith('offload/'):
            given_up = [line for line in lines if 'checkpoints that were given up' in line]
            self.assertLessEqual(len(given_up), 1)
            torn += given_up
        else:
            self.assertLessEqual(len(torn), 1)
        return [line for line in lines if line not in torn]

    def test_same_output_with_the_library(self):
        reference, launched = self.undisturbed()
        for number, every in enumerate(('off', 'syncs:%d' % self.every)):
            stats = '%s.%d' % (self.stats, number)
            run = self.finish(self.start_saved(self.command, GPUSNAP_EVERY=every,
                                               SIMCUDA_STATS=stats))
            self.assert_same_output(run, reference)
            self.assertEqual(self.unexpected(run.errors), [])
            self.assertEqual(harness.launches(stats), launched)
        self.assertGreater(len(self.complete()), 0)

    def test_killed_and_restored_twice(self):
        reference, launched = self.undisturbed()
        every = 'syncs:%d' % self.every
        for kill in range(harness.KILLS):
            with self.subTest(kill=kill):
                self.saved_and_killed(self.command, reference, every)
                # The restored run goes on taking checkpoints and is killed at any moment, too.
                again = self.start_restored(self.command, GPUSNAP_EVERY=every)
                delay = self.random.uniform(0, reference.seconds)
                if not again.ends_within(delay) and again.kill():
                    print('%s: restored run killed after %.3f s' % (self.id(), delay))
                else:
                    self.finish(again)
                    self.assert_same_output(again, reference)
                self.settle()
                newest = self.complete()[0]
                stats = '%s.%d' % (self.stats, kill)
                run = self.finish(self.start_restored(self.command, SIMCUDA_STATS=stats))
                self.assert_same_output(run, reference)
                # It executes what was launched after the cut, and nothing else.
                self.assertEqual(harness.launches(stats),
                                 launched - self.launches_before(newest['id']))
                self.verify_all()


if __name__ == '__main__':
    if len(sys.argv) < 2 or sys.argv[1] not in harness.PROGRAMS:
        sys.exit('usage: test_program.py {%s}' % ','.join(harness.PROGRAMS))
    Program.name = sys.argv.pop(1)
    harness.main()
