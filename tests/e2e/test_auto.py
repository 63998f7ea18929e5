#!/usr/bin/env python3
"""GPUSNAP_EVERY=auto: a program that fails often takes checkpoints by itself, as often as its own costs say."""
import json
import math
import re

import harness
import scripted

COMMAND = [harness.app('stencil'), '900']
# Failures a second, so that many checkpoints pay in a run of seconds.
OFTEN = {'GPUSNAP_EVERY': 'auto', 'GPUSNAP_MTBF': '300ms', 'GPUSNAP_KEEP': 40, 'GPUSNAP_LOG': 'info'}
CHOSEN = re.compile(r'auto: the next checkpoint is due (\d+) us after this one; '
                    r'stall (\d+) us, on its way for (\d+) us')
RESTORES = 40 if harness.SOAK else 4


class Auto(harness.TestCase):
    def assert_choices(self, run, between_s):
        """Each is between what a checkpoint takes and what Young's formula gives, with both costs added."""
        found = CHOSEN.findall(run.errors)
        for words in found:
            interval, stall, latency = (int(word) / 1e6 for word in words)
            young = math.sqrt(2 * stall * between_s)
            self.assertGreaterEqual(interval, stall + latency - 1e-4, words)
            self.assertLessEqual(interval, 2 * (young + stall + latency) + 0.02, words)
        return len(found)

    def test_killed_at_any_moment(self):
        reference = self.reference(COMMAND)
        run = self.start_saved(COMMAND, **OFTEN)
        self.wait_for_checkpoint(run)
        for _ in range(RESTORES):
            run.ends_within(self.random.uniform(0, reference.seconds))
            run.kill()
            self.settle()
            self.assert_choices(run, 0.3)
            run = self.start_restored(COMMAND, **OFTEN)
        self.finish(run)
        self.assert_same_output(run, reference)
        self.verify_all()

    def test_failures_decide(self):
        """With a failure in a hundred years, none pays in a run of seconds."""
        reference = self.reference(COMMAND)
        run = self.start_saved(COMMAND, **dict(OFTEN, GPUSNAP_MTBF='876600h'))
        self.finish(run)
        self.assert_same_output(run, reference)
        self.assertNotIn('gpusnap: error: ', run.errors)  # the setting was read
        self.assertEqual(self.complete(), [])
        run = self.start_saved(COMMAND, **dict(OFTEN, GPUSNAP_MTBF='1ms'))
        self.finish(run)
        self.assert_same_output(run, reference)
        self.assertGreater(len(self.complete()), 0)
        self.assertGreater(self.assert_choices(run, 0.001), 0)


class Restored(scripted.TestCase):
    """Checkpoints come by signal alone: at a failure in a hundred years none is due by time."""
    TEXT = '''
        stream s
        alloc head 3200000
        say ready
        await one
        set head 7 s
        sync s
        say first
        await two
        set head 8 s
        sync s
        say second
        await three
        sync s
        say third
        await four
        set head 9 s
        sync s
        say fourth
        await last
        print head
        '''
    SETTINGS = {'GPUSNAP_EVERY': 'auto,' + scripted.EVERY, 'GPUSNAP_MTBF': '876600h'}

    def measure(self, run, name, said, count):
        """A checkpoint whose costs are in the choice when this returns."""
        self.go_on_with_a_checkpoint(run, name)
        self.wait_for(run, said)
        self.wait_until(run, '%d measurements' % count,
                        lambda: len(CHOSEN.findall(run.errors)) >= count)

    def told(self):
        """The process, as `gpusnap status` describes it."""
        said = self.tool('status', '--json', '--store', self.store, '--timeout', '60s')
        self.assertEqual(said.returncode, 0, said.stderr)
        job, = json.loads(said.stdout)
        process, = job['processes']
        return process

    def saved(self, epoch):
        """The checkpoint's entry, the same in all places."""
        listed, = [each for each in self.complete() if each['epoch'] == epoch]
        rank, = self.show(listed['id'])['ranks']
        self.assertEqual(rank['auto'], listed['auto'])
        return rank

    def restore(self, **settings):
        restored = self.start_restored(self.command, GPUSNAP_LOG='debug', **settings)
        self.wait_for(restored, 'third')
        process = self.told()
        self.assertEqual((process['state'], process['epoch']), ('recording', 3))
        self.assertEqual(self.complete_so_far(restored), 0)
        return restored, process['auto']

    def test_goes_on_with_the_choice_of_its_checkpoint(self):
        reference = self.undisturbed(self.TEXT)
        self.command = self.script(self.TEXT)
        run = self.start_saved(self.command, GPUSNAP_KEEP=9, **self.SETTINGS)
        self.wait_for(run, 'ready')
        first = self.told()['auto']
        self.assertEqual((first['measurements'], first['stall_s']), (0, 0.1))
        for count, (name, said) in enumerate(
                [('one', 'first'), ('two', 'second'), ('three', 'third')], 1):
            self.measure(run, name, said, count)
        self.assertEqual(self.told()['auto']['measurements'], 3)
        self.assertTrue(run.kill())
        self.settle()
        self.assertEqual(self.saved(1)['auto'], first)
        rank = self.saved(3)
        saved = rank['auto']
        self.assertEqual(saved['measurements'], 2)
        shown = self.tool('show', 'job@3').stdout
        self.assertRegex(shown, r'\n  auto       every \d+ \w+ by GPUSNAP_EVERY=auto; .* 2 measured: ')

        restored, now = self.restore(**self.SETTINGS)
        self.assertEqual((now['measurements'], now['mtbf_s']), (3, saved['mtbf_s']))
        # The first does not count any more, so the third's own stall is half of the mean. Its time
        # in the store is taken for the mean.
        stall = (saved['stall_s'] + rank['stall_ms'] / 1000) / 2
        self.assertAlmostEqual(now['stall_s'], stall, delta=1e-6)
        self.assertEqual(now['latency_s'], saved['latency_s'])
        self.go_on_with_a_checkpoint(restored, 'four')
        self.wait_for(restored, 'fourth')
        self.wait_for_complete(restored, 1)
        self.make('last')
        self.finish(restored)
        self.assert_same_output(restored, reference)
        self.assertEqual(self.saved(4)['auto'], now)

    def test_settings_of_the_restored_run_hold(self):
        """Its own failure rate, and no choice at all where it asks for none."""
        reference = self.undisturbed(self.TEXT)
        self.command = self.script(self.TEXT)
        run = self.start_saved(self.command, **self.SETTINGS)
        self.wait_for(run, 'ready')
        for count, (name, said) in enumerate(
                [('one', 'first'), ('two', 'second'), ('three', 'third')], 1):
            self.measure(run, name, said, count)
        self.assertTrue(run.kill())
        self.settle()
        restored, now = self.restore(GPUSNAP_EVERY=scripted.EVERY)
        self.assertIsNone(now)
        self.assertTrue(restored.kill())
        restored, now = self.restore(**dict(self.SETTINGS, GPUSNAP_MTBF='87660h'))
        self.assertEqual((now['measurements'], now['mtbf_s']), (3, 87660 * 3600))
        for name in ('four', 'last'):
            self.make(name)
        self.finish(restored)
        self.assert_same_output(restored, reference)


if __name__ == '__main__':
    harness.main()
