#!/usr/bin/env python3
"""The benchmark of load balancing, in small: its bars on shorter traces, but for those of time."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import unittest
from unittest import mock

import balance
import rtm_trace

BUILD = pathlib.Path(os.environ['GPUSNAP_TEST_BUILD'])
STEPS = 97  # an eighth


def run(*words):
    """Exit code, and what was printed."""
    printed = io.StringIO()
    with mock.patch.object(sys, 'argv', ['balance', '--build', str(BUILD), *words]), \
            contextlib.redirect_stdout(printed):
        code = balance.main()
    return code, printed.getvalue()


class Balance(unittest.TestCase):
    def test_bars_are_met(self):
        code, printed = run('--only', 'example', '--only', 'traces', '--steps', str(STEPS), '--json')
        self.assertEqual(code, 0, printed)
        bars = json.loads(printed)['bars']
        self.assertEqual(len(bars), 9)
        self.assertTrue(all(bar['met'] for bar in bars), bars)

    def test_a_missed_bar_fails(self):
        with mock.patch.dict(balance.PUBLISHED_OVERHEAD, greedy=2.0):
            code, printed = run('--only', 'traces', '--steps', str(STEPS), '--seeds', '1')
        self.assertEqual(code, 1)
        self.assertIn('MISSED overhead of greedy', printed)

    def test_all_parts_run_and_draw(self):
        svg = BUILD / 'tests' / 'bench' / 'balance' / 'test.svg'
        _, printed = run('--steps', '20', '--seeds', '2', '--rounds', '2', '--svg', str(svg))
        for part in 'Example', 'Traces of 20 steps', 'Traces of other shapes', 'Time to make':
            self.assertIn(part, printed)
        self.assertIn('seed 2', svg.read_text(encoding='utf-8'))

    def test_a_problem_that_cannot_be_read_is_named(self):
        program = balance.Program(BUILD)
        for line in 'eight', '65', '1 2', '1 1 0 1 0 9', '1 5 0 0 0':
            done = subprocess.run([program.path, '1', '0'], input=line + '\n', text=True,
                                  capture_output=True, check=False)
            self.assertEqual(done.returncode, 64, line)
            self.assertTrue(done.stderr.startswith('schedules: '), done.stderr)


class Trace(unittest.TestCase):
    def test_the_mean_is_the_published_one(self):
        sizes = rtm_trace.trace(1, STEPS)
        mean = sum(map(sum, sizes)) / (STEPS * rtm_trace.GPUS)
        self.assertAlmostEqual(mean / (rtm_trace.TOTAL / rtm_trace.STEPS), 1, places=6)

    def test_a_seed_repeats_and_seeds_differ(self):
        self.assertEqual(rtm_trace.trace(1, STEPS), rtm_trace.trace(1, STEPS))
        self.assertNotEqual(rtm_trace.trace(1, STEPS), rtm_trace.trace(2, STEPS))

    def test_gpus_differ_within_a_step(self):
        busiest = max(rtm_trace.trace(1, STEPS), key=lambda row: max(row) - min(row))
        self.assertGreater(max(busiest), balance.ROOM)
        self.assertLess(min(busiest), balance.ROOM)

    def test_links_are_the_same_both_ways_and_six_for_each_gpu(self):
        for i, row in enumerate(balance.LINKS):
            self.assertEqual(sum(row), 6)
            self.assertEqual([other[i] for other in balance.LINKS], row)


if __name__ == '__main__':
    unittest.main()
