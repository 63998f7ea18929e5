#!/usr/bin/env python3
"""Programs under every organisation of snapshots: killed, restored, compared byte for byte.

Each pair of organisation and interval comes up once, with a program that chance chooses; the whole
table with GPUSNAP_SOAK.
"""
import itertools

import harness

ORGANISATIONS = ('b+f', 'b+i', 'nb+f', 'nb+i', 'nb+i+h', 'nb+i-fg+h', 'nb+f+h+d', 'nb+i+h+d',
                 'nb+i-fg+h+d')
INTERVALS = (1, 3, 50)


class Snapshots(harness.TestCase):
    def killed_and_restored(self, name, **settings):
        self.program_settings = harness.PROGRAM_SETTINGS.get(name, {})
        command = [harness.app(name), harness.PROGRAMS[name][0]]
        reference = self.reference(command)
        run = self.start_saved(command, **settings)
        if self.wait_for_checkpoint(run):
            run.ends_within(self.random.uniform(0, reference.seconds))
        run.kill()
        self.verify_all()
        newest = self.complete()[:2]
        for each in newest if harness.SOAK else self.random.sample(newest, min(1, len(newest))):
            again = self.finish(self.start_restored(command, checkpoint=each['id']))
            self.assert_same_output(again, reference)
        return run

    def test_organisations(self):
        programs = harness.built(harness.PROGRAMS)
        table = list(itertools.product(programs, ORGANISATIONS, INTERVALS))
        if not harness.SOAK:
            table = [(self.random.choice(programs), organisation, self.random.choice(INTERVALS))
                     for organisation in ORGANISATIONS]
        for number, (name, organisation, interval) in enumerate(table):
            with self.subTest(program=name, organisation=organisation, interval=interval):
                self.store = '%s/store-%d' % (self.folder, number)
                self.killed_and_restored(name, GPUSNAP_ORG=organisation, GPUSNAP_KEEP=3,
                                         GPUSNAP_EVERY='syncs:%d' % interval)

    def test_checkpoints_tell_their_zone_size(self):
        command = [harness.app('stencil'), harness.PROGRAMS['stencil'][0]]
        for organisation, zone in (('nb+i+h+d', 256 << 10), ('nb+i-fg+h+d', 4 << 10)):
            with self.subTest(organisation=organisation):
                self.store = '%s/store-%s' % (self.folder, organisation)
                self.finish(self.start_saved(command, GPUSNAP_ORG=organisation, GPUSNAP_ZONE='256K',
                                             GPUSNAP_EVERY='syncs:20'))
                self.settle()
                for each in self.complete():
                    self.assertEqual(self.show(each['id'])['ranks'][0]['zone_bytes'], zone)
                self.assertTrue(self.complete())

    def test_nothing_tears_without_speculation(self):
        for settings in ({'GPUSNAP_SPECULATE': 'off'}, {'GPUSNAP_DIRTY': 'calls'}):
            programs = harness.built(harness.TEARING)
            for name in programs if harness.SOAK else self.random.sample(programs, 2):
                with self.subTest(program=name, **settings):
                    self.store = '%s/%s-%s' % (self.folder, name.replace('/', '-'), list(settings)[0])
                    run = self.killed_and_restored(name, GPUSNAP_EVERY='syncs:5', **settings)
                    self.assertNotIn('its calls did not tell of', run.errors)


if __name__ == '__main__':
    harness.main()
