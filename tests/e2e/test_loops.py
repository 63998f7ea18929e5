#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A loop whose turns are alike: its journal hardly grows, and it is restored from any moment."""
import harness

PROGRAM = 'loop'


class Loops(harness.TestCase):
    def journal(self, checkpoint):
        """Bytes stored, and bytes of the stream."""
        parts = self.show(checkpoint)['ranks'][0]['journal']
        return sum(each['file_bytes'] for each in parts), sum(each['stream_bytes'] for each in parts)

    def test_turns_cost_next_to_nothing(self):
        command = [harness.app(PROGRAM), '900']
        settings = {'LOOP_LAUNCHES': '100'}
        reference = self.reference(command, **settings)
        # Reports of each fifty turns are in none of them, or in both.
        run = self.finish(self.start_saved(command, GPUSNAP_EVERY='syncs:20',
                                           GPUSNAP_ORG='b+i', GPUSNAP_KEEP=100, **settings))
        self.assert_same_output(run, reference)
        found = [each['id'] for each in reversed(self.complete())]
        self.assertGreater(len(found), 10)
        first, last = self.journal(found[1]), self.journal(found[-1])
        self.assertGreater(last[1] - first[1], 2 << 20)
        # A frame of 48 bytes or two for each checkpoint, and one for each report.
        self.assertLess(last[0] - first[0], 10 << 10)
        for checkpoint in (found[0], found[len(found) // 2], found[-1]):
            restored = self.finish(self.start_restored(command, checkpoint, **settings))
            self.assert_same_output(restored, reference)
        self.verify_all()

    def test_killed_at_any_moment(self):
        command = [harness.app(PROGRAM), '400']
        reference = self.reference(command)
        for _ in range(20 if harness.SOAK else 3):
            every = 'syncs:%d' % self.random.randint(1, 9)
            with self.store_of_its_own():
                run = self.start_saved(command, GPUSNAP_EVERY=every, GPUSNAP_KEEP=40)
                for _ in range(3):
                    if run.ends_within(self.random.uniform(0, 2 * reference.seconds)):
                        break
                    run.kill()
                    self.settle()
                    if not self.complete():
                        break
                    checkpoint = self.random.choice(self.complete())['id']
                    run = self.start_restored(command, checkpoint, GPUSNAP_EVERY=every, GPUSNAP_KEEP=40)
                else:
                    self.finish(run)
                self.settle()
                if not self.complete():
                    continue
                self.verify_all()
                checkpoint = self.random.choice(self.complete())['id']
                restored = self.finish(self.start_restored(command, checkpoint))
                self.assert_same_output(restored, reference)


if __name__ == '__main__':
    harness.main()
