#!/usr/bin/env python3
"""MPI programs of tests/apps/mpi: undisturbed, watched, killed in part or as a whole, and restored:

  test_mpi.py {openmpi,mpich} NAME     one program
  test_mpi.py {openmpi,mpich} jobs     what is not about one program

Each program is killed and restored with either MPI; with GPUSNAP_SOAK=1 34 times, a restored run up to five
times again.
"""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import harness
import mpi_job
import stopping

# For each program the steps of a short run, and every how many collectives it is saved; and numbers of
# ranks: one that is always tested with Open MPI, and those that chance chooses from.
PROGRAMS = {
    'halo': ('200', 20, 4, (1, 2)),
    'ring': ('160', 12, 2, (1, 4, 8)),
    'uneven': ('160', 15, 8, (1, 2, 4)),
    'arrival': ('160', 12, 4, (1, 2, 8)),
    'wave_mpi': ('250', 8, 1, (2, 4)),
    'wave_f08': ('250', 8, 4, (1, 2)),
    'aware': ('120', 10, 2, (1, 4)),
    'neighbours': ('40', 10, 2, (2, 4)),
    'reach_mpi': ('120', 10, 4, (1, 2)),
    'reach_f08': ('120', 10, 2, (1, 4)),
}
# They pass device memory to MPI.
AWARE = ('aware', 'reach_mpi', 'reach_f08')
KILLS = 34 if harness.SOAK else 1
VICTIMS = ['rank', 'ranks', 'launcher', 'backend']
CHECK_ARRIVAL = os.path.join(harness.SOURCE, 'tests', 'apps', 'mpi', 'check_arrival.py')

# Microseconds.
CHOICE = re.compile(r'auto: the next checkpoint is due .*; stall (\d+) us, on its way for (\d+) us')


def whole_lines(text):
    return text.decode().split('\n')[:-1]


def arrival_launches(lines):
    """For each line of a rank of `arrival` how many kernels it had launched before it."""
    made, before = 0, []
    for line in lines:
        words = line.split()
        if 'value' in words:
            made += 3
        elif 'order' in words:
            # One for each message, one for each group, and two for what follows.
            made += words.index('polls') - words.index('order') - 2 + 2
        before.append(made)
    return before


class Undisturbed:
    def __init__(self, run, results, launches):
        self.run, self.results, self.launches = run, results, launches


class Program(mpi_job.TestCase):
    name = None

    def setUp(self):
        super().setUp()
        steps, every, always, self.more = PROGRAMS[self.name]
        self.always = always
        self.every = 'barriers:%d' % every
        self.command = self.program(self.name, steps)
        self.references = {}
        # For the job that is killed and restored: its newest checkpoint, and for each epoch the
        # files of the run that took it.
        self.newest, self.origins = None, {}
        if self.name in AWARE:
            # The MPIs of distributions take no device memory by themselves.
            library = harness.app('mpi/%s/libcuda_aware.so' % self.mpi)
            for rank in range(8):
                self.set_rank(rank, LD_PRELOAD='$LD_PRELOAD:' + library)

    def undisturbed(self, ranks):
        if ranks not in self.references:
            run = self.reference(self.launched(ranks, self.command))
            results = self.results()
            self.assertEqual(sorted(results), ['out.%d' % rank for rank in range(ranks)])
            for text in (run.output, *results.values()):
                self.assertTrue(text.endswith(b'ok\n'), text[-200:])
                self.assertGreater(len(text.splitlines()), 2)
            self.references[ranks] = Undisturbed(run, results, self.launches(run, ranks))
        return self.references[ranks]

    # ---- what came out ----

    def assert_right(self, run, ranks):
        """Checks a run that has ended by itself."""
        reference = self.undisturbed(ranks)
        self.assert_same_output(run, reference.run)
        if self.name != 'arrival':
            self.assert_same_results(self.results(), reference.results)
            return
        checked = subprocess.run([sys.executable, CHECK_ARRIVAL, self.working_folder],
                                 capture_output=True, text=True, check=False)
        self.assertEqual((checked.returncode, checked.stdout), (0, 'consistent\n'), checked.stderr)

    def assert_same_results(self, results, expected):
        self.assertEqual(sorted(results), sorted(expected))
        for name, text in results.items():
            self.assertEqual(whole_lines(text), whole_lines(expected[name]), name)
            self.assertEqual(text, expected[name], name)

    def assert_right_so_far(self, results, ranks):
        """Checks a run that was killed."""
        if self.name == 'arrival':
            return
        for name, text in results.items():
            expected = self.undisturbed(ranks).results[name]
            self.assertTrue(expected.startswith(text), '%s: %r' % (name, text[-200:]))

    def assert_continues(self, results, origin, checkpoint):
        """For a run that depends on more than its input: the lines from before the cut are the same
        in a run that goes on from there, as far as that one came."""
        for rank, shown in enumerate(checkpoint['shown']):
            name = 'out.%d' % rank
            told = whole_lines(origin[name])
            told = [line for line, made in zip(told, arrival_launches(told))
                    if made < shown['launches']]
            again = whole_lines(results.get(name, b''))
            if b'ok\n' in results.get(name, b''):
                self.assertGreaterEqual(len(again), len(told), name)
            self.assertEqual(again[:len(told)], told[:len(again)], name)

    def assert_no_launch_repeated(self, run, ranks, checkpoint):
        shown = checkpoint['shown']
        self.assertEqual([each['rank'] for each in shown], list(range(ranks)))
        executed = self.launches(run, ranks)
        for rank in range(ranks):
            launched = self.undisturbed(ranks).launches[rank]
            if self.name == 'arrival':
                launched = arrival_launches(whole_lines(self.results()['out.%d' % rank]))[-1]
            self.assertEqual(executed[rank], launched - shown[rank]['launches'], 'rank %d' % rank)

    def assert_no_complaint(self, run):
        self.assertEqual([line for line in run.errors.splitlines()
                          if line.startswith('gpusnap') and not line.startswith('gpusnap: info: ')],
                         [])

    # ---- killing ----

    def strike(self, run, victim, latest):
        """After some time SIGKILL to the victim; whatever is left then ends, too. False: the run had
        ended by itself."""
        delay = self.random.uniform(0, latest)
        time.sleep(delay)
        self.wait_until('no rank', lambda: run.ended() or run.ranks())
        if run.ended():
            self.finish(run)
            return False
        ranks = sorted(run.ranks().values(), key=lambda each: each.number)
        if victim == 'backend':
            self.backends.kill()
            if self.random.random() < 0.5:
                self.finish(run)
                return True
            time.sleep(self.random.uniform(0, latest))
        elif victim == 'launcher':
            run.process.kill()
        else:
            for each in ranks if victim == 'ranks' else self.random.sample(ranks, min(len(ranks), 1)):
                each.signal(signal.SIGKILL)
        # The processes that are left end by themselves, or are ended a little later.
        deadline = time.monotonic() + self.random.uniform(0, 0.5)
        while not run.ended() and time.monotonic() < deadline:
            time.sleep(0.01)
        run.kill()
        print('%s: %s killed after %.3f s' % (self.id(), victim, delay), flush=True)
        return victim == 'backend' or run.process.returncode != 0

    def struck(self, ranks, victim, latest):
        """Another run of the job, from its newest checkpoint where there is one. False: it ended
        before anything could be killed."""
        command = self.launched(ranks, self.command)
        before = self.newest
        if before is None:
            run = self.start_saved(command, GPUSNAP_EVERY=self.every)
            self.wait_for_checkpoint(run, ranks=ranks)
        else:
            run = self.start_restored(command, GPUSNAP_EVERY=self.every)
        struck = self.strike(run, victim, latest)
        self.assert_no_complaint(run)
        results = self.results()
        if run.process.returncode == 0:
            self.assert_right(run, ranks)
        self.assert_right_so_far(results, ranks)
        self.settle()
        if self.name == 'arrival' and before is not None:
            self.assert_continues(results, self.origins[before['epoch']], before)
        complete = self.complete()
        self.assertGreater(len(complete), 0, harness.tail(run.errors))
        for each in complete:
            self.origins.setdefault(each['epoch'], results)
        # A run that goes on from there may have newer ones in its place in the end.
        self.newest = {**complete[0], 'shown': self.show(complete[0]['id'])['ranks']}
        if before is not None:
            self.assertGreaterEqual(self.newest['epoch'], before['epoch'])
        return struck

    def killed_and_restored(self, ranks, victims):
        seconds = self.undisturbed(ranks).run.seconds
        self.newest, self.origins = None, {}
        for victim in victims:
            tries = 0
            while not self.struck(ranks, victim, seconds / 3 ** tries):
                tries += 1
                self.assertLess(tries, 30, 'it ends each time before anything can be killed')
        run = self.finish(self.start_restored(self.launched(ranks, self.command), GPUSNAP_LOG='info'))
        self.assert_right(run, ranks)
        self.assert_no_complaint(run)
        self.assertEqual(re.findall(' restored (.*?): ', run.errors), [self.newest['id']] * ranks)
        if self.name == 'arrival':
            self.assert_continues(self.results(), self.origins[self.newest['epoch']], self.newest)
        self.assert_no_launch_repeated(run, ranks, self.newest)
        self.verify_all()
        self.leaves_nothing()

    # ---- tests ----

    def test_same_output_with_the_library(self):
        ranks = self.random.choice([1, 2, 4])
        self.undisturbed(ranks)
        # Where nothing has to be set for each rank, as users write it.
        directly = self.name not in AWARE
        run = self.finish(self.start_saved(self.launched(ranks, self.command, directly=directly),
                                           GPUSNAP_EVERY=self.every, GPUSNAP_LOG='info'))
        self.assert_right(run, ranks)
        self.assertEqual([line for line in run.errors.splitlines()
                          if not line.startswith('gpusnap: info: ')], [])
        self.assertGreater(len(self.complete()), 0)
        for each in self.checkpoints():
            self.assertEqual((each['state'], each['ranks']), ('complete', ranks), each)
        self.verify_all()
        self.leaves_nothing()

    def test_killed_and_restored(self):
        kills, victims = 0, []
        while kills < KILLS:
            is_first = kills == 0 and self.mpi == 'openmpi'
            ranks = self.always if is_first else self.random.choice(self.more)
            now = []
            for _ in range(min(self.random.randrange(1, 6), KILLS - kills)):
                # Each of them once before any of them again.
                victims = victims or self.random.sample(VICTIMS, len(VICTIMS))
                now.append(victims.pop())
            with self.subTest(kills=kills, ranks=ranks, victims=now):
                self.begin_store()
                self.killed_and_restored(ranks, now)
            kills += len(now)


class Ring(mpi_job.TestCase):
    """Messages are on their way across barriers, of which there is one in each step."""

    def setUp(self):
        super().setUp()
        self.command = self.program('ring', '160')
        self.every = 'barriers:12'

    def undisturbed(self, ranks, command=None, **settings):
        run = self.reference(self.launched(ranks, command or self.command), **settings)
        return Undisturbed(run, self.results(), self.launches(run, ranks))

    def assert_right(self, run, reference):
        self.assert_same_output(run, reference.run)
        self.assertEqual(self.results(), reference.results)

    def complaints(self, run):
        return [line for line in run.errors.splitlines() if 'gpusnap: info: ' not in line]

    def launched_by(self, run, rank):
        stats = '%s.%d' % (self.stats_of(self._runs.index(run)), rank)
        # It is made before it has its first number.
        written = os.path.exists(stats) and os.path.getsize(stats) != 0
        return harness.launches(stats) if written else 0

    def wait_for_launches(self, run, rank, count):
        self.wait_until('rank %d does not launch' % rank,
                        lambda: self.launched_by(run, rank) >= count, run)

    def epochs(self):
        return [each['epoch'] for each in self.complete()]

    def saving(self):
        """Whether a rank has a checkpoint on its way."""
        told = self.tool('status', '--json', '--store', self.store, '--timeout', '60s')
        self.assertEqual(told.returncode, 0, told.stderr)
        job, = json.loads(told.stdout)
        return any(process['saving_epoch'] for process in job['processes'])

    def kill_when_saved(self, ranks, **settings):
        run = self.start_saved(self.launched(ranks, self.command), GPUSNAP_EVERY=self.every,
                               **settings)
        self.wait_for_checkpoint(run, ranks=ranks)
        run.kill()
        self.assertEqual(self.complaints(run), [])
        self.settle()

    def assert_restores(self, command, reference, **settings):
        """From the newest checkpoint."""
        self.settle()
        newest = self.complete()[0]
        run = self.finish(self.start_restored(command, **settings))
        self.assert_right(run, reference)
        self.assertEqual(self.complaints(run), [])
        executed = self.launches(run, len(reference.launches))
        ranks = self.show(newest['id'])['ranks']
        for shown, launched in zip(ranks, reference.launches):
            self.assertEqual(executed[shown['rank']], launched - shown['launches'])
        job_run, = {shown['job_run'] for shown in ranks}
        self.assertNotEqual(job_run, '')


class Jobs(Ring):
    """Tests that are not about one program."""

    # ---- what makes a checkpoint due ----

    def test_time(self):
        """Whichever rank's time has come first: all make the same checkpoints. A run may end before
        that."""
        for steps in ('160', '640', '2560'):
            self.begin_store()
            command = self.launched(4, self.program('ring', steps))
            reference = self.undisturbed(4, self.program('ring', steps))
            run = self.finish(self.start_saved(command, GPUSNAP_EVERY='10ms', GPUSNAP_KEEP=1000))
            self.assert_right(run, reference)
            self.assertEqual(run.errors, '')
            made = self.checkpoints()
            if made:
                break
        self.assertGreater(len(made), 0)
        for each in made:
            self.assertEqual((each['state'], each['ranks']), ('complete', 4), each)
        self.assert_restores(command, reference)
        self.leaves_nothing()

    def test_the_interval_of_a_checkpoint_goes_on(self):
        """Each rank of a restored job has the choice of GPUSNAP_EVERY=auto that its part of the
        checkpoint holds, and what that checkpoint had cost it. At a failure in a hundred years none is
        due by time."""
        rare = {'GPUSNAP_MTBF': '876600h', 'GPUSNAP_KEEP': 1000, 'GPUSNAP_LOG': 'info'}
        # A run may end before its third checkpoint is complete.
        for steps in ('640', '2560', '10240', '40960'):
            self.begin_store()
            program = self.program('ring', steps)
            run = self.start_saved(self.launched(2, program), GPUSNAP_EVERY='auto,' + self.every,
                                   **rare)
            self.wait_until('no third checkpoint', lambda: 3 in self.epochs() or run.ended())
            if run.kill():
                break
        reference = self.undisturbed(2, program)
        self.settle()
        ranks = self.show(self.complete()[0]['id'])['ranks']
        expected = []
        for rank in ranks:
            saved = rank['auto']
            # All that the rank had measured: one checkpoint at a time.
            self.assertGreaterEqual(saved['measurements'], 2)
            weight = max(1 / saved['measurements'], 1 / 8)
            stall = saved['stall_s'] + weight * (rank['stall_ms'] / 1000 - saved['stall_s'])
            expected.append((1e6 * stall, 1e6 * saved['latency_s']))
        run = self.finish(self.start_restored(self.launched(2, program), GPUSNAP_EVERY='auto', **rare))
        self.assert_right(run, reference)
        found = [tuple(map(int, each)) for each in CHOICE.findall(run.errors)]
        self.assertEqual(len(found), len(expected), run.errors)
        for wanted in expected:
            near = [each for each in found if all(abs(a - b) <= 2 for a, b in zip(each, wanted))]
            self.assertTrue(near, (wanted, found))
            found.remove(near[0])

    def saved_by(self, ask, every):
        """The program, which was killed when one of its ranks had been asked for a checkpoint. It may
        have ended before it was asked."""
        for steps in ('500', '2000', '8000', '32000'):
            self.begin_store()
            program = self.program('ring', steps)
            run = self.start_saved(self.launched(2, program), GPUSNAP_EVERY=every)
            # Both are in their steps.
            self.wait_until('no step', lambda: len(self.results()) == 2 and
                            all(self.results().values()), run)
            rank = run.ranks().get(self.random.randrange(2))
            if rank is not None:
                ask(rank)
            self.wait_until('no checkpoint', lambda: self.complete() or run.ended(), run)
            run.kill()
            self.assertEqual(run.errors, '')
            if self.complete():
                self.assertEqual([each['epoch'] for each in self.checkpoints()], [1])
                return program
        self.fail('it ended each time before it could be asked')
        return None

    def test_asked_of_one_rank(self):
        """By `gpusnap checkpoint`, or by a signal."""
        def by_request(process):
            asked = self.tool('checkpoint', str(process.number))
            if asked.returncode == 0:
                # All of it is there, not this rank's part alone.
                self.assertRegex(asked.stdout, '^job@1: .* of 2 ranks, ')
                self.assertEqual([each['id'] for each in self.complete()], ['job@1'])
                self.assertEqual(asked.stderr, '')

        def by_signal(process):
            process.signal(signal.SIGUSR1)

        for every, ask in (('off', by_request), ('signal:USR1', by_signal)):
            with self.subTest(every=every):
                program = self.saved_by(ask, every)
                self.assert_restores(self.launched(2, program), self.undisturbed(2, program))
        self.leaves_nothing()

    # ---- what ranks share ----

    def test_devices(self):
        """One for all of them, and one for each."""
        for devices in (1, 4):
            with self.subTest(devices=devices):
                reference = self.undisturbed(4, SIMCUDA_DEVICES=devices)
                self.begin_store()
                self.kill_when_saved(4, SIMCUDA_DEVICES=devices)
                self.assert_restores(self.launched(4, self.command), reference,
                                     SIMCUDA_DEVICES=devices)
        self.leaves_nothing()

    def test_staging_memory_is_small(self):
        """One rank could fill all of the memory, yet each rank gets through."""
        command = self.program('halo', '200')
        reference = self.undisturbed(4, command)
        for cache in ('8M', '16M'):
            with self.subTest(cache=cache):
                self.begin_store()
                run = self.finish(self.start_saved(
                    self.launched(4, command), GPUSNAP_EVERY='barriers:10',
                    GPUSNAP_HOST_CACHE=cache, GPUSNAP_ORG='nb+f', GPUSNAP_KEEP=1000))
                self.assert_right(run, reference)
                self.assertEqual(run.errors, '')
                self.assertGreater(len(self.complete()), 0)
                self.assertEqual(len(self.complete()), len(self.checkpoints()))
                self.assert_restores(self.launched(4, command), reference)
                self.leaves_nothing()

    # ---- what stands in the way ----

    def test_one_rank_has_no_room(self):
        """For one checkpoint: all ranks give it up, which is said once, and later ones are whole. The
        program is held for each, so that no rank is busy when the next one is due."""
        reference = self.undisturbed(4)
        victim, epoch = self.random.randrange(4), self.random.randrange(1, 4)
        calls = os.path.join(self.folder, 'calls')
        self.set_rank(victim, GPUSNAP_BACKEND='thread', FILE_FAULTS='full',
                      FILE_FAULTS_AT=self.random.randrange(1, 7), FILE_FAULTS_REPORT=calls,
                      FILE_FAULTS_FOLDER=os.path.join(self.store, 'job', 'e%d' % epoch),
                      LD_PRELOAD='$LD_PRELOAD:' + os.path.join(harness.HELPERS,
                                                               'libfile_faults.so'))
        run = self.finish(self.start_saved(self.launched(4, self.command), GPUSNAP_KEEP=1000,
                                           GPUSNAP_EVERY='barriers:20', GPUSNAP_ORG='b+i'))
        self.assert_right(run, reference)
        self.assertGreater(harness.file_faults(calls)[1], 0)
        said = self.complaints(run)
        self.assertEqual(len(said), 1, run.errors)
        self.assertRegex(said[0], '^gpusnap: warning: rank %d: no checkpoint was taken, the program '
                         'goes on: .*No space left on device' % victim)
        made = {each['epoch']: each['state'] for each in self.checkpoints()}
        self.assertEqual(made.pop(epoch, 'partial'), 'partial')
        self.assertGreater(max(made), epoch)
        self.assertEqual(set(made.values()), {'complete'}, made)
        self.verify_all()
        self.set_rank(victim)
        self.assert_restores(self.launched(4, self.command), reference)
        self.leaves_nothing()

    def test_other_number_of_ranks(self):
        reference = self.undisturbed(2)
        self.kill_when_saved(2)
        before = self.stored()
        # By the tool, which sees how many are asked for.
        for ranks in (1, 4):
            refused = self.finish(self.start_restored(self.launched(ranks, self.command)),
                                  harness.OTHER_PROGRAM)
            self.assertEqual(len(refused.errors.splitlines()), 1, refused.errors)
            self.assertIn('is of 2 ranks, this command starts %d' % ranks, refused.errors)
            self.assertEqual(refused.output, b'')
        # By the ranks, which see how many they are.
        for ranks in (1, 4):
            command = self.launched(ranks, [harness.GPUSNAP, 'restore', '--sim', '--', *self.command])
            refused = self.start(command, self.environment(**self.settings()))
            self.assertNotEqual(refused.wait(self.timeout), 0)
            self.assertIn('is of 2 rank(s), this run has %d' % ranks, refused.errors)
            self.assertNotIn(b'step', refused.output)
        self.assertEqual(self.stored(), before)
        self.assert_restores(self.launched(2, self.command), reference)
        self.leaves_nothing()

    def test_no_mpi_program(self):
        """Processes that are started as ranks and never call MPI_Init."""
        script = os.path.join(self.folder, 'script.txt')
        with open(script, 'w') as file:
            file.write('stream s\nalloc a 1000\nstir a 1 s\nsync s\nawait last\nprint a\n')
        last = os.path.join(self.working_folder, 'last')
        command = self.launched(2, [harness.app('script'), script])
        # Two at once on one stream would be mixed up.
        output = {'RANK_OUTPUT': os.path.join(self.working_folder, 'out')}
        open(last, 'w').close()
        self.reference(command, **output)
        told = self.results()
        self.assertEqual(sorted(told), ['out.0', 'out.1'])
        os.remove(last)
        run = self.start_saved(command, GPUSNAP_EVERY='1ms', **output)
        self.wait_until('they say nothing', lambda: len(run.errors.splitlines()) >= 2, run)
        open(last, 'w').close()
        self.finish(run)
        self.assertEqual(self.results(), told)
        said = sorted(run.errors.splitlines())
        self.assertEqual(len(said), 2, run.errors)
        for rank, line in enumerate(said):
            self.assertIn('gpusnap: warning: rank %d: no checkpoint' % rank, line)
            self.assertIn('it has not called MPI_Init', line)
        self.assertEqual(self.checkpoints(), [])
        self.leaves_nothing()


class FromMemory(stopping.Stopping, Ring):
    """Restores of ranks whose parts are in the memory of their node."""

    def settings(self, **settings):
        return super().settings(**{'GPUSNAP_BACKEND_IDLE': '600s', **settings})

    def stopped_while_restorable(self):
        """The backend, and the checkpoint."""
        for _ in range(100):
            self.begin_store()
            run = self.start_saved(self.launched(2, self.command), GPUSNAP_EVERY=self.every)
            backend = self.stop_backend_within_a_checkpoint(run)
            run.kill()
            found = backend and self.step_until_restorable(backend)
            if found:
                return backend, found
            self.settle()
        self.fail('each checkpoint was durable before it was seen')
        return None

    def test_restores_from_memory(self):
        reference = self.undisturbed(2)
        backend, found = self.stopped_while_restorable()
        run = self.start_restored(self.launched(2, self.command), GPUSNAP_LOG='info',
                                  GPUSNAP_EVERY='off', GPUSNAP_WAIT='memory')
        # From there on their journals need slots that a stopped backend does not free.
        self.wait_until('they do not load', lambda: run.ended() or all(
            'rank %d: restored %s' % (rank, found['id']) in run.errors for rank in range(2)))
        backend.signal(signal.SIGCONT)
        self.assert_right(self.finish(run), reference)
        self.assertIn('restoring ' + found['id'], run.errors)
        self.settle()
        self.assertIn(found['id'], {each['id'] for each in self.complete()})
        self.verify_all()


class InMemory(Ring):
    """Ranks whose checkpoints stay in the memory of their node, but for one of so many."""

    def settings(self, **settings):
        return super().settings(**{'GPUSNAP_BACKEND_IDLE': '600s', 'GPUSNAP_STORE_EVERY': '5',
                                   'GPUSNAP_HOST_CACHE': '64M',
                                   'GPUSNAP_LOG': 'info', **settings})

    def kept(self, run):
        """By rank, the epochs that it has kept so far."""
        return [{int(epoch) for epoch in re.findall(
            r'rank %d: checkpoint job@(\d+): \d+ bytes kept in memory' % rank, run.errors)}
            for rank in range(2)]

    def killed_while_in_memory(self):
        """The newest checkpoint of all ranks, of which the store has nothing."""
        for _ in range(30):
            self.begin_store()
            run = self.start_saved(self.launched(2, self.command), GPUSNAP_EVERY='barriers:8')
            count = self.random.randrange(1, 5)
            self.wait_until('nothing is kept', lambda: run.ended() or
                            len(set.intersection(*self.kept(run))) >= count, run)
            run.kill()
            restorable = [each for each in self.checkpoints() if each['restorable']]
            if restorable and restorable[0]['level'] == 'memory' and \
                    restorable[0]['state'] != 'complete':
                return restorable[0]
        self.fail('no checkpoint was in memory alone')
        return None

    def test_all_ranks_go_on_from_the_same(self):
        reference = self.undisturbed(2)
        found = self.killed_while_in_memory()
        self.assertNotIn(found['epoch'], self.epochs())
        run = self.finish(self.start_restored(self.launched(2, self.command), GPUSNAP_EVERY='off'))
        self.assert_right(run, reference)
        for rank in range(2):
            self.assertIn('rank %d: restored %s' % (rank, found['id']), run.errors)
        self.assertNotIn(found['epoch'], self.epochs())

    def test_all_ranks_decide_alike(self):
        """Each checkpoint goes to the store, or stays in memory, of all ranks."""
        reference = self.undisturbed(2)
        kept = [set(), set()]
        for _ in range(30):
            self.begin_store()
            run = self.finish(self.start_saved(self.launched(2, self.command),
                                               GPUSNAP_EVERY='barriers:8', GPUSNAP_KEEP='1000'))
            self.assert_right(run, reference)
            kept = self.kept(run)
            self.assertEqual(kept[0], kept[1])
            self.assertEqual(kept[0] & set(self.epochs()), set())
            # A short run may end before its second checkpoint.
            if kept[0]:
                break
        self.assertNotEqual(kept[0], set())
        # They send what they keep to the store.
        for each in self.backends.running():
            each.signal(signal.SIGTERM)
        self.settle()
        self.assertIn(max(kept[0]), self.epochs())
        self.verify_all()


class Launched(Ring):
    """How ranks are started: with each launcher."""

    def test_launcher_starts_gpusnap(self):
        """The other way to write it."""
        def behind_launcher(how, **settings):
            command = [harness.GPUSNAP, how, '--sim', '--', *self.command]
            return self.start(self.launched(2, command), self.environment(**self.settings(**settings)))

        reference = self.undisturbed(2)
        run = behind_launcher('run', GPUSNAP_EVERY=self.every)
        self.wait_for_checkpoint(run, ranks=2)
        run.kill()
        self.assertEqual(self.complaints(run), [])
        self.settle()
        self.assertGreater(len(self.complete()), 0)
        run = self.finish(behind_launcher('restore'))
        self.assert_right(run, reference)
        self.assertEqual(self.complaints(run), [])
        self.leaves_nothing()

    def test_several_programs(self):
        """As far as the launcher can tell: joined by a colon."""
        command = self.launched(1, self.command) + [':'] + self.ranks_of(2, self.command)
        reference = self.undisturbed(3)
        run = self.start_saved(command, GPUSNAP_EVERY=self.every)
        self.wait_for_checkpoint(run, ranks=3)
        run.kill()
        self.assertEqual(self.complaints(run), [])
        self.assert_restores(command, reference)
        self.leaves_nothing()


class Neighbours(Ring):
    """Ranks write each other's memory. Collectives are numbered: four that exchange handles, then the
    three barriers of each step; behind the first one kernels that write other ranks' memory may run.
    Each rank launches four kernels a step, the first before the first barrier."""

    def setUp(self):
        super().setUp()
        self.command = self.program('neighbours', '40')
        self.every = 'barriers:10'

    def hold(self, rank, engine):
        """Holds the work of that engine of the rank until the file that is returned is removed."""
        held = os.path.join(self.folder, 'held.%d' % rank)
        self.set_rank(rank, SIMCUDA_HOLD='%s:%s' % (engine, held))
        return held

    def saved_by_then(self):
        """The first rank's parts of checkpoints, as far as they are durable."""
        return glob.glob(os.path.join(self.store, '**', 'r0.manifest'), recursive=True)

    def assert_restores_epoch(self, epoch, run, reference):
        """A checkpoint that is there or on its way."""
        self.wait_until('no checkpoint', lambda: epoch in self.epochs() or self.complaints(run), run)
        run.kill()
        self.assertEqual(self.complaints(run), [])
        self.settle()
        for rank in range(2):
            self.set_rank(rank)
        again = self.finish(self.start_restored(self.launched(2, self.command), 'job@%d' % epoch))
        self.assert_right(again, reference)
        self.assertEqual(self.complaints(again), [])

    def held_from_the_second_cut_on(self, goes_on, **settings):
        """While nothing of the first rank comes to its host. `goes_on(run)`: how far the other gets."""
        gate = os.path.join(self.folder, 'gate')
        self.command = self.program('neighbours', '40', gate)
        open(gate, 'w').close()
        reference = self.undisturbed(2)
        os.remove(gate)
        held = self.hold(0, 'to_host')
        # Taking turns at growing, a rank may be left without room on the device for a while.
        run = self.start_saved(self.launched(2, self.command), GPUSNAP_EVERY='barriers:4',
                               GPUSNAP_KEEP=1000, GPUSNAP_PIN='concurrent', **settings)
        # The first cut is behind the handles; the next one is due at the first barrier behind the
        # gate. Then there is room on the device for it.
        self.wait_until('no first checkpoint', lambda: 1 in self.epochs() and not self.saving(), run)
        before = self.saved_by_then()
        self.assertEqual(len(before), 1)
        open(held, 'w').close()
        open(gate, 'w').close()
        goes_on(run)
        self.assertTrue(self.saving())
        self.assertEqual(self.saved_by_then(), before)
        os.remove(held)
        self.assert_restores_epoch(2, run, reference)
        self.leaves_nothing()

    def test_who_writes_goes_on_when_it_has_been_read(self):
        """The memory is kept apart on the device by then. The next cut is in the second step or
        just behind it, and in each later one the other rank writes there."""
        self.held_from_the_second_cut_on(lambda run: self.wait_for_launches(run, 1, 17))

    def test_who_writes_waits_until_it_has_been_read(self):
        """There is no room on the device: it gets no step further."""
        def stays(run):
            self.wait_until('no second checkpoint', self.saving, run)
            time.sleep(0.5)
            self.assertLessEqual(self.launched_by(run, 1), 12)
        self.held_from_the_second_cut_on(stays, GPUSNAP_DEVICE_CACHE='0')

    def held_while_the_first_goes_on(self, drain):
        """A run whose second rank's kernels do not begin until the file is removed; the first one's do."""
        first, second = self.hold(0, 'compute'), self.hold(1, 'compute')
        open(first, 'w').close()
        run = self.start_saved(self.launched(2, self.command), GPUSNAP_EVERY='barriers:6',
                               GPUSNAP_KEEP=1000, GPUSNAP_DRAIN=drain)
        self.wait_for_launches(run, 1, 1)
        open(second, 'w').close()
        os.remove(first)
        return run, second

    def test_what_still_runs_elsewhere_is_waited_for(self):
        """The second rank's kernels that write the first one's memory begin when both are in the cut."""
        reference = self.undisturbed(2)
        run, second = self.held_while_the_first_goes_on('1h')
        self.wait_for_launches(run, 0, 4)
        # A wrong cut would be saved by then; a right one is not, however long it takes.
        time.sleep(0.5)
        self.assertEqual(self.saved_by_then(), [])
        os.remove(second)
        self.assert_restores_epoch(1, run, reference)
        self.leaves_nothing()

    def test_what_does_not_run_empty_is_given_up_by_all(self):
        """Said once; and later ones are whole."""
        reference = self.undisturbed(2)
        run, second = self.held_while_the_first_goes_on('2s')
        self.wait_until('it is not given up', lambda: self.complaints(run), run)
        os.remove(second)
        self.finish(run)
        self.assert_right(run, reference)
        # On a busy machine a later one may be given up for want of time, too: that is said again.
        said = self.complaints(run)
        for line in said:
            self.assertRegex(line, 'rank [01]: no checkpoint was taken, the program goes on: the device '
                             'did not run empty')
        self.assertIn('rank 1: ', said[0])
        self.settle()
        self.assertNotIn(1, self.epochs())
        self.assertLess(len(said), 2 + len(self.epochs()), run.errors)
        self.assert_restores(self.launched(2, self.command), reference)
        for rank in range(2):
            self.set_rank(rank)
        self.leaves_nothing()

    def test_nobody_goes_on_before_all_is_loaded(self):
        reference = self.undisturbed(2)
        run = self.start_saved(self.launched(2, self.command), GPUSNAP_EVERY='barriers:5',
                               GPUSNAP_KEEP=1000)
        self.wait_until('no checkpoint', lambda: 1 in self.epochs(), run)
        run.kill()
        self.settle()
        held = self.hold(0, 'to_device')
        open(held, 'w').close()
        again = self.start_restored(self.launched(2, self.command), 'job@1', GPUSNAP_LOG='info')
        self.wait_until('no steps', lambda: len(self.results()) == 2, again)
        # Behind that barrier the other one writes the first rank's memory.
        time.sleep(1)
        self.assertEqual(self.launched_by(again, 1), 0)
        self.assertNotIn(': restored job@1', again.errors)
        os.remove(held)
        self.finish(again)
        self.assert_right(again, reference)
        self.set_rank(0)
        self.leaves_nothing()

    def test_addresses_that_are_taken_by_then(self):
        """Memory that the driver puts elsewhere is placed where it was, and the other ranks get it
        by descriptors."""
        reference = self.undisturbed(4)
        self.kill_when_saved(4)
        for seed in (0, 7):
            with self.subTest(seed=seed):
                again = self.finish(self.start_restored(self.launched(4, self.command),
                                                        GPUSNAP_EVERY=self.every, SIMCUDA_ASLR=seed))
                self.assert_right(again, reference)
                self.assertEqual(self.complaints(again), [])
                self.settle()
        self.verify_all()
        self.assert_restores(self.launched(4, self.command), reference, SIMCUDA_ASLR=11)
        self.leaves_nothing()

    def test_checkpoints_end_where_memory_was_placed(self):
        """It is shared, told of and given back as before."""
        self.command = self.program('neighbours', '40', 'ends')
        reference = self.undisturbed(2)
        run = self.start_saved(self.launched(2, self.command), GPUSNAP_EVERY='barriers:5',
                               GPUSNAP_KEEP=1000)
        self.wait_until('no checkpoint', lambda: 1 in self.epochs(), run)
        run.kill()
        self.settle()
        again = self.finish(self.start_restored(self.launched(2, self.command), 'job@1',
                                                SIMCUDA_ASLR=7))
        self.assert_right(again, reference)
        said = self.complaints(again)
        self.assertGreater(len(said), 0)
        for line in said:
            self.assertIn('no more checkpoints of this process', line)
        self.leaves_nothing()

    def test_a_rank_of_another_job(self):
        """Both sides say so, and the program goes on."""
        reference = self.undisturbed(2)
        self.set_rank(1, GPUSNAP_JOB='other')
        run = self.finish(self.start_saved(self.launched(2, self.command), GPUSNAP_EVERY=self.every))
        self.assert_right(run, reference)
        said = sorted(self.complaints(run))
        self.assertEqual(len(said), 2, run.errors)
        for rank, line in enumerate(said):
            # The memory that it has opened, or its own memory that another one has opened.
            self.assertRegex(line, 'rank %d: no more checkpoints of this process, the program goes on: '
                             '(cuIpcOpenMemHandle_v2 of memory of a process of another job|device memory '
                             'that a process of another job, or without checkpoints, has opened) cannot be '
                             'restored' % rank)
        self.assertEqual(self.checkpoints(), [])
        self.set_rank(1)
        self.leaves_nothing()

    def test_a_rank_that_cannot_begin(self):
        """It says why there are no checkpoints, and opens what the others share all the same."""
        reference = self.undisturbed(2)
        taken = os.path.join(self.folder, 'file')
        open(taken, 'w').close()
        for rank in range(2):
            for why, settings in (('no checkpoints: ', {'GPUSNAP_PFS': os.path.join(taken, 'store')}),
                                  ('the program runs without checkpoints', {'GPUSNAP_ZONE': 'none'})):
                with self.subTest(rank=rank, settings=settings):
                    self.set_rank(rank, **settings)
                    self.set_rank(1 - rank)
                    run = self.finish(self.start_saved(self.launched(2, self.command),
                                                       GPUSNAP_EVERY=self.every))
                    self.assert_right(run, reference)
                    self.assertIn(why, run.errors)
                    self.assertEqual(self.checkpoints(), [])
        self.set_rank(0)
        self.set_rank(1)
        self.leaves_nothing()

    def test_is_not_reloaded(self):
        self.kill_when_saved(2)
        refused = self.start_restored(self.launched(2, self.command), options=['--mode', 'reload'])
        self.assertNotEqual(refused.wait(self.timeout), 0)
        self.assertIn('cannot be reloaded: memory that ranks share is not followed there',
                      refused.errors)
        self.leaves_nothing()

    def test_organisations(self):
        organisations = [{'GPUSNAP_ORG': 'nb+f'}, {'GPUSNAP_ORG': 'b+i'}, {'GPUSNAP_ORG': 'nb+i'},
                         {'GPUSNAP_DIRTY': 'calls'}, {'GPUSNAP_DEVICE_CACHE': '0'}]
        for organisation in organisations if harness.SOAK else self.random.sample(organisations, 2):
            with self.subTest(organisation):
                reference = self.undisturbed(2)
                self.begin_store()
                run = self.finish(self.start_saved(
                    self.launched(2, self.command), GPUSNAP_EVERY=self.every, GPUSNAP_KEEP=1000,
                    **organisation))
                self.assert_right(run, reference)
                self.assertEqual(self.complaints(run), [])
                self.settle()
                made = self.checkpoints()
                self.assertGreater(len(made), 1)
                self.assertEqual({each['state'] for each in made}, {'complete'}, made)
                self.verify_all()
                each = self.random.choice(made)
                again = self.finish(self.start_restored(self.launched(2, self.command), each['id']))
                self.assert_right(again, reference)
        self.leaves_nothing()


class TwoNodes(Ring):
    """On one machine: the first two ranks share a backend and an SSD, and so do the others."""

    def setUp(self):
        super().setUp()
        self.command = self.program('ring', '400')
        self.every = 'barriers:5'
        self.earliest = self.random.randrange(2, 6)  # epoch to be lost
        self.nodes = [os.path.join(self.folder, name) for name in 'ab']
        for rank in range(4):
            self.set_rank(rank, **self.settings_of(self.node_of(rank)))

    def node_of(self, rank):
        return self.nodes[rank // 2]

    @staticmethod
    def settings_of(node):
        os.makedirs(node, exist_ok=True)
        return {'GPUSNAP_NODE': node, 'GPUSNAP_SSD': node, 'GPUSNAP_CHUNK': '64K',
                'GPUSNAP_PLACEMENT': 'ssd-only'}

    def settle(self):
        for node in self.nodes:
            waited = self.tool('wait', '--timeout', '10m', **self.settings_of(node))
            self.assertEqual(waited.returncode, 0, waited.stderr)

    @staticmethod
    def parts_in(pattern):
        """Epoch and rank of each file."""
        return {(int(found[1]), int(found[2])) for found in
                (re.search(r'/e([0-9]+)/r([0-9]+)[.-][^/]*$', path)
                 for path in glob.glob(pattern, recursive=True)) if found}

    def durable(self):
        return self.parts_in(os.path.join(self.store, '*', 'e*', 'r*.manifest'))

    def whole(self):
        """Epochs of which all parts are durable."""
        durable = self.durable()
        return {epoch for epoch, _ in durable
                if all((epoch, rank) in durable for rank in range(4))}

    def waiting_on(self, node):
        """Epochs of which a part is on the node's SSD and not durable, and an earlier one is whole."""
        parts = self.parts_in(os.path.join(node, '**', '*.chunk')) - self.durable()
        return {epoch for epoch, _ in parts
                if epoch >= self.earliest and min(self.whole(), default=epoch) < epoch}

    def stop_with_a_checkpoint_on(self, node, run):
        """The node's backend and the checkpoint's epoch; nothing where the run ends before."""
        while True:
            self.wait_until('no checkpoint is on its way',
                            lambda: run.ended() or self.waiting_on(node))
            if run.ended():
                return None, None
            backends = self.backends.running(node)
            if len(backends) != 1:
                continue  # one starts, or finds that another one serves
            backend, = backends
            backend.signal(signal.SIGSTOP)
            self.wait_until('a backend does not stop', backend.is_stopped)
            waiting = self.waiting_on(node)
            if waiting:
                return backend, max(waiting)
            backend.signal(signal.SIGCONT)

    def run_until_one_waits_on(self, node, command):
        for _ in range(30):
            self.begin_store()
            run = self.start_saved(command, GPUSNAP_EVERY=self.every, GPUSNAP_KEEP=1000)
            backend, epoch = self.stop_with_a_checkpoint_on(node, run)
            if backend is not None:
                return run, backend, epoch
            self.finish(run)
            self.settle()
        self.fail('each run ended before a checkpoint was seen on its way')
        return None, None, None

    def test_one_is_lost(self):
        """With a checkpoint on its SSD that is not durable, while the other's parts of it are: the job
        goes on from the newest one of which the store has all."""
        command = self.launched(4, self.command)
        reference = self.undisturbed(4)
        lost = self.random.randrange(2)
        node, other = self.nodes[lost], self.nodes[1 - lost]
        run, backend, epoch = self.run_until_one_waits_on(node, command)
        others = [rank for rank in range(4) if self.node_of(rank) == other]
        self.wait_until('the other node goes on', lambda: all(
            (epoch, rank) in self.durable() for rank in others), run)
        areas = set(self.backends.areas)
        for rank, process in run.ranks().items():
            if rank not in others:
                process.signal(signal.SIGKILL)
        backend.signal(signal.SIGKILL)
        self.wait_until('a backend does not end', backend.is_gone)
        run.kill()
        shutil.rmtree(node)
        # Its memory is gone, too; the other one's goes by itself.
        self.backends.areas.clear()
        self.backends.running(other)
        for area in areas - self.backends.areas:
            if os.path.exists(area):
                os.remove(area)
        self.settle()
        states = {each['epoch']: each['state'] for each in self.checkpoints()}
        self.assertEqual(states[epoch], 'partial', states)
        newest = self.complete()[0]
        self.assertEqual(newest['epoch'], max(self.whole()))
        print('%s: epoch %d of %s was lost' % (self.id(), epoch, sorted(states)))
        self.assert_restores(command, reference)
        # Later ones are numbered on from there, and the partial one is in nobody's way.
        again = self.finish(self.start_restored(command, GPUSNAP_EVERY=self.every))
        self.assert_right(again, reference)
        self.settle()
        self.assertGreater(self.complete()[0]['epoch'], epoch)
        pruned = self.tool('prune')
        self.assertEqual(pruned.returncode, 0, pruned.stderr)
        self.assertNotIn(epoch, [each['epoch'] for each in self.checkpoints()])
        self.verify_all()
        self.assert_restores(command, reference)
        self.leaves_nothing()


def share(case):
    """Runs each test with one of the two MPIs: what these tests check is not the MPI's work."""
    if not harness.SOAK:
        for test in unittest.getTestCaseNames(case, 'test_')[mpi_job.TestCase.mpi == 'mpich'::2]:
            delattr(case, test)


if __name__ == '__main__':
    if (len(sys.argv) < 3 or sys.argv[1] not in mpi_job.LAUNCHERS or
            sys.argv[2] not in (*PROGRAMS, 'jobs')):
        sys.exit('usage: test_mpi.py {%s} {%s,jobs}' % (','.join(mpi_job.LAUNCHERS),
                                                       ','.join(PROGRAMS)))
    mpi_job.TestCase.mpi, name = sys.argv[1:3]
    Program.name = name
    if name == 'jobs':
        del Program
        share(Jobs)
        share(TwoNodes)
    else:
        del Jobs, FromMemory, InMemory, Launched, TwoNodes
    if name != 'neighbours':
        del Neighbours
    else:
        share(Neighbours)
    del sys.argv[1:3]
    harness.main()
