#!/usr/bin/env python3
"""Checkpoints that stay in gpusnapd's memory: every n-th goes to the store, and a program that dies goes on from
the newest, wherever that is."""
import glob
import os
import re
import signal

import harness
import killing

COMMAND = [harness.app('stencil'), '900']
RESTORES = 40 if harness.SOAK else 4
EVERY = 6  # one of so many goes to the store


class MemoryLevel(killing.Killing, harness.TestCase):
    """Backends stay for as long as a test may take, so that nothing goes to the store by itself."""

    def settings(self, **settings):
        return super().settings(**{'GPUSNAP_BACKEND_IDLE': '600s', 'GPUSNAP_HOST_CACHE': '64M',
                                   'GPUSNAP_EVERY': 'syncs:20', 'GPUSNAP_STORE_EVERY': EVERY,
                                   'GPUSNAP_LOG': 'info', **settings})

    def in_memory(self):
        """Epochs that a restore can use and the store does not have, newest first."""
        return [each['epoch'] for each in self.checkpoints()
                if each['level'] == 'memory' and each['restorable'] and each['state'] != 'complete']

    def stored(self):
        """Epochs, newest first, as the store's files tell."""
        found = {int(re.search(r'/e(\d+)/', path)[1])
                 for path in glob.glob(os.path.join(self.store, 'job', 'e*', 'r*.manifest'))}
        return sorted(found, reverse=True)

    def kept(self, run):
        return run.errors.count('bytes kept in memory')

    def run_until_newest_is_in_memory(self, command=None):
        """A program that was killed; the epoch that it goes on from."""
        for _ in range(50):
            run = self.start_saved(command or COMMAND)
            count = self.random.randrange(2, 9)
            self.wait_until('nothing is kept', lambda: run.ended() or self.kept(run) >= count)
            if not run.kill():
                self.begin_store()
                continue
            newest = self.in_memory()
            if newest and newest[0] > max(self.stored(), default=0):
                return newest[0]
            self.begin_store()
        self.fail('no checkpoint was in memory alone')
        return 0

    def restored_epoch(self, run):
        found = re.search(r'restoring job@(\d+)', run.errors)
        return int(found[1]) if found else 0

    def end_backends(self):
        """They send what they keep to the store."""
        for each in self.backends.running():
            each.signal(signal.SIGTERM)
        self.wait_until('a backend stays', lambda: not self.backends.running())

    def lose_memory(self):
        """As where the machine goes: the backend, and shared memory."""
        self.backends.kill()
        for area in self.backends.shared_memory():
            os.remove(area)

    def test_every_nth_goes_to_the_store(self):
        reference = self.reference_of(COMMAND)
        run = self.finish(self.start_saved(COMMAND, GPUSNAP_KEEP=1000))
        self.assert_same_output(run, reference)
        went = re.findall(r'checkpoint job@(\d+): \d+ bytes (saved|kept)', run.errors)
        self.assertGreater(len(went), EVERY)
        for number, (epoch, how) in enumerate(went):
            self.assertEqual(how, 'kept' if number % EVERY else 'saved', (epoch, went))
        self.assertEqual([epoch for epoch in self.stored()],
                         [int(epoch) for epoch, how in reversed(went) if how == 'saved'])
        # Increments build on what the store has.
        parents = {each['epoch']: each['parent'] for each in self.complete()}
        self.assertLessEqual(set(parents.values()), set(parents) | {0})
        last = int(went[-1][0])
        if went[-1][1] == 'kept':
            self.assertEqual(self.in_memory(), [last])
        self.end_backends()
        self.assertIn(last, self.stored())
        self.verify_all()

    def test_restores_from_memory_without_the_store(self):
        """The store does not have the checkpoint before, during or after the restore."""
        reference = self.reference_of(COMMAND)
        epoch = self.run_until_newest_is_in_memory()
        self.assertNotIn(epoch, self.stored())
        run = self.finish(self.start_restored(COMMAND, GPUSNAP_EVERY='off', GPUSNAP_LOG='debug'))
        self.assertEqual(self.restored_epoch(run), epoch)
        self.assert_same_output(run, reference)
        found = re.search(r'job@%d is on its way to the store: (\d+) of its (\d+) bytes are in memory'
                          % epoch, run.errors)
        self.assertEqual(found[1], found[2])
        self.assertNotIn(epoch, self.stored())

    def test_killed_at_any_moment(self):
        """By kill -9, again and again; now and then with the backend, which forgets nothing, or with
        the machine's memory, and then from the store."""
        reference = self.reference_of(COMMAND)
        run = self.start_saved(COMMAND)
        self.wait_until('no checkpoint', lambda: run.ended() or self.complete())
        counts = {'memory': 0, 'store': 0}
        for number in range(RESTORES):
            run.ends_within(self.random.uniform(0, reference.seconds))
            killed = run.kill()
            victim = self.random.choice(['nobody', 'backend', 'memory'])
            if victim == 'backend':
                self.backends.kill()
            elif victim == 'memory':
                self.lose_memory()
            # From here on nothing is lost.
            newest = max(self.in_memory() + [each['epoch'] for each in self.complete()], default=0)
            if victim == 'memory':
                self.assertEqual(self.in_memory(), [])
            stored = self.stored()
            before = run.command
            run = self.start_restored(COMMAND)
            self.wait_until('it is not restored', lambda: run.ended() or 'info: restored' in run.errors)
            with self.subTest(number=number, victim=victim, killed=killed, before=before):
                self.assertIn('restored job@', run.errors)
                self.assertGreaterEqual(self.restored_epoch(run), newest)
            counts['store' if self.restored_epoch(run) in stored else 'memory'] += 1
        print('%d restores: %d from memory, %d from the store' % (
            RESTORES, counts['memory'], counts['store']))
        self.finish(run)
        self.assert_same_output(run, reference)
        self.end_backends()
        self.verify_all()

    def test_goes_to_the_store_when_the_program_does_not_come_back(self):
        reference = self.reference_of(COMMAND)
        run = self.start_saved(COMMAND, GPUSNAP_BACKEND_IDLE='200ms')
        self.wait_until('nothing is kept', lambda: run.ended() or self.kept(run) >= 3)
        self.assertTrue(run.kill(), run.errors)
        before = self.safe()
        waited = self.tool('wait', '--timeout', '10m')
        self.assertEqual(waited.returncode, 0, waited.stderr)
        self.wait_until('a backend stays', lambda: not self.backends.running())
        newest = max(int(each.split('@')[1]) for each in before)
        self.assertIn(newest, self.stored())
        restored = self.finish(self.start_restored(COMMAND, GPUSNAP_EVERY='off'))
        self.assertEqual(self.restored_epoch(restored), newest)
        self.assert_same_output(restored, reference)
        self.verify_all()

    def test_memory_that_holds_one_image_only(self):
        """Every checkpoint goes to the store, and one line says why."""
        reference = self.reference_of(COMMAND)
        run = self.finish(self.start_saved(COMMAND, GPUSNAP_HOST_CACHE='1M', GPUSNAP_SLOT='2M'))
        self.assert_same_output(run, reference)
        self.assertEqual(self.kept(run), 0)
        self.assertEqual(run.errors.count('no checkpoint stays in memory'), 1)
        self.assertIn('GPUSNAP_HOST_CACHE does not hold two', run.errors)

    def test_chosen_with_the_interval(self):
        reference = self.reference_of(COMMAND)
        run = self.finish(self.start_saved(COMMAND, GPUSNAP_EVERY='auto', GPUSNAP_STORE_EVERY='auto',
                                           GPUSNAP_MTBF='300ms', GPUSNAP_SURVIVED='0.99'))
        self.assert_same_output(run, reference)
        self.assertNotIn('gpusnap: error: ', run.errors)
        self.assertRegex(run.errors, r'one of \d+ goes to the store')

    def test_settings_that_cannot_be(self):
        for settings, said in [
                ({'GPUSNAP_STORE_EVERY': '0'}, 'not a number from 1'),
                ({'GPUSNAP_STORE_EVERY': 'auto'}, 'it needs GPUSNAP_EVERY=auto'),
                ({'GPUSNAP_BACKEND': 'thread'}, 'it needs GPUSNAP_BACKEND=process'),
                ({'GPUSNAP_SURVIVED': '1'}, 'not a share from 0 to 0.9999')]:
            run = self.start_saved(COMMAND, GPUSNAP_STRICT='1', **settings)
            self.assertEqual(run.wait(self.timeout), harness.BAD_SETTING, run.errors)
            self.assertIn(said, run.errors)


if __name__ == '__main__':
    harness.main()
