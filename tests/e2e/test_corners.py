#!/usr/bin/env python3
"""The rare ways to use the driver: each mode of tests/apps/corners is killed and restored."""
import glob
import os
import time

import harness
import patience

CORNERS = harness.app('corners')
STEPS = '200'
# Every how many synchronisations a mode is saved: a few times in a run.
MODES = {
    'polling': 9, 'copies': 300, 'buffers': 70, 'flags': 31, 'registered': 33, 'churn': 37,
    'contexts': 150, 'elsewhere': 47, 'own_stream': 120, 'variables': 190, 'sets': 11,
    'plain_sets': 61, 'forks': 45, 'late': 53,
}
# The restored run's memory need not come where it was; managed memory has to.
MOVED = {'polling': 2, 'buffers': 3, 'churn': 4, 'contexts': None, 'elsewhere': None,
         'own_stream': 5, 'variables': None}


class Corners(harness.TestCase):
    def killed_and_restored(self, mode):
        command = [CORNERS, mode, STEPS]
        every = 'syncs:%d' % MODES[mode]
        reference = self.reference(command)
        self.assertTrue(reference.output.endswith(b'ok\n'))
        watched = self.finish(self.start_saved(command, GPUSNAP_EVERY=every))
        self.assert_same_output(watched, reference)
        self.assertEqual(watched.errors, '')
        self.assertGreater(len(self.complete()), 0)
        for kill in range(harness.KILLS):
            self.saved_and_killed(command, reference, every)
            again = self.finish(self.start_restored(command, GPUSNAP_EVERY=every))
            self.assert_same_output(again, reference)
            # From what the restored run has saved.
            other = {}
            if mode in MOVED:
                other = {'SIMCUDA_ASLR': 8 + kill, 'SIMCUDA_HOST_ASLR': MOVED[mode]}
            run = self.finish(self.start_restored(command, **other))
            self.assert_same_output(run, reference)
            self.settle()
            complete = self.complete()
            for each in complete if harness.SOAK else [self.random.choice(complete)]:
                run = self.finish(self.start_restored(command, checkpoint=each['id']))
                self.assert_same_output(run, reference)

    def test_times_are_told_again(self):
        """Output that differs from run to run is the same in a restored run, up to the cut."""
        command = [CORNERS, 'times', STEPS]
        reference = self.reference(command)
        killed = self.saved_and_killed(command, reference, 'syncs:61')
        # Two synchronising calls a step, and a cut at the end of every 61st.
        steps = min(each['epoch'] for each in self.complete()) * 61 // 2
        run = self.finish(self.start_restored(command))
        before = killed.output.splitlines()[:steps]
        self.assertGreater(len(before), 10)
        self.assertEqual(run.output.splitlines()[:steps], before)
        digests = [[line.split()[-1] for line in each.output.splitlines()]
                   for each in (run, reference)]
        self.assertEqual(digests[0], digests[1])

    def saved_while_held(self, mode, **settings):
        """A run whose first snapshot finds the way to the host held until it has long gone on, or
        waits for it; then restored from what it has saved."""
        self.begin_store()
        command = [CORNERS, mode, '1']
        reference = self.reference(command, **settings)
        held = os.path.join(self.folder, 'held')
        open(held, 'w').close()
        run = self.start_saved(command, GPUSNAP_EVERY='syncs:1', GPUSNAP_DIRTY='calls',
                               SIMCUDA_HOLD='to_host:' + held, **settings)
        left = patience.Patience(self.timeout)
        while not glob.glob(os.path.join(self.store, '*', 'e*')):
            self.assertFalse(run.ended() or left.is_over(), run.errors)
            time.sleep(0.005)
        # A cut has been made. A result that comes too early is found on a quick machine.
        time.sleep(0.3)
        self.assertFalse(run.ended(), run.errors)
        os.remove(held)
        self.assert_same_output(self.finish(run), reference)
        self.assertGreater(len(self.complete()), 0)
        for each in self.complete():
            again = self.finish(self.start_restored(command, checkpoint=each['id'], **settings))
            self.assert_same_output(again, reference)
        return run

    def test_what_cannot_be_followed_ends_the_snapshot_first(self):
        run = self.saved_while_held('leaves', GPUSNAP_DEVICE_CACHE='0')
        self.assertIn('cuStreamWriteValue32_v2 to memory that the host sees cannot be restored',
                      run.errors)

    def test_memory_that_the_program_needs_is_not_ours(self):
        for mode in ('crowded', 'crowded_pool'):
            with self.subTest(mode=mode):
                self.saved_while_held(mode, SIMCUDA_MEMORY='96M', GPUSNAP_DEVICE_CACHE='32M')


def add_test(mode):
    setattr(Corners, 'test_' + mode, lambda self: self.killed_and_restored(mode))


for each_mode in MODES:
    add_test(each_mode)

if __name__ == '__main__':
    harness.main()
