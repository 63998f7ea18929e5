#!/usr/bin/env python3
"""What ends, delays or triggers checkpoints, what is said then, and that the program never suffers."""
import os
import signal
import time

import harness

CORNERS = harness.app('corners')


# A checkpoint that is due waits for the one before it, so that every one is taken.
EACH = {'GPUSNAP_ORG': 'b+i'}


class Policies(harness.TestCase):
    def one_line(self, run, *words):
        lines = run.errors.strip().splitlines()
        self.assertEqual(len(lines), 1, run.errors)
        for word in words:
            self.assertIn(word, lines[0])

    def restores(self, command, reference, checkpoint=None, **settings):
        run = self.finish(self.start_restored(command, checkpoint=checkpoint, **settings))
        self.assert_same_output(run, reference)
        return run

    # ---- what cannot be followed ----

    def ends_checkpointing(self, mode, words):
        """At step 100 of 200; one synchronisation a step, and one more each fifth."""
        command = [CORNERS, mode, '200']
        reference = self.reference(command)
        run = self.finish(self.start_saved(command, GPUSNAP_EVERY='syncs:30', GPUSNAP_KEEP=10,
                                           **EACH))
        self.assert_same_output(run, reference)
        self.one_line(run, words)
        kept = self.complete()
        self.assertEqual([each['epoch'] for each in kept], [3, 2, 1, 0] if kept[-1]['epoch'] == 0
                         else [4, 3, 2, 1])
        before = harness.fingerprint(self.store)
        # They restore up to there; from there on the restored run is without checkpoints, too.
        again = self.finish(self.start_restored(command, checkpoint=kept[-1]['id']))
        self.assert_same_output(again, reference)
        self.one_line(again, words)
        for name, content in before.items():
            if 'journal' not in name:
                self.assertEqual(harness.fingerprint(self.store).get(name), content, name)
        strict = self.start_saved(command, GPUSNAP_EVERY='off', GPUSNAP_STRICT=1)
        self.assertEqual(strict.wait(self.timeout), harness.IMPOSSIBLE, strict.errors)
        self.assertIn(words, strict.errors)

    def test_second_thread(self):
        """Its calls are followed as those of the first."""
        command = [CORNERS, 'thread', '200']
        reference = self.reference(command)
        run = self.finish(self.start_saved(command, GPUSNAP_EVERY='syncs:30', GPUSNAP_KEEP=10,
                                           **EACH))
        self.assert_same_output(run, reference)
        self.assertEqual(run.errors, '')
        kept = self.complete()
        self.assertGreaterEqual(len(kept), 7)  # before the thread and after it
        for each in (kept[0], kept[-1]):
            self.assertEqual(self.restores(command, reference, each['id']).errors, '')

    def test_unproven_kernel_beside_shared_memory_and_threads(self):
        self.ends_checkpointing('unproven_thread', 'in several threads')

    def test_stream_callback(self):
        self.ends_checkpointing('stream_callback', 'cuStreamAddCallback')

    def test_journal_too_small(self):
        command = [CORNERS, 'plain', '2000']
        reference = self.reference(command)
        run = self.finish(self.start_saved(command, GPUSNAP_EVERY='syncs:40', GPUSNAP_JOURNAL='1M'))
        self.assert_same_output(run, reference)
        self.one_line(run, 'GPUSNAP_JOURNAL')
        newest = self.complete()[0]
        self.assertLess(self.show(newest['id'])['ranks'][0]['launches'], 2000)
        self.restores(command, reference, GPUSNAP_JOURNAL='1G')

    def test_divergence(self):
        command = [CORNERS, 'by_file', '200']
        size = os.path.join(self.working_folder, 'size.txt')
        with open(size, 'w') as file:
            file.write('1000\n')
        reference = self.reference(command)
        self.finish(self.start_saved(command, GPUSNAP_EVERY='syncs:50'))
        before = harness.fingerprint(self.store)
        with open(size, 'w') as file:
            file.write('1001\n')
        run = self.start_restored(command)
        self.assertEqual(run.wait(self.timeout), harness.DIVERGED, run.errors)
        self.one_line(run, 'expected cuMemAlloc_v2(4000)', 'got cuMemAlloc_v2(4004)')
        self.assertEqual(harness.fingerprint(self.store), before)
        with open(size, 'w') as file:
            file.write('1000\n')
        self.restores(command, reference)

    def test_forks(self):
        command = [CORNERS, 'forks', '200']
        reference = self.reference(command)
        run = self.finish(self.start_saved(command, GPUSNAP_EVERY='syncs:30', GPUSNAP_KEEP=10,
                                           **EACH))
        self.assert_same_output(run, reference)
        self.assertEqual(run.errors, '')
        kept = self.complete()
        self.assertGreaterEqual(len(kept), 7)  # before the children and after them
        for each in (kept[0], kept[-1]):
            self.assertEqual(self.restores(command, reference, each['id']).errors, '')

    # ---- when ----

    def test_long_kernel(self):
        """A cut is given up while the device does not run empty; a later one succeeds."""
        command = [CORNERS, 'slow', '400']
        reference = self.reference(command)
        run = self.finish(self.start_saved(command, GPUSNAP_EVERY='syncs:20', GPUSNAP_KEEP=100,
                                           GPUSNAP_DRAIN='20ms', **EACH))
        self.assert_same_output(run, reference)
        self.one_line(run, 'GPUSNAP_DRAIN')
        self.assertTrue(self.complete())
        self.restores(command, reference)

    def test_signal_request_and_time(self):
        command = [CORNERS, 'plain', '8000']
        reference = self.reference(command)
        for every, act in (('signal:USR1', self.send_signal), ('off', self.ask), ('50ms', None)):
            with self.subTest(every=every):
                run = self.start_saved(command, GPUSNAP_EVERY=every, GPUSNAP_JOB=every[:3])
                while not run.output:
                    time.sleep(0.01)
                seen = set(self.manifests())
                if act is not None:
                    act(run)
                self.assertTrue(self.wait_for_checkpoint(run, seen), run.errors)
                # On a busy machine it may have ended by itself: what it saved is there all the same.
                run.kill()
                self.assertEqual(run.errors, '')
                self.restores(command, reference, GPUSNAP_JOB=every[:3])

    @staticmethod
    def send_signal(run):
        run.process.send_signal(signal.SIGUSR1)

    def ask(self, run):
        asked = self.tool('checkpoint', str(run.process.pid))
        self.assertEqual(asked.returncode, 0, asked.stderr)
        self.assertEqual(len([each for each in self.checkpoints() if each['job'] == 'off']), 1)
        self.tool('checkpoint', str(run.process.pid))

    def test_before_any_allocation(self):
        command = [CORNERS, 'late', '60']
        reference = self.reference(command)
        self.finish(self.start_saved(command, GPUSNAP_EVERY='syncs:7', GPUSNAP_KEEP=100))
        first = self.complete()[-1]
        self.assertEqual(self.show(first['id'])['ranks'][0]['launches'], 0)
        self.restores(command, reference, first['id'])

    def test_every_synchronisation_up_to_the_last(self):
        """Each cut of a short run, up to one at which nothing is left to do."""
        command = [CORNERS, 'plain', '10']
        reference = self.reference(command)
        self.finish(self.start_saved(command, GPUSNAP_EVERY='syncs:1', GPUSNAP_KEEP=1000,
                                     **EACH))
        kept = self.complete()
        self.assertGreater(len(kept), 10)
        for each in kept:
            self.restores(command, reference, each['id'])

    def test_keep(self):
        command = [CORNERS, 'plain', '200']
        for keep in (1, 3):
            self.finish(self.start_saved(command, GPUSNAP_EVERY='syncs:10', GPUSNAP_KEEP=keep,
                                         GPUSNAP_CHAIN=0, **EACH))
            self.assertEqual(len(self.complete()), keep)

    # ---- two at once ----

    def test_two_processes_of_a_job(self):
        command = [CORNERS, 'plain', '8000']
        reference = self.reference(command)
        first = self.start_saved(command, GPUSNAP_EVERY='syncs:100')
        self.assertTrue(self.wait_for_checkpoint(first))
        second = self.finish(self.start_saved([CORNERS, 'plain', '50'], GPUSNAP_EVERY='syncs:10'))
        self.one_line(second, 'no checkpoints', 'job')
        self.assertFalse(first.ended())
        restored = self.start_restored(command)
        self.assertNotEqual(restored.wait(self.timeout), 0)
        self.one_line(restored, 'job')
        self.assertTrue(first.kill())
        self.assertEqual(first.errors, '')
        self.restores(command, reference)


if __name__ == '__main__':
    harness.main()
