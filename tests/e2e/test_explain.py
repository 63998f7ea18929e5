#!/usr/bin/env python3
"""'gpusnap explain' on the test programs' kernels, and when there is nothing to explain."""
import json
import os
import shutil
import unittest

import harness

RUNTIME = os.path.join(harness.APPS, 'runtime')

# Pointers that each kernel of some typical programs stores through: parameter or parameter+byte.
WRITES = {
    'stencil': {'step': ['0+8']},
    'particles.ptx': {'advance': ['1', '2']},
    'solver': {'apply': ['1', '2'], 'improve': ['0', '1', '5'], 'turn': ['0']},
}


def text_of(pointer):
    return '|'.join('%d%s' % (word['parameter'],
                              '+%s' % word.get('offset', '*') if word.get('offset') != 0 else '')
                    for word in pointer)


class Explain(harness.TestCase):
    def call(self, *arguments, status=0):
        done = self.tool('explain', *arguments)
        self.assertEqual(done.returncode, status, '%s\n%s' % (arguments, done.stderr))
        return done

    def kernels(self, *arguments):
        images = json.loads(self.call('--json', *arguments).stdout)
        return {kernel['name']: kernel for image in images for kernel in image['kernels']}

    def test_programs_of_which_all_is_proven(self):
        for name, expected in WRITES.items():
            with self.subTest(program=name):
                kernels = self.kernels(os.path.join(harness.APPS, name))
                self.assertEqual({kernel: [text_of(pointer) for pointer in each['pointers']]
                                  for kernel, each in kernels.items()}, expected)
                for each in kernels.values():
                    self.assertTrue(each['proven'], each)
                    self.assertEqual(each['reason'], '')
                    self.assertEqual(each['variables'], [])

    def test_variables(self):
        kernels = self.kernels(os.path.join(harness.APPS, 'globals.ptx'))
        self.assertEqual(kernels['evolve']['variables'], ['boards', 'born'])
        self.assertTrue(kernels['evolve']['proven'])

    def test_what_is_not_proven(self):
        path = os.path.join(harness.APPS, 'pointers')
        for each in self.kernels(path).values():
            self.assertFalse(each['proven'], each)
            self.assertRegex(each['reason'], r"^line \d+: 'st\.u(32|64) .*loaded from memory at line")
        text = self.call(path).stdout
        self.assertIn(path + ', PTX text at 0x', text)
        self.assertRegex(text, r'\n  rekey +guessed: what its arguments point to +no: line ')

    def test_table(self):
        lines = self.call(os.path.join(harness.APPS, 'solver.ptx')).stdout.splitlines()
        self.assertEqual(lines[0], os.path.join(harness.APPS, 'solver.ptx'))
        self.assertEqual(lines[1].split(), ['KERNEL', 'WRITES', 'PROVEN'])
        self.assertRegex(lines[2], '^  apply +what parameter 1 points to; what parameter 2 points to '
                                   '+yes$')
        self.assertEqual(len(lines), 5)
        self.assertRegex(self.call(os.path.join(harness.APPS, 'stencil')).stdout,
                         r'\n  step +what parameter 0 at byte 8 points to +'
                         r'yes, while no address is in parameter 0 at byte 24\n')

    def test_several_files(self):
        images = json.loads(self.call('--json', os.path.join(harness.APPS, 'stencil'),
                                      os.path.join(harness.APPS, 'solver.ptx')).stdout)
        self.assertEqual([os.path.basename(image['file']) for image in images],
                         ['stencil', 'solver.ptx'])
        self.assertTrue(images[0]['place'].startswith('PTX text at 0x'))
        self.assertEqual(images[1]['place'], '')

    @unittest.skipUnless(os.path.exists(os.path.join(RUNTIME, 'solver')), 'no toolkit')
    def test_fat_binaries(self):
        for name in ('solver', 'solver_static'):
            path = os.path.join(RUNTIME, name)
            # The build has machine code for 7.5 and PTX: the former may be another program.
            beside = self.kernels(path)
            built = self.kernels('--arch', '90', path)
            self.assertEqual(len(built), 3)
            for symbol, each in built.items():
                self.assertTrue(each['proven'], each)
                self.assertNotEqual(each['source_name'], each['name'])
                self.assertFalse(beside[symbol]['proven'])
                self.assertTrue(beside[symbol]['resolved'])
                self.assertIn('machine code', beside[symbol]['reason'])
                self.assertEqual(beside[symbol]['pointers'], each['pointers'])
            self.assertIn('(double const*, double const*, double*)', self.call(path).stdout)

    @unittest.skipUnless(os.path.exists(os.path.join(RUNTIME, 'stencil')), 'no toolkit')
    def test_runtime_programs_of_which_all_is_proven(self):
        for name in ('stencil', 'particles', 'solver'):
            with self.subTest(program=name):
                kernels = self.kernels('--arch', '90', os.path.join(RUNTIME, name))
                self.assertTrue(kernels)
                for each in kernels.values():
                    self.assertTrue(each['proven'], each)

    def test_nothing_to_explain(self):
        # It reads its device code from a file while it runs.
        done = self.call(os.path.join(harness.APPS, 'particles'), status=harness.NO_CHECKPOINT)
        self.assertEqual(done.stdout, '')
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertIn('no device code in ', done.stderr)
        done = self.call('--json', shutil.which('ls'), status=harness.NO_CHECKPOINT)
        self.assertEqual(json.loads(done.stdout), [])

    def test_no_such_file(self):
        done = self.call('./nowhere', status=127)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertIn('./nowhere', done.stderr)
        self.call(status=harness.USAGE)
        self.call('--arch', 'new', 'x', status=harness.USAGE)

    def test_damaged_files(self):
        with open(os.path.join(harness.APPS, 'stencil'), 'rb') as file:
            whole = file.read()
        path = os.path.join(self.folder, 'part')
        for size in [0, 3, 16, 63, 64, 100, len(whole) // 3, len(whole) - 1]:
            with open(path, 'wb') as file:
                file.write(whole[:size])
            done = self.tool('explain', path)
            self.assertIn(done.returncode, (0, harness.NO_CHECKPOINT), done.stderr)

    def test_ptx_that_is_not_understood(self):
        path = os.path.join(self.folder, 'odd.ptx')
        with open(path, 'w', encoding='ascii') as file:
            file.write('.version 8.0\n.target sm_70\n.entry k() { nonsense }\n')
        self.assertIn('PTX is not understood at line 3', self.call(path).stdout)


if __name__ == '__main__':
    harness.main()
