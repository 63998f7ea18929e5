#!/usr/bin/env python3
"""The rules of cuts and snapshots, each shown by a program that is a text (docs/design/promises.md
has them in a table, with the tests that show them).

Where a copy has to be on its way, the engine that copies to the host is held.
"""
import os
import time

import harness
import scripted

# For a device that does not run empty. One with nothing to do may need longer on a busy machine: a cut
# is tried again then.
LITTLE_PATIENCE = {'GPUSNAP_DRAIN': '2s'}


class Rules(scripted.TestCase):
    def start_script(self, text, ends_with=0, **settings):
        self.reference_run = self.undisturbed(text, ends_with)
        self.command = self.script(text)
        return self.start_saved(self.command, GPUSNAP_EVERY=scripted.EVERY, GPUSNAP_KEEP=20,
                                **settings)

    def end_as_without(self, run, status=0):
        self.finish(run, status)
        self.assert_same_output(run, self.reference_run)

    def all_is_right(self, run, checkpoints):
        """It ends as it does without us, and every checkpoint restores."""
        self.end_as_without(run)
        self.assertEqual(len(self.complete()), checkpoints)
        self.verify_all()
        self.restores_all(self.command, self.reference_run)

    def given_up(self, run, words):
        self.wait_for_given_up(run, 1)
        lines = self.warnings(run)
        self.assertEqual(len(lines), 1, run.errors)
        self.assertIn('no checkpoint was taken, the program goes on', lines[0])
        self.assertIn(words, lines[0])
        self.assertEqual(self.manifests(), [])

    # ---- a cut is an attempt ----

    ATTEMPT = '''
        stream s
        stream other
        alloc a 1000
        %(begins)s
        say begun
        await cut
        %(beside)s
        sync other
        say went on
        await end
        %(ends)s
        sync s
        say ended
        %(again)s
        await last
        print a
        '''
    TRIES = 20

    def attempt(self, begins, ends, words, beside='', inside=None):
        """`begins` makes the cut be given up, and everybody goes on; once it `ends`, a later cut
        succeeds. `inside`: the thread that has to be inside a call first."""
        again = '\n'.join('await again%d\nstir a 3 other' % n for n in range(self.TRIES))
        run = self.start_script(self.ATTEMPT % {'begins': begins, 'beside': beside, 'ends': ends,
                                                'again': again}, **LITTLE_PATIENCE)
        if inside:
            self.wait_for(run, 'given')
            self.make('enter')
            self.wait_for_file(run, 'entering')
            self.wait_until(run, 'its wait', lambda: self.state_of_thread(run, inside) == 'S')
            self.make('inside')
        self.wait_for(run, 'begun')
        self.go_on_with_a_checkpoint(run, 'cut')
        self.wait_for(run, 'went on')
        self.given_up(run, words)
        self.make('end')
        self.wait_for(run, 'ended')
        self.try_again(run)
        self.make('last')
        self.all_is_right(run, 1)

    def try_again(self, run):
        """Cuts before the calls that are left, until one comes to a checkpoint."""
        ahead = ['again%d' % n for n in range(self.TRIES)]
        while ahead and self.complete_so_far(run) == 0:
            tried = self.given_up_so_far(run) + 1
            self.go_on_with_a_checkpoint(run, ahead.pop(0))
            self.wait_until(run, 'its end', lambda: self.given_up_so_far(run) == tried or
                            self.complete_so_far(run) > 0)
        self.assertEqual(self.complete_so_far(run), 1, run.errors)
        for name in ahead:
            self.make(name)

    NOT_EMPTY = 'the device did not run empty within 2000 ms (GPUSNAP_DRAIN)'

    def test_a_kernel_that_waits_for_the_host_does_not_hold_it(self):
        self.attempt('stir a 1 other\nwait_for_host k s', 'release k', self.NOT_EMPTY,
                     beside='stir a 2 other')

    def test_a_host_function_that_waits_for_a_thread_does_not_hold_it(self):
        self.attempt('stir a 1 s\nhost f s\nstir a 2 s', 'release f', self.NOT_EMPTY)

    def test_a_thread_that_does_not_leave_its_call_does_not_hold_it(self):
        self.attempt('''
            wait_for_host k s
            second: await enter
            second: make entering
            second: sync s
            second: stir a 5 s
            say given
            await inside
            ''', 'release k\njoin second',
                     '1 other thread(s) did not leave a CUDA call within 2000 ms (GPUSNAP_DRAIN)',
                     inside='second')

    def put_off(self, waits, beside='stir b 2 other'):
        """A cut that is due while a stream waits for a word is made when that has been passed: before a
        call and at the end of one it would wait for what the program does next."""
        run = self.start_script('stream s\nstream other\nalloc a 1000\nalloc b 1000\n' + waits + '''
            stir a 1 s
            say begun
            await cut
            %s
            sync other
            release g
            sync s
            await last
            print a
            print b
            ''' % beside)
        self.wait_for(run, 'begun')
        self.go_on_with_a_checkpoint(run, 'cut')
        self.wait_for_complete(run, 1)
        self.make('last')
        self.all_is_right(run, 1)
        self.assertEqual(self.warnings(run), [])

    def test_a_stream_that_waits_for_a_word_puts_the_cut_off(self):
        self.put_off('gate g s')

    def test_a_graph_that_waits_for_a_word_puts_the_cut_off(self):
        self.put_off('flag g\ncapture s\ngate g s\nend_capture s')

    def test_a_capture_goes_on_while_a_stream_waits(self):
        self.put_off('gate g s', beside='capture other\nstir b 2 other\nend_capture other')

    def test_a_stream_that_always_waits_has_the_cut_given_up(self):
        self.attempt('gate k s', 'release k', self.NOT_EMPTY, beside='stir a 2 other\npause 2500')

    def test_threads_in_host_code_are_not_stopped(self):
        run = self.start_script('''
            stream s
            stream other
            alloc a 1000
            alloc b 1000
            second: stir a 1 s
            join second
            second: await file
            second: make went
            second: stir a 2 s
            second: await last
            second: sync s
            say begun
            await cut
            stir b 3 other
            await last
            join second
            print a
            print b
            ''')
        self.wait_for(run, 'begun')
        self.go_on_with_a_checkpoint(run, 'cut')
        self.wait_for_complete(run, 1)
        self.make('file')
        self.wait_for_file(run, 'went')
        self.make('last')
        self.all_is_right(run, 1)

    def test_a_cut_before_a_call_that_another_thread_makes_now(self):
        """In a pool: the thread before whose call an earlier cut was made has nothing to do now."""
        text = '''
            stream s
            alloc a 1000
            alloc b 1000
            first: set a 1 s
            join first
            second: set b 2 s
            join second
            say begun
            await cut
            $TAKER: set a 3 s
            join $TAKER
            say taken
            await again
            stir b 4 s
            await last
            print a
            print b
            '''
        os.environ['TAKER'] = 'first'
        self.addCleanup(os.environ.pop, 'TAKER')
        run = self.start_script(text)
        self.wait_for(run, 'begun')
        self.go_on_with_a_checkpoint(run, 'cut')
        self.wait_for(run, 'taken')
        self.wait_for_complete(run, 1)
        self.go_on_with_a_checkpoint(run, 'again')
        self.wait_for_complete(run, 2)
        self.make('last')
        self.all_is_right(run, 2)
        self.restores_all(self.command, self.reference_run, TAKER='second')

    def test_textures_of_several_threads_have_their_handles_again(self):
        run = self.start_script('''
            stream s
            alloc a 1000
            first: textures a 300
            second: textures a 300
            third: textures a 300
            join first
            join second
            join third
            say begun
            await cut
            stir a 3 s
            print a
            ''')
        self.wait_for(run, 'begun')
        self.go_on_with_a_checkpoint(run, 'cut')
        self.all_is_right(run, 1)

    # ---- captures ----

    CAPTURE = '''
        stream s
        stream other
        alloc a 1000
        alloc b 1000
        capture s
        stir a 1 s
        say begun
        await cut
        stir a 2 s
        stir b 1 other
        say went on
        await end
        %s
        end_capture s
        await again
        stir b 2 other
        say ended
        await last
        sync other
        print a
        print b
        '''

    def in_a_capture(self, meanwhile):
        run = self.start_script(self.CAPTURE % meanwhile)
        self.wait_for(run, 'begun')
        self.go_on_with_a_checkpoint(run, 'cut')
        self.wait_for(run, 'went on')
        self.make('end')
        # It has been due all the time.
        self.make('again')
        self.wait_for(run, 'ended')
        self.wait_for_complete(run, 1)
        self.make('last')
        self.all_is_right(run, 1)
        self.assertEqual(self.warnings(run), [])
        # The launches beside the capture come before the cut.
        self.assertGreater(self.launches_before(self.complete()[0]['id']), 0)

    def test_no_cut_while_a_stream_is_captured(self):
        self.in_a_capture('')
        self.assertIn(b'end_capture: CUDA_SUCCESS', self.reference_run.output)

    def test_a_synchronisation_ends_a_capture_as_the_driver_does(self):
        self.in_a_capture('sync_all')
        self.assertIn(b'sync_all: CUDA_ERROR_STREAM_CAPTURE', self.reference_run.output)
        self.assertIn(b'end_capture: CUDA_ERROR_STREAM_CAPTURE', self.reference_run.output)

    # ---- with a snapshot on its way ----

    # One checkpoint is complete: what ours needs on the device is there. The next one has the head
    # to save first, which is more than can be on its way at once, and then the rest.
    PRELUDE = '''
        stream s
        alloc head 3200000
        alloc a 100000
        alloc b 100
        alloc table 100
        point table a
        %s
        say ready
        await first
        sync s
        await dirty
        set head 7 s
        stir a 1 s
        count 1 s
        %s
        sync s
        say begun
        '''
    CUT = '''
        await cut
        sync s
        say cut
        '''

    def prelude(self, first='', second=''):
        return self.PRELUDE % (first, second)

    def start_held(self, text, **settings):
        """With the engine that copies to the host held once it has said "begun"."""
        held = os.path.join(self.folder, 'held')
        run = self.start_script(text, SIMCUDA_CLOCK='virtual', SIMCUDA_HOLD='to_host:' + held,
                                **settings)
        self.wait_for(run, 'ready')
        self.go_on_with_a_checkpoint(run, 'first')
        self.wait_for_complete(run, 1)
        self.make('dirty')
        self.wait_for(run, 'begun')
        self.hold()
        return run

    def hold(self):
        """No more comes to the host: a cut itself copies nothing."""
        self.make('held')

    def let_go(self):
        os.remove(os.path.join(self.folder, 'held'))

    def start_pending(self, then, first='', second='', **settings):
        """A snapshot is under way, nothing of which comes to the host; the script does `then`."""
        run = self.start_held(self.prelude(first, second) + self.CUT + then, **settings)
        self.go_on_with_a_checkpoint(run, 'cut')
        self.wait_for(run, 'cut')
        return run

    def end_pending(self, run):
        """It is complete, and all is right."""
        self.wait_for_complete(run, 2)
        self.make('last')
        self.all_is_right(run, 2)
        self.assertEqual(self.warnings(run), [])

    def test_streams_that_share_a_zone_do_not_wait_for_each_other(self):
        """One that is held up by the program's own work holds up no other."""
        run = self.start_pending('''
            wait other third
            host f third
            wait other third
            stir_part a 0 100 2 other
            stir_part a 2000 100 3 s
            sync s
            say second is done
            await end
            release f
            sync other
            await last
            print a
            ''', first='stream other\nstream third')
        self.wait_for(run, 'second is done')
        self.make('end')
        self.let_go()
        self.end_pending(run)

    GONE = '''
        sync s
        say gone
        await last
        print b
        '''

    def memory_goes(self, how, last='', waits=False, **more):
        """Memory that goes is in the snapshot as it was; what comes to its place is not."""
        run = self.start_pending(how + self.GONE + last, **more)
        if waits:
            self.let_go()
        self.wait_for(run, 'gone')
        if not waits:
            self.assertEqual(len(self.manifests()), 1)
            self.let_go()
        self.end_pending(run)

    # Calls for which the driver itself waits for everything have to be let go. The bytes are
    # compared all the same, which shows that nothing is lost where it would not wait.
    AGAIN = 'free a\nalloc c 100000\nstir c 9 s\nmix b c s'

    def test_memory_that_is_freed_while_it_is_pending(self):
        self.memory_goes(self.AGAIN, waits=True)

    def test_memory_that_is_freed_where_there_is_no_room(self):
        self.memory_goes(self.AGAIN, waits=True, GPUSNAP_ORG='nb+i+h')

    def test_memory_that_is_freed_in_a_stream_and_trimmed(self):
        self.memory_goes('free_async o s\nsync s\ntrim\nalloc_async c 100000 s\nset c 5 s\n'
                         'mix b c s\nfree_async c s', first='alloc_async o 100000 s\nset o 3 s',
                         second='stir o 4 s', last='free head\nfree a\nfree b\nfree table')

    def test_memory_that_is_decompressed_into_while_it_is_pending(self):
        self.memory_goes('unpack a 2000 90000 7 s\nmix b a s', last='print a')

    def test_a_module_that_is_unloaded_while_it_is_pending(self):
        self.memory_goes('unload\nload\ncount 7 s\nstir b 2 s', waits=True)

    def test_a_context_that_ends_while_it_is_pending(self):
        self.memory_goes('end_context\nstir b 2 s', second='context\nalloc own 50000', waits=True)

    # Pools belong to devices: what was taken from one is there when the context has ended.

    def test_a_context_that_ends_beside_memory_of_a_pool(self):
        """Which is another context's: what ends is the context's own."""
        self.memory_goes('end_context\nstir b 2 s', first='alloc_async o 1000 s\nset o 3 s',
                         second='context\nalloc own 50000', last='free_async o s', waits=True)

    def outlives_its_context(self, made, what):
        run = self.start_pending('end_context\nstir b 2 s' + self.GONE, second='context\n' + made)
        self.let_go()
        self.wait_for(run, 'gone')
        self.wait_for_complete(run, 2)
        self.refused(run, what, 2)

    def test_memory_of_a_pool_that_outlives_its_context_is_refused_by_name(self):
        self.outlives_its_context('stream t\nalloc_async own 50000 t\nsync t',
                                  'stream-ordered memory that outlives its context')

    def test_memory_for_tiles_that_outlives_its_context_is_refused_by_name(self):
        self.outlives_its_context('tiles p 2097152',
                                  'memory for tiles that outlives the context in which it was made')

    # ---- what comes to an end first ----

    def refused(self, run, what, checkpoints):
        """No checkpoint comes of one more request; what there is restores."""
        self.go_on_with_a_checkpoint(run, 'last')
        self.all_is_right(run, checkpoints)
        last = self.warnings(run)[-1]
        self.assertIn('no more checkpoints of this process, the program goes on: %s cannot be '
                      'restored by this version' % what, last)

    def is_held(self, run, said):
        """It does not say so, nor end, while nothing comes to the host. No test fails for want of
        time: a program that does not wait is found out where the machine is quick enough."""
        for _ in range(100):
            self.assertNotIn(said.encode(), run.output.splitlines())
            self.assertFalse(run.ended())
            time.sleep(0.002)

    def end_somehow(self, run, why):
        """The snapshot is complete, or was given up by name. How many are complete."""
        self.wait_until(run, 'its end', lambda: 'no checkpoint was taken' in run.errors or
                        run.errors.count('gpusnap: info: checkpoint ') == 2)
        given_up = [each for each in self.warnings(run) if 'no checkpoint was taken' in each]
        for each in given_up:
            self.assertIn(why, each)
        return 2 - len(given_up)

    KEPT_APART = "the program's next call could not be kept apart from it"

    def start_losing_sight(self, held=True, **settings):
        self.program_settings['LD_PRELOAD'] = os.path.join(harness.HELPERS, 'libnewer_driver.so')
        run = self.start_pending('''
            new_set a 9 s
            say set
            await last
            sync s
            print a
            ''', **settings)
        if held:
            self.is_held(run, 'set')
        self.let_go()
        self.wait_for(run, 'set')
        return run

    def test_where_sight_is_lost_the_snapshot_ends_first(self):
        run = self.start_losing_sight(GPUSNAP_MAX_STALL='1h')
        self.wait_for_complete(run, 2)
        self.refused(run, 'cuMemsetD8Async', 2)

    def test_where_sight_is_lost_without_fingerprints(self):
        """Nobody would find out that the bytes are others."""
        run = self.start_losing_sight(GPUSNAP_MAX_STALL='1h', GPUSNAP_DIRTY='calls')
        self.wait_for_complete(run, 2)
        self.refused(run, 'cuMemsetD8Async', 2)

    # A snapshot that is given up holds the program only for copies that have begun, if any has.

    def test_where_sight_is_lost_the_snapshot_may_be_given_up(self):
        run = self.start_losing_sight(held=False, GPUSNAP_MAX_STALL='1ms', GPUSNAP_DIRTY='calls')
        self.refused(run, 'cuMemsetD8Async', self.end_somehow(run, self.KEPT_APART))

    def test_a_program_that_ends_waits_for_its_snapshot(self):
        run = self.start_pending('set a 9 s\nsay leaving\nexit\n')
        self.wait_for(run, 'leaving')
        self.is_held(run, 'ok')
        self.assertEqual(len(self.manifests()), 1)
        self.let_go()
        self.all_is_right(run, 2)
        self.assertEqual(self.warnings(run), [])

    def test_a_program_that_ends_its_context_may_give_its_snapshot_up(self):
        run = self.start_pending('set a 9 s\nsay leaving\n', GPUSNAP_MAX_STALL='1ms')
        self.wait_for(run, 'leaving')
        self.let_go()
        self.finish(run)
        self.all_is_right(run, self.end_somehow(run, self.KEPT_APART))

    # ---- what is never mapped is never read ----

    def test_a_fault_of_the_program_is_its_own(self):
        """Its context is lost while a snapshot is on its way: it ends as it would without us."""
        run = self.start_pending('chase wild 10 1 s\nsync s', first='alloc wild 100\nset wild 0 s',
                                 ends_with=1)
        self.wait_for_errors(run, 'CUDA_ERROR_ILLEGAL_ADDRESS')
        self.let_go()
        self.end_as_without(run, 1)
        self.assertIn('CUDA_ERROR_ILLEGAL_ADDRESS', self.reference_run.errors)
        self.assertEqual(len(self.complete()), 1)

    # ---- physical memory, wherever it is mapped ----

    PHYSICAL = {'first': 'physical p 2097152\nmap m p\nset m 3 s', 'second': 'stir_part m 0 5000 4 s'}
    OTHER = '\nphysical q 2097152\nmap c q\nset c 9 s\nmix b c s'

    def test_memory_that_is_unmapped_for_good_while_it_is_pending(self):
        self.memory_goes('drop p\nunmap m' + self.OTHER, waits=True, **self.PHYSICAL)

    def test_memory_that_is_dropped_while_it_is_pending(self):
        self.memory_goes('unmap m\ndrop p' + self.OTHER, waits=True, **self.PHYSICAL)

    def test_memory_that_is_unmapped_where_there_is_no_room(self):
        self.memory_goes('drop p\nunmap m' + self.OTHER, waits=True, GPUSNAP_ORG='nb+i+h',
                         **self.PHYSICAL)

    def test_memory_that_moves_while_it_is_pending(self):
        self.memory_goes('unmap m\nmap n p\nstir_part n 0 5000 7 s\nmix b n s', last='print n',
                         waits=True, **self.PHYSICAL)

    def test_memory_that_is_mapped_twice_has_its_zones_once(self):
        """A write to one place is a write to the other."""
        self.memory_goes('map n p\nstir_part n 0 5000 7 s\nmix b m s', last='print m\nprint n',
                         **self.PHYSICAL)

    def test_memory_that_is_mapped_twice_where_calls_tell_what_is_dirty(self):
        self.memory_goes('map n p\nstir_part n 0 5000 7 s\nmix b m s', last='print m\nprint n',
                         GPUSNAP_DIRTY='calls', **self.PHYSICAL)

    def test_physical_memory_that_outlives_its_context_is_refused_by_name(self):
        """As long as it is there."""
        run = self.start_pending('end_context\nstir b 2 s' + self.GONE + 'drop p\nsay dropped\n'
                                 'await again\nsync s\nprint a\nawait end\n',
                                 second='context\nphysical p 2097152')
        self.let_go()
        self.wait_for(run, 'gone')
        self.wait_for_complete(run, 2)
        self.go_on_with_a_checkpoint(run, 'last')
        self.wait_for_given_up(run, 1)
        self.wait_for(run, 'dropped')
        self.assertIn('memory of cuMemCreate has outlived the context in which it was made',
                      self.warnings(run)[-1])
        self.go_on_with_a_checkpoint(run, 'again')
        self.wait_for_complete(run, 3)
        self.make('end')
        self.all_is_right(run, 3)
        self.assertEqual(len(self.warnings(run)), 1)

    def test_memory_that_is_mapped_nowhere_is_saved(self):
        run = self.start_script('''
            stream s
            alloc a 1000
            physical p 2097152
            map one p
            set one 3 s
            stir_part one 0 1000 1 s
            sync s
            unmap one
            say begun
            await cut
            sync s
            map two p
            mix a two s
            sync s
            say mapped
            await last
            sync s
            print a
            print two
            ''')
        self.wait_for(run, 'begun')
        self.go_on_with_a_checkpoint(run, 'cut')
        self.wait_for_complete(run, 1)
        self.wait_for(run, 'mapped')
        self.make('last')
        self.all_is_right(run, 1)
        self.assertEqual(self.warnings(run), [])

    # ---- what is followed but not everywhere ----

    def refused_once_done(self, command, name):
        run = self.start_script('''
            stream s
            alloc a 1000
            stir a 1 s
            say begun
            await cut
            sync s
            await go
            %s
            sync s
            say done
            await last
            print a
            ''' % command)
        self.wait_for(run, 'begun')
        self.go_on_with_a_checkpoint(run, 'cut')
        self.wait_for_complete(run, 1)
        self.make('go')
        self.wait_for(run, 'done')
        self.refused(run, name, 1)
        self.assertEqual(len(self.warnings(run)), 1)

    def test_a_word_that_the_host_sees_is_refused_by_name(self):
        """It may wait for that without any call."""
        self.refused_once_done('signal f s', 'cuStreamWriteValue32_v2 to memory that the host sees')

    def test_a_batch_into_pageable_memory_is_refused_by_name(self):
        self.refused_once_done('bring a s', 'cuMemcpyBatchAsync_v2 into pageable memory')

    def test_what_was_placed_is_given_back_where_checkpoints_have_ended(self):
        """The driver knows none of it as an allocation."""
        run = self.start_script('''
            stream s
            alloc a 1000
            alloc_async b 1000 s
            pin h 1000
            stir a 1 s
            set b 3 s
            say begun
            await cut
            sync s
            await go
            bring a s
            sync s
            extent a
            print a
            print b
            free a
            free_async b s
            unpin h
            sync s
            say freed
            ''')
        self.wait_for(run, 'begun')
        self.go_on_with_a_checkpoint(run, 'cut')
        self.wait_for_complete(run, 1)
        run.kill()
        self.settle()
        self.make('go')
        again = self.finish(self.start_restored(self.command, SIMCUDA_ASLR=7, SIMCUDA_HOST_ASLR=5))
        self.assert_same_output(again, self.reference_run)
        self.assertEqual(len(self.warnings(again)), 1, again.errors)
        self.assertIn('no more checkpoints of this process', again.errors)

    # ---- guesses ----

    ROUND = '''
        await cut%(n)d
        sync s
        %(what)s
        say launched %(n)d
        await let%(n)d
        set head %(n)d s
        sync s
        say done %(n)d
        '''

    def start_rounds(self, *what):
        """The script does this while each of so many snapshots is on its way."""
        return self.start_held(
            self.prelude('''
                alloc harmless 70000
                alloc other 100
                point other harmless
                follow other harmless 1 s
                chase table 10 2 s
                hunt table 10 3 s
                ''') +
            ''.join(self.ROUND % {'n': n + 1, 'what': each} for n, each in enumerate(what)) +
            'await last\nprint a\nprint harmless\n')

    def round(self, run, number, held=True):
        if held and number > 1:
            self.hold()
        self.go_on_with_a_checkpoint(run, 'cut%d' % number)
        self.wait_for(run, 'launched %d' % number)
        if held:
            self.let_go()
        self.make('let%d' % number)
        self.wait_for(run, 'done %d' % number)

    def test_after_two_failures_a_checkpoint_takes_what_it_needs(self):
        run = self.start_rounds('chase table 10 5 s\nsync s', 'hunt table 10 6 s\nsync s',
                                'chase table 10 7 s')
        for number in (1, 2):
            self.round(run, number)
            self.wait_for_given_up(run, number)
        self.assertNotIn('as long as it takes', run.errors)
        self.round(run, 3, held=False)
        self.assertIn('after 2 checkpoints that were given up, this one holds the program as long '
                      'as it takes', run.errors)
        # Which kernel tore one is not said again and again.
        torn = [each for each in self.warnings(run) if 'its calls did not tell of' in each]
        self.assertEqual(len(torn), 1)
        self.wait_for_complete(run, 2)
        self.make('last')
        self.all_is_right(run, 2)

    def test_guilty_kernels_are_narrowed_down(self):
        """Both are suspects at first; then the harmless one goes ahead again, the other never."""
        both = 'follow other harmless %d s\nchase table 10 %d s'
        run = self.start_rounds(both % (4, 4) + '\nsync s', *(both % (n, n) for n in (5, 6, 7)))
        self.round(run, 1)
        self.wait_for_given_up(run, 1)
        counts = []
        for number in (2, 3, 4):
            self.round(run, number)
            self.wait_for_complete(run, number)
            found = self.meanwhile(self.complete()[0])
            counts.append((found['launches_guessed'], found['launches_opaque']))
        self.assertEqual(counts, [(0, 2), (1, 1), (1, 1)])
        self.assertEqual(run.errors.count('no checkpoint was taken'), 1)
        self.make('last')
        self.all_is_right(run, 4)

    # ---- our own kernels ----

    def test_our_kernels_come_with_the_context_and_with_no_other(self):
        """Before any cut, and so that no primary context is in use that the program does not use."""
        text = '''own_context
            alloc a 100
            primary
            print a
            '''
        stats = [os.path.join(self.folder, name) for name in ('plain', 'saved')]
        reference = self.finish(self.start_plain(self.script(text), SIMCUDA_STATS=stats[0]))
        run = self.finish(self.start_saved(self.script(text), SIMCUDA_STATS=stats[1]))
        self.assert_same_output(run, reference)
        self.assertIn(b'primary context: not in use', run.output)
        plain, saved = (self.modules_loaded(each) for each in stats)
        self.assertEqual(saved, plain + 1)

    @staticmethod
    def modules_loaded(stats):
        with open(stats, 'rb') as file:
            return int.from_bytes(file.read()[64:72], 'little')


if __name__ == '__main__':
    harness.main()
