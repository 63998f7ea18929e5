#!/usr/bin/env python3
"""GPUSNAP_EVERY=auto: a program that fails often takes checkpoints by itself, as often as its own costs say."""
import math
import re

import harness

COMMAND = [harness.app('stencil'), '900']
# Failures a second, so that many checkpoints pay in a run of seconds.
OFTEN = {'GPUSNAP_EVERY': 'auto', 'GPUSNAP_MTBF': '300ms', 'GPUSNAP_KEEP': 40, 'GPUSNAP_LOG': 'info'}
CHOSEN = re.compile(r'auto: the next checkpoint is due (\d+) us after this one; '
                    r'stall (\d+) us, on its way for (\d+) us')
RESTORES = 40 if harness.SOAK else 4


class Auto(harness.TestCase):
    def assert_choices(self, run, between_s):
        """Each is between what a checkpoint takes and what Young's formula gives, with both costs added."""
        found = CHOSEN.findall(run.errors)
        for words in found:
            interval, stall, latency = (int(word) / 1e6 for word in words)
            young = math.sqrt(2 * stall * between_s)
            self.assertGreaterEqual(interval, stall + latency - 1e-4, words)
            self.assertLessEqual(interval, 2 * (young + stall + latency) + 0.02, words)
        return len(found)

    def test_killed_at_any_moment(self):
        reference = self.reference(COMMAND)
        run = self.start_saved(COMMAND, **OFTEN)
        self.wait_for_checkpoint(run)
        for _ in range(RESTORES):
            run.ends_within(self.random.uniform(0, reference.seconds))
            run.kill()
            self.settle()
            self.assert_choices(run, 0.3)
            run = self.start_restored(COMMAND, **OFTEN)
        self.finish(run)
        self.assert_same_output(run, reference)
        self.verify_all()

    def test_failures_decide(self):
        """With a failure in a thousand years, none pays in a run of seconds."""
        reference = self.reference(COMMAND)
        run = self.start_saved(COMMAND, **dict(OFTEN, GPUSNAP_MTBF='8766000h'))
        self.finish(run)
        self.assert_same_output(run, reference)
        self.assertEqual(self.complete(), [])
        run = self.start_saved(COMMAND, **dict(OFTEN, GPUSNAP_MTBF='1ms'))
        self.finish(run)
        self.assert_same_output(run, reference)
        self.assertGreater(len(self.complete()), 0)
        self.assertGreater(self.assert_choices(run, 0.001), 0)


if __name__ == '__main__':
    harness.main()
