#!/usr/bin/env python3
"""How the launches of every test program fare while zones are pending: the table, and what it must
say. Speculation is no loophole: programs that are understood have no opaque launch, and the others
are those that are named here.
"""
import os
import shutil

import harness

# Their kernels write through pointers that device memory holds: guesses, and opaque once one of them
# has torn a snapshot; or through what special registers say: the barrier of a whole grid.
UNPROVEN = harness.TEARING | {'runtime/groups'}
# Of these launches must be seen that meet pending zones; of the others there may be none.
SEEN = ('stencil', 'particles', 'solver')
TRIES = 5


class Speculation(harness.TestCase):
    def row(self, name):
        """What one run's checkpoints tell, in all."""
        self.program_settings = harness.PROGRAM_SETTINGS.get(name, {})
        self.store = os.path.join(self.folder, name.replace('/', '-'))
        shutil.rmtree(self.store, ignore_errors=True)
        run = self.finish(self.start_saved(
            [harness.app(name), harness.PROGRAMS[name][0]], GPUSNAP_EVERY='syncs:1',
            GPUSNAP_KEEP=10000, GPUSNAP_DEVICE_CACHE='32M'))
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
                # What is counted are calls that were made from this cut to the next.
                self.assertLessEqual(launches, later['launches'] - rank['launches'])
                others = counts['others_free'] + counts['others_waited']
                self.assertLessEqual(launches + others, later['calls'] - rank['calls'])
            for what in row:
                row[what] += counts[what]
        return dict(row, checkpoints=len(found), torn='its calls did not tell of' in run.errors)

    def test_table(self):
        print('\n%-20s %11s %8s %8s %8s %8s %6s' % (
            'program', 'checkpoints', 'ahead', 'waited', 'guessed', 'opaque', 'torn'))
        for name in harness.built(harness.PROGRAMS):
            with self.subTest(program=name):
                row = self.row(name)
                for _ in range(TRIES):
                    if name not in SEEN or row['launches_free'] + row['launches_waited'] > 0:
                        break
                    row = self.row(name)
                print('%-20s %11d %8d %8d %8d %8d %6s' % (
                    name, row['checkpoints'], row['launches_free'], row['launches_waited'],
                    row['launches_guessed'], row['launches_opaque'],
                    'yes' if row['torn'] else 'no'), flush=True)
                if name in SEEN:
                    self.assertGreater(row['launches_free'] + row['launches_waited'], 0)
                if name not in UNPROVEN:
                    self.assertEqual((row['launches_guessed'], row['launches_opaque'],
                                      row['torn']), (0, 0, False))


if __name__ == '__main__':
    harness.main()
