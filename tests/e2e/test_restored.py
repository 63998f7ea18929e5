#!/usr/bin/env python3
"""A restored run is a restored run: it computes from what was saved, and from nothing else."""
import glob
import os
import shutil
import subprocess

import harness


class Restored(harness.TestCase):
    def killed(self, name, **settings):
        steps, every = harness.PROGRAMS[name]
        command = [harness.app(name), steps]
        reference = self.reference(command)
        self.saved_and_killed(command, reference, 'syncs:%d' % every, **settings)
        return command, reference

    def test_flipped_bit_changes_the_result(self):
        command, reference = self.killed('orbits')
        segments = glob.glob(os.path.join(self.store, 'job', 'e*', '*.segment'))
        self.assertTrue(segments)
        newest = self.complete()[0]
        flipped = subprocess.run([os.path.join(harness.HELPERS, 'flip_bit'), self.store,
                                  newest['id']], capture_output=True, text=True, check=False)
        self.assertEqual(flipped.returncode, 0, flipped.stderr)
        self.assertEqual(self.tool('verify', newest['id']).returncode, 0)
        run = self.start_restored(command, checkpoint=newest['id'])
        run.wait(self.timeout)
        # The program checks itself: it may find the bit or print something else.
        self.assertNotEqual(run.output, reference.output)

    def test_other_addresses_at_restore(self):
        for name in ('pointers', 'pipeline', 'pools', 'graph', 'peers'):
            self.program_settings = harness.PROGRAM_SETTINGS.get(name, {})
            with self.subTest(program=name):
                command, reference = self.killed(name)
                for seed in (1, 2):
                    run = self.finish(self.start_restored(command, SIMCUDA_ASLR=seed))
                    self.assert_same_output(run, reference)
                shutil.rmtree(self.store)

    def test_other_addresses_while_saving(self):
        command, reference = self.killed('pointers', SIMCUDA_ASLR=7)
        run = self.finish(self.start_restored(command))
        self.assert_same_output(run, reference)

    def test_older_checkpoint_can_be_chosen(self):
        name = 'stencil'
        steps, every = harness.PROGRAMS[name]
        command = [harness.app(name), steps]
        reference = self.reference(command)
        self.finish(self.start_saved(command, GPUSNAP_EVERY='syncs:%d' % every, GPUSNAP_KEEP=3,
                                     GPUSNAP_ORG='b+i'))
        kept = self.complete()
        self.assertGreaterEqual(len(kept), 3)  # and what they build on
        for each in kept:
            stats = os.path.join(self.folder, 'stats-%d' % each['epoch'])
            run = self.finish(self.start_restored(command, checkpoint=each['id'],
                                                  SIMCUDA_STATS=stats))
            self.assert_same_output(run, reference)
            self.assertEqual(harness.launches(stats),
                             int(steps) - self.launches_before(each['id']))


if __name__ == '__main__':
    harness.main()
