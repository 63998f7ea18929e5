#!/usr/bin/env python3
"""The stall that the tool tells: the cut, and what the host and streams waited for afterwards.

Copies take their time by the virtual clock, and a file holds them until the program has made the call
that has to wait: so how long its stream waited at least is known.
"""
import json
import os

import harness
import scripted

WORDS = 100_000
LINK = 100_000_000  # bytes a second to the host
COPYING = 4 * WORDS / LINK * 1e3  # milliseconds

# The head is more than can be on its way at once, so nothing of the rest is.
BEGIN = '''
    stream s
    alloc head 3200000
    alloc a %d
    stir a 1 s
    sync s
    say ready
    await first
    sync s
    await dirty
    set head 7 s
    stir a 2 s
    sync s
    say begun
    await cut
    sync s
    ''' % WORDS
END = '''
    await last
    print head
    '''


class Stall(scripted.TestCase):
    def start_cut(self, text, organisation):
        """The first checkpoint is complete, and nothing of the second one is copied. Our memory on
        the device is there."""
        held = os.path.join(self.folder, 'held')
        run = self.start_saved(self.script(BEGIN + text + END), GPUSNAP_EVERY=scripted.EVERY,
                               GPUSNAP_ORG=organisation, SIMCUDA_CLOCK='virtual',
                               SIMCUDA_BANDWIDTH='to_host:%d' % LINK, SIMCUDA_PACE='1',
                               SIMCUDA_HOLD='to_host:%s,copy:%s' % (held, held))
        self.wait_for(run, 'ready')
        self.go_on_with_a_checkpoint(run, 'first')
        self.wait_for_complete(run, 1)
        self.make('dirty')
        self.wait_for(run, 'begun')
        self.make('held')
        self.go_on_with_a_checkpoint(run, 'cut')
        return run

    def go_on(self):
        os.remove(os.path.join(self.working_folder, 'held'))

    def stall(self, run):
        """In milliseconds, by part, once all is saved and the program has ended."""
        self.wait_for_complete(run, 2)
        self.make('last')
        self.finish(run)
        listed = self.complete()[0]
        shown = json.loads(self.tool('show', listed['id'], '--json').stdout)
        rank, = shown['ranks']
        self.assertEqual((listed['stall_ms'], shown['stall_ms']), (rank['stall_ms'],) * 2)
        self.assertAlmostEqual(sum(rank['stall'].values()), rank['stall_ms'], delta=0.01)
        self.assertGreater(rank['stall']['cut_ms'], 0)
        return rank['stall']

    def test_a_stream_waits(self):
        """For zones that its kernel overwrites, and which only the link can save."""
        run = self.start_cut('''
            stir a 3 s
            say launched
            ''', 'nb+i+h')
        self.wait_for(run, 'launched')
        self.go_on()
        stall = self.stall(run)
        self.assertGreaterEqual(stall['streams_ms'], COPYING)
        self.assertEqual(stall['frees_ms'], 0)

    def test_a_stream_waits_for_duplicates(self):
        """Which the copies within the device take their time for."""
        run = self.start_cut('''
            stir a 3 s
            say launched
            ''', 'nb+i+h+d')
        self.wait_for(run, 'launched')
        self.go_on()
        self.assertGreater(self.stall(run)['streams_ms'], 0)

    def test_a_free_waits(self):
        run = self.start_cut('''
            say freeing
            free a
            ''', 'nb+i+h')
        self.wait_for(run, 'freeing')
        self.wait_for_sleep(run)
        self.go_on()
        stall = self.stall(run)
        self.assertGreater(stall['frees_ms'], 0)
        self.assertEqual(stall['streams_ms'], 0)

    def test_nothing_waits_where_nothing_is_overwritten(self):
        run = self.start_cut('''
            say cut
            ''', 'nb+i+h')
        self.wait_for(run, 'cut')
        self.go_on()
        stall = self.stall(run)
        self.assertEqual((stall['streams_ms'], stall['frees_ms']), (0, 0))

    def test_all_of_it_is_the_cut_where_that_blocks(self):
        run = self.start_cut('''
            stir a 3 s
            ''', 'b+i')
        self.wait_for_sleep(run)
        self.go_on()
        stall = self.stall(run)
        self.assertEqual((stall['calls_ms'], stall['frees_ms'], stall['streams_ms']), (0, 0, 0))


if __name__ == '__main__':
    harness.main()
