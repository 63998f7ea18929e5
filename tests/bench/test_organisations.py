"""The benchmark of organisations, in small: that it measures what it says."""

import json
import os
import pathlib
import subprocess
import unittest

BUILD = pathlib.Path(os.environ['GPUSNAP_TEST_BUILD'])
SCRIPT = pathlib.Path(__file__).resolve().parent / 'organisations.py'
MEMORY = 8  # MiB
TO_HOST = 25e9  # bytes a second of the virtual clock


class Organisations(unittest.TestCase):
    def bench(self, *arguments):
        done = subprocess.run([SCRIPT, '--build', BUILD, '--json', *arguments], text=True,
                              capture_output=True, timeout=200, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_a_blocking_copy_costs_its_bytes(self):
        found = self.bench('--only', 'stall', '--program', 'adaptive', '--memory', str(MEMORY),
                           '--organisation', 'b+f')
        row = found['stall']['adaptive']['organisations']['b+f']
        # No less than the link takes, and what else there is takes no longer than that.
        least = MEMORY * 2**20 / TO_HOST * 1e3
        self.assertGreaterEqual(row['stall_ms'], least)
        self.assertLess(row['stall_ms'], 2 * least)
        self.assertEqual(row['relative'], 1)

    def test_a_build_that_is_not_there_is_named(self):
        done = subprocess.run([SCRIPT, '--build', '/nonexistent'], text=True, capture_output=True,
                              timeout=200, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count('\n'), 1, done.stderr)
        self.assertIn('/nonexistent', done.stderr)


if __name__ == '__main__':
    unittest.main()
