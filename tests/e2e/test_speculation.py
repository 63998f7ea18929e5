#!/usr/bin/env python3
"""How the launches of every test program fare while zones are pending: the table, and what it must
say. Speculation is no loophole: programs that are understood have no opaque launch, and the others
are those that are named here.
"""
import harness

# Of these a kernel is opaque in some snapshot: it has torn one, as the first that it met, or is a
# suspect with the one that has.
OPAQUE = harness.TEARING
# Their kernels are not all proven, though none has done harm.
GUESSED = OPAQUE | set()
# No launch of these is a guess, let alone opaque.
PROVEN = {'stencil', 'particles', 'solver', 'runtime/stencil', 'runtime/particles',
          'runtime/solver'}


class Speculation(harness.TestCase):
    def row(self, name):
        """What one run's checkpoints tell, in all."""
        self.program_settings = harness.PROGRAM_SETTINGS.get(name, {})
        self.store = '%s/%s' % (self.folder, name.replace('/', '-'))
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
        for name in sorted(harness.PROGRAMS):
            with self.subTest(program=name):
                row = self.row(name)
                print('%-20s %11d %8d %8d %8d %8d %6s' % (
                    name, row['checkpoints'], row['launches_free'], row['launches_waited'],
                    row['launches_guessed'], row['launches_opaque'],
                    'yes' if row['torn'] else 'no'), flush=True)
                if name not in OPAQUE:
                    self.assertEqual((row['launches_opaque'], row['torn']), (0, False))
                if name not in GUESSED:
                    self.assertEqual(row['launches_guessed'], 0)

    def test_the_programs_that_are_understood(self):
        self.assertFalse(PROVEN & GUESSED)
        self.assertLessEqual(PROVEN, set(harness.PROGRAMS))


if __name__ == '__main__':
    harness.main()
