#!/usr/bin/env python3
"""Bad settings and options, programs without CUDA, stores that cannot be written: one line each, and
the program still runs, or with GPUSNAP_STRICT=1 does not start."""
import os

import harness

COMMAND = [harness.app('stencil'), '24']


class Settings(harness.TestCase):
    bad = {'GPUSNAP_EVERY': 'sometimes', 'GPUSNAP_KEEP': 'many', 'GPUSNAP_ZONE': '3000',
           'GPUSNAP_LOG': 'loud', 'GPUSNAP_JOURNAL': '-1', 'GPUSNAP_MAX_STALL': '1 parsec'}

    def test_bad_setting(self):
        reference = self.reference(COMMAND)
        for name, value in self.bad.items():
            with self.subTest(name=name):
                run = self.finish(self.start_saved(COMMAND, **{name: value}))
                self.assert_same_output(run, reference)
                lines = run.errors.strip().splitlines()
                self.assertEqual(len(lines), 1, run.errors)
                self.assertIn(name, lines[0])
                self.assertIn(value, lines[0])

    def test_bad_setting_strict(self):
        for name, value in self.bad.items():
            with self.subTest(name=name):
                run = self.start_saved(COMMAND, GPUSNAP_STRICT=1, **{name: value})
                self.assertEqual(run.wait(self.timeout), harness.BAD_SETTING, run.errors)
                self.assertEqual(run.output, b'')
                self.assertEqual(len(run.errors.strip().splitlines()), 1, run.errors)
                self.assertIn(name, run.errors)

    def test_store_that_cannot_be_written(self):
        reference = self.reference(COMMAND)
        self.store = os.path.join(self.folder, 'file', 'store')
        with open(os.path.dirname(self.store), 'w') as file:
            file.write('not a folder\n')
        run = self.finish(self.start_saved(COMMAND, GPUSNAP_EVERY='syncs:5'))
        self.assert_same_output(run, reference)
        self.assertEqual(len(run.errors.strip().splitlines()), 1, run.errors)
        self.assertIn(self.store, run.errors)
        run = self.start_saved(COMMAND, GPUSNAP_EVERY='syncs:5', GPUSNAP_STRICT=1)
        self.assertEqual(run.wait(self.timeout), harness.STORE_UNWRITABLE, run.errors)
        self.assertEqual(run.output, b'')
        self.assertEqual(len(run.errors.strip().splitlines()), 1, run.errors)

    def test_program_without_cuda(self):
        run = self.finish(self.start_saved(['sh', '-c', 'echo hello; exit 0']))
        self.assertEqual(run.output, b'hello\n')
        self.assertLessEqual(len(run.errors.strip().splitlines()), 1, run.errors)
        run = self.start_saved(['sh', '-c', 'exit 9'])
        self.assertEqual(run.wait(self.timeout), 9)

    def test_program_that_is_not_there(self):
        run = self.start_saved([os.path.join(self.folder, 'nothing')])
        self.assertNotEqual(run.wait(self.timeout), 0)
        self.assertEqual(len(run.errors.strip().splitlines()), 1, run.errors)
        self.assertIn('nothing', run.errors)

    def test_unknown_options(self):
        for arguments in (['run', '--nonsense', '--', 'true'], ['restore', '--nonsense'],
                          ['list', '--nonsense'], ['nonsense'], [], ['show'], ['verify']):
            done = self.tool(*arguments)
            self.assertEqual(done.returncode, harness.USAGE, '%s: %s' % (arguments, done.stderr))
            self.assertTrue(done.stderr.strip())

    def test_help(self):
        done = self.tool('--help')
        self.assertEqual(done.returncode, 0)
        for name in ('run', 'restore', 'list', 'show', 'verify', 'checkpoint'):
            self.assertIn(name, done.stdout)
            helped = self.tool(name, '--help')
            self.assertEqual(helped.returncode, 0)
            self.assertTrue(helped.stdout.strip())


class Triggers(harness.TestCase):
    def test_request_to_others(self):
        for pid in ('1', '999999999', 'x'):
            asked = self.tool('checkpoint', pid)
            self.assertNotEqual(asked.returncode, 0)
            self.assertEqual(len(asked.stderr.strip().splitlines()), 1, asked.stderr)


if __name__ == '__main__':
    harness.main()
