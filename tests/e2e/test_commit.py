#!/usr/bin/env python3
"""A run is killed at each write, sync and rename of its commits in turn: every checkpoint that is
listed as complete verifies and restores."""
import os
import signal

import harness

COMMAND = [harness.app('churn'), '40']
# Each checkpoint waits for the one before it: a run makes the same calls every time, and makes them
# itself.
SETTINGS = {'GPUSNAP_BACKEND': 'thread',
            'GPUSNAP_EVERY': 'syncs:25', 'GPUSNAP_KEEP': 2, 'GPUSNAP_ORG': 'b+i'}
SHIM = os.path.join(harness.HELPERS, 'libfile_faults.so')


class Commit(harness.TestCase):
    def run_killed_at(self, number):
        return self.start_saved(COMMAND, LD_PRELOAD=SHIM, FILE_FAULTS='kill',
                                FILE_FAULTS_AT=number, FILE_FAULTS_FOLDER=self.store, **SETTINGS)

    def calls_of_a_run(self):
        report = os.path.join(self.folder, 'calls')
        self.finish(self.start_saved(COMMAND, LD_PRELOAD=SHIM, FILE_FAULTS_FOLDER=self.store,
                                     FILE_FAULTS_REPORT=report, **SETTINGS))
        return harness.file_faults(report)[0]

    def test_killed_at_every_call(self):
        reference = self.reference(COMMAND)
        calls = self.calls_of_a_run()
        self.assertGreater(len(self.complete()), 1)
        self.assertGreater(calls, 20)
        # How calls fall varies a little with the writers' timing: a few more than were counted.
        numbers = list(range(1, calls + 5))
        if not harness.SOAK and len(numbers) > 30:
            numbers = sorted(self.random.sample(numbers, 30))
        print('%d of %d calls' % (len(numbers), calls))
        killed = restored = 0
        for number in numbers:
            with self.subTest(call=number):
                self.store = os.path.join(self.folder, 'store-%d' % number)
                status = self.run_killed_at(number).wait(self.timeout)
                self.assertIn(status, (0, -signal.SIGKILL))
                killed += status != 0
                self.verify_all()
                complete = self.complete()
                if not complete:
                    run = self.start_restored(COMMAND)
                    self.assertEqual(run.wait(self.timeout), harness.NO_CHECKPOINT, run.errors)
                for each in complete:
                    run = self.finish(self.start_restored(COMMAND, checkpoint=each['id']))
                    self.assert_same_output(run, reference)
                restored += bool(complete)
        self.assertGreater(killed, len(numbers) * 3 // 4)
        self.assertGreater(restored, len(numbers) // 3)


if __name__ == '__main__':
    harness.main()
