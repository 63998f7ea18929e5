#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A restore reads its checkpoint while the replay goes on: into memory, onto the node's own
devices, or not at all. The program puts out the same in each case."""
import glob
import os
import re

import harness
import patience

# 24 MiB in slots of 2 MiB.
COMMAND = ['60', '24']
SMALL = {'GPUSNAP_SLOT': '2M', 'GPUSNAP_HOST_CACHE': '12M'}


class ReadAhead(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.ssd = os.path.join(self.folder, 'ssd')
        os.makedirs(self.ssd)
        self.on_ssd = {'GPUSNAP_SSD': self.ssd, 'GPUSNAP_PLACEMENT': 'cache-only'}
        self.ways = {
            'memory': {},
            'off': {'GPUSNAP_READ_AHEAD': 'off'},
            'little memory': SMALL,
            'hardly any memory': {'GPUSNAP_SLOT': '2M', 'GPUSNAP_HOST_CACHE': '4M'},
            'device': {**SMALL, **self.on_ssd},
            'small device': {**SMALL, 'GPUSNAP_SSD': self.ssd + ':5M', 'GPUSNAP_CHUNK': '1M',
                             'GPUSNAP_PLACEMENT': 'cache-only'},
            'thread': {**SMALL, **self.on_ssd, 'GPUSNAP_BACKEND': 'thread'},
        }

    def killed(self, name, arguments, every, **settings):
        command = [harness.app(name)] + arguments
        reference = self.reference(command)
        self.saved_and_killed(command, reference, every, **settings)
        self.settle()
        return command, reference

    def restored(self, command, reference, **settings):
        # The staging area is the backend's, and has the size that its first program asked for.
        self.backends.end()
        run = self.finish(self.start_restored(command, GPUSNAP_LOG='info', **settings))
        self.assert_same_output(run, reference)
        return run

    def assert_nothing_left(self):
        left = glob.glob(self.ssd + '/**/restore-*', recursive=True)
        self.assertEqual(left, [])

    @staticmethod
    def mib_ahead(run):
        return int(re.search(r'read ahead (\d+) MiB', run.errors)[1])

    def test_every_way_ends_the_same(self):
        for settings in ({'GPUSNAP_COMPRESS': 'off'}, {'GPUSNAP_COMPRESS': '1'}):
            with self.store_of_its_own():
                command, reference = self.killed('hoard', COMMAND, 'syncs:7', **settings)
                for way, how in self.ways.items():
                    with self.subTest(way=way, **settings):
                        self.restored(command, reference, **how)
                        self.assert_nothing_left()

    def restored_until(self, is_right, command, reference, **settings):
        """Replays that last longer and longer, until `is_right(run)`."""
        left = patience.Patience(self.timeout)
        pause = 10
        while not left.is_over():
            run = self.restored(command, reference, HOARD_PAUSE=pause, **settings)
            if is_right(run):
                return
            pause *= 2
        self.fail('never read ahead:\n' + run.errors)

    def test_what_is_read_ahead(self):
        command, reference = self.killed('hoard', ['40', '24'], 'syncs:35', GPUSNAP_ORG='b+f',
                                         GPUSNAP_COMPRESS='off', HOARD_PAUSE=5)
        self.assertEqual(self.mib_ahead(self.restored(command, reference,
                                                      GPUSNAP_READ_AHEAD='off')), 0)
        self.restored_until(lambda run: self.mib_ahead(run) >= 20, command, reference)
        # Six slots, of which two are left to others.
        self.restored_until(lambda run: 6 <= self.mib_ahead(run) <= 8, command, reference, **SMALL)
        self.restored_until(lambda run: re.search('from SSD [1-9]', run.errors), command,
                            reference, **self.ways['device'])

    def test_several_threads_and_moved_memory(self):
        for name, settings in (('workers', {}), ('pointers', {'SIMCUDA_ASLR': '1'}),
                               ('globals', {'SIMCUDA_ASLR': '2'})):
            steps, every = harness.PROGRAMS[name]
            with self.subTest(program=name), self.store_of_its_own():
                command, reference = self.killed(name, [steps], 'syncs:%d' % every)
                for way in ('memory', 'device', 'thread'):
                    self.restored(command, reference, **self.ways[way], **settings)

    def test_damage_is_told_at_the_cut(self):
        command, _ = self.killed('hoard', COMMAND, 'syncs:7', GPUSNAP_COMPRESS='off')
        newest = self.complete()[0]
        for path in glob.glob(os.path.join(self.store, '*', 'e*', '*.segment')):
            with open(path, 'r+b') as file:
                for at in range(8192, os.path.getsize(path), 1 << 20):
                    file.seek(at)
                    byte = file.read(1)[0]
                    file.seek(at)
                    file.write(bytes([byte ^ 1]))
        for way in ('memory', 'off', 'device', 'thread'):
            with self.subTest(way=way):
                self.backends.end()
                run = self.start_restored(command, newest['id'], **self.ways[way])
                self.assertEqual(run.wait(self.timeout), harness.DAMAGED, run.errors)
                self.assertIn('checksum', run.errors)
                self.assert_nothing_left()

    def test_killed_in_the_replay_and_restored_again(self):
        command, reference = self.killed('hoard', COMMAND, 'syncs:30', HOARD_PAUSE=5)
        for way in ('memory', 'device', 'thread'):
            for _ in range(5 * harness.KILLS):
                run = self.start_restored(command, **self.ways[way])
                run.ends_within(self.random.uniform(0, 0.6 * reference.seconds))
                run.kill()
            self.restored(command, reference, **self.ways[way])
            # A name that a kill has kept from going is the next backend's to remove.
            self.backends.end()
            self.finish(self.start_saved(command, **self.on_ssd))
            self.backends.end()
            self.assert_nothing_left()

    def test_a_replay_that_diverges_ends_at_once(self):
        command, _ = self.killed('hoard', COMMAND, 'syncs:7')
        other = [command[0], '60', '25']
        for way in ('memory', 'device'):
            run = self.start_restored(other, options=['--force-arguments'], **self.ways[way])
            self.assertEqual(run.wait(self.timeout), harness.DIVERGED, run.errors)
            self.assert_nothing_left()


if __name__ == '__main__':
    harness.main()
