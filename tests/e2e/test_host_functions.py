#!/usr/bin/env python3
"""Functions of the host that run in streams: a replay runs each where it ran, waits for it where the
program did, and counts them on over restores.
"""
import os
import time

import harness
import scripted


class HostFunctions(scripted.TestCase):
    def saved(self, text, checkpoints):
        """A run with a checkpoint at each "await cutN"; all of them restore."""
        reference = self.undisturbed(text)
        command = self.script(text)
        run = self.start_saved(command, GPUSNAP_EVERY=scripted.EVERY, GPUSNAP_KEEP=20)
        for number in range(1, checkpoints + 1):
            self.wait_for(run, 'ready %d' % number)
            self.go_on_with_a_checkpoint(run, 'cut%d' % number)
            self.wait_for_complete(run, number)
        self.make('last')
        self.finish(run)
        self.assert_same_output(run, reference)
        self.assertEqual(self.warnings(run), [])
        self.assertEqual(len(self.complete()), checkpoints)
        self.restores_all(command, reference)
        return command, reference

    def test_each_ends_when_what_it_waits_for_has_come(self):
        """The one that began later ends first, in the replay as well."""
        _, reference = self.saved('''
            stream s
            stream other
            alloc a 1000
            host f s
            stir a 1 s
            host g other
            release g
            sync other
            say g is over
            release f
            sync s
            say f is over
            say ready 1
            await cut1
            stir a 2 s
            await last
            print a
            ''', 1)
        self.assertEqual(reference.output.splitlines()[:4],
                         [b'host function g', b'g is over', b'host function f', b'f is over'])

    def test_a_thread_of_the_program_may_be_what_it_waits_for(self):
        self.saved('''
            stream s
            alloc a 1000
            host f s
            stir a 1 s
            second: stir a 7 default
            second: sync default
            second: release f
            second: sync s
            join second
            say ready 1
            await cut1
            stir a 2 s
            await last
            sync s
            print a
            ''', 1)

    def test_code_that_is_loaded_behind_one_that_ends_late(self):
        """By the thread whose turn it is then, not by one that stands in for it, which may be once."""
        text = '''
            stream s
            alloc a 1000
            attend first s
            await first.begun
            await one
            load
            attend second s
            await second.begun
            await two
            load
            say ready
            await cut
            stir a 2 s
            await last
            print a
            '''
        reference = self.undisturbed(text)
        command = self.script(text)
        run = self.start_saved(command, GPUSNAP_EVERY=scripted.EVERY)
        for name, then in (('first', 'one'), ('second', 'two')):
            self.wait_for_file(run, name + '.begun')
            self.make(name)
            time.sleep(0.3)  # it has ended by then, or this shows nothing
            self.make(then)
        self.wait_for(run, 'ready')
        self.go_on_with_a_checkpoint(run, 'cut')
        self.wait_for_complete(run, 1)
        self.make('last')
        self.finish(run)
        for name in ('first', 'second'):
            for path in (name, name + '.begun'):
                os.remove(os.path.join(self.working_folder, path))
        again = self.start_restored(command)
        for name in ('first', 'second'):
            self.wait_for_file(again, name + '.begun')
            time.sleep(0.5)  # the program's thread waits with its load
            self.make(name)
        self.finish(again)
        self.assert_same_output(again, reference)

    # A kernel that may write to any memory, the page-locked p, too.
    BESIDE_A_GUESS = '''
            stream s
            stream other
            alloc a 1000
            alloc table 1000
            point table a
            pin p 3000
            chase table 100 1 other
        '''

    CUTS_BEFORE = 3  # copies to the device are synchronisations, too

    def released_in_sync(self, text, *files):
        """Makes the files that host functions wait for while the program is in "sync", at whose end
        a cut is made. The run and its restores put out the same."""
        reference, command, run = self.started(text)
        self.wait_for(run, 'ready')
        self.wait_for_sleep(run)
        for name in files:
            self.make(name)
        self.wait_for_complete(run, self.CUTS_BEFORE + 1)
        self.make('last')
        self.finish(run)
        self.assert_same_output(run, reference)
        self.assertEqual(self.warnings(run), [])
        self.restores_all(command, reference)

    def started(self, text):
        reference = self.undisturbed(text)
        command = self.script(text)
        return reference, command, self.start_saved(command, GPUSNAP_EVERY='syncs:1',
                                                    GPUSNAP_ORG='b+i', GPUSNAP_KEEP=20)

    def test_what_the_host_did_behind_a_cut_at_the_end_of_a_call_is_kept(self):
        """The cut has waited for one, which in the replay may be running still."""
        text = self.BESIDE_A_GUESS + '''
            attend go s
            say ready
            sync other
            bump p
            tell p
            await last
            print a
            tell p
            '''
        self.released_in_sync(text, 'go')

    def test_one_that_began_in_a_call_does_so_in_the_replay(self):
        """It is given what host code before that call has changed, which must have done so."""
        text = self.BESIDE_A_GUESS + '''
            attend first s
            attend second s
            await first.begun
            pause 200
            bump p
            tell p
            say ready
            sync s
            bump p
            tell p
            await last
            print a
            tell p
            '''
        self.released_in_sync(text, 'first', 'second')

    def test_where_nobody_can_tell_who_changed_memory_checkpoints_end(self):
        text = self.BESIDE_A_GUESS + '''
            attend first s
            attend second s
            bump p
            say ready
            await go
            sync s
            tell p
            await last
            print a
            '''
        reference, command, run = self.started(text)
        self.wait_for(run, 'ready')
        self.make('first')
        self.wait_for_file(run, 'second.begun')
        self.make('second')
        self.make('go')
        self.make('last')
        self.finish(run)
        self.assert_same_output(run, reference)
        self.assertIn('no more checkpoints of this process, the program goes on: pinned or managed '
                      'memory that host code has changed beside a kernel that may write to any of '
                      'it (gpusnap explain), while a host function began or ran, cannot be '
                      'restored by this version', run.errors)

    def test_what_a_function_is_changing_is_not_delivered(self):
        """A copy has arrived before the function that changes its bytes; the program synchronises
        with another stream while the function is in the middle of that, and again after it.
        """
        text = '''
            stream s
            stream other
            alloc a 1000
            pin p 1000
            sync_all
            fetch p a s
            rework half p s
            await half.begun
            sync other
            say ready
            await go
            sync s
            tell p
            store a p s
            sync s
            say ready 1
            await cut1
            stir a 2 s
            await last
            print a
            tell p
            '''
        reference = self.undisturbed(text)
        command = self.script(text)
        run = self.start_saved(command, GPUSNAP_EVERY=scripted.EVERY)
        self.wait_for(run, 'ready')
        self.make('half')
        self.make('go')
        self.wait_for(run, 'ready 1')
        self.go_on_with_a_checkpoint(run, 'cut1')
        self.wait_for_complete(run, 1)
        self.make('last')
        self.finish(run)
        self.assert_same_output(run, reference)
        self.assertEqual(self.warnings(run), [])
        self.restores_all(command, reference)

    def test_they_are_counted_on_after_a_restore(self):
        """From a checkpoint of a restored run, whose journal is in two parts."""
        text = '''
            stream s
            alloc a 1000
            host f s
            release f
            sync s
            say ready 1
            await cut1
            host g s
            stir a 1 s
            release g
            sync s
            say ready 2
            await cut2
            host h s
            release h
            sync s
            await last
            print a
            '''
        command, reference = self.saved(text, 2)
        first = self.complete()[-1]
        again = self.finish(self.start_restored(command, checkpoint=first['id'],
                                                GPUSNAP_EVERY='syncs:1', GPUSNAP_ORG='b+i',
                                                GPUSNAP_KEEP=20))
        self.assert_same_output(again, reference)
        later = [each for each in self.complete() if each['epoch'] > 2]
        self.assertGreater(len(later), 1)
        for each in later:
            self.assertEqual(len(self.show(each['id'])['ranks'][0]['journal']), 2)
            run = self.finish(self.start_restored(command, checkpoint=each['id']))
            self.assert_same_output(run, reference)


if __name__ == '__main__':
    harness.main()
