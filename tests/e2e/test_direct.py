#!/usr/bin/env python3
"""Snapshots that go from the device straight to a local tier, by a stand-in for libcufile.so.0: what
is restored is exact, whatever fails or is killed, and without the library all is as ever.

4 kills; with GPUSNAP_SOAK=1 300.
"""
import os
import shutil

import harness
import killing
import scripted

CUFILE = os.path.join(harness.BUILD, 'tests', 'support', 'cufile')
KILLS = 300 if harness.SOAK else 4
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
        for number, (name, steps, every) in enumerate(PROGRAMS):
            backends = ('process', 'thread')
            for backend in backends if harness.SOAK else (backends[number % 2],):
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
        organisations = ['b+f', 'nb+f', 'nb+i+h', 'nb+i-fg+h+d']
        for organisation in organisations if harness.SOAK else self.random.sample(organisations, 2):
            with self.subTest(organisation=organisation), self.store_of_its_own():
                self.run_saved(GPUSNAP_ORG=organisation)
                self.some_restore()
        self.assertTrue(self.writes())

    def test_what_is_measured_decides(self):
        """Whichever way the measurement decides, the checkpoint is restored."""
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
        failures = [{'CUFILE_REFUSES': 'open'}, {'CUFILE_REFUSES': 'file'},
                    {'CUFILE_REFUSES': 'buffer'}, {'CUFILE_FAILS_AT': 1}, {'CUFILE_FAILS_AT': 3},
                    {'CUFILE_SHORT_AT': 1}, {'CUFILE_SHORT_AT': 4}]
        for failure in failures if harness.SOAK else self.random.sample(failures, 3):
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


class Standing(scripted.TestCase):
    """A write to the SSD stands still, as long as there is a file that the stand-in looks for."""
    TEXT = '''
stream s
alloc a %d
set a 1 s
sync s
say one
await first
sync s
await dirty
set a 2 s
stir_part a 1000 1000 1 s
sync s
say two
await second
sync s
say cut
await overwrite
set a 3 s
stir_part a 9000 1000 3 s
sync s
say written
await last
print a
''' % (24 << 18)

    def start_standing(self, **settings):
        """The second checkpoint's first write stands still."""
        self.held = os.path.join(self.folder, 'standing')
        ssd = os.path.join(self.folder, 'ssd')
        os.makedirs(ssd)
        counts = os.path.join(self.folder, 'counts')
        run = self.start_saved(
            self.script(self.TEXT), GPUSNAP_EVERY=scripted.EVERY, GPUSNAP_ORG='nb+i+h',
            GPUSNAP_HOST_CACHE='8M', GPUSNAP_SSD=ssd, GPUSNAP_DIRECT='always',
            GPUSNAP_PLACEMENT='hybrid-naive', LD_LIBRARY_PATH=CUFILE, CUFILE_HOLD=self.held,
            CUFILE_STANDS=counts, **settings)
        self.wait_for(run, 'one')
        self.go_on_with_a_checkpoint(run, 'first')
        self.wait_for_complete(run, 1)
        self.make('dirty')
        self.wait_for(run, 'two')
        self.make('standing')
        self.go_on_with_a_checkpoint(run, 'second')
        self.wait_for(run, 'cut')
        self.wait_until(run, 'a write that stands', lambda: os.path.exists(counts))
        return run

    def test_calls_go_on(self):
        """A call overwrites three times what the staging area holds. It waits for copies, which the
        offloader has to see arrive."""
        reference = self.undisturbed(self.TEXT)
        run = self.start_standing()
        self.make('overwrite')
        self.wait_for(run, 'written')
        os.remove(self.held)
        self.make('last')
        self.finish(run)
        self.assert_same_output(run, reference)
        self.assertEqual(self.warnings(run), [])
        self.verify_all()
        self.assertEqual(len(self.complete()), 2)
        self.restores_all(self.script(self.TEXT), reference)

    def test_killed_while_it_stands(self):
        reference = self.undisturbed(self.TEXT)
        run = self.start_standing()
        self.assertTrue(run.kill())
        os.remove(self.held)
        self.settle()
        self.assertEqual([each['epoch'] for each in self.complete()], [1])
        self.make_all(self.TEXT)
        self.restores_all(self.script(self.TEXT), reference)


if __name__ == '__main__':
    harness.main()
