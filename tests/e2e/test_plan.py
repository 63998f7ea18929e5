#!/usr/bin/env python3
"""`gpusnap plan`: its numbers as JSON, machine files, changes, jobs of a store, and figures."""
import glob
import json
import os
import subprocess
import sys
import xml.dom.minidom

import harness

CONFIGURATIONS = ['baseline', 'level1_free', 'level1_and_2_free', 'own']
MACHINE = '''name = "rack"
nodes = 16
gpus_per_node = 4
[memory]
gpu = 80
[link]
gpu = 25
node = 100
memory = 200
[ssd]
write = 6
[pfs]
write = 50
[rates]
gpu = 1e-7
node = 2e-8
system = 1e-7
'''


class Plan(harness.TestCase):

    def plan(self, *arguments, status=0):
        done = self.tool('plan', *arguments)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def planned(self, *arguments):
        return json.loads(self.plan('--json', *arguments).stdout)

    def machine_file(self, text=MACHINE):
        path = os.path.join(self.folder, 'rack.toml')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
        return path

    def refused(self, *arguments, status=harness.USAGE):
        done = self.plan(*arguments, status=status)
        self.assertEqual(done.stdout, '')
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        return lines[0]

    def test_published_machine(self):
        planned = self.planned('--machine', 'snapshot-ics19')
        self.assertEqual((planned['machine'], planned['model']), ('snapshot-ics19', 'markov'))
        for name, published in zip(CONFIGURATIONS, (0.849, 0.927, 0.972)):
            self.assertAlmostEqual(planned[name]['efficiency'], published, delta=0.01)
        for name in CONFIGURATIONS:
            each = planned[name]
            self.assertAlmostEqual(each['efficiency'] + sum(each['overhead'].values()), 1, places=6)
            self.assertEqual(list(each['intervals_s']), ['memory', 'ssd', 'pfs'])
        self.assertEqual(planned['level1_free']['intervals_s']['memory'], 0)
        self.assertLess(planned['own']['intervals_s']['ssd'], planned['own']['intervals_s']['pfs'])
        for point in planned['published']:
            if point['at_most']:
                self.assertLess(point['model'], point['paper'])

    def test_models_and_changes(self):
        for model in ('first-order', 'daly', 'markov', 'markov-failures'):
            planned = self.planned('--model', model, '--set', 'failures.gpu=0.1')
            self.assertEqual(planned['model'], model)
            self.assertAlmostEqual(planned['baseline']['efficiency'], 0.90, delta=0.01)
        base = self.planned()
        faster = self.planned('--set', 'ssd.write=2x', '--set', 'pfs.write=2x')
        self.assertAlmostEqual(faster['inputs']['ssd.write'], 2 * base['inputs']['ssd.write'])
        self.assertGreater(faster['own']['efficiency'], base['own']['efficiency'])
        short = self.planned('--set', 'stall.memory=0.05')
        self.assertEqual(short['baseline']['efficiency'], base['baseline']['efficiency'])
        self.assertGreater(short['own']['efficiency'], short['baseline']['efficiency'])
        never = self.planned('--set', 'failures.system=0')
        self.assertIsNone(never['own']['intervals_s']['pfs'])

    def test_machine_file(self):
        planned = self.planned('--machine', self.machine_file())
        self.assertEqual(planned['machine'], 'rack')
        self.assertEqual(planned['own']['levels'][0]['stall_s'], 3.2)
        text = self.plan('--machine', self.machine_file()).stdout
        self.assertIn('Checkpoint to memory every ', text)
        self.assertIn('expected efficiency', text)

    def test_bad_machines_and_changes_get_a_line(self):
        for wrong, words in ((MACHINE.replace('nodes = 16', 'nodes = -1'), 'line 2'),
                             (MACHINE.replace('[link]', '[lnk]'), 'lnk.gpu'),
                             (MACHINE.replace('nodes = 16\n', ''), "'nodes' is missing"),
                             ('\0\1\2', 'line 1')):
            line = self.refused('--machine', self.machine_file(wrong))
            self.assertIn('rack.toml: ', line)
            self.assertIn(words, line)
        self.refused('--machine', self.machine_file(''))
        self.refused('--machine', self.folder)
        self.assertIn('snapshot-ics19', self.refused('--machine', 'summit'))
        self.assertIn('ssd.write', self.refused('--set', 'sdd.write=2x'))
        self.assertIn('KEY=VALUE', self.refused('--set', 'ssd.write'))
        self.assertIn('daly', self.refused('--model', 'dali'))
        self.assertIn('--simulate', self.refused('--seed', '2'))

    def test_job_of_a_store(self):
        made = subprocess.run(
            [os.path.join(harness.HELPERS, 'make_store'), self.store, 'wave', '2', sys.executable],
            cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        planned = self.planned('--machine', self.machine_file(), '--job', 'wave')
        self.assertEqual(planned['machine'], 'wave on rack')
        self.assertEqual(planned['inputs']['nodes'], 1)
        # As `gpusnap show` has it: 12.3 ms, and two ranges of 150000 bytes.
        self.assertAlmostEqual(planned['inputs']['stall.seconds'], 0.012345678)
        self.assertAlmostEqual(planned['inputs']['memory.gpu'] * 1e9, 300000)
        for level in planned['own']['levels']:
            self.assertAlmostEqual(level['stall_s'], 0.012345678)
        line = self.refused('--job', 'ocean', status=harness.NO_CHECKPOINT)
        self.assertIn('ocean', line)

    def test_simulation_agrees(self):
        simulated = self.planned('--simulate', '--seed', '7')
        self.assertEqual(simulated['simulation']['seed'], 7)
        self.assertAlmostEqual(simulated['simulation']['baseline']['efficiency'],
                               simulated['baseline']['efficiency'], delta=0.01)
        self.assertEqual(self.planned('--simulate', '--seed', '7'), simulated)

    def test_figures(self):
        folder = os.path.join(self.folder, 'figures')
        self.plan('--svg', folder)
        figures = glob.glob(os.path.join(folder, '*.svg'))
        self.assertEqual(sorted(map(os.path.basename, figures)), [
            'plan-figure12.svg', 'plan-figure13.svg', 'plan-figure14.svg', 'plan-figure2.svg',
            'plan-figure3.svg', 'plan-pccr-figure12.svg', 'plan-pccr-figure4.svg'])
        for figure in figures:
            drawn = xml.dom.minidom.parse(figure)
            self.assertGreaterEqual(len(drawn.getElementsByTagName('polyline')), 3)
            self.assertNotIn('nan', drawn.toxml())

    def test_inputs_are_listed(self):
        keys = [line.split()[0] for line in self.plan('--inputs').stdout.splitlines()[1:]]
        self.assertEqual(keys, list(self.planned()['inputs']))


if __name__ == '__main__':
    harness.main()
