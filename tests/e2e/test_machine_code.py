#!/usr/bin/env python3
"""Programs of which there is machine code alone.

SIMCUDA_SASS makes it of the PTX that lies in a program: images with the structure of nvcc's, and no
PTX in sight, which run all the same. A program whose code is a file gets another file. Genuine
machine code does not run on the software GPU, which names its kernels.
"""
import os
import shutil
import signal
import subprocess
import unittest

import harness
import scripted
import test_program

GENUINE = os.path.join(harness.HELPERS, 'machine_code')
MAKER = os.path.join(harness.HELPERS, 'make_machine_code')
# Their code is beside them.
FILES = ('globals', 'particles', 'warps')
# Host functions, two threads beside pinned memory, code that is linked at run time, and from a file,
# a fat binary; the others are tried by --soak.
CHOSEN = ('callbacks', 'workers', 'linked', 'globals', 'runtime/threads')


class Program(test_program.Program):
    """One program of tests/apps, as test_program.py has it: without any complaint."""

    def setUp(self):
        super().setUp()
        self.program_settings = dict(self.program_settings, SIMCUDA_SASS='1')
        if self.name in FILES:
            self.command[0] = self.with_machine_code_beside()

    def with_machine_code_beside(self):
        copy = shutil.copy(harness.app(self.name), self.folder)
        for name in os.listdir(harness.APPS):
            if name.startswith(self.name) and name.endswith('.ptx'):
                subprocess.run([MAKER, os.path.join(harness.APPS, name),
                                os.path.join(self.folder, name), '90'], check=True)
        return copy

    def unexpected(self, errors):
        # With nothing but the arguments to go by, any kernel may turn out to write elsewhere.
        torn = [line for line in errors.splitlines() if 'its calls did not tell of' in line]
        return super().unexpected('\n'.join(line for line in errors.splitlines() if line not in torn))


def load_tests(loader, tests, _):
    suite = unittest.TestSuite()
    for case in (Genuine, Strays):
        suite.addTests(loader.loadTestsFromTestCase(case))
    for name in harness.built(harness.PROGRAMS if harness.SOAK else CHOSEN):
        named = type('Program_' + name.replace('/', '_'), (Program,), {'name': name})
        suite.addTests(loader.loadTestsFromTestCase(named))
    return suite


@unittest.skipUnless(os.path.exists(GENUINE), 'no toolkit')
class Genuine(harness.TestCase):
    def test_is_refused_by_the_names_of_its_kernels(self):
        for run in (self.start_plain([GENUINE]), self.start_saved([GENUINE])):
            self.assertGreater(run.wait(self.timeout), 0, run.errors)
            line = next(line for line in run.errors.splitlines() if 'machine code' in line)
            self.assertIn('the image holds no PTX, and machine code cannot run here', line)
            for kernel in ('multiply', 'dot', 'scale_and_add'):
                self.assertRegex(line, r"kernel '\w*%s\w*'" % kernel)


class Strays(scripted.TestCase):
    """A kernel writes pinned memory by a pointer that lies in device memory."""

    def text(self, words):
        return '''
            stream s
            pin p %d
            alloc table 64
            point table p
            tell p
            await ready
            chase table 1000 5 s
            make launched
            sync s
            tell p
            sync s
            say end
        ''' % words

    def setUp(self):
        super().setUp()
        self.program_settings = {'SIMCUDA_SASS': '1'}

    def test_little_memory_is_compared_in_full(self):
        text = self.text(10000)
        reference = self.undisturbed(text)
        self.make('ready')
        command = self.script(text)
        run = self.finish(self.start_saved(command, GPUSNAP_EVERY='syncs:2'))
        self.assert_same_output(run, reference)
        self.restores_all(command, reference)

    def test_what_is_found_in_much_memory_ends_checkpoints(self):
        text = self.text(2000000)
        reference = self.undisturbed(text)
        held = os.path.join(self.folder, 'held')
        self.make('held')
        run = self.start_saved(self.script(text), GPUSNAP_EVERY=scripted.EVERY,
                               SIMCUDA_HOLD='compute:' + held)
        self.make('ready')
        # The kernel begins when the program waits for it.
        self.wait_for_file(run, 'launched')
        self.wait_for_sleep(run)
        os.remove(held)
        self.finish(run)
        self.assert_same_output(run, reference)
        self.assertIn('no more checkpoints of this process', run.errors)
        self.assertIn('pinned memory that a kernel has written', run.errors)


if __name__ == '__main__':
    harness.main()
