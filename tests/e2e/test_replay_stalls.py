#!/usr/bin/env python3
"""Replays in which threads wait for each other: none waits for ever, and none that may still go on
is given up.
"""
import os
import shutil

import harness
import scripted


class Stalls(scripted.TestCase):
    timeout = 300

    def test_no_cut_stands_before_a_call_that_a_replay_makes_early(self):
        """A thread says which context is current before its turn, and may then wait for others."""
        text = '''
            alloc a 1000
            say ready 1
            await cut1
            second: make second.begun
            await second.begun
            stir a 1 default
            say ready 2
            await cut2
            stir a 2 default
            await last
            print a
            '''
        reference = self.undisturbed(text)
        command = self.script(text)
        run = self.start_saved(command, GPUSNAP_EVERY=scripted.EVERY)
        for number in (1, 2):
            self.wait_for(run, 'ready %d' % number)
            self.go_on_with_a_checkpoint(run, 'cut%d' % number)
            self.wait_for_complete(run, number)
        self.make('last')
        self.finish(run)
        self.restores_all(command, reference)

    def test_calls_of_after_the_cut_are_made_for_a_thread_that_waits_in_host_code(self):
        """The thread with calls before the cut waits for one that has none, as at a lock. The call of
        that one is in the journal of the restored run, which is restored in turn."""
        text = '''
            alloc a 1000
            alloc c 3000
            second: sync_all
            join second
            third: sync_all
            join third
            second: when REVERSED await third.done
            second: alloc b 2000
            second: make second.done
            third: when ORDERED await main.done
            third: sync_all
            third: when REVERSED make third.done
            when ORDERED await second.done
            say ready
            await cut1
            copy a c default
            make main.done
            join second
            join third
            say ready again
            await cut2
            stir c 6 default
            await last
            print a
            print b
            print c
            '''
        command = self.script(text)
        run = self.start_saved(command, GPUSNAP_EVERY=scripted.EVERY, ORDERED='1')
        self.wait_for(run, 'ready')
        self.go_on_with_a_checkpoint(run, 'cut1')
        self.wait_for_complete(run, 1)
        for name in ('cut2', 'last'):
            self.make(name)
        self.finish(run)
        os.remove(os.path.join(self.working_folder, 'cut2'))
        again = self.start_restored(command, GPUSNAP_EVERY=scripted.EVERY, GPUSNAP_LOG='info',
                                    REVERSED='1')
        self.wait_for(again, 'ready again')
        self.go_on_with_a_checkpoint(again, 'cut2')
        self.wait_for_complete(again, 1)
        self.finish(again)
        self.assert_same_output(again, run)
        once_more = self.finish(self.start_restored(command))
        self.assert_same_output(once_more, run)

    # In a restored run each variable makes something else go otherwise than it was recorded.
    TEXT = '''
        stream s
        stream t
        alloc a 1000
        alloc b 1000
        second: stir a 1 s
        join second
        stick STUCK_FUNCTION s
        sync s
        second: when STUCK_THREAD block
        second: when SLEEPING_THREAD await woken
        second: stir a 2 s
        second: make second.done
        await second.done
        when EARLY_END exit
        stir a 3 s
        join second
        second: third: make third.begun
        join second
        await third.begun
        $TAKER: wait t s
        $TAKER: stir b 4 t
        join $TAKER
        say ready
        await cut
        stir a 5 s
        await last
        print a
        print b
        '''

    stores = 0

    def restore_otherwise(self, command, **variables):
        """From a store of its own."""
        self.stores += 1
        store = os.path.join(self.folder, 'store %d' % self.stores)
        shutil.copytree(self.store, store)
        return self.start_restored(command, GPUSNAP_PFS=store, **variables)

    def test_what_cannot_go_on_is_given_up(self):
        """All at once, since each takes a minute of waiting."""
        self.program_settings = {'TAKER': 'third'}
        command = self.script(self.TEXT)
        reference = self.start_saved(command, GPUSNAP_EVERY=scripted.EVERY)
        self.wait_for(reference, 'ready')
        self.go_on_with_a_checkpoint(reference, 'cut')
        self.wait_for_complete(reference, 1)
        self.make('last')
        self.finish(reference)

        thread = self.restore_otherwise(command, STUCK_THREAD=1)
        function = self.restore_otherwise(command, STUCK_FUNCTION='')
        early = self.restore_otherwise(command, STUCK_THREAD=1, EARLY_END=1)
        exchanged = self.restore_otherwise(command, TAKER='second')
        sleeping = {
            'thread 0 to make call ': self.restore_otherwise(command, SLEEPING_THREAD=1),
            'a host function to end; ': self.restore_otherwise(command, STUCK_FUNCTION='woken'),
        }

        self.given_up(thread, 'thread 0 to make call ', 'cuLaunchKernel',
                      '; thread 0 waits for another thread; main thread waits with cuLaunchKernel;')
        self.given_up(function, 'a host function to end; ', '',
                      'main thread waits with cuStreamSynchronize;')
        self.given_up(early, 'thread 0 to make call ', 'cuModuleGetFunction',
                      '; thread 0 waits for another thread; main thread waits with its end;')
        # The task begins with calls that tell nobody apart, and its thread is the parent's child: the
        # parent takes the child's place.
        self.finish(exchanged)
        self.assert_same_output(exchanged, reference)
        # The second time is after more than a minute.
        for awaited, run in sleeping.items():
            said = 'gpusnap: warning: the replay waits for ' + awaited
            self.wait_until(run, 'two warnings', lambda: run.errors.count(said) >= 2)
            self.assertIn('; main thread waits with cu', run.errors)
        self.make('woken')
        for run in sleeping.values():
            self.finish(run)
            self.assert_same_output(run, reference)

    def given_up(self, run, awaited, call, waits):
        self.finish(run, harness.DIVERGED)
        last = run.errors.splitlines()[-1]
        self.assertIn('gpusnap: error: the replay cannot go on: it waits for ' + awaited, last)
        self.assertIn(call, last)
        self.assertIn(waits, last)
        self.assertIn('nothing was changed in the store', last)


if __name__ == '__main__':
    harness.main()
