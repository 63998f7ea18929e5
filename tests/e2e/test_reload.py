#!/usr/bin/env python3
"""Reload: a checkpoint's device memory in a program that brings its own state of the host. Here that
is the rest of its text (tests/apps/script.cpp)."""
import re

import harness
import scripted

MEMORY = '''
    stream s
    alloc a 5000
    alloc b 300
'''
STEPS = ['''
    stir a %d s
    mix b a s
    stir b %d s
    sync s
''' % (step, step + 100) for step in range(8)]
RESULT = '''
    print a
    print b
'''


class Reload(scripted.TestCase):
    def saved_after(self, steps):
        """A checkpoint of the program that was made and killed behind so many steps; what it puts
        out in the end where nothing happens to it."""
        reference = self.undisturbed(MEMORY + ''.join(STEPS) + RESULT)
        self.save(MEMORY + ''.join(STEPS[:steps]))
        return reference.output

    def save(self, text):
        """A checkpoint of the program behind that."""
        run = self.start_saved(self.script(text + 'say there\nawait cut\nsync s\nawait never\n'),
                               GPUSNAP_EVERY=scripted.EVERY)
        self.wait_for(run, 'there')
        self.go_on_with_a_checkpoint(run, 'cut')
        self.wait_for_complete(run, 1)
        run.kill()
        self.settle()

    def reload(self, text, mode='reload', status=0, **settings):
        return self.finish(self.start_restored(self.script(text), options=('--mode', mode),
                                               **{'GPUSNAP_EVERY': 'off', 'GPUSNAP_LOG': 'info',
                                                  **settings}), status)

    def said(self, run, words):
        self.assertEqual(len(re.findall(words, run.errors)), 1, run.errors)

    def test_goes_on(self):
        output = self.saved_after(3)
        run = self.reload(MEMORY + ''.join(STEPS[3:]) + RESULT)
        self.assertEqual(run.output, output)
        self.said(run, r'reloaded job@1: \d+ bytes of device memory')

    def test_elsewhere(self):
        """At other addresses: nothing on the device leads to the old ones."""
        output = self.saved_after(3)
        run = self.reload(MEMORY + ''.join(STEPS[3:]) + RESULT, SIMCUDA_ASLR='7')
        self.assertEqual(run.output, output)

    def test_elsewhere_beside_a_pointer(self):
        table = MEMORY + 'alloc table 10\npoint table a\n'
        self.save(table + STEPS[0])
        here = self.reload(table + STEPS[1] + RESULT)
        self.assertEqual(here.output, self.undisturbed(MEMORY + STEPS[0] + STEPS[1] + RESULT).output)
        elsewhere = self.reload(table + STEPS[1] + RESULT, status=harness.IMPOSSIBLE,
                                SIMCUDA_ASLR='7')
        self.said(elsewhere, 'cannot be reloaded: .* device memory holds its old address')

    def test_behind_launches(self):
        """Kernels that only initialise."""
        output = self.saved_after(3)
        begin = 'stir a 77 s\nstir b 78 s\nsync s\n'
        run = self.reload(MEMORY + begin + ''.join(STEPS[3:]) + RESULT, mode='reload:2')
        self.assertEqual(run.output, output)
        self.assertNotEqual(self.reload(MEMORY + begin + ''.join(STEPS[3:]) + RESULT).output, output)

    def test_memory_is_not_there(self):
        self.saved_after(3)
        for text, missing in (('stream s\nalloc a 5000\n', 'no allocation like number 2'),
                              ('stream s\nalloc a 5000\nalloc b 301\n', 'has 1204 bytes here')):
            with self.subTest(missing=missing):
                run = self.reload(text + 'stir a 1 s\nsync s\nprint a\n')
                self.said(run, 'nothing of job@1 was reloaded: .*' + missing)
                self.assertEqual(run.output, self.undisturbed(
                    text + 'stir a 1 s\nsync s\nprint a\n').output)

    def test_reloaded_run_is_saved(self):
        """And restored, by a replay of its own."""
        output = self.saved_after(3)
        text = (MEMORY + ''.join(STEPS[3:6]) + 'say there again\nawait another_cut\n' +
                ''.join(STEPS[6:]) + 'await the_end\n' + RESULT)
        run = self.start_restored(self.script(text), options=('--mode', 'reload'),
                                  GPUSNAP_EVERY=scripted.EVERY, GPUSNAP_LOG='debug')
        self.wait_for(run, 'there again')
        self.go_on_with_a_checkpoint(run, 'another_cut')
        self.wait_for_complete(run, 1)
        run.kill()
        self.settle()
        self.assertEqual([each['epoch'] for each in self.complete()], [2, 1])
        self.make('the_end')
        restored = self.finish(self.start_restored(self.script(text)))
        self.assertEqual(restored.output.replace(b'there again\n', b''), output)

    def test_not_a_mode(self):
        run = self.reload(MEMORY, mode='again', status=harness.USAGE)
        self.assertIn('not replay, reload or reload:N', run.errors)


if __name__ == '__main__':
    harness.main()
