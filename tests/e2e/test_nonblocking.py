#!/usr/bin/env python3
"""A snapshot holds nobody: while the engine that copies to the host is held, kernels that are
launched after the cut finish. All by the order of what ran, as the software GPU tells it.
"""
import os

import harness
import scripted

WORDS = 65536             # of what is written while it is pending: four zones
HEAD = 3 * (4 << 20)      # bytes: more than the offloader has on its way at once
NEW = 4096                # words of memory that no snapshot has

# The first snapshot is complete before the engine is held; the second one has to save what was
# written in between.
BEFORE = '''
stream s
stream other
%(head)s
alloc tail %(tail)d
stir tail 1 s
sync s
say one
await first
sync s
await dirty
set head 7 s
stir tail 2 s
sync s
say two
await second
sync s
say cut
alloc new %(new)d
stir new 3 other
sync other
say beside
'''
GOES_ON = '''
stir tail 4 s
sync s
say written
await released
'''
WAITS = '''
stir tail 4 s
say launched
stir new 5 other
sync other
say again
await released
sync s
'''
AFTER = '''
print tail
print new
'''


class Operation:
    """A line of the trace."""

    def __init__(self, line):
        begin, end, _, self.engine, size = line.split()
        self.begin, self.end, self.size = float(begin), float(end), int(size)

    def __repr__(self):
        return '%s %d' % (self.engine, self.size)


class NonBlocking(scripted.TestCase):
    def text(self, rest, head=True):
        return (BEFORE + rest + AFTER) % {
            # Before the tail what keeps the offloader busy, or what makes it gather both.
            'head': 'alloc head %d' % (HEAD // 4 if head else 100),
            'tail': WORDS, 'new': NEW}

    def trace(self):
        with open(self.trace_file) as file:
            return [Operation(line) for line in file.read().splitlines()]

    def start_held(self, text, last, **settings):
        """Runs with the engine held from the second cut on, until the program has said `last`."""
        reference = self.undisturbed(text)
        held = os.path.join(self.folder, 'held')
        self.trace_file = os.path.join(self.folder, 'trace')
        run = self.start_saved(self.script(text), GPUSNAP_EVERY=scripted.EVERY, GPUSNAP_KEEP=20,
                               SIMCUDA_CLOCK='virtual', SIMCUDA_TRACE=self.trace_file,
                               SIMCUDA_HOLD='to_host:' + held, **settings)
        self.wait_for(run, 'one')
        self.go_on_with_a_checkpoint(run, 'first')
        self.wait_for_complete(run, 1)
        self.make('dirty')
        self.wait_for(run, 'two')
        before = len(self.trace())
        self.make('held')
        self.go_on_with_a_checkpoint(run, 'second')
        for said in ('cut', 'beside', last):
            self.wait_for(run, said)
        self.assertTrue(os.path.exists(held))
        self.assertEqual(len(self.manifests()), 1)
        os.remove(held)
        self.make('released')
        self.finish(run)
        self.assert_same_output(run, reference)
        self.assertEqual(self.warnings(run), [])
        after = self.trace()[before:]  # with the cut
        self.verify_all()
        found = self.complete()
        self.assertEqual(len(found), 2)
        self.restores_all(self.script(text), reference)
        return after, self.meanwhile(found[0])

    def kernels(self, operations, words):
        """The kernels that read and write so many words."""
        return [i for i, each in enumerate(operations)
                if each.engine == 'compute' and each.size == 8 * words]

    def goes_on(self, head=True, gathered=False, **settings):
        after, counts = self.start_held(self.text(GOES_ON, head), 'written', **settings)
        first_copy = next(i for i, each in enumerate(after) if each.engine == 'to_host')
        released = after[first_copy].begin
        for words in (NEW, WORDS):
            launched = self.kernels(after, words)
            self.assertGreater(len(launched), 0, after)
            self.assertLess(launched[-1], first_copy, after)
            self.assertLessEqual(after[launched[-1]].end, released)
        duplicates = [i for i, each in enumerate(after)
                      if each.engine == 'copy' and each.size == 4 * WORDS]
        self.assertEqual((counts['launches_guessed'], counts['launches_opaque']), (0, 0))
        # Memory gathered by then is saved; memory just being gathered is taken over.
        self.assertEqual(len(duplicates), counts['launches_waited'], after)
        if gathered:
            return
        # One wrote what no snapshot has, one what was pending.
        self.assertEqual((counts['launches_free'], counts['launches_waited']), (1, 1))
        self.assertLess(duplicates[0], self.kernels(after, WORDS)[-1])

    def test_kernels_finish_while_the_copy_is_held(self):
        self.goes_on()

    def test_the_same_without_fingerprints(self):
        self.goes_on(GPUSNAP_DIRTY='calls')

    def test_what_is_gathered_waits_for_no_copy_to_the_host(self):
        self.goes_on(head=False, gathered=True)

    def test_without_room_only_the_stream_that_writes_waits(self):
        """And the host does not."""
        after, counts = self.start_held(self.text(WAITS), 'again', GPUSNAP_ORG='nb+i+h')
        first_copy = next(i for i, each in enumerate(after) if each.engine == 'to_host')
        beside = self.kernels(after, NEW)
        self.assertEqual(len(beside), 2, after)
        self.assertLess(beside[-1], first_copy)
        self.assertEqual([each for each in after if each.engine == 'copy'], [])
        written = self.kernels(after, WORDS)[-1]
        self.assertGreater(written, first_copy)
        # It began when its zones had been copied, ahead of the rest.
        saved = [each for each in after if each.engine == 'to_host' and each.size == 4 * WORDS]
        self.assertLessEqual(saved[0].end, after[written].begin)
        self.assertEqual((counts['launches_free'], counts['launches_waited']), (2, 1))


if __name__ == '__main__':
    harness.main()
