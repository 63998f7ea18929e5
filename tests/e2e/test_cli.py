#!/usr/bin/env python3
"""The tool on stores that were written for it: what it lists, shows, verifies and refuses, with which
exit status, and what it starts programs with."""
import calendar
import ctypes
import fcntl
import glob
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

import harness

PYTHON = os.path.realpath(sys.executable)
ADDR_NO_RANDOMIZE = 0x0040000


def static_program(path, status):
    """A program without a loader: an ELF header, one segment, exit(status)."""
    code = b'\xbf' + struct.pack('<i', status) + b'\xb8\x3c\0\0\0\x0f\x05'
    base, start = 0x400000, 64 + 56
    header = b'\x7fELF\x02\x01\x01' + bytes(9) + struct.pack(
        '<HHIQQQIHHHHHH', 2, 62, 1, base + start, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    segment = struct.pack('<IIQQQQQQ', 1, 5, 0, base, base, start + len(code), start + len(code),
                          4096)
    with open(path, 'wb') as file:
        file.write(header + segment + code)
    os.chmod(path, 0o755)


class CliTest(harness.TestCase):
    def make(self, epochs, program=(PYTHON,), job='job'):
        made = subprocess.run(
            [os.path.join(harness.HELPERS, 'make_store'), self.store, job, str(epochs), *program],
            cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)

    def call(self, *arguments, status=0, **settings):
        done = self.tool(*arguments, **settings)
        self.assertEqual(done.returncode, status, '%s\n%s' % (arguments, done.stderr))
        return done

    def assert_one_line(self, done, *parts):
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertTrue(lines[0].startswith('gpusnap: '), lines[0])
        for part in parts:
            self.assertIn(part, lines[0])

    def damage(self, pattern):
        """One bit in the middle of each file of that name."""
        paths = glob.glob(os.path.join(self.store, pattern))
        self.assertTrue(paths)
        for path in paths:
            with open(path, 'r+b') as file:
                file.seek(os.path.getsize(path) // 2)
                byte = file.read(1)[0]
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([byte ^ 4]))


class Pruning(CliTest):
    def ids(self):
        return [each['id'] for each in json.loads(self.call('list', '--json').stdout)]

    def files(self):
        return sorted(path for path in glob.glob(self.store + '/**', recursive=True)
                      if os.path.isfile(path))

    def test_keeps_what_is_asked_for(self):
        self.make(4)
        before = self.files()
        said = json.loads(self.call('prune', '--keep', '1', '--dry-run', '--json').stdout)
        self.assertEqual(self.files(), before)
        self.assertEqual([each['what'] for each in said['jobs'][0]['removed']],
                         ['job@%d (complete)' % i for i in (3, 2, 1)])
        self.assertTrue(said['dry_run'])
        done = self.call('prune', '--keep', '3')
        self.assertRegex(done.stdout, r'job +29\d\.\d KiB +job@1 \(complete\)\nfreed 29')
        self.assertEqual(self.ids(), ['job@4', 'job@3', 'job@2'])
        self.call('prune', GPUSNAP_KEEP='2')
        self.assertEqual(self.ids(), ['job@4', 'job@3'])
        self.call('prune', '--keep', '1', '--job', 'job')
        self.assertEqual(self.ids(), ['job@4'])
        self.call('verify', 'job@4')
        self.assertEqual(self.call('prune', '--keep', '1').stdout, 'freed 0 B\n')

    def test_ancestors_stay(self):
        self.make('3+2')
        self.call('prune', '--keep', '1')
        self.assertEqual(self.ids(), ['job@3', 'job@2', 'job@1'])

    def test_what_dead_runs_left(self):
        self.make(2)
        os.remove(glob.glob(self.store + '/job/e2/*.manifest')[0])
        left = [self.store + '/job/abc-r0.journal', self.store + '/job/e1/r0-abc-7.segment',
                self.store + '/job/e1/r0.manifest.abc.tmp']
        foreign = self.store + '/job/e1/notes'
        for path in left + [foreign]:
            with open(path, 'w', encoding='ascii') as file:
                file.write('x' * 100)
        self.call('prune')
        self.assertEqual(self.ids(), ['job@2', 'job@1'], 'they may be on their way')
        # A complete checkpoint is nobody's work any more.
        self.assertEqual([os.path.exists(path) for path in left], [True, False, False])
        self.call('prune', '--left-after', '0s')
        self.assertEqual(self.ids(), ['job@1'])
        self.assertFalse(os.path.exists(left[0]))
        self.assertTrue(os.path.exists(foreign))
        self.call('verify', 'job@1')

    def test_a_job_in_use_is_left_alone(self):
        self.make(3)
        self.make(3, job='other')
        with open(self.store + '/job/lock', 'r+b') as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            done = self.call('prune', '--keep', '1')
            self.assertIn('job job is left alone', done.stderr)
            self.assertEqual(set(self.ids()), {'other@3', 'job@3', 'job@2', 'job@1'})
            self.assert_one_line(self.call('prune', '--job', 'job', status=harness.INTERNAL), 'in use')

    def test_damaged_ones_stay(self):
        self.make(3)
        self.damage('job/e3/*.manifest')
        before = self.files()
        self.call('prune', '--keep', '1', '--left-after', '0s')
        self.assertEqual(self.files(), before, 'the damaged one may have needed any')


class Looking(CliTest):
    def test_list(self):
        self.make(2)
        self.make(1, job='other')
        listed = json.loads(self.call('list', '--json').stdout)
        self.assertEqual(sorted(each['id'] for each in listed), ['job@1', 'job@2', 'other@1'])
        newest = next(each for each in listed if each['id'] == 'job@2')
        self.assertEqual(newest['job'], 'job')
        self.assertEqual(newest['epoch'], 2)
        self.assertEqual(newest['bytes'], 300000)
        self.assertGreater(newest['stored_bytes'], 300000)
        self.assertEqual(newest['state'], 'complete')
        self.assertEqual(newest['level'], 'durable')
        self.assertEqual(newest['reason'], '')
        self.assertAlmostEqual(newest['stall_ms'], 12.346, 3)
        self.assertEqual(newest['time'], '2023-11-14T22:15:20.123Z')
        self.assertEqual(calendar.timegm(time.strptime(newest['time'][:19], '%Y-%m-%dT%H:%M:%S')),
                         1700000000 + 120)
        self.assertEqual([each['id'] for each in json.loads(self.call('list', 'job', '--json').stdout)],
                         ['job@2', 'job@1'])
        rows = self.call('list').stdout.splitlines()
        self.assertEqual(rows[0].split(), ['ID', 'AGE', 'KIND', 'SIZE', 'STORED', 'STALL', 'STATE'])
        self.assertEqual(len(rows), 4)
        self.assertIn('293.0 KiB', rows[1])
        self.assertIn('12.3 ms', rows[1])

    def test_chains(self):
        self.make('4+2')
        listed = {each['epoch']: each for each in json.loads(self.call('list', '--json').stdout)}
        self.assertEqual([listed[i]['chain'] for i in (1, 2, 3, 4)], [0, 1, 2, 0])
        self.assertEqual([listed[i]['needed_by'] for i in (1, 2, 3, 4)], [3, 3, 0, 0])
        self.assertEqual([listed[i]['own_bytes'] for i in (1, 2, 4)], [300000, 65536, 300000])
        self.assertEqual({each['bytes'] for each in listed.values()}, {300000})
        rows = {row.split()[0]: row for row in self.call('list').stdout.splitlines()}
        self.assertRegex(rows['job@1'], r' full +293.0 KiB +293.0 KiB +12.3 ms +complete$')
        self.assertRegex(rows['job@3'], r' increment on 2 +293.0 KiB +64.0 KiB +12.3 ms +complete$')
        self.assertEqual([(listed[i]['kind'], listed[i]['parent']) for i in (1, 2, 3, 4)],
                         [('full', 0), ('increment', 1), ('increment', 2), ('full', 0)])
        rank = json.loads(self.call('show', 'job@3', '--json').stdout)['ranks'][0]
        self.assertEqual((rank['parent'], rank['chain'], rank['own_bytes']), (2, 2, 65536))
        self.assertEqual([each['own_bytes'] for each in rank['ranges']], [65536, 0])
        self.assertEqual([each['fresh'] for each in rank['ranges']], [False, False])
        self.assertEqual([each['life'] for each in rank['ranges']], [1, 2])
        self.assertIn('parent     job@2 (+2); 64.0 KiB of 293.0 KiB changed since',
                      self.call('show', 'job@3').stdout)
        self.call('verify', '--all')
        self.damage('job/e1/*.segment')
        done = self.call('verify', 'job@3', status=harness.DAMAGED)
        self.assertIn('job@3: damaged: checkpoint job@3 cannot be used: its ancestor job@1', done.stdout)
        self.damage('job/e2/*.manifest')
        self.assertIn('its ancestor job@2 cannot be used', self.call('list').stdout)

    def test_the_table_fits_a_terminal(self):
        self.make('100+99', job='demo')
        rows = self.call('list').stdout.splitlines()
        self.assertRegex(rows[1], r'^demo@100 .* increment on 99 .* complete$')
        self.assertLessEqual(max(map(len, rows)), 80)

    def test_space(self):
        self.make('3+1')
        self.make(1, job='other')
        listed = {each['id']: each for each in json.loads(self.call('list', '--json').stdout)}
        full, increment, newest = (listed['job@%d' % i] for i in (1, 2, 3))
        self.assertGreater(full['stored_bytes'] - full['journal_bytes'], 300000)
        self.assertEqual(full['reclaimable_bytes'], 0)
        self.assertEqual(increment['shared_bytes'], full['stored_bytes'] - full['journal_bytes'])
        self.assertEqual(newest['reclaimable_bytes'], newest['stored_bytes'] - newest['journal_bytes'])
        on_disk = sum(os.path.getsize(path) for path in glob.glob(self.store + '/job/**', recursive=True)
                      if os.path.isfile(path))
        spaces = {each['job']: each for each in
                  json.loads(self.call('list', '--space', '--json', GPUSNAP_KEEP='1').stdout)}
        self.assertEqual(set(spaces), {'job', 'other', ''})
        self.assertEqual(spaces['job']['total'], on_disk)
        self.assertEqual(spaces['job']['unnamed'], 0)
        self.assertEqual(spaces['']['ssd'], 0)
        self.assertEqual(spaces['']['total'], spaces['job']['total'] + spaces['other']['total'])
        self.assertEqual(spaces['job']['reclaimable'],
                         increment['stored_bytes'] - increment['journal_bytes'] +
                         increment['shared_bytes'])
        self.assertIn('RECLAIMABLE', self.call('list', '--space').stdout)

    def test_list_by_option_from_elsewhere(self):
        self.make(1)
        listed = self.call('list', '--json', '--store', self.store, GPUSNAP_PFS='/nowhere').stdout
        self.assertEqual(len(json.loads(listed)), 1)

    def test_list_of_nothing(self):
        self.assert_one_line(self.call('list', status=harness.NO_CHECKPOINT), self.store)
        self.assertEqual(
            json.loads(self.call('list', '--json', status=harness.NO_CHECKPOINT).stdout), [])
        os.mkdir(self.store)
        self.assertEqual(json.loads(self.call('list', '--json').stdout), [])
        self.assertIn('no checkpoints', self.call('list').stderr)

    def test_list_of_damaged_and_partial(self):
        self.make(3)
        self.damage('job/e*3/*.manifest')
        os.remove(glob.glob(os.path.join(self.store, 'job/e*2/*.manifest'))[0])
        states = {each['epoch']: each for each in json.loads(self.call('list', '--json').stdout)}
        self.assertEqual({epoch: each['state'] for epoch, each in states.items()},
                         {1: 'complete', 2: 'partial', 3: 'damaged'})
        self.assertTrue(states[3]['reason'])
        self.assertEqual((states[3]['kind'], states[2]['kind']), ('unknown', 'unknown'))
        self.assertIn('damaged: ', self.call('list').stdout)

    def test_show(self):
        self.make(2, program=(PYTHON, 'a b', '\udcff"\n'))
        for name in ('job@2', 'job@latest', 'job'):
            shown = json.loads(self.call('show', name, '--json').stdout)
            self.assertEqual(shown['id'], 'job@2')
        rank = shown['ranks'][0]
        self.assertEqual(rank['program']['path'], PYTHON)
        self.assertEqual(rank['program']['size'], os.path.getsize(PYTHON))
        self.assertEqual(rank['program']['arguments'][1:], ['a b', '\ufffd"\n'])
        self.assertEqual([each['size'] for each in rank['ranges']], [150000, 150000])
        self.assertEqual(rank['ranges'][0]['address'], '0xa00000000000')
        self.assertEqual(rank['ranges'][1]['name'], 'step "one"')
        self.assertEqual(sum(each['stream_bytes'] for each in rank['journal']), 2000)
        self.assertEqual((rank['calls'], rank['launches']), (200, 20))
        self.assertEqual(rank['meanwhile'], {
            'launches_free': 9, 'launches_waited': 4, 'launches_guessed': 3, 'launches_opaque': 2,
            'others_free': 8, 'others_waited': 1})
        self.assertEqual(rank['stall'], {'cut_ms': 6.346, 'calls_ms': 1, 'frees_ms': 2,
                                         'streams_ms': 3})
        self.assertEqual((rank['stall_ms'], shown['stall_ms']), (12.346, 12.346))
        text = self.call('show', 'job@1').stdout
        for part in ('job@1  complete', PYTHON, 'a b', 'testhost', 'step "one"', '0xa00000000000',
                     '12.3 ms: 6.3 ms at the cut, then 1.0 ms in calls, 2.0 ms in frees, 3.0 ms in streams',
                     '9 launches went ahead, 4 waited (3 on a guess, 2 opaque)'):
            self.assertIn(part, text)

    def test_show_of_what_is_not_there(self):
        self.make(1)
        self.assert_one_line(self.call('show', 'job@7', status=harness.NO_CHECKPOINT), 'job@7',
                             'job@1')
        self.assert_one_line(self.call('show', 'job@x', status=harness.USAGE), 'job@x')

    def test_verify(self):
        self.make(2)
        done = self.call('verify', 'job@1')
        self.assertTrue(done.stdout.startswith('job@1: ok, '), done.stdout)
        self.assertEqual(len(done.stdout.splitlines()), 1)
        self.assertEqual(done.stderr, '')
        self.damage('job/e*2/*.segment')
        done = self.call('verify', 'job@2', status=harness.DAMAGED)
        self.assertTrue(done.stdout.startswith('job@2: damaged: '), done.stdout)
        self.assertEqual(len(done.stdout.splitlines()), 1)
        done = self.call('verify', '--all', status=harness.DAMAGED)
        self.assertEqual(sorted(line.split(',')[0].split(': d')[0]
                                for line in done.stdout.splitlines()), ['job@1: ok', 'job@2'])

    def test_verify_all_passes_over_partial_ones(self):
        self.make(2)
        os.remove(glob.glob(os.path.join(self.store, 'job/e*2/*.manifest'))[0])
        done = self.call('verify', '--all')
        self.assertIn('job@2: partial: ', done.stdout)
        self.call('verify', 'job@2', status=harness.NO_CHECKPOINT)

    def test_usage(self):
        for arguments in (['list', '--nonsense'], ['show', '--json'], ['verify'],
                          ['verify', 'job@1', '--all'], ['run', '--every'], ['run', '--', ],
                          ['run', 'true'], ['restore'], ['list', '--', 'x'], ['frobnicate'], [],
                          ['status', 'job', 'x'], ['status', '--watch=x'], ['status', '--timeout', '1'],
                          ['checkpoint'], ['checkpoint', 'x'], ['checkpoint', '1', '--timeout', '3']):
            with self.subTest(arguments=arguments):
                self.assert_one_line(self.call(*arguments, status=harness.USAGE), '--help')

    def test_help_has_examples_and_exit_codes(self):
        for command in ('run', 'restore', 'list', 'show', 'extract', 'diff', 'prune', 'verify', 'checkpoint',
                        'status', 'plan'):
            text = self.call(command, '--help').stdout
            self.assertIn('  gpusnap ' + command, text)
            self.assertIn('Exit status:', text)
        self.assertRegex(self.call('--version').stdout, r'^gpusnap \d+\.\d+')

    def test_an_unknown_command_suggests_one(self):
        self.assert_one_line(self.call('lst', status=harness.USAGE), 'did you mean list?')
        for arguments in ['frobnicate'], []:
            done = self.call(*arguments, status=harness.USAGE)
            self.assertNotIn('did you mean', done.stderr)
            self.assert_one_line(done, 'commands are run, ', ' completion;')


class Texts(CliTest):
    """What the tool writes about itself."""
    def setUp(self):
        super().setUp()
        help_text = self.call('--help').stdout
        self.commands = re.findall(r'^  ([a-z]+) ', help_text.split('Subcommands:')[1], re.M)
        self.assertIn('completion', self.commands)

    def options_of(self, command):
        found = re.findall(r'^  (?:-\w,)?(--?[a-z-]+)', self.call(command, '--help').stdout, re.M)
        self.assertIn('--help', found)
        return found

    def complete(self, *typed):
        """What bash offers behind these words, of which the last one is not finished."""
        script = ('source <("$0" completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                  '_gpusnap; echo "${COMPREPLY[*]}"')
        done = subprocess.run(['bash', '-c', script, harness.GPUSNAP, 'gpusnap', *typed], check=True,
                              capture_output=True, text=True)
        self.assertEqual(done.stderr, '')
        return done.stdout.split()

    def test_bash_completes(self):
        self.assertEqual(self.complete('rest'), ['restore'])
        self.assertLessEqual(set(self.commands), set(self.complete('')))
        self.assertEqual(self.complete('run', '--wa'), ['--wait'])
        self.assertEqual(self.complete('run', '--wait', ''), ['durable', 'memory'])
        self.assertEqual(self.complete('run', '--wait', 'm'), ['memory'])
        self.assertEqual(self.complete('completion', 'z'), ['zsh'])
        # Names of files, which bash finds itself.
        self.assertEqual(self.complete('run', '--store', ''), [])
        self.assertEqual(self.complete('run', '--', 'program', '--wa'), [])
        for command in self.commands:
            self.assertLessEqual(set(self.options_of(command)), set(self.complete(command, '-')))

    def test_all_shells_know_all_options(self):
        texts = {shell: self.call('completion', shell).stdout for shell in ('zsh', 'fish')}
        for command in self.commands:
            part = texts['zsh'].split('\n    %s)\n' % command)[1].split(';;')[0]
            for option in self.options_of(command):
                self.assertIn("'%s[" % option, part)
                name = re.escape(option.removeprefix('--') if option.startswith('--') else option[1:])
                self.assertRegex(texts['fish'], r'from %s\' -[ls] %s ' % (command, name))
        for shell, text in texts.items():
            if shutil.which(shell):
                subprocess.run([shell, '-n'], input=text, text=True, check=True)

    def test_manual(self):
        text = self.call('manual').stdout.replace('\\-', '-')
        for command in self.commands:
            part = text.split('.SS "%s"\n' % command)[1].split('.S')[0]
            for option in self.options_of(command):
                self.assertIn('.TP\n\\fB%s\\fR' % option, part)
        self.assertIn('.SH EXIT STATUS', text)
        if shutil.which('groff'):
            done = subprocess.run(['groff', '-man', '-Tutf8', '-ww', '-z'], check=True,
                                  input=self.call('manual').stdout, capture_output=True, text=True)
            self.assertEqual(done.stderr, '')


class Starting(CliTest):
    def started_with(self, *arguments, **settings):
        """The environment in which a program finds itself."""
        code = 'import json, os; print(json.dumps(dict(os.environ)))'
        done = self.call(*arguments, '--', PYTHON, '-c', code, **settings)
        self.assertEqual(done.stderr, '')
        return json.loads(done.stdout)

    def test_environment(self):
        found = self.started_with('run', '--every', '5s', '--keep', '3', GPUSNAP_PFS='here',
                                  GPUSNAP_JOB=None, LD_PRELOAD='')
        self.assertEqual(found['LD_PRELOAD'], os.path.realpath(harness.LIBRARY))
        self.assertEqual(found['GPUSNAP_EVERY'], '5s')
        self.assertEqual(found['GPUSNAP_KEEP'], '3')
        self.assertEqual(found['GPUSNAP_PFS'], os.path.join(self.folder, 'here'))
        self.assertRegex(found['GPUSNAP_JOB'], '^' + os.path.basename(PYTHON) + '-[0-9a-f]{8}$')
        self.assertEqual(found['PYTHONHASHSEED'], '0')
        self.assertTrue(os.path.isdir(os.path.join(self.folder, 'here')))

    def test_what_was_set_before_stays(self):
        with open('/proc/self/maps', encoding='utf-8') as file:
            libc = next(line.split()[-1] for line in file if '/libc.so' in line)
        found = self.started_with('run', '--sim', LD_PRELOAD=libc, LD_LIBRARY_PATH='/somewhere',
                                  PYTHONHASHSEED='7', SLURM_JOB_NAME='night', GPUSNAP_JOB='')
        self.assertEqual(found['LD_PRELOAD'], os.path.realpath(harness.LIBRARY) + ':' + libc)
        self.assertEqual(found['LD_LIBRARY_PATH'], os.path.realpath(harness.SIMCUDA) + ':/somewhere')
        self.assertEqual(found['PYTHONHASHSEED'], '7')
        self.assertEqual(found['GPUSNAP_JOB'], 'night')

    def test_settings_that_mean_nothing_are_said_once(self):
        done = self.call('run', '--', PYTHON, '-c', 'import os; print("GPUSNAP_SDD" in os.environ)',
                         GPUSNAP_SDD='/ssd')
        self.assert_one_line(done, 'GPUSNAP_SDD: no such setting')
        self.assertEqual(done.stdout, 'False\n')

    def test_addresses_are_not_randomised(self):
        forbidden = ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE) == -1
        ctypes.CDLL(None).personality(0)
        done = self.call('run', '--', PYTHON, '-c', 'print(open("/proc/self/personality").read())')
        if forbidden:
            self.assert_one_line(done, 'address randomisation')
        else:
            self.assertTrue(int(done.stdout, 16) & ADDR_NO_RANDOMIZE)

    def test_exit_status_is_the_programs(self):
        self.call('run', '--', 'sh', '-c', 'exit 7', status=7)

    def test_program_that_cannot_be_run(self):
        self.assert_one_line(self.call('run', '--', 'no-such-program', status=127), 'PATH')
        self.assert_one_line(self.call('run', '--', './nothing', status=127), './nothing')
        path = os.path.join(self.folder, 'plain')
        with open(path, 'w') as file:
            file.write('exit 0\n')
        self.assert_one_line(self.call('run', '--', './plain', status=126), 'not executable')
        self.assert_one_line(self.call('run', '--', self.folder, status=126), 'not a file')

    def test_script_without_interpreter(self):
        path = os.path.join(self.folder, 'script')
        with open(path, 'w') as file:
            file.write('exit 5\n')
        os.chmod(path, 0o755)
        self.call('run', '--', './script', status=5)

    def test_static_program(self):
        path = os.path.join(self.folder, 'static')
        static_program(path, 7)
        self.assert_one_line(self.call('run', '--', path, status=7), path, 'statically linked')
        self.assert_one_line(self.call('run', '--strict', '--', path, status=harness.BAD_SETTING),
                             path, 'statically linked')

    def test_damaged_program(self):
        path = os.path.join(self.folder, 'cut')
        with open('/bin/sh', 'rb') as file:
            whole = file.read()
        for size in (5, 40, 64, 200, 1000, len(whole) // 2):
            with open(path, 'wb') as file:
                file.write(whole[:size])
            os.chmod(path, 0o755)
            # Strict, so that it is looked at and not started.
            done = self.tool('run', '--strict', '--', path)
            self.assertGreaterEqual(done.returncode, 0, 'the tool crashed at %d bytes' % size)

    @unittest.skipIf(os.geteuid() != 0, 'only root can give a file away')
    def test_setuid_program(self):
        path = os.path.join(self.folder, 'raised')
        os.chmod(self.folder, 0o755)
        shutil.copy(shutil.which('true'), path)
        os.chown(path, 65534, 65534)
        os.chmod(path, 0o4755)
        self.assert_one_line(self.call('run', '--', path), 'setuid')

    def test_program_without_cuda(self):
        self.assert_one_line(self.call('run', '--', 'true'), 'no sign of CUDA')
        done = self.call('run', '--', 'ls', '--strict', '/', status=harness.BAD_SETTING,
                         GPUSNAP_STRICT='1')
        self.assert_one_line(done, 'no sign of CUDA')
        loader = os.path.join(harness.HELPERS, 'wrapped_loader')
        self.assertEqual(self.call('run', '--sim', '--', loader).stderr, '')
        self.assertEqual(done.stdout, '')

    def test_store_that_cannot_be_written(self):
        self.store = os.path.join(self.folder, 'file', 'store')
        with open(os.path.dirname(self.store), 'w', encoding='utf-8') as file:
            file.write('not a folder')
        done = self.call('run', '--', 'sh', '-c', 'echo "ran $LD_PRELOAD"')
        self.assert_one_line(done, self.store, 'without checkpoints')
        self.assertEqual(done.stdout, 'ran \n')
        self.assert_one_line(self.call('run', '--strict', '--', 'sh', '-c', 'true',
                                       status=harness.STORE_UNWRITABLE), self.store)

    def test_launchers_are_not_accused(self):
        for command in (['sh', '-c', 'true'], ['env', 'true'], [PYTHON, '-c', '']):
            self.assertEqual(self.call('run', '--', *command).stderr, '')


class Restoring(CliTest):
    program = (PYTHON, '-c', 'import os; print(os.environ["GPUSNAP_RESTORE"], os.environ["GPUSNAP_JOB"])')

    def test_newest_complete_one(self):
        self.make(2, self.program)
        done = self.call('restore', '--', *self.program)
        self.assertEqual(done.stdout, 'job@2 job\n')
        self.assertEqual(done.stderr, '')
        self.assertEqual(self.call('restore', '--id', 'job@1', '--', *self.program,
                                   GPUSNAP_JOB='another').stdout, 'job@1 job\n')

    def test_damaged_ones(self):
        self.make(2, self.program)
        self.damage('job/e*2/*.manifest')
        done = self.call('restore', '--', *self.program)
        self.assertEqual(done.stdout, 'job@1 job\n')
        self.assert_one_line(done, 'job@2 is damaged', 'job@1')
        self.assert_one_line(self.call('restore', '--id', 'job@2', '--', *self.program,
                                       status=harness.DAMAGED), 'job@2')

    def test_none(self):
        self.assert_one_line(self.call('restore', '--', *self.program,
                                       status=harness.NO_CHECKPOINT), self.store)
        self.make(1, self.program, job='other')
        self.assert_one_line(self.call('restore', '--', *self.program,
                                       status=harness.NO_CHECKPOINT), 'job')

    def test_or_start(self):
        done = self.call('restore', '--or-start', '--', 'sh', '-c', 'echo "$GPUSNAP_RESTORE."; exit 3',
                         status=3)
        self.assertEqual(done.stdout, '.\n')
        self.assert_one_line(done, 'starts afresh')

    def test_other_arguments(self):
        self.make(1, self.program)
        command = self.program + ('more',)
        self.assert_one_line(self.call('restore', '--', *command, status=harness.OTHER_PROGRAM),
                             '--force-arguments')
        command = self.program[:2] + (self.program[2] + ' ',)
        done = self.call('restore', '--', *command, status=harness.OTHER_PROGRAM)
        self.assert_one_line(done, 'argument 2')
        done = self.call('restore', '--force-arguments', '--', *command)
        self.assertEqual(done.stdout, 'job@1 job\n')

    def test_other_build(self):
        path = os.path.join(self.folder, 'program')
        shutil.copy(shutil.which('env'), path)
        self.make(1, (path,))
        with open(path, 'ab') as file:
            file.write(b'changed')
        self.assert_one_line(self.call('restore', '--', path, status=harness.OTHER_PROGRAM),
                             'another build of ' + path, '--force-program')
        self.assertIn('GPUSNAP_RESTORE_FORCE=program\n',
                      self.call('restore', '--force-program', '--', path).stdout)

    def test_other_program(self):
        self.make(1, ('/bin/sh',))
        done = self.call('restore', '--', 'true', status=harness.OTHER_PROGRAM)
        self.assert_one_line(done, os.path.realpath(shutil.which('true')), os.path.realpath('/bin/sh'))

    def test_other_folder_is_said(self):
        self.make(1, self.program)
        os.mkdir(os.path.join(self.folder, 'elsewhere'))
        done = subprocess.run([harness.GPUSNAP, 'restore', '--', *self.program],
                              cwd=os.path.join(self.folder, 'elsewhere'), capture_output=True,
                              text=True, env=self.environment(**self.settings()), check=False)
        self.assertEqual(done.returncode, 0)
        self.assert_one_line(done, os.path.join(self.folder, 'elsewhere'))

    def test_bad_setting(self):
        self.make(1, self.program)
        done = self.call('restore', '--zone', '5', '--', *self.program, status=harness.BAD_SETTING)
        self.assert_one_line(done, 'GPUSNAP_ZONE=5')


class Asking(CliTest):
    def listen(self, pid):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind('\0gpusnap-%d-%d' % (os.geteuid(), pid))
        listener.listen(100)
        self.addCleanup(listener.close)
        return listener

    def ask(self, listener, answer, status, *options):
        """This process answers as the library would."""
        heard = []

        def serve():
            connection, _ = listener.accept()
            asked = connection.recv(1000)
            # Another test asks all that run.
            if asked in (b'gpusnap 1 status\n', b''):
                connection.close()
                return serve()
            heard.append(asked)
            if answer:
                connection.send(answer)
            elif answer is None:
                stop.wait(60)
            connection.close()
            return None

        stop = threading.Event()
        server = threading.Thread(target=serve)
        server.start()
        done = self.call('checkpoint', *options, str(os.getpid()), status=status)
        stop.set()
        server.join()
        self.assertEqual(heard, [b'gpusnap 1 checkpoint\n'])
        return done

    def test_answers(self):
        listener = self.listen(os.getpid())
        done = self.ask(listener, b'gpusnap 1 ok job@4 1048576 2500000\n', 0)
        self.assertEqual(done.stdout, 'job@4: 1.0 MiB, program held 2.5 ms\n')
        done = self.ask(listener, b'gpusnap 1 error the disk is full\n', harness.INTERNAL)
        self.assert_one_line(done, 'the disk is full')
        for hostile in (b'', b'gpusnap 2 ok x 1 2\n', b'\x1b[31m\n', b'x' * 4000):
            self.assert_one_line(self.ask(listener, hostile, harness.INTERNAL))
        self.assert_one_line(self.ask(listener, None, harness.INTERNAL, '--timeout', '50ms'),
                             '--timeout')

    def test_takes_no_more_requests(self):
        """Where nobody takes those that have come."""
        self.listen(os.getpid())
        self.addCleanup(lambda: [each.close() for each in waiting])
        waiting = []
        with self.assertRaises(BlockingIOError):
            while True:
                waiting.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
                waiting[-1].setblocking(False)
                waiting[-1].connect('\0gpusnap-%d-%d' % (os.geteuid(), os.getpid()))
        done = self.call('checkpoint', '--timeout', '50ms', str(os.getpid()),
                         status=harness.INTERNAL)
        self.assert_one_line(done, 'it takes no more requests')
        found = [process for job in json.loads(self.call('status', '--json').stdout)
                 for process in job['processes'] if process['pid'] == os.getpid()]
        self.assertEqual([each['state'] for each in found], ['does not answer'])

    def test_impostor(self):
        sleeper = subprocess.Popen(['sleep', '60'])
        self.addCleanup(sleeper.wait)
        self.addCleanup(sleeper.kill)
        self.listen(sleeper.pid)
        done = self.call('checkpoint', str(sleeper.pid), status=harness.INTERNAL)
        self.assert_one_line(done, 'another process')

    def test_others(self):
        self.assert_one_line(self.call('checkpoint', '999999999', status=harness.INTERNAL),
                             'no such process')
        self.assert_one_line(self.call('checkpoint', str(os.getpid()), status=harness.INTERNAL),
                             'does not run under gpusnap')


class Forcing(harness.TestCase):
    """Each --force option: a restore that is refused without it, and made with it."""

    RECORDED = {'SIMCUDA_MEMORY': '2G', 'SIMCUDA_DEVICES': '2'}

    def setUp(self):
        super().setUp()
        self.program = os.path.join(self.folder, 'corners')
        shutil.copy(harness.app('corners'), self.program)

    def write_value(self, text):
        with open(os.path.join(self.working_folder, 'value.txt'), 'w', encoding='ascii') as file:
            file.write(text)

    def saved(self, command):
        """Runs a program undisturbed, and with checkpoints to its end; returns the first run."""
        self.program_settings = self.RECORDED
        self.write_value('4\n')
        reference = self.reference(command)
        self.finish(self.start_saved(command, GPUSNAP_EVERY='syncs:50'))
        self.assertTrue(self.complete())
        return reference

    def refused(self, status, word, run):
        self.assertEqual(run.wait(self.timeout), status, run.errors)
        self.assertEqual(len(run.errors.splitlines()), 1, run.errors)
        self.assertIn(word, run.errors)

    def needs(self, option, status, command, **changed):
        """The restore, made with the option alone."""
        self.refused(status, option, self.start_restored(command, **changed))
        for other in set(forces(self.tool('restore', '--help').stdout)) - {option}:
            self.refused(status, option, self.start_restored(command, options=[other], **changed))
        return self.finish(self.start_restored(command, options=[option], **changed))

    def test_program(self):
        command = [self.program, 'plain', '200']
        reference = self.saved(command)
        with open(self.program, 'ab') as file:
            file.write(b'changed')
        run = self.needs('--force-program', harness.OTHER_PROGRAM, command)
        self.assert_same_output(run, reference)

    def test_arguments(self):
        reference = self.saved([self.program, 'plain', '200'])
        run = self.needs('--force-arguments', harness.OTHER_PROGRAM, [self.program, 'plain', '0200'])
        self.assert_same_output(run, reference)

    def test_inputs(self):
        command = [self.program, 'data_by_file', '200']
        reference = self.saved(command)
        self.write_value('004\n')
        run = self.needs('--force-inputs', harness.OTHER_PROGRAM, command)
        self.assert_same_output(run, reference)

    def test_device(self):
        command = [self.program, 'plain', '200']
        reference = self.saved(command)
        run = self.needs('--force-device', harness.IMPOSSIBLE, command, SIMCUDA_MEMORY='1G')
        self.assert_same_output(run, reference)

    def test_devices(self):
        """A program that used its second device starts, and diverges where it needs it again."""
        command = [harness.app('two_devices'), '60']
        self.program_settings = self.RECORDED
        self.finish(self.start_saved(command, GPUSNAP_EVERY='syncs:120'))
        self.refused(harness.IMPOSSIBLE, '--force-devices',
                     self.start_restored(command, SIMCUDA_DEVICES='1'))
        self.refused(harness.DIVERGED, 'expected cuCtxCreate_v2(0, 1)',
                     self.start_restored(command, options=['--force-devices'], SIMCUDA_DEVICES='1'))

    def test_data(self):
        """Neither the file's change nor the data that it leads to is passed over by the other."""
        command = [self.program, 'data_by_file', '200']
        self.saved(command)
        self.write_value('5\n')
        self.refused(harness.OTHER_PROGRAM, '--force-inputs',
                     self.start_restored(command, options=['--force-data']))
        self.refused(harness.DIVERGED, '--force-data',
                     self.start_restored(command, options=['--force-inputs']))
        self.finish(self.start_restored(command, options=['--force-inputs', '--force-data']))

    def test_every_option_is_tested(self):
        tested = {'--force-' + name[len('test_'):] for name in dir(self) if name.startswith('test_')}
        self.assertLessEqual(set(forces(self.tool('restore', '--help').stdout)), tested)


def forces(text):
    """The --force options that a help text names."""
    return sorted(set(re.findall(r'--force-[a-z]+', text)))


if __name__ == '__main__':
    harness.main()
