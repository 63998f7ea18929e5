#!/usr/bin/env python3
"""Snapshots that go from the device straight to a local tier, by a stand-in for libcufile.so.0: what
is restored is exact, whatever fails or is killed, and without the library all is as ever.

8 kills; with GPUSNAP_SOAK=1 300.
"""
import os
import shutil

import harness
import killing

CUFILE = os.path.join(harness.BUILD, 'tests', 'support', 'cufile')
KILLS = 300 if harness.SOAK else 8
COMMAND, EVERY = [harness.app('stencil'), '240'], 40
# Program, steps, every how many synchronisations it is saved.
PROGRAMS = [('stencil', '240', 20), ('particles', '100', 10), ('pipeline', '150', 15),
            ('churn', '240', 30)]
SAYS = 'snapshots do not go directly to GPUSNAP_SSD: '


class Direct(killing.Killing, harness.TestCase):

    def setUp(self):
        super().setUp()
        os.makedirs(self.ssd)
        self.counts = os.path.join(self.folder, 'counts')
        # A program that is held copies nothing itself; and its memory is smaller than a usual zone.
        self.tiers = {'GPUSNAP_ORG': 'b+i', 'GPUSNAP_ZONE': '4K', 'GPUSNAP_SSD': self.ssd, 'GPUSNAP_DIRECT': 'always',
                      'GPUSNAP_PLACEMENT': 'hybrid-naive', 'LD_LIBRARY_PATH': CUFILE,
                      'CUFILE_COUNTS': self.counts}

    def calls(self):
        """Lines of the stand-in: of each driver that was opened, and of each write."""
        if not os.path.exists(self.counts):
            return []
        with open(self.counts) as file:
            return file.read().splitlines()

    def writes(self):
        return [int(line.split()[1]) for line in self.calls() if line.startswith('write ')]

    def direct_bytes(self):
        """The sum over all complete checkpoints."""
        return sum(rank['direct_bytes'] for each in self.complete()
                   for rank in self.show(each['id'])['ranks'])

    def run_saved(self, command=COMMAND, every=EVERY, **settings):
        """A run to its end, with the output of an undisturbed one."""
        run = self.finish(self.start_saved(command, GPUSNAP_EVERY='syncs:%d' % every, **settings))
        self.assert_same_output(run, self.reference_of(command))
        return run

    def some_restore(self, command=COMMAND):
        """The newest, and any other one. All verify."""
        self.verify_all()
        found = self.complete()
        self.assertTrue(found)
        for each in {found[0]['id'], self.random.choice(found)['id']}:
            restored = self.finish(self.start_restored(command, each))
            self.assert_same_output(restored, self.reference_of(command))

    def test_what_goes_directly_is_restored(self):
        for name, steps, every in PROGRAMS:
            for backend in 'process', 'thread':
                with self.subTest(program=name, backend=backend), self.store_of_its_own():
                    command = [harness.app(name), steps]
                    self.tiers['GPUSNAP_BACKEND'] = backend
                    run = self.run_saved(command, every)
                    self.assertEqual(run.errors, '')
                    self.assertGreater(self.direct_bytes(), 0)
                    self.assertLessEqual(self.direct_bytes(), sum(self.writes()))
                    self.some_restore(command)
                    self.leaves_nothing()

    def test_a_restore_does_without(self):
        self.run_saved()
        self.assertGreater(self.direct_bytes(), 0)
        newest = self.complete()[0]['id']
        for settings in {'GPUSNAP_DIRECT': 'off'}, {'LD_LIBRARY_PATH': None}, {'GPUSNAP_SSD': None}:
            with self.subTest(**settings):
                restored = self.finish(self.start_restored(COMMAND, newest, **settings))
                self.assert_same_output(restored, self.reference_of(COMMAND))

    def test_any_organisation(self):
        for organisation in 'b+f', 'nb+f', 'nb+i+h', 'nb+i-fg+h+d':
            with self.subTest(organisation=organisation), self.store_of_its_own():
                self.run_saved(GPUSNAP_ORG=organisation)
                self.some_restore()
        self.assertTrue(self.writes())

    def test_what_is_measured_decides(self):
        """Whatever it decides: it is restored."""
        self.run_saved(GPUSNAP_DIRECT='auto')
        self.some_restore()

    def test_without_the_library(self):
        run = self.run_saved(LD_LIBRARY_PATH=None, GPUSNAP_LOG='info')
        self.assertNotIn('directly', run.errors)
        self.assertEqual(self.direct_bytes(), 0)
        self.assertEqual(self.calls(), [])
        self.some_restore()

    def test_where_it_is_not_wanted_it_is_not_loaded(self):
        for settings in ({'GPUSNAP_DIRECT': 'off'}, {'GPUSNAP_SSD': None},
                         {'GPUSNAP_PLACEMENT': 'cache-only'}, {'GPUSNAP_DIRTY': 'calls'},
                         {'GPUSNAP_COMPRESS': '3'}):
            with self.subTest(**settings), self.store_of_its_own():
                self.run_saved(**settings)
                self.assertEqual(self.direct_bytes(), 0)
                self.assertEqual(self.calls(), [])
        # Nor where nothing uses CUDA.
        self.finish(self.start_saved(['true']))
        self.assertEqual(self.calls(), [])

    def test_what_fails_goes_the_ordinary_way(self):
        for failure in ({'CUFILE_REFUSES': 'open'}, {'CUFILE_REFUSES': 'file'},
                        {'CUFILE_REFUSES': 'buffer'}, {'CUFILE_FAILS_AT': 1}, {'CUFILE_FAILS_AT': 3},
                        {'CUFILE_SHORT_AT': 1}, {'CUFILE_SHORT_AT': 4}):
            with self.subTest(**failure), self.store_of_its_own():
                before = len(self.writes())
                run = self.run_saved(every=20, **failure)
                lines = run.errors.strip().splitlines()
                self.assertEqual(len(lines), 1, run.errors)
                self.assertIn(SAYS, lines[0])
                # Nothing is tried after the failure.
                made = len(self.writes()) - before
                at = next(iter(failure.values()))
                allowed = at if isinstance(at, int) else 0
                self.assertLessEqual(made, allowed)
                self.some_restore()

    def test_what_is_written_wrong_is_not_listed(self):
        run = self.run_saved(every=20, CUFILE_WRONG_AT=1)
        self.assertIn(SAYS, run.errors)
        self.assertEqual(self.direct_bytes(), 0)
        complete = {each['epoch'] for each in self.complete()}
        self.assertNotIn(1, complete)
        self.assertTrue(complete)
        self.some_restore()

    def test_survives_kills(self):
        counts = {'restored': 0, 'in flight': 0}
        for number in range(KILLS):
            name, steps, every = PROGRAMS[number % len(PROGRAMS)]
            victim = self.random.choice(killing.VICTIMS)
            self.tiers['GPUSNAP_ORG'] = self.random.choice(['b+i', 'nb+i+h+d'])
            self.tiers['GPUSNAP_CHUNK'] = self.random.choice(['256K', '16M'])
            self.tiers['GPUSNAP_PLACEMENT'] = self.random.choice(['hybrid-naive', 'ssd-only'])
            with self.subTest(number=number, program=name, victim=victim):
                with self.store_of_its_own():
                    self.one_kill([harness.app(name), steps], every, victim, counts)
            shutil.rmtree(self.ssd)
            os.makedirs(self.ssd)
        print('%d kills: %d restored, %d checkpoints on their way at the time, %d direct writes' % (
            KILLS, counts['restored'], counts['in flight'], len(self.writes())))
        self.assertGreater(counts['restored'], 0)
        self.assertGreater(len(self.writes()), 0)

    def test_dies_within_a_write(self):
        for at in 1, 2, 5:
            with self.subTest(at=at), self.store_of_its_own():
                run = self.start_saved(COMMAND, GPUSNAP_EVERY='syncs:20', CUFILE_DIES_AT=at)
                self.assertNotEqual(run.wait(self.timeout), 0)
                self.becomes_durable(set())
                for each in self.complete():
                    restored = self.finish(self.start_restored(COMMAND, each['id']))
                    self.assert_same_output(restored, self.reference_of(COMMAND))
                self.leaves_nothing()


if __name__ == '__main__':
    harness.main()
