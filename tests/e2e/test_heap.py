#!/usr/bin/env python3
"""A program finds the same bytes in its heap in each of its runs: nothing of ours is left there.
Otherwise bytes that the program copies to the device without having set them would be others in a
restored run."""
import os

import harness

# A step synchronises about 200 times. The first cut is in the fifth step: what the driver leaves in
# the heap is copied from the second on.
STEPS, EVERY = '20', 'syncs:1000'
ONE_VALUE = 'glibc.malloc.perturb=165:glibc.malloc.tcache_count=0'


class Heap(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.command = [harness.app('heap'), STEPS]

    def environment(self, **settings):
        environment = super().environment(**settings)
        environment.pop('MALLOC_PERTURB_', None)  # it would hide what is looked for
        return environment

    def save(self, **settings):
        """A run with checkpoints that is killed: what a whole run prints, and their names."""
        reference = self.reference(self.command)
        self.saved_and_killed(self.command, reference, EVERY, GPUSNAP_KEEP='100', **settings)
        self.settle()
        found = [each['id'] for each in self.complete()]
        self.assertTrue(found)
        return reference, found

    def restore(self, checkpoint, **settings):
        return self.start_restored(self.command, checkpoint, GPUSNAP_REPLAY_OUTPUT=None, **settings)

    def assert_restores(self, checkpoint, reference, **settings):
        """The restored run prints the end of the whole run's output."""
        run = self.finish(self.restore(checkpoint, **settings))
        self.assertEqual(run.errors, '')
        self.assertTrue(run.output and reference.output.endswith(run.output), run.output)

    def test_bytes_that_were_never_set_are_the_same_in_a_restored_run(self):
        reference, found = self.save()
        for checkpoint in {found[0], found[-1]}:
            with self.subTest(checkpoint=checkpoint):
                self.assert_restores(checkpoint, reference)

    def with_driver_in_the_heap(self):
        """The program takes new blocks in each step, and its driver has worked in the heap meanwhile."""
        self.command.append('anew')
        self.program_settings['LD_PRELOAD'] = os.path.join(harness.HELPERS, 'libheap_user.so')

    def test_what_the_driver_leaves_in_the_heap_is_told(self):
        """It is called less in a replay."""
        self.with_driver_in_the_heap()
        _, found = self.save()
        run = self.restore(found[0])
        self.assertEqual(run.wait(self.timeout), harness.DIVERGED, run.errors)
        self.assertIn('bytes that the program never set may differ from run to run', run.errors)
        self.assertIn('GLIBC_TUNABLES=%s in both' % ONE_VALUE, run.errors)
        self.finish(self.restore(found[0], GPUSNAP_RESTORE_FORCE='data'))

    def test_the_heap_is_given_one_value(self):
        self.with_driver_in_the_heap()
        reference, found = self.save(GLIBC_TUNABLES=ONE_VALUE)
        self.assert_restores(found[0], reference, GLIBC_TUNABLES=ONE_VALUE)

    def test_the_stack_lies_at_the_same_place_whatever_the_settings(self):
        """Its addresses get into the heap, too."""
        found = set()
        for settings in ({}, {'GPUSNAP_KEEP': '100'},
                         {'GPUSNAP_JOB': 'a-longer-name', 'GPUSNAP_LOG': 'info', 'GPUSNAP_KEEP': '7'}):
            run = self.finish(self.start_saved(['cat', '/proc/self/stat'], **settings))
            if 'address randomisation cannot be turned off' in run.errors:
                self.skipTest('stacks lie anywhere here')
            found.add(run.output.split()[27])
        self.assertEqual(len(found), 1, found)


if __name__ == '__main__':
    harness.main()
