#!/usr/bin/env python3
"""Programs whose streams, copies and host functions overlap, killed and restored at any moment.

  test_kills.py [--restores N]

Each round takes one of the programs and a checkpoint at every first to sixth synchronisation. The run
is killed; what a restored run is killed at goes on from its own checkpoints; in the end one restored
run from the newest checkpoint and one from any other put out what an undisturbed run does.

  --restores N   how many restored runs at least (12; with GPUSNAP_SOAK 2,000)
"""
import sys
import time

import harness

PROGRAMS = {
    'runtime/streams': '90',
    'callbacks': '90',
    'pipeline': '50',
    'runtime/ordered': '60',
}
MOST_EVERY = 6
RESTORES = 2000 if harness.SOAK else 12


class Kills(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.restored = 0

    def command(self, name):
        return [harness.app(name), PROGRAMS[name]]

    def kill_at_any_moment(self, run, seconds):
        """True: it was killed before it ended."""
        killed = not run.ends_within(self.random.uniform(0, seconds)) and run.kill()
        self.settle()
        return killed

    def restore(self, name, checkpoint, every, reference, killed=False):
        self.restored += 1
        run = self.start_restored(self.command(name), checkpoint, GPUSNAP_KEEP=40,
                                  GPUSNAP_EVERY=every)
        if killed and self.kill_at_any_moment(run, 2 * reference.seconds):
            return
        self.finish(run)
        self.assert_same_output(run, reference)

    def round(self, name, every, reference):
        run = self.start_saved(self.command(name), GPUSNAP_KEEP=40, GPUSNAP_EVERY=every)
        if not self.kill_at_any_moment(run, 2 * reference.seconds):
            self.finish(run)
            self.assert_same_output(run, reference)
        # Killed before its first checkpoint.
        if not self.complete():
            return
        self.restore(name, self.complete()[0]['id'], every, reference, killed=True)
        self.settle()
        found = self.complete()
        self.restore(name, found[0]['id'], every, reference)
        self.restore(name, self.random.choice(found)['id'], 'off', reference)

    def test_any_moment(self):
        names = harness.built(PROGRAMS)
        references = {name: self.reference(self.command(name)) for name in names}
        began, told, rounds = time.monotonic(), 0, 0
        while self.restored < RESTORES:
            name = names[rounds % len(names)]
            rounds += 1
            every = 'syncs:%d' % self.random.randint(1, MOST_EVERY)
            with self.store_of_its_own():
                self.round(name, every, references[name])
            if self.restored - told >= 100:
                told = self.restored
                print('%d restored after %.0f s' % (told, time.monotonic() - began), flush=True)
        print('%d runs restored in %d rounds' % (self.restored, rounds))


if __name__ == '__main__':
    if '--restores' in sys.argv:
        at = sys.argv.index('--restores')
        RESTORES = int(sys.argv[at + 1])
        del sys.argv[at:at + 2]
    harness.main()
