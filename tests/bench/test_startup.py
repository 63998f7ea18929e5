#!/usr/bin/env python3
"""The model of a start, in small: what arithmetic says of simple cases, and what holds of all."""

import contextlib
import io
import os
import pathlib
import unittest

import startup

BUILD = pathlib.Path(os.environ['GPUSNAP_TEST_BUILD'])
# A sixteenth of the caches, and as many checkpoints as they hold.
SMALL = {'checkpoints': 11, 'device_cache': 2**28, 'host_cache': 2**31}
STEP = 1e-4  # of the virtual clock


class Startup(unittest.TestCase):
    def model(self, **assume):
        return startup.Model(BUILD, dict(SMALL, **assume))

    def cells(self, processes=(1, 4), intervals=(5, 60)):
        return [(way, p, i) for p in processes for i in intervals for way in startup.WAYS]

    def main(self, *words):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            small = [f'--assume={key}={value}' for key, value in SMALL.items()]
            code = startup.measure(startup.parse(
                ['--build', str(BUILD), '--only', 'model', '--intervals', '60',
                 '--processes', '1,4', *small, *words]))
        return code, said.getvalue()

    def test_direct_pin_waits_for_all_of_it(self):
        for processes in 1, 4:
            cell = (startup.DIRECT, processes, 60)
            wait = self.model().run([cell])[cell]['checkpoint_wait_s']
            pinned = SMALL['host_cache'] * processes / startup.CONSTANTS['fresh_registering'][0]
            copied = SMALL['checkpoints'] * startup.CONSTANTS['size'][0] / 1e12
            self.assertAlmostEqual(wait, pinned + copied, delta=SMALL['checkpoints'] * 2 * STEP)

    def test_ours_does_not_wait_where_touching_and_copies_are_fast(self):
        cell = (startup.OURS, 1, 60)
        found = self.model(touch=1e11, unpinned=1e11).run([cell])[cell]
        copied = SMALL['checkpoints'] * startup.CONSTANTS['size'][0] / 1e12
        for wait in found['checkpoint_wait_s'], found['restore_wait_s']:
            self.assertAlmostEqual(wait, copied, delta=SMALL['checkpoints'] * 2 * STEP)

    def test_ours_is_never_slower_than_concurrent_touch(self):
        found = self.model().run(self.cells())
        for way, processes, interval in found:
            if way != startup.OURS:
                continue
            with self.subTest(processes=processes, interval=interval):
                ours = startup.total(found[way, processes, interval])
                other = startup.total(found[startup.CONCURRENT, processes, interval])
                self.assertLessEqual(ours, other * 1.01)

    def test_touching_beside_transfers_costs_more(self):
        """Where memory is fast enough to be touched between them, the pause pays."""
        cell = (startup.OURS, 1, 30)
        fast = self.model(touch=4e9, competing=0.25)
        paused = startup.total(fast.run([cell])[cell])
        without = startup.total(fast.run([cell], pauses=0)[cell])
        self.assertLess(paused, without)

    def test_it_repeats_exactly(self):
        self.assertEqual(self.model().run(self.cells()), self.model().run(self.cells()))

    def test_it_fails_below_its_bars(self):
        code, said = self.main('--assume=fresh_registering=1e12')
        self.assertEqual(code, 1, said)
        self.assertIn('MISSED', said)

    def test_it_passes_above_its_bars(self):
        code, said = self.main('--assume=fresh_registering=1e8', '--assume=touch=1e11',
                               '--assume=unpinned=1e11')
        self.assertEqual(code, 0, said)
        self.assertNotIn('MISSED', said)

    def test_what_cannot_be_simulated_is_said(self):
        with self.assertRaises(startup.Failed):
            self.model(checkpoints=1000).run([(startup.OURS, 1, 60)])
        with self.assertRaises(startup.Failed):
            self.model(nonsense=1)


if __name__ == '__main__':
    unittest.main()
