#!/usr/bin/env python3
"""Lines that kernels print: their place in the program's output, with and without checkpoints.
After a restore, lines from before the cut are not printed again: kernels are not run again."""
import re
import unittest

import harness

STEPS = 40


def expected(first=1):
    """All lines, device lines of steps before `first` left out."""
    lines, pending, value = [], [], 7
    for step in range(1, STEPS + 1):
        value = (value * 3 + step) % 2 ** 32
        if step >= first:
            pending += ['device: step %d thread %d value %d %s %5.2f%%'
                        % (step, thread, value, half, step * 0.5)
                        for thread, half in ((5, 'lower'), (21, 'upper'))]
        if step % 2 == 0:
            lines += pending
            pending = []
        lines.append('host: step %d' % step)
    return lines + ['ok']


@unittest.skipUnless(harness.built(['runtime/printing']), 'the program needs the toolkit')
class Printing(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.command = [harness.app('runtime/printing'), str(STEPS)]

    def test_lines_are_where_the_host_synchronises(self):
        plain = self.reference(self.command)
        self.assertEqual(plain.output.decode().splitlines(), expected())
        watched = self.finish(self.start_saved(self.command, GPUSNAP_EVERY='syncs:2'))
        self.assert_same_output(watched, plain)
        self.assertGreater(len(self.complete()), 0)

    def test_after_a_restore_only_what_runs_again_prints(self):
        self.finish(self.start_saved(self.command, GPUSNAP_EVERY='syncs:3'))
        run = self.finish(self.start_restored(self.command))
        lines = run.output.decode().splitlines()
        steps = [int(found.group(1)) for found in
                 (re.match(r'device: step (\d+) ', line) for line in lines) if found]
        first = min(steps, default=STEPS + 1)
        self.assertGreater(first, 1)
        self.assertEqual(lines, expected(first))

    def test_a_failed_assertion_is_an_error_of_its_own(self):
        run = self.finish(self.start_plain(self.command + ['assert']))
        self.assertTrue(run.output.endswith(b'assertion: cudaErrorAssert\n'), run.output[-200:])
        self.assertIn("'values[threadIdx.x] == 0 && \"values are not zero\"' failed at", run.errors)


if __name__ == '__main__':
    harness.main()
