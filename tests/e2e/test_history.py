#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that write checkpoints by themselves and read them back (libgpusnap-veloc.so).

Every program checks what it reads byte by byte; the tests kill programs, damage files, and look at
what later processes find. Nothing is preloaded, but in the tests of `Preloaded`.
"""
import glob
import itertools
import os
import re
import shutil
import signal
import time

import harness
import mpi_job
import patience

ROUNDTRIP = harness.app('veloc/roundtrip')
ADJOINT = harness.app('veloc/adjoint')
SHIM = os.path.join(harness.HELPERS, 'libfile_faults.so')
ORDERS = ('sequential', 'reverse', 'irregular')
HINTS = ('none', 'next', 'all', 'wrong')
SIZES = ('uniform', 'variable')
MEMORIES = ('host', 'device')
EVICTORS = ('score', 'fifo', 'lru')
# Two checkpoints of 64 KiB fit into the device's cache, and five into the host's.
TINY = {'gpu_cache': '192K', 'host_cache': '384K'}


class Histories:
    """Shared by all tests here, besides a test case of the harness: its store is the persistent
    folder."""

    def config(self, name='history', **keys):
        """The path of a configuration file. A key that is None is left out."""
        values = {**TINY, 'persistent': self.store, 'scratch': self.scratch, **keys}
        path = os.path.join(self.folder, name + '.cfg')
        with open(path, 'w', encoding='utf-8') as file:
            file.writelines('%s = %s\n' % each for each in values.items() if each[1] is not None)
        return path

    @property
    def scratch(self):
        return self.store + '-scratch'

    def numbers(self, run, word):
        """The numbers that follow the word at the beginning of lines, in order. The last line of a
        killed run may be cut off."""
        lines = run.output.decode().split('\n')[:-1]
        return [int(line.split()[1]) for line in lines if line.split()[:1] == [word]]

    def wait_for_number(self, run, word, count):
        """Until so many lines begin with the word; false if the run ends first."""
        left = patience.Patience(self.timeout)
        while not left.is_over():
            ended = run.ended()
            if len(self.numbers(run, word)) >= count:
                return True
            if ended:
                return False
            time.sleep(0.002)
        self.fail('no end and no %s after %d s' % (word, self.timeout))
        return False

    def kill_after(self, run, word, most_lines):
        """At some moment after some such line. False: the run ended before."""
        seen = self.wait_for_number(run, word, self.random.randint(0, most_lines))
        return seen and not run.ends_within(self.random.uniform(0, 0.05)) and run.kill()

    def fails(self, command, *words, **settings):
        """The program ends with 1 after one line that holds the words."""
        run = self.finish(self.start_plain(command, **settings), 1)
        lines = run.errors.splitlines()
        self.assertEqual(len(lines), 1, run.errors)
        for word in words:
            self.assertIn(word, lines[0])
        return run

    def is_sound(self):
        """Checks the store with the tool; returns the checkpoints that are complete."""
        listed = self.checkpoints()
        for each in listed:
            self.assertIn(each['kind'], ('history', 'unknown'), each)
        complete = self.complete()
        for each in complete:
            shown = self.show(each['id'])
            self.assertEqual((shown['state'], len(shown['ranks'])), ('complete', each['ranks']))
            verified = self.tool('verify', each['id'])
            self.assertEqual(verified.returncode, 0, verified.stderr)
        return complete


class Orders(Histories, harness.TestCase):
    def run_all(self, commands):
        """A few at a time: they wait for the disk."""
        for first in range(0, len(commands), 4):
            runs = [self.start_plain(command()) for command in commands[first:first + 4]]
            for run in runs:
                self.finish(run)
                shutil.rmtree(os.path.dirname(run.command[1]))

    def roundtrip(self, options, **keys):
        """The command, with folders of its own."""
        self.begin_store()
        self.store = os.path.join(self.store, 'persistent')
        os.makedirs(os.path.dirname(self.store))
        path = self.config(os.path.join(os.path.dirname(self.store), 'history'), **keys)
        return [ROUNDTRIP, path, '--seed', str(self.random.randrange(1 << 30))] + options

    def test_every_order(self):
        number = ['--number', '60' if harness.SOAK else '20']
        commands = []
        for order, hints, sizes, memory, waits in itertools.product(
                ORDERS, HINTS, SIZES, MEMORIES, ([], ['--wait'])):
            options = number + waits + ['--order', order, '--hints', hints, '--sizes', sizes,
                                        '--memory', memory]
            commands.append(lambda options=options: self.roundtrip(options))
        if not harness.SOAK:
            commands = self.random.sample(commands, 6)
        self.run_all(commands)

    def random_roundtrip(self):
        choose = self.random.choice
        keys = {
            'evictor': choose(EVICTORS), 'discard_consumed': choose(('true', 'false')),
            'mode': choose(('sync', 'async')), 'hints': choose(('true', 'false')),
            'compress': choose(('auto', 'off', '3')), 'gpu_cache': choose(('0', '64K', '192K')),
            'host_cache': choose(('64K', '384K', '1M')),
        }
        if self.random.random() < 0.3:
            keys['scratch'] = None
        options = ['--passes', choose('123'), '--order', choose(ORDERS), '--hints', choose(HINTS),
                   '--sizes', choose(SIZES), '--memory', choose(MEMORIES),
                   '--bytes', choose(('1', '300', '50000', '100000')), '--number', '16',
                   '--files', choose(('none', 'written'))]
        if keys['discard_consumed'] == 'true':
            options[1] = '1'  # what was read need not be there any more
        return self.roundtrip(options, **keys)

    def test_settings(self):
        self.run_all([self.random_roundtrip] * (300 if harness.SOAK else 5))


class Kills(Histories, harness.TestCase):
    """A process is killed at any moment; another one reads what is left."""

    def setUp(self):
        super().setUp()
        self.first = 0  # number of a run's first version
        self.oldest_seeds = {}  # by version: that of the run that last told that it was durable

    def written_and_killed(self, config, seed, *options):
        """Whether it was killed; what it has told counts."""
        every = self.random.choice((1, 3, 7))
        run = self.start_plain([ROUNDTRIP, config, '--seed', str(seed), '--number', '42', '--bytes',
                                '30000', '--sizes', 'variable', '--first', str(self.first),
                                '--durable', str(every), *options])
        killed = self.kill_after(run, 'durable', 42 // every)
        if not killed:
            self.finish(run)
        for last in self.numbers(run, 'durable'):
            for version in range(self.first, last + 1):
                self.oldest_seeds[version] = seed
        return killed

    def survivors(self, config):
        """The seeds of the checkpoints that another process finds, by version."""
        run = self.finish(self.start_plain([ROUNDTRIP, config, '--survivors', '--bytes', '30000',
                                            '--sizes', 'variable',
                                            '--memory', self.random.choice(MEMORIES)]))
        found = dict(re.findall(r'^restored (\d+) of seed (\d+)$', run.output.decode(), re.MULTILINE))
        found = {int(version): int(seed) for version, seed in found.items()}
        self.assertEqual(self.numbers(run, 'newest'), [max(found, default=-1)])
        return found

    def test_killed_at_any_moment(self):
        kills = 60 if harness.SOAK else 2
        killed = runs = 0
        found = {}
        config = self.config()
        while killed < kills:
            self.assertLess(runs, 30 * kills, 'ended each time before it could be killed')
            runs += 1
            # The versions that are there once more, or others after them.
            goes_on = 0 < len(found) < 150 and self.random.random() < 0.5
            self.first = max(found) + 1 if goes_on else 0
            killed += self.written_and_killed(
                config, runs, '--memory', self.random.choice(MEMORIES),
                '--order', self.random.choice(ORDERS), '--hints', self.random.choice(HINTS))
            found = self.survivors(config)
            for version, oldest in self.oldest_seeds.items():
                self.assertGreaterEqual(found.get(version, -1), oldest, 'version %d' % version)
        print('%d of %d runs killed, %d checkpoints left' % (killed, runs, len(found)))
        self.is_sound()

    def test_killed_at_each_call(self):
        """To the files, of a run that writes the same versions again."""
        both = os.path.join(self.folder, 'both')
        self.store = os.path.join(both, 'store')
        shim = {'LD_PRELOAD': SHIM, 'FILE_FAULTS_FOLDER': both}
        config = self.config()
        command = [ROUNDTRIP, config, '--number', '3', '--bytes', '30000', '--sizes', 'variable',
                   '--durable', '1']
        report = os.path.join(self.folder, 'calls')
        self.finish(self.start_plain(command, FILE_FAULTS_REPORT=report, **shim))
        calls = harness.file_faults(report)[0]
        self.assertGreater(calls, 20)
        numbers = range(1, calls + 5)
        if not harness.SOAK:
            numbers = sorted(self.random.sample(numbers, 8))
        killed = 0
        for seed, number in enumerate(numbers, 2):
            run = self.start_plain(command + ['--seed', str(seed)], FILE_FAULTS='kill',
                                   FILE_FAULTS_AT=number, **shim)
            status = run.wait(self.timeout)
            self.assertIn(status, (0, -signal.SIGKILL), run.errors)
            killed += status != 0
            durable = self.numbers(run, 'durable')
            found = self.survivors(config)
            self.assertEqual(sorted(found), [0, 1, 2])
            for version in durable:
                self.assertEqual(found[version], seed)
        self.assertGreater(killed, len(numbers) // 2)


class Preloaded(Histories, harness.TestCase):
    """The program is checkpointed as a whole, too, killed and restored: it makes its calls again, and
    finds what it had found."""

    def setUp(self):
        super().setUp()
        self.history = os.path.join(self.folder, 'history')
        self.earlier = None  # what writes the checkpoints that are there when the program starts

    def begin_store(self):
        super().begin_store()
        shutil.rmtree(self.history, ignore_errors=True)
        if self.earlier:
            self.finish(self.start_plain(self.earlier))

    def killed_and_restored(self, command, every):
        self.begin_store()
        reference = self.reference(command)
        for _ in range(harness.KILLS):
            self.saved_and_killed(command, reference, every)
            again = self.start_restored(command, GPUSNAP_EVERY=every)
            if again.ends_within(self.random.uniform(0, reference.seconds)) or not again.kill():
                self.finish(again)
                self.assert_same_output(again, reference)
            self.settle()
            self.assert_same_output(self.finish(self.start_restored(command)), reference)

    def config(self, **keys):
        return super().config(persistent=self.history + '/persistent',
                              scratch=self.history + '/scratch', **keys)

    def test_adjoint(self):
        self.killed_and_restored([ADJOINT, self.config(), '--steps', '30', '--cells', '1',
                                  '--hints', 'all'], 'syncs:7')

    def test_roundtrip(self):
        self.killed_and_restored([ROUNDTRIP, self.config(), '--memory', 'device', '--order',
                                  'irregular', '--number', '16'], 'syncs:5')

    def test_resumed(self):
        """A replay finds the newest of the earlier run, as the program did, not its own."""
        config = self.config()
        self.earlier = [ROUNDTRIP, config, '--number', '5', '--passes', '0']
        self.killed_and_restored([ROUNDTRIP, config, '--memory', 'device', '--resume', '--first', '5',
                                  '--number', '16'], 'syncs:3')


class Folders(Histories, harness.TestCase):
    """The contents of the folders, and the effects of damage and lack of room."""

    def write(self, config, *options):
        return self.finish(self.start_plain([ROUNDTRIP, config, '--number', '12', '--passes', '0',
                                             *options]))

    def survivors(self, config, *options):
        run = self.finish(self.start_plain([ROUNDTRIP, config, '--survivors', *options]))
        return self.numbers(run, 'restored')

    def test_two_processes_share_folders(self):
        config = self.config()
        runs = [self.start_plain([ROUNDTRIP, config, '--id', str(number), '--seed', str(number),
                                  '--number', '12', '--order', 'reverse']) for number in (0, 1)]
        for run in runs:
            self.finish(run)
        for number in (0, 1):
            run = self.finish(self.start_plain([ROUNDTRIP, config, '--survivors', '--id',
                                                str(number)]))
            expected = ['restored %d of seed %d' % (version, number) for version in range(11, -1, -1)]
            self.assertEqual(run.output.decode().splitlines()[1:-1], expected)
        self.assertEqual({each['job'] for each in self.is_sound()}, {'roundtrip', 'roundtrip-1'})

    def test_two_processes_of_one_name(self):
        config = self.config()
        first = self.start_plain([ROUNDTRIP, config, '--number', '30', '--durable', '1'])
        self.assertTrue(self.wait_for_number(first, 'durable', 1))
        os.kill(first.process.pid, signal.SIGSTOP)
        self.assertFalse(first.ended())
        self.fails([ROUNDTRIP, config, '--number', '2'], 'another run writes')
        os.kill(first.process.pid, signal.SIGCONT)
        self.finish(first)

    def test_max_versions(self):
        config = self.config(max_versions=3)
        self.write(config, '--wait')
        self.assertEqual(self.survivors(config), [11, 10, 9])
        self.assertEqual([each['epoch'] for each in self.is_sound()], [11, 10, 9])
        self.assertEqual(len(glob.glob(self.scratch + '/roundtrip/e*')), 3)

    def test_what_the_tool_says(self):
        config = self.config()
        self.write(config, '--memory', 'device', '--first', '7')
        complete = self.is_sound()
        self.assertEqual([(each['id'], each['kind']) for each in complete],
                         [('roundtrip@%d' % version, 'history') for version in range(18, 6, -1)])
        ranges = self.show('roundtrip@7')['ranks'][0]['ranges']
        self.assertEqual([(each['kind'], each['name'], each['size']) for each in ranges],
                         [('region', '0', 8), ('region', '1', 65536)])
        before = self.stored()
        refused = self.tool('restore', '--sim', '--id', 'roundtrip@7', '--', ROUNDTRIP, config)
        self.assertEqual(refused.returncode, harness.NO_CHECKPOINT)
        self.assertEqual((refused.stdout, len(refused.stderr.splitlines())), ('', 1), refused.stderr)
        self.assertEqual(self.stored(), before)

    def damage(self, folder, version, kind):
        """One bit in the middle of the checkpoint's segment or manifest."""
        path, = glob.glob(os.path.join(folder, 'roundtrip', 'e%d' % version, 'r0*.' + kind))
        with open(path, 'r+b') as file:
            middle = os.path.getsize(path) // 2
            file.seek(middle)
            byte = file.read(1)
            file.seek(middle)
            file.write(bytes([byte[0] ^ 4]))

    def test_files_beside_memory(self):
        config = self.config()
        # The first one that is read has been written just before.
        for options in (['--order', 'reverse', '--memory', 'device'], ['--survivors']):
            self.finish(self.start_plain([ROUNDTRIP, config, '--files', 'written', *options]))
        self.assertEqual(os.listdir(self.scratch + '/roundtrip/routed'), [])
        ranges = self.show('roundtrip@2')['ranks'][0]['ranges']
        self.assertEqual([(each['kind'], each['name']) for each in ranges],
                         [('region', '0'), ('region', '1'), ('file', 'extra')])
        self.is_sound()

    def test_file_that_is_not_written(self):
        config = self.config()
        self.fails([ROUNDTRIP, config, '--files', 'missing', '--durable', '1'], 'extra')
        self.assertEqual(self.survivors(config), [1, 0])

    def test_names(self):
        """Two names never share a folder."""
        for name in ('', 'a/b', '../a', 'a b', 'n' * 200):
            self.fails([ROUNDTRIP, self.config(), '--name', name], 'name')
        self.write(self.config(), '--name', 'A.b_c-1')
        self.assertEqual({each['job'] for each in self.is_sound()}, {'A.b_c-1'})

    def test_end_without_drain(self):
        """A checkpoint that nobody has read yet is on disk at the end."""
        config = self.config()
        self.write(config, '--no-drain', '--memory', 'device')
        self.assertEqual(self.survivors(config), list(range(11, -1, -1)))
        other = self.config(scratch=self.folder + '/others', persistent=self.folder + '/other')
        self.finish(self.start_plain([ROUNDTRIP, other, '--no-drain', '--order', 'reverse']))
        self.survivors(other)

    def test_damage(self):
        config = self.config()
        self.write(config)
        for version, kind in ((11, 'segment'), (6, 'manifest'), (3, 'segment')):
            self.damage(self.scratch, version, kind)
        everything = list(range(11, -1, -1))
        for memory in MEMORIES:
            self.assertEqual(self.survivors(config, '--memory', memory), everything)
        # The damage is real: without the other folder it is told.
        scratch_only = self.config('scratch', scratch=None, persistent=self.scratch)
        self.fails([ROUNDTRIP, scratch_only, '--survivors'], '/e11/', 'damaged')
        # A checkpoint whose manifest cannot be read is none.
        self.damage(self.store, 6, 'manifest')
        self.assertEqual(self.survivors(config), [each for each in everything if each != 6])
        self.damage(self.store, 3, 'segment')
        run = self.fails([ROUNDTRIP, config, '--survivors'], '/e3/', 'damaged')
        self.assertEqual(self.numbers(run, 'restored')[-1], 4)

    def test_lost_scratch(self):
        config = self.config()
        self.write(config)
        shutil.rmtree(self.scratch)
        self.assertEqual(self.survivors(config), list(range(11, -1, -1)))

    def full_disk(self, folder, options):
        report = os.path.join(self.folder, 'calls')
        shim = {'LD_PRELOAD': SHIM,
                'FILE_FAULTS_FOLDER': folder, 'FILE_FAULTS': 'full',
                'FILE_FAULTS_AT': self.random.randint(10, 60), 'FILE_FAULTS_REPORT': report}
        run = self.start_plain([ROUNDTRIP, self.config(), *options], **shim)
        status = run.wait(self.timeout)
        self.assertGreater(harness.file_faults(report)[1], 0)
        return run, status

    def test_full_scratch(self):
        """Checkpoints go to the other folder at once."""
        for memory in MEMORIES:
            with self.store_of_its_own():
                run, status = self.full_disk(self.scratch, ['--memory', memory, '--order', 'reverse'])
                self.assertEqual((status, run.errors), (0, ''))
                shutil.rmtree(self.scratch)
                self.assertEqual(len(self.survivors(self.config())), 24)

    def test_full_disk(self):
        """Checkpoints that were durable before stay."""
        for options in ([], ['--memory', 'device']):
            with self.store_of_its_own():
                run, status = self.full_disk(self.store, options + ['--durable', '1'])
                self.assertEqual((status, len(run.errors.splitlines())), (1, 1), run.errors)
                self.assertIn('No space left', run.errors)
                durable = self.numbers(run, 'durable')
                survivors = self.survivors(self.config())
                self.assertEqual(sorted(set(durable) - set(survivors)), [])

    def test_folders_that_cannot_be(self):
        blocked = os.path.join(self.folder, 'file')
        with open(blocked, 'w', encoding='utf-8'):
            pass
        config = self.config(persistent=blocked + '/store', scratch=None)
        self.fails([ROUNDTRIP, config], blocked)
        self.fails([ROUNDTRIP, os.path.join(self.folder, 'nothing.cfg')], 'nothing.cfg')
        self.fails([ROUNDTRIP, self.config(evictor='best')], 'history.cfg', 'line', 'evictor')
        self.fails([ROUNDTRIP, self.config(persistent=None)], 'persistent')


class Adjoint(Histories, harness.TestCase):
    SIZE = ['--steps', '96', '--width', '48', '--height', '32']

    def result(self, config, *options):
        """The lines of the passes and of the check, which the program makes itself."""
        run = self.finish(self.start_plain([ADJOINT, config, *self.SIZE, *options]))
        lines = run.output.decode().splitlines()
        self.assertEqual(sum(line.startswith('cell ') for line in lines), 3, lines)
        return lines

    def test_gradient(self):
        """The same bits as with wavefields that never leave the memory."""
        expected = self.result(self.config(), '--in-memory')
        choices = list(itertools.product(('none', 'next', 'all'), SIZES, ([], ['--wait'])))
        for hints, sizes, waits in choices if harness.SOAK else self.random.sample(choices, 2):
            with self.store_of_its_own():
                # A wavefield has 12 KiB: caches of a few.
                config = self.config(gpu_cache='40K', host_cache='100K')
                self.assertEqual(expected, self.result(config, '--hints', hints, '--sizes', sizes,
                                                       *waits))
                self.assertEqual(len(self.complete()), 96)


class Heat:
    """Ranks of an MPI job, killed until the job is done."""

    # The number of checkpoints, each after 10 iterations.
    NUMBER = 40 if harness.SOAK else 10

    def setUp(self):
        super().setUp()
        if not os.path.exists(harness.app('veloc/heat.' + self.mpi)):
            self.skipTest('there is no compiler for %s' % self.mpi)

    def heat(self, config, mode):
        program = [harness.app('veloc/heat.' + self.mpi), config, str(10 * self.NUMBER + 5), '10', mode]
        return self.launched(4, program)

    def killed_until_it_ends(self, config, mode):
        """The last run, and how many were killed before it."""
        durable = killed = 0
        while True:
            run = self.start_plain(self.heat(config, mode))
            wanted = killed < 2 * harness.KILLS
            is_killed = wanted and self.kill_after(run, 'durable', 4)
            if not is_killed:
                self.finish(run)
            for restored in self.numbers(run, 'restored'):
                self.assertGreaterEqual(restored, durable)
            durable = max(self.numbers(run, 'durable') + [durable])
            if not is_killed:
                return run, killed
            killed += 1

    def result(self, run):
        line = run.output.decode().splitlines()[-1]
        self.assertRegex(line, '^change .*, checksum [0-9a-f]{16}$')
        return line

    def check(self, mode):
        self.begin_store()
        expected = self.result(self.finish(self.start_plain(self.heat(self.config(), mode))))
        self.assertEqual(len(self.complete()), self.NUMBER)
        killed = 0
        for _ in range(30):
            self.begin_store()
            run, killed = self.killed_until_it_ends(self.config(), mode)
            self.assertEqual(self.result(run), expected)
            if killed > 0:
                break
        self.assertGreater(killed, 0, 'ended each time before it could be killed')
        # A checkpoint that a killed run left on the scratch folder is restored from there.
        again = self.finish(self.start_plain(self.heat(self.config(), mode)))
        self.assertEqual(self.numbers(again, 'restored'), [self.NUMBER])
        self.assertEqual(self.result(again), expected)
        newest = self.is_sound()[0]
        self.assertGreaterEqual(newest['epoch'], max(self.numbers(run, 'durable') + [0]))
        self.assertEqual(newest['ranks'], 4)

    def test_memory(self):
        self.check('memory')

    def test_files(self):
        self.check('files')
        self.assertEqual(glob.glob(self.scratch + '/heat/routed/*'), [])


class HeatOpenMpi(Heat, Histories, mpi_job.TestCase):
    mpi = 'openmpi'


class HeatMpich(Heat, Histories, mpi_job.TestCase):
    mpi = 'mpich'


if __name__ == '__main__':
    harness.main()
