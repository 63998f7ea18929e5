#!/usr/bin/env python3
"""kill -9 of a program, of its node's backend, of both, at random moments: what had reached the
backend becomes durable, restores are exact, and nothing is left behind.

4 kills; with GPUSNAP_SOAK=1 500.
"""
import glob
import json
import os
import re
import shutil
import signal

import harness
import killing

KILLS = 500 if harness.SOAK else 4

# Program, steps, every how many synchronisations it is saved.
PROGRAMS = [('stencil', '240', 20), ('particles', '100', 10), ('pipeline', '150', 15),
            ('churn', '240', 30)]
# Where chunks wait: in memory, on a device besides, there alone.
TIERS = [{}, {'GPUSNAP_PLACEMENT': 'hybrid-naive'}, {'GPUSNAP_PLACEMENT': 'ssd-only'}]


class Backend(killing.Killing, harness.TestCase):

    # ---- tests ----

    def test_survives_kills(self):
        counts = {'restored': 0, 'in flight': 0}
        for number in range(KILLS):
            name, steps, every = PROGRAMS[number % len(PROGRAMS)]
            victim = self.random.choice(killing.VICTIMS)
            self.tiers = dict(TIERS[number % len(TIERS)])
            if self.tiers:
                os.makedirs(self.ssd, exist_ok=True)
                self.tiers.update(GPUSNAP_SSD=self.ssd, GPUSNAP_CHUNK='256K')
            with self.subTest(number=number, program=name, victim=victim, **self.tiers):
                with self.store_of_its_own():
                    self.one_kill([harness.app(name), steps], every, victim, counts)
            if self.tiers:
                shutil.rmtree(self.ssd)
        print('%d kills: %d restored, %d checkpoints on their way at the time' % (
            KILLS, counts['restored'], counts['in flight']))
        self.assertGreater(counts['restored'], 0)

    def start_backend(self, **tiers):
        """One that stays, with all of its memory at hand: stopped, it gives no program any more."""
        cache = 64 << 20
        self.tiers = {'GPUSNAP_HOST_CACHE': cache, **tiers}
        # Memory grows for programs that are there.
        run = self.start_saved([harness.app('stencil'), '1000000'], GPUSNAP_EVERY='off',
                               GPUSNAP_BACKEND_IDLE='600s')
        self.wait_until('no backend starts', lambda: self.backends.running() and
                        self.backends.areas)
        area, = self.backends.areas
        self.wait_until('its memory does not grow', lambda: (
            512 * os.stat(area).st_blocks >= cache))
        self.assertTrue(run.kill())
        self.becomes_durable(set())
        self.assertEqual(len(self.backends.running()), 1)

    def run_until_stopped_within_a_checkpoint(self, command, reference, **settings):
        """The run and its backend. On a busy machine a run may end before one is seen."""
        for _ in range(30):
            self.begin_store()
            run = self.start_saved(command, **settings)
            backend = self.stop_backend_within_a_checkpoint(run)
            if backend is not None:
                return run, backend
            self.assert_same_output(self.finish(run), reference)
        self.fail('each run ended before a checkpoint was seen on its way')
        return None

    def test_memory_outlives_its_program_and_its_backend(self):
        """Both are killed while all that there is of a checkpoint is in memory."""
        command = [harness.app('stencil'), '240']
        reference = self.reference_of(command)
        self.start_backend()
        run, _ = self.run_until_stopped_within_a_checkpoint(command, reference,
                                                            GPUSNAP_EVERY='syncs:20')
        self.wait_until('nothing is in memory', lambda: any(
            each['level'] == 'memory' for each in self.checkpoints()))
        early = self.tool('wait', '--timeout', '20ms')
        self.assertEqual(early.returncode, harness.TOO_EARLY, early.stderr)
        self.assertIn('is not durable yet', early.stderr)
        self.assertTrue(run.kill())
        before = self.safe()
        self.assertNotEqual(before - {each['id'] for each in self.complete()}, set())
        self.backends.kill()
        self.becomes_durable(before)
        self.assert_same_output(self.finish(self.start_restored(command)), reference)
        self.leaves_nothing()

    def kill_and_stop_while_restorable(self, command, reference):
        """The program has gone, and its backend has stopped with a checkpoint that can be restored and
        is not in the store. The backend takes short steps until then; one that has come to the end of
        the checkpoint begins with another run."""
        for _ in range(100):
            run, backend = self.run_until_stopped_within_a_checkpoint(
                command, reference, GPUSNAP_EVERY='syncs:20')
            self.wait_until('nothing is in memory', lambda: run.ended() or any(
                each['level'] == 'memory' for each in self.checkpoints()))
            run.kill()
            found = self.step_until_restorable(backend)
            if found:
                return backend, found
            self.settle()
        self.fail('each checkpoint was durable before it was seen')
        return None

    def check_restores_what_is_on_its_way(self, **tiers):
        command = [harness.app('stencil'), '240']
        reference = self.reference_of(command)
        self.start_backend(**tiers)
        for victim in ('nobody', 'nobody, and it goes on', 'backend'):
            with self.subTest(victim=victim):
                backend, found = self.kill_and_stop_while_restorable(command, reference)
                if victim == 'backend':
                    backend.signal(signal.SIGKILL)
                elif victim != 'nobody':
                    backend.signal(signal.SIGCONT)
                run = self.start_restored(command, GPUSNAP_EVERY='off', GPUSNAP_WAIT='memory',
                                          GPUSNAP_LOG='debug')
                if victim == 'nobody':
                    # From there on its journal needs slots that a stopped backend does not free.
                    self.wait_until('it does not load', lambda: run.ended() or
                                    'restored ' + found['id'] in run.errors)
                    where = re.search(r'\d+ of its \d+ bytes are in memory', run.errors)
                    print('%s: %s' % (self.id(), where[0]))
                    backend.signal(signal.SIGCONT)
                self.assert_same_output(self.finish(run), reference)
                self.becomes_durable({found['id']})
                if victim != 'backend':
                    self.assertEqual([each.number for each in self.backends.running()],
                                     [backend.number])

    def test_restores_from_memory(self):
        self.check_restores_what_is_on_its_way()

    def test_restores_from_memory_and_devices(self):
        os.makedirs(self.ssd)
        self.check_restores_what_is_on_its_way(
            GPUSNAP_SSD=self.ssd, GPUSNAP_CHUNK='256K', GPUSNAP_PLACEMENT='ssd-only')

    def test_goes_on_saving_from_what_was_on_its_way(self):
        """The epochs of the restored run come after all that was there, and build on none that the store
        did not have."""
        command = [harness.app('stencil'), '240']
        reference = self.reference_of(command)
        self.start_backend()
        backend, found = self.kill_and_stop_while_restorable(command, reference)
        run = self.start_restored(command, GPUSNAP_EVERY='syncs:20', GPUSNAP_KEEP='1000')
        self.wait_until('it does not load', lambda: run.ended() or any(
            each['epoch'] > found['epoch'] and each['level'] == 'memory'
            for each in self.checkpoints()))
        self.assertFalse(run.ended(), run.errors)
        backend.signal(signal.SIGCONT)
        self.assert_same_output(self.finish(run), reference)
        self.becomes_durable({found['id']})
        later = [each for each in self.complete() if each['epoch'] > found['epoch']]
        self.assertGreater(len(later), 0)
        self.assertEqual(min(later, key=lambda each: each['epoch'])['kind'], 'full')
        self.assertNotIn(found['epoch'], {each['parent'] for each in later})
        for each in later if harness.SOAK else later[::max(len(later) - 1, 1)]:
            self.assert_same_output(self.finish(self.start_restored(
                command, each['id'], GPUSNAP_EVERY='off')), reference)

    def test_the_end_waits_as_far_as_it_is_told(self):
        """Until the backend has all of the last checkpoint, or until that is durable."""
        command = [harness.app('stencil'), '240']
        reference = self.reference_of(command)
        self.start_backend()
        for wait in ('memory', 'durable'):
            with self.subTest(wait=wait):
                run, backend = self.run_until_stopped_within_a_checkpoint(
                    command, reference, GPUSNAP_EVERY='syncs:100', GPUSNAP_WAIT=wait)
                if wait == 'memory':
                    self.assert_same_output(self.finish(run), reference)
                    self.assertLess(len(self.complete()), len(self.checkpoints()))
                    backend.signal(signal.SIGCONT)
                else:
                    self.wait_until('nothing is in memory', lambda: any(
                        each['level'] == 'memory' for each in self.checkpoints()))
                    backend.signal(signal.SIGCONT)
                    self.assert_same_output(self.finish(run), reference)
                    self.assertEqual(len(self.complete()), len(self.checkpoints()))
                self.becomes_durable(set())
                self.leaves_no_temporary_file()
        self.asked_to_end()

    def damage(self, pattern):
        """One bit in the middle of each file; how many there were."""
        paths = glob.glob(pattern, recursive=True)
        for path in paths:
            with open(path, 'r+b') as file:
                middle = os.path.getsize(path) // 2
                file.seek(middle)
                byte = file.read(1)[0]
                file.seek(middle)
                file.write(bytes([byte ^ 0x10]))
        return len(paths)

    def test_restores_from_the_nearest_that_is_right(self):
        """A restore first reads the copies that stay on a device after a commit, and reads the
        store in place of a copy that is not right."""
        command = [harness.app('stencil'), '240']
        reference = self.reference_of(command)
        os.makedirs(self.ssd)
        self.tiers = {'GPUSNAP_SSD': self.ssd, 'GPUSNAP_CHUNK': '256K',
                      'GPUSNAP_PLACEMENT': 'ssd-only', 'GPUSNAP_ORG': 'b+f'}
        self.saved_and_killed(command, reference, 'syncs:20')
        self.settle()
        newest = self.complete()[0]
        segments = os.path.join(self.store, '*', 'e%d' % newest['epoch'], '*.seg*')
        chunks = os.path.join(self.ssd, '**', 'e%d' % newest['epoch'], '*.chunk')

        def restored(said, **settings):
            run = self.finish(self.start_restored(command, newest['id'], GPUSNAP_LOG='info',
                                                  GPUSNAP_EVERY='off', **settings))
            self.assert_same_output(run, reference)
            self.assertRegex(run.errors, said)

        def space():
            job, _ = json.loads(self.tool('list', '--space', '--json').stdout)
            return job['ssd']

        def on_disk():
            return sum(os.path.getsize(path) for path in glob.glob(self.ssd + '/**', recursive=True)
                       if os.path.isfile(path) and re.search(r'\.(chunk|blocks)$', path))

        restored('from SSD')
        # A backend that is about to end may be at it: what exactly counts is tested without one.
        self.assertGreater(space(), 0)
        self.assertLessEqual(space(), on_disk())
        self.assertGreater(self.damage(segments), 0)
        refused = self.start_restored(command, newest['id'], GPUSNAP_SSD='', GPUSNAP_PLACEMENT='')
        self.assertEqual(refused.wait(self.timeout), harness.DAMAGED, refused.errors)
        restored('from SSD')
        self.damage(segments)  # the same bits: it is whole again
        self.assertGreater(self.damage(chunks), 0)
        restored('not right on SSD')
        # Nothing of all this is in the way of what follows.
        self.verify_all()

        def is_of_store(folder):
            """A run that ended before it could be killed has had another store."""
            for path in glob.glob(folder + '/*.blocks'):
                with open(path, 'rb') as file:
                    if self.store.encode() in file.read():
                        return True
            return False

        def epochs():
            return {int(re.search(r'/e(\d+)/', path)[1])
                    for path in glob.glob(self.ssd + '/**/*.chunk', recursive=True)
                    if is_of_store(os.path.dirname(path))}

        self.assertIn(newest['epoch'], epochs())
        # One that runs looks after its copies itself, and prune leaves them to it.
        self.wait_until('a backend stays', lambda: not self.backends.running())
        pruned = self.tool('prune', '--keep', '1')
        self.assertEqual(pruned.returncode, 0, pruned.stderr)
        self.assertEqual(epochs(), {newest['epoch']})

    def test_the_journal_of_a_program_that_has_ended_is_waited_for(self):
        """The backend gets to it after that."""
        self.start_backend()
        backend, = self.backends.running()
        self.stop(backend)
        self.begin_store()
        self.finish(self.start_saved([harness.app('stencil'), '240'], GPUSNAP_EVERY='off'))

        def journals():
            return glob.glob(os.path.join(self.store, 'job', '*.journal'))

        self.assertEqual(journals(), [])
        early = self.tool('wait', '--timeout', '20ms')
        self.assertEqual(early.returncode, harness.TOO_EARLY, early.stderr)
        self.assertIn('.journal is not durable yet', early.stderr)
        backend.signal(signal.SIGCONT)
        self.becomes_durable(set())
        journal, = journals()
        size = os.path.getsize(journal)
        self.assertGreater(size, 0)
        self.asked_to_end()
        self.assertEqual(os.path.getsize(journal), size)

    def test_wait_and_list_where_nothing_is_on_its_way(self):
        waited = self.tool('wait')
        self.assertEqual((waited.returncode, waited.stdout, waited.stderr), (0, '', ''))
        self.assertEqual(self.backends.running(), [])

    def test_memory_that_was_never_ready_goes(self):
        """Its backend was killed while it made it, or removed it."""
        command = [harness.app('stencil'), '240']
        self.saved_and_killed(command, self.reference_of(command), 'syncs:20',
                              GPUSNAP_BACKEND_IDLE='600s')
        self.wait_until('no backend', self.backends.running)
        self.becomes_durable(set())
        self.asked_to_end()
        area, = self.backends.areas
        for content in (b'', bytes(1 << 20)):
            with open(os.open(area, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), 'wb') as file:
                file.write(content)
            self.becomes_durable(set())
            self.leaves_nothing()

    def test_one_backend_for_all_programs_of_a_node(self):
        command = [harness.app('stencil'), '240']
        reference = self.reference_of(command)
        runs = [self.start_saved(command, GPUSNAP_EVERY='syncs:20', GPUSNAP_JOB='job%d' % i,
                                 GPUSNAP_BACKEND_IDLE='600s') for i in range(3)]
        for run in runs:
            self.assert_same_output(self.finish(run), reference)
        # One that has just been started finds that another one serves, and goes.
        self.wait_until('more than one stays', lambda: len(self.backends.running()) <= 1)
        self.assertEqual(len(self.backends.running()), 1)
        self.becomes_durable(set())
        self.assertEqual({each['job'] for each in self.complete()}, {'job0', 'job1', 'job2'})
        self.asked_to_end()


if __name__ == '__main__':
    harness.main()
