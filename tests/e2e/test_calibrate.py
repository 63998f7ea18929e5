#!/usr/bin/env python3
"""`gpusnap calibrate`: measures, stores, shows, and refuses what it cannot use."""
import glob
import json
import os
import xml.dom.minidom

import harness

QUICK = ['--writers', '3', '--chunk', '64K']


class Calibrate(harness.TestCase):

    def setUp(self):
        super().setUp()
        self.device = os.path.join(self.folder, 'device')
        os.mkdir(self.device)

    def stored(self):
        return glob.glob(os.path.join(self.device, 'gpusnap-*', 'calibration', '*.calibration'))

    def test_measures_stores_and_shows(self):
        chart = os.path.join(self.folder, 'curve.svg')
        done = self.tool('calibrate', self.device, *QUICK, '--check', '--json', '--svg', chart)
        self.assertEqual(done.returncode, 0, done.stderr)
        measured, = json.loads(done.stdout)
        self.assertEqual(measured['folder'], self.device)
        self.assertEqual([each['writers'] for each in measured['samples']], [1, 2, 3])
        self.assertEqual([each['writers'] for each in measured['checked']], [1, 2, 3])
        for each in measured['samples']:
            # The curve goes through its samples.
            self.assertAlmostEqual(each['model'] / each['bytes_per_second'], 1, places=6)
        self.assertIn('error_mean', measured)
        self.assertEqual(xml.dom.minidom.parse(chart).documentElement.tagName, 'svg')
        self.assertEqual(len(self.stored()), 1)
        self.assertFalse(os.path.exists(os.path.join(self.device, 'gpusnap-calibration')))
        shown = self.tool('calibrate', '--show', '--json', GPUSNAP_SSD=self.device)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertEqual(json.loads(shown.stdout)[0]['samples'], measured['samples'])
        table = self.tool('calibrate', '--show', self.device)
        self.assertEqual(table.stdout.splitlines()[1].split(),
                         ['WRITERS', 'TOGETHER', 'EACH', 'MODEL'])

    def test_a_newer_one_takes_the_place_of_an_older_one(self):
        for _ in range(2):
            self.assertEqual(self.tool('calibrate', self.device, *QUICK).returncode, 0)
        self.assertEqual(len(self.stored()), 1)

    def test_what_is_stored_and_cannot_be_used_is_said(self):
        self.assertEqual(self.tool('calibrate', self.device, *QUICK).returncode, 0)
        path, = self.stored()
        with open(path, 'r+b') as file:
            file.truncate(40)
        shown = self.tool('calibrate', '--show', self.device)
        self.assertEqual(shown.returncode, harness.DAMAGED)
        self.assertIn(path, shown.stderr)
        self.assertIn('run gpusnap calibrate', shown.stderr)
        again = self.tool('calibrate', self.device, *QUICK)
        self.assertEqual(again.returncode, 0)
        self.assertIn('cannot be used', again.stderr)
        self.assertEqual(self.tool('calibrate', '--show', self.device).returncode, 0)

    def test_nothing_to_measure(self):
        nothing = self.tool('calibrate')
        self.assertEqual(nothing.returncode, harness.USAGE)
        self.assertIn('GPUSNAP_SSD', nothing.stderr)
        missing = self.tool('calibrate', os.path.join(self.folder, 'nowhere'))
        self.assertEqual(missing.returncode, harness.NO_CHECKPOINT)
        self.assertEqual(len(missing.stderr.splitlines()), 1, missing.stderr)
        none = self.tool('calibrate', '--show', self.device)
        self.assertEqual(none.returncode, harness.NO_CHECKPOINT)
        self.assertIn('there is no calibration', none.stderr)
        for wrong in (['--writers', '0'], ['--chunk', '1K'], ['--show', '--check']):
            self.assertEqual(self.tool('calibrate', self.device, *wrong).returncode, harness.USAGE)


if __name__ == '__main__':
    harness.main()
