#!/usr/bin/env python3
"""Events that end, delay or trigger checkpoints, their messages, and that no program suffers."""
import os
import signal
import subprocess
import time

import harness
import scripted

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
        before = self.stored()
        # They restore up to there; from there on the restored run is without checkpoints, too.
        again = self.finish(self.start_restored(command, checkpoint=kept[-1]['id']))
        self.assert_same_output(again, reference)
        self.one_line(again, words)
        after = self.stored()
        for name, content in before.items():
            if 'journal' not in name:
                self.assertEqual(after.get(name), content, name)
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

    def test_nothing_of_ours_moves_what_is_mapped(self):
        """Drivers place memory beside it. Behind the first checkpoint the software GPU's own threads,
        which serve streams of ours, move it."""
        command = [CORNERS, 'mappings', '60']

        def places(run):
            return run.output.splitlines()[:35]
        without = places(self.finish(self.start_saved(command, GPUSNAP_EVERY='off')))
        self.assertEqual(len(without), 35)
        saved = self.finish(self.start_saved(command, GPUSNAP_EVERY='syncs:40', **EACH))
        self.assertEqual(places(saved), without)
        again = self.finish(self.start_restored(command))
        self.assertEqual(places(again), without)

    def test_unproven_kernel_beside_shared_memory_and_threads(self):
        self.ends_checkpointing('unproven_thread', 'in several threads')

    def test_word_for_the_host(self):
        self.ends_checkpointing('word_for_host',
                                'cuStreamWriteValue32_v2 to memory that the host sees')

    def test_journal_too_small(self):
        command = [CORNERS, 'plain', '2000']
        reference = self.reference(command)
        run = self.finish(self.start_saved(command, GPUSNAP_EVERY='syncs:40', GPUSNAP_JOURNAL='1M',
                                           **EACH))
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
        before = self.stored()
        with open(size, 'w') as file:
            file.write('1001\n')
        run = self.start_restored(command, GPUSNAP_RESTORE_FORCE='inputs')
        self.assertEqual(run.wait(self.timeout), harness.DIVERGED, run.errors)
        self.one_line(run, 'expected cuMemAlloc_v2(4000)', 'got cuMemAlloc_v2(4004)')
        self.assertEqual(self.stored(), before)
        with open(size, 'w') as file:
            file.write('1000\n')
        self.restores(command, reference)

    def test_other_data(self):
        """The calls are the same; what they give to the device is not."""
        value = os.path.join(self.working_folder, 'value.txt')
        for mode, call in (('data_by_file', 'cuMemcpyHtoD_v2'),
                           ('argument_by_file', 'cuLaunchKernel'),
                           ('tasks_by_file', 'cuMemcpyHtoD_v2')):
            with self.subTest(mode=mode):
                command = [CORNERS, mode, '200']
                with open(value, 'w') as file:
                    file.write('4\n')
                reference = self.reference(command)
                self.finish(self.start_saved(command, GPUSNAP_EVERY='syncs:50', GPUSNAP_JOB=mode))
                with open(value, 'w') as file:
                    file.write('5\n')
                run = self.start_restored(command, GPUSNAP_RESTORE_FORCE='inputs',
                                          GPUSNAP_JOB=mode)
                self.assertEqual(run.wait(self.timeout), harness.DIVERGED, run.errors)
                self.one_line(run, 'expected ' + call, 'with the data of the recorded run',
                              '--force-data')
                self.finish(self.start_restored(command, GPUSNAP_RESTORE_FORCE='inputs,data',
                                                GPUSNAP_JOB=mode))
                with open(value, 'w') as file:
                    file.write('4\n')
                run = self.finish(self.start_restored(command, GPUSNAP_JOB=mode))
                self.assert_same_output(run, reference)

    def test_code_that_threads_load_each_for_itself(self):
        """Which of them came late does not count: each gets its own again."""
        value = os.path.join(self.working_folder, 'value.txt')
        command = [CORNERS, 'loads_by_file', '60']
        for late in (0, 1):
            with self.subTest(late=late):
                with open(value, 'w') as file:
                    file.write('%d\n' % late)
                reference = self.reference(command)
                self.finish(self.start_saved(command, GPUSNAP_EVERY='syncs:40',
                                             GPUSNAP_JOB='late%d' % late))
                with open(value, 'w') as file:
                    file.write('%d\n' % (1 - late))
                self.restores(command, reference, GPUSNAP_RESTORE_FORCE='inputs',
                              GPUSNAP_JOB='late%d' % late)

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


class WhileItWaits(scripted.TestCase):
    """A program that goes on when the test has seen enough."""

    STEPS = 400
    TEXT = '''
        stream s
        alloc a 1000
        stir a 1 s
        %%s
        sync s
        say begun
        %s
        await last
        print a
        ''' % '\n'.join('await step%d\nstir a %d s\nsync s\nsay %d' % (n, n + 2, n)
                        for n in range(STEPS))

    def start_script(self, first='', said='begun', **settings):
        self.text = self.TEXT % first
        self.reference_run = self.undisturbed(self.text)
        self.command = self.script(self.text)
        self.done = 0
        run = self.start_saved(self.command, **settings)
        self.wait_for(run, said)
        return run

    def steps_until(self, run, happened):
        """The program goes on, step by step, until that has happened. All of its steps take minutes:
        what hangs is found by then."""
        pause = 0.01
        while not happened():
            self.assertLess(self.done, self.STEPS, run.errors)
            self.make('step%d' % self.done)
            self.wait_for(run, str(self.done))
            self.done += 1
            time.sleep(pause)
            pause = min(1.05 * pause, 1)

    def is_complete(self, run):
        return lambda: self.complete_so_far(run) > 0

    def killed_and_restored(self, run):
        self.assertTrue(run.kill())
        self.settle()
        self.make_all(self.text)
        self.restores_all(self.command, self.reference_run)

    def test_long_kernel(self):
        """Cuts are given up while the device does not run empty; a later one succeeds."""
        held = ('stream other\nalloc b 1000\nwait_for_host k other\n' +
                'stir b 1 s\nsync s\n' * 6 + 'say held\nawait end\nrelease k\nsync other')
        run = self.start_script(held, said='held', GPUSNAP_EVERY='syncs:2', GPUSNAP_DRAIN='20ms',
                                GPUSNAP_ORG='b+i')
        before = self.complete_so_far(run)  # those of calls ahead of the kernel
        said = self.warnings(run)
        self.assertIn('GPUSNAP_DRAIN', said[-1])
        # Once, and again after a success.
        self.assertLessEqual(len(said), 1 + before, run.errors)
        self.assertGreater(self.given_up_so_far(run), len(said))
        self.make('end')
        self.steps_until(run, lambda: self.complete_so_far(run) > before)
        self.assertEqual(set(self.warnings(run)), set(said))
        self.killed_and_restored(run)

    def test_signal(self):
        run = self.start_script(GPUSNAP_EVERY=scripted.EVERY)
        run.process.send_signal(signal.SIGUSR1)
        self.steps_until(run, self.is_complete(run))
        self.assertEqual(len(self.complete()), 1)
        self.assertEqual(self.warnings(run), [])
        self.killed_and_restored(run)

    def test_time(self):
        run = self.start_script(GPUSNAP_EVERY='50ms')
        self.steps_until(run, self.is_complete(run))
        self.assertEqual(self.warnings(run), [])
        self.killed_and_restored(run)

    def test_request(self):
        run = self.start_script()
        for count in (1, 2):
            with subprocess.Popen([harness.GPUSNAP, 'checkpoint', str(run.process.pid)], text=True,
                                  env=self.environment(**self.settings()), stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE) as asking:
                self.addCleanup(asking.kill)
                self.steps_until(run, lambda: asking.poll() is not None)
                said, errors = asking.communicate()
            self.assertEqual(asking.returncode, 0, errors)
            self.assertEqual(len(self.complete()), count)
            self.assertIn(self.complete()[0]['id'], said)
        self.assertEqual(self.warnings(run), [])
        self.killed_and_restored(run)

    def test_two_processes_of_a_job(self):
        first = self.start_script(GPUSNAP_EVERY=scripted.EVERY)
        first.process.send_signal(signal.SIGUSR1)
        self.steps_until(first, self.is_complete(first))
        second = self.finish(self.start_saved([CORNERS, 'plain', '50'], GPUSNAP_EVERY='syncs:10'))
        restored = self.start_restored(self.command)
        self.assertNotEqual(restored.wait(self.timeout), 0)
        for refused, words in ((second, 'no checkpoints'), (restored, '')):
            line, = self.warnings(refused)
            self.assertIn(words, line)
            self.assertIn('job', line)
        self.assertEqual(self.warnings(first), [])
        self.killed_and_restored(first)


if __name__ == '__main__':
    harness.main()
