#!/usr/bin/env python3
"""`gpusnap trace`: what a job's checkpoints did over time, as a store tells it."""
import glob
import json
import os
import subprocess

import harness

CUT = 1700000000123000000  # ns, of epoch 0 in a store of make_store; each epoch is a minute later
STALL = 0.012345678  # of each checkpoint, with 6 ms of waits
HELD = STALL - 0.006


class StoreTest(harness.TestCase):
    def make(self, epochs, job='job'):
        made = subprocess.run(
            [os.path.join(harness.HELPERS, 'make_store'), self.store, job, str(epochs),
             harness.GPUSNAP], cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)

    def durable_after(self, seconds, job='job'):
        """Sets the times of a store's manifests so long after their cuts."""
        for path in glob.glob(os.path.join(self.store, job, 'e*', '*.manifest')):
            epoch = int(os.path.basename(os.path.dirname(path))[1:])
            written = CUT + (60 * epoch + seconds) * 10**9
            os.utime(path, ns=(written, written))
        for path in glob.glob(os.path.join(self.store, job, '*.journal')):
            os.utime(path, ns=(CUT, CUT))

    def call(self, *arguments, status=0, **settings):
        done = self.tool(*arguments, **settings)
        self.assertEqual(done.returncode, status, '%s\n%s' % (arguments, done.stderr))
        return done

    def assert_refused(self, said, *arguments, status, **settings):
        done = self.call(*arguments, status=status, **settings)
        self.assertEqual(done.stdout, '')
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(said, done.stderr)

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding='utf-8') as file:
            return file.read()


class Trace(StoreTest):
    def trace(self, *arguments):
        """The events, of which each is right by the format."""
        self.call('trace', *arguments, '-o', 'trace.json', '--force')
        trace = json.loads(self.read('trace.json'))
        self.assert_format(trace['traceEvents'])
        return trace['traceEvents']

    def assert_format(self, events):
        last = 0
        ends = {}  # of the last slice of each thread
        for event in events:
            self.assertIn(event['ph'], 'XCM')
            for name, kind in (('ts', (int, float)), ('pid', int), ('tid', int), ('name', str),
                               ('args', dict)):
                self.assertIsInstance(event[name], kind, event)
            self.assertGreaterEqual(event['ts'], last)
            last = event['ts']
            if event['ph'] == 'X':
                self.assertGreaterEqual(event['dur'], 0)
                thread = (event['pid'], event['tid'])
                self.assertGreaterEqual(event['ts'], ends.get(thread, 0), 'slices overlap')
                ends[thread] = event['ts'] + event['dur']
            if event['ph'] == 'C':
                self.assertTrue(all(isinstance(value, int) for value in event['args'].values()))
        named = {(event['pid'], event['tid']) for event in events if event['name'] == 'thread_name'}
        self.assertLessEqual(set(ends), named)
        self.assertEqual({event['pid'] for event in events},
                         {event['pid'] for event in events if event['name'] == 'process_name'})

    def slices(self, events, name):
        return [event for event in events if event['ph'] == 'X' and event['name'].startswith(name)]

    def test_times_are_those_of_the_store(self):
        self.make('4+2')
        self.durable_after(2)
        events = self.trace('job')
        cuts = self.slices(events, 'cut job@')
        ways = self.slices(events, 'job@')
        run, = self.slices(events, 'run 0123456789abcdef')
        self.assertEqual([each['name'] for each in ways], ['job@1', 'job@2', 'job@3', 'job@4'])
        self.assertEqual([each['args']['kind'] for each in ways],
                         ['full', 'increment', 'increment', 'full'])
        for i, (cut, way) in enumerate(zip(cuts, ways)):
            # Microseconds since the program was held at the first cut.
            self.assertAlmostEqual(cut['ts'], 60e6 * i, delta=1)
            self.assertAlmostEqual(cut['dur'], HELD * 1e6, delta=1)
            self.assertAlmostEqual(way['ts'], 60e6 * i + HELD * 1e6, delta=1)
            self.assertAlmostEqual(way['dur'], 2e6, delta=1)
            self.assertEqual(cut['args']['later waits of streams, ns'], 3000000)
            self.assertEqual(way['args']['device memory, bytes'], 300000)
        self.assertEqual(len({each['tid'] for each in ways}), 1)
        self.assertEqual(run['ts'], 0)
        self.assertAlmostEqual(run['dur'], 180e6 + HELD * 1e6 + 2e6, delta=1)
        memory = [event['args'] for event in events if event['ph'] == 'C']
        self.assertEqual([each['saved'] for each in memory], [300000, 65536, 65536, 300000])
        self.assertEqual({sum(each.values()) for each in memory}, {300000})
        begin = json.loads(self.read('trace.json'))['otherData']['begin']
        self.assertTrue(begin.startswith('2023-11-14T22:14:20.11'), begin)

    def test_what_overlaps_has_rows_of_its_own(self):
        self.make(4)
        self.durable_after(90)
        ways = self.slices(self.trace(), 'job@')
        self.assertEqual([each['tid'] for each in ways], [3, 4, 3, 4])
        self.assertEqual({each['dur'] for each in ways}, {90e6})

    def test_of_one_checkpoint_and_of_all_jobs(self):
        self.make(3)
        self.make(2, job='other')
        self.durable_after(1)
        self.durable_after(1, job='other')
        self.assertEqual([each['name'] for each in self.slices(self.trace('job@2'), 'job@')], ['job@2'])
        self.assertEqual([each['name'] for each in self.slices(self.trace('job@latest'), 'job@')],
                         ['job@3'])
        events = self.trace()
        self.assertEqual(len(self.slices(events, 'job@')), 3)
        self.assertEqual({each['pid'] for each in self.slices(events, 'other@')}, {2})
        self.assertEqual([event['args']['name'] for event in events if event['name'] == 'process_name'],
                         ['job, rank 0 on testhost', 'other, rank 0 on testhost'])

    def test_what_is_not_known_is_not_shown(self):
        self.make(2)
        self.durable_after(-5)  # by another clock
        events = self.trace('job')
        self.assertEqual(self.slices(events, 'job@'), [])
        self.assertEqual(len(self.slices(events, 'cut ')), 2)

    def test_file(self):
        self.make(1)
        said = self.call('trace', 'job@1')
        self.assertRegex(said.stdout, r'^job-1-trace\.json: 1 part of checkpoints, \d+ events\n$')
        before = self.read('job-1-trace.json')
        self.assert_refused('there already', 'trace', 'job@1', status=harness.STORE_UNWRITABLE)
        self.assertEqual(self.read('job-1-trace.json'), before)
        self.assert_refused('nowhere', 'trace', '-o', 'nowhere/file', status=harness.STORE_UNWRITABLE)
        self.assertEqual(sorted(os.listdir(self.folder)), ['job-1-trace.json', 'store'])

    def test_nothing_to_trace(self):
        os.mkdir(self.store)
        self.assert_refused('no checkpoints in', 'trace', status=harness.NO_CHECKPOINT)
        self.make(1)
        self.assert_refused('no checkpoints of other', 'trace', 'other', status=harness.NO_CHECKPOINT)
        self.assert_refused('job@7', 'trace', 'job@7', status=harness.NO_CHECKPOINT)
        self.assert_refused('store', 'trace', '--store', 'none', status=harness.NO_CHECKPOINT)
        self.assertEqual(os.listdir(self.folder), ['store'])


if __name__ == '__main__':
    harness.main()
