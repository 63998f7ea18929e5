#!/usr/bin/env python3
"""A program that has machine code alone does not run on the software GPU: it is told which kernels."""
import os
import unittest

import harness

PROGRAM = os.path.join(harness.HELPERS, 'machine_code')


@unittest.skipUnless(os.path.exists(PROGRAM), 'no toolkit')
class MachineCode(harness.TestCase):
    def test_is_refused_by_the_names_of_its_kernels(self):
        for run in (self.start_plain([PROGRAM]), self.start_saved([PROGRAM])):
            self.assertGreater(run.wait(self.timeout), 0, run.errors)
            line = next(line for line in run.errors.splitlines() if 'machine code' in line)
            self.assertIn('the image holds no PTX, and machine code cannot run here', line)
            for kernel in ('multiply', 'dot', 'scale_and_add'):
                self.assertRegex(line, r"kernel '\w*%s\w*'" % kernel)


if __name__ == '__main__':
    harness.main()
