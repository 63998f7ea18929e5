#!/usr/bin/env python3
"""Replays in which threads wait for each other: none waits for ever.
"""
import harness
import scripted


class Stalls(scripted.TestCase):
    def test_no_cut_stands_before_a_call_that_a_replay_makes_early(self):
        """A thread says which context is current before its turn, and may wait for the others then."""
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


if __name__ == '__main__':
    harness.main()
