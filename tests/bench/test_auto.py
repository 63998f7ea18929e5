#!/usr/bin/env python3
"""The benchmark of GPUSNAP_EVERY=auto, in small: its bars on a virtual clock, and what arithmetic says."""

import contextlib
import io
import json
import os
import pathlib
import unittest
from unittest import mock

import auto
import simulated

BUILD = pathlib.Path(os.environ['GPUSNAP_TEST_BUILD'])


def run(*words):
    """The exit code, and the bars."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), mock.patch.object(auto, 'GRID', [0.5, 0.7, 1, 1.4, 2]):
        code = auto.main(['--build', str(BUILD), '--jobs', '1', '--json', *words])
    return code, json.loads(printed.getvalue())['bars']


def missed(bars):
    return [bar['bar'] for bar in bars if not bar['met']]


class Bars(unittest.TestCase):
    def test_auto_meets_them(self):
        for part, seeds in ('steady', '40'), ('changes', '20'), ('levels', '10'), ('guesses', '20'):
            with self.subTest(part=part):
                code, bars = run('--only', part, '--seeds', seeds)
                self.assertEqual((code, missed(bars)), (0, []))
                self.assertGreater(len(bars), 0)

    def test_a_wrong_failure_rate_misses_them(self):
        code, bars = run('--only', 'changes', '--seeds', '5', '--mtbf-error', '50')
        self.assertEqual(code, 1)
        for what in 'total below', 'below the best', 'from the prediction':
            self.assertTrue(any(what in bar for bar in missed(bars)), (what, bars))

    def test_a_rate_that_is_far_too_high_is_corrected_by_failures(self):
        _, bars = run('--only', 'changes', '--seeds', '5', '--mtbf-error', '0.02')
        self.assertFalse(any('from the prediction' in bar for bar in missed(bars)), bars)


class Job(unittest.TestCase):
    def job(self, words):
        result, = auto.Simulator(BUILD, 1).run([words])
        self.assertEqual(auto.fault(result), '')
        return result

    def test_memory_is_lost_with_the_node_alone(self):
        job = 'work_s=2000 mtbf_s=100 stall_s=0.5 latency_s=30 memory_stall_s=0.5 memory_latency_s=0.1'
        spared = self.job(f'{job} survived=0.9999 seed=3')
        self.assertGreater(spared['restored'], 5)
        self.assertGreater(spared['kept'], spared['checkpoints'])
        lost = self.job(f'{job} survived=0 seed=3')
        self.assertEqual((lost['kept'], lost['restored']), (0, 0))
        self.assertLess(spared['total_s'], lost['total_s'])

    def test_without_failures(self):
        # Cuts at 10, 20, ... 110: each interval has 9 s of work but the first, and the last ends early.
        found = self.job('work_s=100 interval_s=10 stall_s=1 failures_s=1e9')
        self.assertAlmostEqual(found['total_s'], 111)
        self.assertEqual(found['checkpoints'], 11)

    def test_a_failure_undoes_what_came_after_the_last_checkpoint(self):
        # The second cut, at 20 s, had 19 s of the work. 81 s are left at 30.5 s, with 8 more cuts.
        found = self.job('work_s=100 interval_s=10 stall_s=1 restart_s=5 failures_s=25.5')
        self.assertAlmostEqual(found['lost_s'], 4.5)
        self.assertAlmostEqual(found['restart_s'], 5)
        self.assertAlmostEqual(found['stall_s'], 10)
        self.assertAlmostEqual(found['total_s'], 119.5)

    def test_a_checkpoint_on_its_way_is_lost(self):
        # The second is committed at 27 s, so the job goes on from 10 s of its work.
        found = self.job('work_s=100 interval_s=10 stall_s=1 latency_s=6 failures_s=25.5')
        self.assertAlmostEqual(found['lost_s'], 25.5 - 10 - 1)

    def test_a_failure_in_a_restart_begins_it_again(self):
        found = self.job('work_s=8 interval_s=10 stall_s=1 restart_s=5 failures_s=4,7')
        self.assertEqual(found['failures'], 2)
        self.assertAlmostEqual(found['restart_s'], 8)
        self.assertAlmostEqual(found['total_s'], 4 + 8 + 8)

    def test_one_checkpoint_at_a_time(self):
        found = self.job('work_s=100 interval_s=2 stall_s=1 latency_s=9 failures_s=1e9')
        # The first at 2 s, then one each 10 s.
        self.assertEqual(found['checkpoints'], 10)

    def test_the_same_line_gives_the_same(self):
        words = 'work_s=90000 stall_s=5 latency_s=5 deviation=1 seed=7'
        self.assertEqual(self.job(words), self.job(words))

    def test_one_that_does_not_end_is_said(self):
        result, = auto.Simulator(BUILD, 1).run(['work_s=3000 mtbf_s=100 interval_s=9000 stall_s=1'])
        self.assertNotEqual(auto.fault(result), '')

    def test_what_cannot_be_read_is_said(self):
        for words in 'nonsense=1', 'stall_s=0', 'changes_at=2', 'failures_s=1,x':
            with self.assertRaises(simulated.Failed):
                auto.Simulator(BUILD, 1).run([words])


if __name__ == '__main__':
    unittest.main()
