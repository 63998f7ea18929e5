#!/usr/bin/env python3
"""Programs of several processes behind a launcher: each process has all that `gpusnap run` and
`gpusnap restore` set, wherever it runs, and the launcher has none of it."""
import ctypes
import glob
import json
import os
import shutil
import unittest

import harness
from test_cli import ADDR_NO_RANDOMIZE, PYTHON, CliTest, static_program

LIBRARY = os.path.realpath(harness.LIBRARY)
SIMCUDA = os.path.realpath(harness.SIMCUDA)

# A process writes a file of its own: its findings, and those about the process that started it.
PROBE = '''
import json, os, sys
def read(name):
    with open('/proc/%s' % name) as file:
        return file.read()
found = {'arguments': sys.argv[1:], 'folder': os.getcwd(), 'environment': dict(os.environ),
         'personality': int(read('self/personality'), 16),
         'launcher_environment': dict(each.split('=', 1) for each in
                                      read('%d/environ' % os.getppid()).split(chr(0)) if '=' in each),
         'launcher_personality': int(read('%d/personality' % os.getppid()), 16)}
with open(os.path.join(os.path.dirname(sys.argv[0]), 'found%d.json' % os.getpid()), 'w') as file:
    json.dump(found, file)
'''

# Starts two processes, which inherit nothing but PATH, as on another node.
FAR = '''#!%s
import os, subprocess, sys
begin = next(i for i, word in enumerate(sys.argv) if word.endswith('/gpusnap'))
path = {'PATH': os.environ['PATH']}
sys.exit(max(subprocess.run(sys.argv[begin:], env=path).returncode for _ in range(2)))
''' % PYTHON


class LaunchTest(CliTest):
    def setUp(self):
        super().setUp()
        self.folder = os.path.realpath(self.folder)
        self.probe = os.path.join(self.folder, 'probe.py')
        with open(self.probe, 'w') as file:
            file.write(PROBE)
        self.bin = os.path.join(self.folder, 'bin')
        os.mkdir(self.bin)

    def environment(self, **settings):
        return super().environment(**dict(
            {'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1',
             'OMPI_MCA_rmaps_base_oversubscribe': '1', 'OMPI_MCA_hwloc_base_binding_policy': 'none',
             'PATH': self.bin + ':' + os.environ['PATH']}, **settings))

    def add_to_path(self, name, text):
        path = os.path.join(self.bin, name)
        with open(path, 'w') as file:
            file.write(text)
        os.chmod(path, 0o755)

    def found(self, ranks):
        """The findings of each of the processes."""
        paths = glob.glob(os.path.join(self.folder, 'found*.json'))
        self.assertEqual(len(paths), ranks)
        found = []
        for path in paths:
            with open(path) as file:
                found.append(json.load(file))
            os.remove(path)
        return found

    def assert_all_set(self, found, **settings):
        for each in found:
            self.assertEqual(each['environment']['LD_PRELOAD'], LIBRARY)
            self.assertEqual(each['environment']['LD_LIBRARY_PATH'].split(':')[0], SIMCUDA)
            self.assertEqual(each['environment']['PYTHONHASHSEED'], '0')
            for name, value in settings.items():
                self.assertEqual(each['environment'][name], value)
            if ctypes.CDLL(None).personality(0xffffffff) != -1:
                self.assertTrue(each['personality'] & ADDR_NO_RANDOMIZE)


class EachRank:
    """The same with each launcher that is installed."""

    launcher = ''

    def setUp(self):
        if shutil.which(self.launcher) is None:
            self.skipTest(self.launcher + ' is not installed')
        super().setUp()

    def test_has_all_and_the_launcher_nothing(self):
        done = self.call('run', '--sim', '--every', '5s', '--store', 'here', '--', self.launcher, '-n',
                         '4', PYTHON, self.probe, 'a b', '--every', '-s', GPUSNAP_KEEP='3',
                         GPUSNAP_JOB='several words', SIMCUDA_DEVICES='2')
        self.assertEqual(done.stderr, '')
        found = self.found(4)
        self.assert_all_set(found, GPUSNAP_EVERY='5s', GPUSNAP_KEEP='3', SIMCUDA_DEVICES='2',
                            GPUSNAP_PFS=os.path.join(self.folder, 'here'),
                            GPUSNAP_JOB='several_words', GPUSNAP_NODE=self.folder)
        for each in found:
            self.assertEqual(each['arguments'], ['a b', '--every', '-s'])
            self.assertNotIn('LD_PRELOAD', each['launcher_environment'])
            self.assertNotIn('LD_LIBRARY_PATH', each['launcher_environment'])
            self.assertFalse(each['launcher_personality'] & ADDR_NO_RANDOMIZE)

    def test_is_named_after_its_program(self):
        self.call('run', '--sim', '--', self.launcher, '-n', '2', PYTHON, self.probe, GPUSNAP_JOB=None)
        for each in self.found(2):
            self.assertRegex(each['environment']['GPUSNAP_JOB'],
                             '^' + os.path.basename(PYTHON) + '-[0-9a-f]{8}$')

    def test_of_each_program_has_all(self):
        self.call('run', '--sim', '--', self.launcher, '-n', '1', PYTHON, self.probe, 'one', ':',
                  '-n', '2', PYTHON, self.probe, 'two', 'three')
        found = self.found(3)
        self.assert_all_set(found)
        self.assertEqual(sorted(each['arguments'] for each in found),
                         [['one'], ['two', 'three'], ['two', 'three']])

    def test_ends_as_the_launcher_says(self):
        self.call('run', '--', self.launcher, '-n', '2', 'sh', '-c', 'exit 7', status=7)

    def test_works_in_its_folder(self):
        os.mkdir(os.path.join(self.folder, 'sub'))
        command = [self.launcher, '-wdir', os.path.join(self.folder, 'sub'), '-n', '1', './python',
                   self.probe]
        os.symlink(PYTHON, os.path.join(self.folder, 'sub', 'python'))
        self.assertEqual(self.call('run', '--sim', '--', *command).stderr, '')
        found = self.found(1)
        self.assert_all_set(found, GPUSNAP_PFS=self.store)
        self.assertEqual(found[0]['folder'], os.path.join(self.folder, 'sub'))

    def test_goes_on_from_the_chosen_checkpoint(self):
        self.make(2, (PYTHON, self.probe, 'x'))
        command = [self.launcher, '-n', '1', PYTHON, self.probe, 'x']
        self.assertEqual(self.call('restore', '--sim', '--', *command).stderr, '')
        self.assert_all_set(self.found(1), GPUSNAP_RESTORE='job@2', GPUSNAP_JOB='job')
        self.call('restore', '--sim', '--id', 'job@1', '--force-arguments', '--', *command, 'y')
        self.assert_all_set(self.found(1), GPUSNAP_RESTORE='job@1',
                            GPUSNAP_RESTORE_FORCE='arguments')

    def test_may_be_gpusnap_itself(self):
        """The other way to write it; a warning is not said by each rank."""
        done = self.start([self.launcher, '-n', '4', harness.GPUSNAP, 'run', '--sim', '--', PYTHON,
                           self.probe], self.environment(**self.settings(GPUSNAP_SDD='/ssd')))
        self.finish(done)
        self.assertEqual(len(done.errors.splitlines()), 1, done.errors)
        self.assertIn('GPUSNAP_SDD: no such setting', done.errors)
        self.assert_all_set(self.found(4))
        self.make(1, (PYTHON, self.probe))
        done = self.start([self.launcher, '-n', '1', harness.GPUSNAP, 'restore', '--sim', '--', PYTHON,
                           self.probe], self.environment(**self.settings()))
        self.finish(done)
        self.assert_all_set(self.found(1), GPUSNAP_RESTORE='job@1')


class EachRankOfOpenMpi(EachRank, LaunchTest):
    launcher = 'mpirun.openmpi'


class EachRankOfMpich(EachRank, LaunchTest):
    launcher = 'mpiexec.mpich'

    def test_needs_nothing_of_the_environment(self):
        self.call('run', '--sim', '--every', '5s', '--', self.launcher, '-genvnone', '-n', '2', PYTHON,
                  self.probe)
        self.assert_all_set(self.found(2), GPUSNAP_EVERY='5s', GPUSNAP_PFS=self.store)


class AnyLauncher(LaunchTest):
    def setUp(self):
        super().setUp()
        self.add_to_path('srun', FAR)

    def test_ranks_inherit_nothing(self):
        self.call('run', '--sim', '--strict', '--every', '5s', '--', 'srun', '-ln2', '--mpi', 'pmix',
                  PYTHON, self.probe, PYTHONHASHSEED='7', GPUSNAP_SSD='', SIMCUDA_ARCH='80')
        found = self.found(2)
        for each in found:
            self.assertEqual(each['environment'].pop('PYTHONHASHSEED'), '7')
            each['environment']['PYTHONHASHSEED'] = '0'
        self.assert_all_set(found, GPUSNAP_EVERY='5s', GPUSNAP_STRICT='1', GPUSNAP_PFS=self.store,
                            GPUSNAP_JOB='job', GPUSNAP_SSD='', SIMCUDA_ARCH='80')

    def test_is_known_by_its_file(self):
        os.rename(os.path.join(self.bin, 'srun'), os.path.join(self.folder, 'srun'))
        os.symlink(os.path.join(self.folder, 'srun'), os.path.join(self.folder, 'start'))
        self.call('run', '--sim', '--', './start', '-n2', PYTHON, self.probe)
        self.assert_all_set(self.found(2))

    def test_program_is_found_in_the_folder(self):
        os.symlink(PYTHON, os.path.join(self.folder, 'only-here'))
        self.call('run', '--sim', '--', 'srun', 'only-here', self.probe)
        self.assert_all_set(self.found(2))

    def test_what_is_preloaded_already_stays(self):
        with open('/proc/self/maps', encoding='utf-8') as file:
            libc = next(line.split()[-1] for line in file if '/libc.so' in line)
        self.add_to_path('mpirun', '#!/bin/sh\nshift 2\nexec "$@"\n')
        self.call('run', '--sim', '--', 'mpirun', '-n', '1', PYTHON, self.probe, LD_PRELOAD=libc)
        self.assertEqual(self.found(1)[0]['environment']['LD_PRELOAD'], LIBRARY + ':' + libc)

    def test_objections_are_about_the_program(self):
        done = self.call('run', '--', 'srun', '-n', '2', 'true')
        self.assert_one_line(done, os.path.realpath(shutil.which('true')), 'no sign of CUDA')
        static_program(os.path.join(self.folder, 'static'), 7)
        self.add_to_path('mpirun', '#!/bin/sh\necho "$*" "$LD_PRELOAD"\n')
        done = self.call('run', '--', 'mpirun', '-n', '2', './static')
        self.assert_one_line(done, 'static: it is statically linked', 'without checkpoints')
        self.assertEqual(done.stdout, '-n 2 ./static \n')
        done = self.call('run', '--strict', '--', 'mpirun', PYTHON, ':', './static',
                         status=harness.BAD_SETTING)
        self.assert_one_line(done, 'statically linked')
        self.assert_one_line(self.call('run', '--', 'mpirun', 'nothing', status=127), 'cannot run nothing')

    def test_restore_compares_the_program(self):
        self.make(2, (PYTHON, self.probe, 'x'))
        refused = {'status': harness.OTHER_PROGRAM}
        done = self.call('restore', '--', 'srun', PYTHON, self.probe, 'y', **refused)
        self.assert_one_line(done, 'job@2', "argument 2 was 'x'")
        done = self.call('restore', '--', 'srun', 'true', self.probe, 'x', **refused)
        self.assert_one_line(done, 'job@2', '--force-program')
        done = self.call('restore', '--', 'srun', '-n2', PYTHON, self.probe, 'x', **refused)
        self.assert_one_line(done, 'job@2 is of 1 rank, this command starts 2')
        done = self.call('restore', '--', 'srun', '-n1', PYTHON, self.probe, 'x', ':', '-n', '1', PYTHON,
                         **refused)
        self.assert_one_line(done, 'job@2 is of 1 rank, this command starts 2')
        self.call('restore', '--sim', '--', 'srun', PYTHON, self.probe, 'x')
        self.assert_all_set(self.found(2), GPUSNAP_RESTORE='job@2')
        done = self.call('restore', '--or-start', '--id', 'other@latest', '--sim', '--', 'srun', PYTHON,
                         self.probe)
        self.assert_one_line(done, 'starts afresh')
        for each in self.found(2):
            self.assertNotIn('GPUSNAP_RESTORE', each['environment'])

    def test_what_is_not_understood(self):
        self.add_to_path('jsrun', FAR)
        for command, why in ((['srun', '--', 'true'], "'--'"), (['srun', '--multi-prog', 'x'], 'file'),
                             (['srun', '--new', 'sh', 'env'], 'sh or env'), (['srun'], 'no program'),
                             (['jsrun', '-n', '4', 'true'], 'not known')):
            for how in ('run', 'restore'):
                done = self.call(how, '--', *command, status=harness.USAGE)
                self.assert_one_line(done, why, "'%s ... gpusnap %s -- " % (command[0], how))

    def test_rank_itself(self):
        self.call('rank', '--sim', '-s', 'GPUSNAP_EVERY=5s', '-s', 'A=b=[c, d]', '--', PYTHON, self.probe)
        self.assert_all_set(self.found(1), GPUSNAP_EVERY='5s', A='b=[c, d]')
        self.assert_one_line(self.call('rank', '-s', 'A', '--', 'true', status=harness.USAGE), 'NAME=VALUE')
        self.assert_one_line(self.call('rank', 'true', status=harness.USAGE), 'after --')
        self.assert_one_line(self.call('rank', '--', 'nothing', status=127), 'cannot run nothing')
        self.assertIn('  mpirun -n 4 gpusnap rank', self.call('rank', '--help').stdout)


if __name__ == '__main__':
    harness.main()
