#!/usr/bin/env python3
"""`gpusnap trace` and `gpusnap report`: what a job's checkpoints did over time, as a store tells it."""
import glob
import html.parser
import json
import os
import re
import subprocess
import xml.dom.minidom

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


class TraceReader(StoreTest):
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


class Trace(TraceReader):
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


class Page(html.parser.HTMLParser):
    """What a browser would fetch or run because of a page, and the cells of its tables."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.outside, self.rows = set(), [], []
        self._in_cell = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.outside += [value for name, value in attrs
                         if name in ('src', 'href', 'xlink:href', 'data', 'action') or
                         name.startswith('on')]
        if tag == 'tr':
            self.rows.append([])
        self._in_cell = tag in ('td', 'th')
        if self._in_cell:
            self.rows[-1].append('')

    def handle_endtag(self, tag):
        self._in_cell = self._in_cell and tag not in ('td', 'th')

    def handle_data(self, data):
        if self._in_cell:
            self.rows[-1][-1] += data


class ReportReader(StoreTest):
    def report(self, *arguments):
        """The page, which is well-formed and needs nothing else."""
        self.call('report', *arguments, '-o', 'page.html', '--force')
        text = self.read('page.html')
        xml.dom.minidom.parseString(text)
        page = Page(text)
        self.assertEqual(page.outside, [])
        self.assertFalse(page.tags & {'script', 'link', 'img', 'iframe', 'object'})
        self.assertNotRegex(text, r'url\(|@import')
        self.assertEqual(set(re.findall(r'https?://[^"]*', text)), {'http://www.w3.org/2000/svg'})
        return text, page

    def tile(self, text, name):
        return re.search('<dt>%s</dt><dd>(.*?)</dd>' % name, text).group(1)


class Report(ReportReader):
    def test_what_a_job_did(self):
        self.make('4+2')
        self.durable_after(2)
        text, page = self.report('job')
        head, *rows = page.rows[:5]
        shown = [dict(zip(head, row)) for row in rows]
        self.assertEqual([row['checkpoint'] for row in shown], ['job@4', 'job@3', 'job@2', 'job@1'])
        self.assertEqual([row['kind'] for row in shown], ['full', 'increment', 'increment', 'full'])
        self.assertEqual([row['after the last'] for row in shown], ['60.0 s', '60.0 s', '60.0 s', '-'])
        self.assertEqual({row['stall'] for row in shown}, {'12.3 ms'})
        self.assertEqual({row['until durable'] for row in shown}, {'2.0 s'})
        self.assertEqual([row['saved'] for row in shown][:2], ['293.0 KiB (100 %)', '64.0 KiB (22 %)'])
        self.assertEqual({row['state'] for row in shown}, {'complete'})
        self.assertEqual(self.tile(text, 'complete checkpoints'), '4 of 4')
        self.assertEqual(self.tile(text, 'restarts so far'), '0')
        self.assertEqual(self.tile(text, 'longest stall'), '12.3 ms')
        self.assertEqual(self.tile(text, 'until durable, median'), '2.0 s')
        self.assertEqual(page.rows[6][:3], ['0123456789abcdef', '0', 'testhost'])
        # The timeline has a run, and each checkpoint twice: its cut and its way.
        timeline = text.split('class="timeline"')[1].split('</svg>')[0]
        self.assertEqual(timeline.count('class="run"'), 1)
        self.assertEqual(timeline.count('class="way"'), 4)
        self.assertEqual(timeline.count('class="cut"'), 2)
        self.assertEqual(timeline.count('class="cut increment"'), 2)

    def test_several_jobs_and_what_is_damaged(self):
        self.make(2)
        self.make(1, job='other')
        os.remove(os.path.join(self.store, 'other', 'e1', 'r0.manifest'))
        text, page = self.report()
        self.assertEqual(re.findall('<h2>Job (.*?)</h2>', text), ['job', 'other'])
        lost, = (row for row in page.rows if row[0] == 'other@1')
        self.assertTrue(lost[-1].startswith('partial'), lost)
        self.assertEqual(re.findall('<h2>Job (.*?)</h2>', self.report('job')[0]), ['job'])

    def test_text_is_escaped(self):
        self.store = os.path.join(self.folder, 's<b>&"\'\N{DEGREE SIGN}')
        self.make(1)
        text, page = self.report()
        self.assertNotIn('b', page.tags)
        self.assertIn('s&lt;b&gt;&amp;&quot;', text)

    def test_file(self):
        self.make(1)
        said = self.call('report')
        self.assertEqual(said.stdout, 'gpusnap-report.html: 1 checkpoint of 1 job\n')
        self.assert_refused('there already', 'report', status=harness.STORE_UNWRITABLE)
        self.call('report', 'job')
        self.assertEqual(sorted(os.listdir(self.folder)),
                         ['gpusnap-report.html', 'job-report.html', 'store'])

    def test_nothing_to_report(self):
        os.mkdir(self.store)
        self.assert_refused('no checkpoints in', 'report', status=harness.NO_CHECKPOINT)
        self.make(1)
        self.assert_refused('no checkpoints of other', 'report', 'other', status=harness.NO_CHECKPOINT)
        self.assertEqual(os.listdir(self.folder), ['store'])


class RealRun(TraceReader, ReportReader):
    """A program that was saved, restored, and saved again."""

    def test_a_restart_is_seen(self):
        command = [harness.app('stencil'), '240']
        settings = {'GPUSNAP_EVERY': 'syncs:60', 'GPUSNAP_KEEP': '100'}
        self.finish(self.start_saved(command, **settings))
        first = len(self.checkpoints())
        self.finish(self.start_restored(command, 'job@1', **settings))
        listed = {each['epoch']: each for each in self.checkpoints()}
        self.assertGreater(len(listed), first)
        events = self.trace('job')
        runs = self.slices(events, 'run ')
        self.assertEqual(len(runs), 2)
        self.assertNotEqual(runs[0]['name'], runs[1]['name'])
        cuts = self.slices(events, 'cut job@')
        self.assertEqual(len(cuts), len(listed))
        for cut in cuts:
            stall = listed[int(cut['name'].split('@')[1])]['stall_ms']
            waits = sum(value for name, value in cut['args'].items() if name.startswith('later')) / 1e6
            self.assertAlmostEqual(cut['dur'] / 1e3, stall - waits, delta=0.01)
        self.assertEqual({each['args']['run'] for each in self.slices(events, 'job@')} -
                         {each['args']['run'] for each in runs}, set())
        text, page = self.report('job')
        self.assertEqual(self.tile(text, 'restarts so far'), '1')
        self.assertIn(', restarted', ' '.join(cell for row in page.rows for cell in row))


if __name__ == '__main__':
    harness.main()
