#!/usr/bin/env python3
"""How the launches of every test program fare while zones are pending: the table, and what it must
say. Speculation is no loophole: programs that are understood have no opaque launch, and the others
are those that are named here.
"""
import os

import harness
import scripted

# Their kernels write through pointers that device memory holds: guesses, and opaque once one of them
# has torn a snapshot; or through what special registers say: the barrier of a whole grid.
UNPROVEN = harness.TEARING | {'runtime/groups'}
# Launches of these must meet zones that are pending. They have a link to the host that is so slow, by
# the virtual clock, that zones are pending when a cut's next launch comes, however long the host takes
# for it; and no device buffer into which they could go before. The others run by the host's clock.
MEETING = (
    'stencil', 'particles', 'solver', 'pointers', 'globals', 'shared_memory', 'churn', 'warps',
    'orbits', 'pipeline', 'workers', 'errands', 'pools', 'graph', 'graph_nodes', 'graph_memory',
    'two_devices', 'peers', 'expandable', 'keepers', 'callbacks', 'signals', 'signal_nodes',
    'notices', 'legacy', 'catalog', 'linked', 'unpacking', 'logbook')
SLOW_LINK = {'GPUSNAP_ORG': 'nb+i+h', 'SIMCUDA_CLOCK': 'virtual', 'SIMCUDA_PACE': '10000',
             'SIMCUDA_BANDWIDTH': 'to_host:1M'}


class Speculation(harness.TestCase):
    def row(self, name):
        """The sums of the counts in one run's checkpoints."""
        self.program_settings = harness.PROGRAM_SETTINGS.get(name, {})
        self.begin_store()
        run = self.finish(self.start_saved(
            [harness.app(name), harness.PROGRAMS[name][0]], GPUSNAP_EVERY='syncs:1',
            GPUSNAP_KEEP=10000, GPUSNAP_DEVICE_CACHE='32M',
            **(SLOW_LINK if name in MEETING else {})))
        found = self.complete()
        self.assertGreater(len(found), 0, run.errors)
        row = dict.fromkeys(('launches_free', 'launches_waited', 'launches_guessed',
                             'launches_opaque', 'others_free', 'others_waited'), 0)
        ranks = [self.show(each['id'])['ranks'][0] for each in reversed(found)]
        for rank, later in zip(ranks, ranks[1:] + [None]):
            counts = rank['meanwhile']
            launches = counts['launches_free'] + counts['launches_waited']
            self.assertLessEqual(counts['launches_guessed'] + counts['launches_opaque'], launches)
            if later is not None:
                # The counted calls were made between this cut and the next.
                self.assertLessEqual(launches, later['launches'] - rank['launches'])
                others = counts['others_free'] + counts['others_waited']
                self.assertLessEqual(launches + others, later['calls'] - rank['calls'])
            for what in row:
                row[what] += counts[what]
        return dict(row, checkpoints=len(found), torn='its calls did not tell of' in run.errors)

    def test_table(self):
        built = harness.built(harness.PROGRAMS)
        self.assertLessEqual(set(MEETING), set(built))
        if not harness.SOAK:
            built = self.random.sample(built, len(built) // 3)
        print('\n%-20s %11s %8s %8s %8s %8s %6s' % (
            'program', 'checkpoints', 'ahead', 'waited', 'guessed', 'opaque', 'torn'))
        for name in built:
            with self.subTest(program=name):
                row = self.row(name)
                print('%-20s %11d %8d %8d %8d %8d %6s' % (
                    name, row['checkpoints'], row['launches_free'], row['launches_waited'],
                    row['launches_guessed'], row['launches_opaque'],
                    'yes' if row['torn'] else 'no'), flush=True)
                if name in MEETING:
                    self.assertGreater(row['launches_waited'], 0)
                if name not in UNPROVEN:
                    self.assertEqual((row['launches_guessed'], row['launches_opaque'],
                                      row['torn']), (0, 0, False))


class Counted(scripted.TestCase):
    """Launches of one snapshot, of which nothing comes to the host before all have been made."""

    # The head is more than can be on its way at once, so what follows it is pending.
    TEXT = '''
        stream s
        alloc head 3200000
        alloc a 100000
        alloc b 100
        alloc table 100
        point table b
        stir b 1 s
        sync s
        say ready
        await first
        sync s
        await dirty
        set head 7 s
        stir a 1 s
        sync s
        say begun
        await cut
        sync s
        say cut
        %s
        say launched
        await last
        print a
        print b
        '''

    def counts(self, launches, **settings):
        """Free, waited, guessed, opaque."""
        text = self.TEXT % launches
        reference = self.undisturbed(text)
        held = os.path.join(self.folder, 'held')
        command = self.script(text)
        run = self.start_saved(command, GPUSNAP_EVERY=scripted.EVERY, SIMCUDA_CLOCK='virtual',
                               SIMCUDA_HOLD='to_host:' + held, **settings)
        self.wait_for(run, 'ready')
        self.go_on_with_a_checkpoint(run, 'first')
        self.wait_for_complete(run, 1)
        self.make('dirty')
        self.wait_for(run, 'begun')
        self.make('held')
        self.go_on_with_a_checkpoint(run, 'cut')
        self.wait_for(run, 'launched')
        os.remove(held)
        self.wait_for_complete(run, 2)
        self.make('last')
        self.assert_same_output(self.finish(run), reference)
        found = self.meanwhile(self.complete()[0])
        self.restores_all(command, reference)
        return tuple(found['launches_' + how] for how in ('free', 'waited', 'guessed', 'opaque'))

    def test_a_launch_that_writes_pending_zones_waits(self):
        self.assertEqual(self.counts('stir a 2 s'), (0, 1, 0, 0))

    def test_one_that_writes_others_goes_ahead(self):
        self.assertEqual(self.counts('stir b 2 s'), (1, 0, 0, 0))

    def test_one_that_follows_pointers_is_a_guess(self):
        """And none of what it writes is pending."""
        self.assertEqual(self.counts('chase table 10 2 s'), (1, 0, 1, 0))

    def test_it_waits_where_there_are_no_guesses(self):
        self.assertEqual(self.counts('chase table 10 2 s', GPUSNAP_SPECULATE='off',
                                     GPUSNAP_DEVICE_CACHE='32M'), (0, 1, 0, 1))


if __name__ == '__main__':
    harness.main()
