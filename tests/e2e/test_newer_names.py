#!/usr/bin/env python3
"""A runtime that is newer than the tables: what it resolves ends no checkpoints, what the program
calls does, by its name."""
import os

import harness

PROGRAM = os.path.join(harness.HELPERS, 'newer_names')


class NewerNames(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.program_settings = {'SIMCUDA_DRIVER_VERSION': '13010'}
        self.file = os.path.join(self.folder, 'go')
        with open(self.file, 'w'):
            pass

    def run_it(self, when, how):
        command = [PROGRAM, when, how, self.file]
        reference = self.reference(command)
        self.begin_store()
        run = self.finish(self.start_saved(command, GPUSNAP_EVERY='syncs:5'))
        self.assert_same_output(run, reference)
        return command, reference, run

    def test_what_is_resolved_and_never_called(self):
        for when in ('early', 'late'):
            with self.subTest(when=when):
                command, reference, run = self.run_it(when, 'none')
                self.assertEqual(run.errors, '')
                self.assertGreater(len(self.complete()), 0)
                self.assert_same_output(self.finish(self.start_restored(command)), reference)

    def test_the_first_call_ends_checkpoints_by_its_name(self):
        for when in ('early', 'late'):
            for how, name in (('form', 'cuLaunchHostFunc'), ('name', 'cuStreamGetWeight'),
                              ('both', 'cuLaunchHostFunc')):
                with self.subTest(when=when, how=how):
                    run = self.run_it(when, how)[2]
                    self.assertIn('no more checkpoints of this process', run.errors)
                    self.assertIn(name, run.errors)
                    self.assertEqual(len(self.complete()), 0)


if __name__ == '__main__':
    harness.main()
