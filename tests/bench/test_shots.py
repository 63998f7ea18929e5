#!/usr/bin/env python3
"""The simulation of shots, in small: invariants, and what arithmetic says of simple cases."""

import os
import pathlib
import subprocess
import unittest

import shots

BUILD = pathlib.Path(os.environ['GPUSNAP_TEST_BUILD'])
# A quarter of the paper's history and caches, on one link.
SMALL = 'checkpoints=96 device_cache_mib=1024 host_cache_mib=8192 gpus=2'
NOISE = 1.02  # what score may be slower than FIFO: variable sizes fit by luck, too


def every_configuration():
    for wait in (1, 0):
        for discard in (0, 1):
            for sizes in shots.SIZES:
                for order in shots.ORDERS:
                    yield f'{SMALL} wait={wait} discard={discard} sizes={sizes} order={order}'


class Shots(unittest.TestCase):
    def setUp(self):
        self.simulator = shots.Simulator(BUILD, 1)

    def run_one(self, words):
        result, = self.simulator.run([words])
        return result

    def test_everything_is_restored_and_caches_are_never_too_full(self):
        for words in every_configuration():
            for approach in shots.APPROACHES.values():
                with self.subTest(configuration=f'{words} {approach}'):
                    self.assertEqual(shots.fault(self.run_one(f'{words} {approach}')), '')

    def test_score_is_not_slower_than_fifo(self):
        for words in every_configuration():
            ours = shots.io_wait(self.run_one(f'{words} {shots.APPROACHES[shots.OURS]}'))
            for label in shots.FIFO:
                with self.subTest(configuration=words, beside=label):
                    fifo = shots.io_wait(self.run_one(f'{words} {shots.APPROACHES[label]}'))
                    self.assertLessEqual(ours, fifo * NOISE)

    def test_it_repeats_exactly(self):
        words = f'{SMALL} sizes=variable order=irregular barrier=1 iterations=1'
        self.assertEqual(self.run_one(words), shots.Simulator(BUILD, 1).run([words])[0])
        self.assertNotEqual(self.run_one(words)['rates'],
                            self.run_one(words + ' seed=2')['rates'])

    def test_caches_hold_different_checkpoints(self):
        result = self.run_one('sizes=uniform order=reverse wait=1 hints=all gpus=1')
        self.assertEqual(tuple(result[f'from_{m}'] for m in ('device', 'host', 'drives')),
                         shots.PUBLISHED_SOURCES)

    def test_a_link_is_shared(self):
        """One checkpoint, copied to the host and back."""
        for gpus, share in (1, 1), (2, 2), (4, 2):
            result = self.run_one(f'checkpoints=1 approach=no-device pinning=0 gpus={gpus}')
            for wait in ('write_wait_s', 'restore_wait_s'):
                self.assertAlmostEqual(result[wait], shots.SIZE * share / 25e9, delta=1e-8)

    def test_pinning_comes_before_the_first_copy(self):
        result = self.run_one('checkpoints=1 approach=no-device gpus=1 interval_ms=0')
        self.assertAlmostEqual(result['write_wait_s'], shots.SIZE / 4e9 + shots.SIZE / 25e9,
                               delta=1e-8)

    def test_drives_are_shared(self):
        """Without caches that are large enough, all moves between the application and the drives."""
        result = self.run_one('checkpoints=1 approach=no-device host_cache_mib=1 gpus=8')
        for wait in ('write_wait_s', 'restore_wait_s'):
            self.assertAlmostEqual(result[wait], shots.SIZE * 8 / 16e9, delta=1e-8)

    def test_a_copy_within_the_device_takes_all_its_bandwidth(self):
        result = self.run_one('checkpoints=4 gpus=8')
        self.assertAlmostEqual(result['write_wait_s'], 4 * shots.SIZE / 1e12, delta=1e-8)
        self.assertEqual(result['at_device_speed'], 1)

    def test_managed_memory_is_left_by_what_is_flushed(self):
        """A block is in one place: after flushes, nothing is on the device."""
        words = f'{SMALL} approach=managed wait=1 order=reverse'
        self.assertEqual(self.run_one(words)['from_device'], 0)
        self.assertGreater(self.run_one(f'{words} approach=score')['from_device'], 0)

    def test_a_restore_without_a_hint_faults(self):
        """One checkpoint, which goes to the host and comes back."""
        words = 'checkpoints=1 approach=managed pinning=0 gpus=1 wait=1'
        copy = shots.SIZE / 1e12  # within the device
        for more, rate in ('hints=none', 4.7e9), ('hints=all', 23e9), ('hints=all link=1e9', 1e9):
            result = self.run_one(f'{words} {more}')
            self.assertAlmostEqual(result['write_wait_s'], copy, delta=1e-8)
            self.assertAlmostEqual(result['restore_wait_s'], shots.SIZE / rate + copy, delta=1e-6)

    def test_room_for_faults_is_made_over_the_link(self):
        """Two checkpoints in room for one. The flush of the second one has moved a quarter of it when
        it is asked for, so that faults. Then it leaves while the first one comes."""
        result = self.run_one('checkpoints=2 approach=managed hints=none order=reverse gpus=1 '
                              'pinning=0 device_cache_mib=128 interval_ms=0 iterations=1')
        out, back = shots.SIZE / 23e9, shots.SIZE / 4.7e9
        copy = shots.SIZE / 1e12
        first, second = (shots.SIZE / rate for rate in result['rates'])
        self.assertAlmostEqual(result['write_wait_s'], out + 2 * copy, delta=1e-6)
        self.assertAlmostEqual(first, (out + back) / 4 + copy, delta=1e-6)
        self.assertGreater(second, back + copy)
        self.assertLess(second, out + back + copy + 1e-6)

    def test_managed_memory_is_not_slower_with_hints(self):
        for words in every_configuration():
            with self.subTest(configuration=words):
                waits = [shots.io_wait(self.run_one(f'{words} approach=managed hints={hints}'))
                         for hints in ('all', 'none')]
                self.assertLessEqual(waits[0], waits[1] * NOISE)

    def test_a_word_that_cannot_be_read_is_named(self):
        for word in 'gpus=none', 'order=backwards', 'nothing', 'gpus=0', 'faults=0', 'batch=0':
            done = subprocess.run([self.simulator.program], input=word + '\n', text=True,
                                  capture_output=True, check=False)
            self.assertEqual(done.returncode, 64)
            self.assertIn(word, done.stderr)


if __name__ == '__main__':
    unittest.main()
