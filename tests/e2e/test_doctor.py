#!/usr/bin/env python3
"""`gpusnap doctor`: what it finds on machines that lack something."""
import json
import os
import shutil

import harness
from test_cli import static_program

UNFIT = 1
CHECKS = ['settings', 'library', 'driver', 'addresses', 'backend', 'shared memory', 'locked memory',
          'io_uring', 'store', 'ssd', 'mpi']


class Doctor(harness.TestCase):
    def examine(self, *arguments, status=0, **settings):
        """The findings, by check."""
        done = self.tool('doctor', '--sim', '--json', *arguments, **settings)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertEqual(done.stderr, '')
        findings = json.loads(done.stdout)
        for each in findings:
            self.assertEqual(list(each), ['check', 'verdict', 'finding', 'advice'])
            self.assertIn(each['verdict'], ('ok', 'doubtful', 'bad'))
            self.assertTrue(each['finding'])
            # A check has advice unless it is ok.
            self.assertEqual(each['verdict'] == 'ok', each['advice'] == '', each)
        self.assertEqual(status == UNFIT, 'bad' in [each['verdict'] for each in findings])
        return {each['check']: each for each in findings}

    def assert_found(self, found, check, verdict, *parts):
        self.assertEqual(found[check]['verdict'], verdict, found[check])
        for part in parts:
            self.assertIn(part, found[check]['finding'] + '\n' + found[check]['advice'])

    def test_a_machine_that_will_do(self):
        found = self.examine(GPUSNAP_HOST_CACHE='16M', GPUSNAP_BACKEND='thread')
        self.assertEqual(list(found), CHECKS)
        for check in 'settings', 'library', 'driver', 'backend', 'shared memory', 'ssd':
            self.assert_found(found, check, 'ok')
        self.assertIn('1 device', found['driver']['finding'])
        self.assertIn('libgpusnap.so', found['library']['finding'])
        # The store is not there yet, and is not made.
        self.assertIn('to be made in ' + self.folder, found['store']['finding'])
        self.assertEqual(os.listdir(self.folder), [])

    def test_what_was_tried_is_gone(self):
        os.mkdir(self.store)
        self.examine(GPUSNAP_SSD=self.store, GPUSNAP_BACKEND='thread')
        self.assertEqual(os.listdir(self.store), [])

    def test_text_fits_80_columns(self):
        done = self.tool('doctor', '--sim', GPUSNAP_EVERY='whenever ' + 'x' * 200, GPUSNAP_SSD='/proc/1/x')
        self.assertEqual(done.returncode, UNFIT)
        lines = done.stdout.splitlines()
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertTrue(lines[0].startswith('bad       settings       '), lines[0])
        found = [line.split('  ')[0] for line in lines if not line.startswith(' ')]
        self.assertLessEqual(set(found), {'ok', 'doubtful', 'bad'})
        self.assertEqual(len(found), len(CHECKS))

    def test_settings(self):
        found = self.examine(GPUSNAP_EVERY='whenever', status=UNFIT)
        self.assert_found(found, 'settings', 'bad', 'GPUSNAP_EVERY', 'whenever')
        found = self.examine(GPUSNAP_EVRY='1s')
        self.assert_found(found, 'settings', 'doubtful', 'GPUSNAP_EVRY')

    def test_a_store_that_cannot_be_written(self):
        file = os.path.join(self.folder, 'file')
        with open(file, 'w', encoding='ascii'):
            pass
        for settings in {'GPUSNAP_PFS': file + '/store'}, {'GPUSNAP_PFS': '/proc/store'}:
            self.assert_found(self.examine(status=UNFIT, **settings), 'store', 'bad', 'choose a folder')
        self.assert_found(self.examine('--store', '/proc/store', status=UNFIT), 'store', 'bad')
        self.assert_found(self.examine(GPUSNAP_SSD='/proc/ssd', status=UNFIT), 'ssd', 'bad')

    def test_an_ssd_that_was_not_measured(self):
        found = self.examine(GPUSNAP_SSD=self.folder)
        self.assert_found(found, 'ssd', 'doubtful', self.folder, 'gpusnap calibrate')

    def test_memory_that_there_is_not(self):
        found = self.examine(GPUSNAP_HOST_CACHE='64T', GPUSNAP_BACKEND='process')
        self.assert_found(found, 'shared memory', 'doubtful', '64.0 TiB', 'GPUSNAP_HOST_CACHE')
        found = self.examine(GPUSNAP_HOST_CACHE='64T', GPUSNAP_BACKEND='thread')
        self.assert_found(found, 'shared memory', 'ok', 'not needed')

    def test_no_driver(self):
        # The loader finds this one first, and cannot load it.
        with open(os.path.join(self.folder, 'libcuda.so.1'), 'w', encoding='ascii') as file:
            file.write('no library')
        done = self.tool('doctor', '--json', LD_LIBRARY_PATH=self.folder)
        self.assertEqual(done.returncode, UNFIT, done.stdout)
        driver, = (each for each in json.loads(done.stdout) if each['check'] == 'driver')
        self.assertEqual(driver['verdict'], 'bad')
        found = self.examine(SIMCUDA_DEVICES='2')
        self.assert_found(found, 'driver', 'ok', '2 devices')

    def test_a_tool_without_its_library(self):
        alone = os.path.join(self.folder, 'gpusnap')
        shutil.copy(harness.GPUSNAP, alone)
        done = harness.patience.run([alone, 'doctor', '--json'], self.timeout, cwd=self.folder,
                                    env=self.environment(**self.settings()))
        self.assertEqual(done.returncode, UNFIT, done.stderr)
        library, = (each for each in json.loads(done.stdout) if each['check'] == 'library')
        self.assertEqual(library['verdict'], 'bad')
        self.assertIn('not beside this tool', library['finding'])
        # A file of its name that is none.
        with open(os.path.join(self.folder, 'libgpusnap.so'), 'w', encoding='ascii') as file:
            file.write('no library')
        done = harness.patience.run([alone, 'doctor', '--json'], self.timeout, cwd=self.folder,
                                    env=self.environment(**self.settings()))
        library, = (each for each in json.loads(done.stdout) if each['check'] == 'library')
        self.assertIn('is not loaded into', library['finding'])

    def test_a_program(self):
        path = os.path.join(self.folder, 'static')
        static_program(path, 0)
        self.assert_found(self.examine(path, status=UNFIT), 'program', 'bad', 'statically linked')
        self.assert_found(self.examine('/bin/true', status=UNFIT), 'program', 'bad', 'no sign of CUDA')
        self.assert_found(self.examine('nothing-there', status=UNFIT), 'program', 'bad')
        self.assert_found(self.examine(harness.app('stencil')), 'program', 'ok', 'stencil')

    def test_launchers(self):
        launcher = os.path.join(self.folder, 'mpirun')
        with open(launcher, 'w', encoding='ascii') as file:
            file.write('#!/bin/sh\necho A launcher of our own\n')
        os.chmod(launcher, 0o755)
        search = self.folder + ':/nowhere'
        self.assert_found(self.examine(PATH=search), 'mpi', 'doubtful', launcher, 'gpusnap run -- ./solver')
        with open(launcher, 'w', encoding='ascii') as file:
            file.write('#!/bin/sh\necho mpirun "(Open MPI)" 4.1.4\n')
        self.assert_found(self.examine(PATH=search), 'mpi', 'ok', launcher)
        self.assert_found(self.examine(PATH='/nowhere'), 'mpi', 'ok', 'no launcher')


if __name__ == '__main__':
    harness.main()
