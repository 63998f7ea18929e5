#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Device memory of the arena (GPUSNAP_ARENA) on a driver that is as unkind as hardware: addresses come
from the process's own address space, which is another one each time, and small allocations lie
otherwise in their pages in each run."""
import os

import harness

# With GPUSNAP_SOAK=1 also the others.
PROGRAMS = ['churn', 'stencil', 'two_devices', 'workers']
MORE = ['globals', 'graph', 'hoard', 'orbits', 'particles', 'peers', 'pipeline', 'pointers', 'pools',
        'solver', 'textures', 'unpacking']
AS_HARDWARE = {'SIMCUDA_ADDRESSES': 'host'}


class Arena(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.program_settings = {}
        self.seed = 0

    def environment(self, **settings):
        """A driver that has memory elsewhere each time."""
        if 'SIMCUDA_ADDRESSES' in settings:
            self.seed += 1
            settings.setdefault('SIMCUDA_ASLR', self.seed)
        return super().environment(**settings)

    def choose(self, name):
        steps, self.every = harness.PROGRAMS[name]
        self.program_settings = harness.PROGRAM_SETTINGS.get(name, {})
        self.command = [harness.app(name), steps]
        return self.reference(self.command)

    def save(self, reference, **settings):
        self.saved_and_killed(self.command, reference, 'syncs:%d' % self.every, **settings)
        self.settle()

    def restore(self, reference, **settings):
        run = self.finish(self.start_restored(self.command, **settings))
        self.assert_same_output(run, reference)

    def test_programs_on_such_a_driver(self):
        for name in PROGRAMS + (MORE if harness.SOAK else []):
            with self.subTest(program=name):
                reference = self.choose(name)
                self.save(reference, GPUSNAP_ARENA='on', **AS_HARDWARE)
                # A restored run takes checkpoints and is killed, too.
                again = self.start_restored(self.command, GPUSNAP_ARENA='on',
                                            GPUSNAP_EVERY='syncs:%d' % self.every, **AS_HARDWARE)
                if not again.ends_within(self.random.uniform(0, reference.seconds)):
                    again.kill()
                self.settle()
                self.restore(reference, GPUSNAP_ARENA='on', **AS_HARDWARE)

    def test_addresses_of_the_host_are_random(self):
        """Without the tool, which turns that off."""
        for name in ('churn', 'stencil'):
            with self.subTest(program=name):
                reference = self.choose(name)
                self.begin_store()
                settings = self.settings(GPUSNAP_ARENA='on', LD_PRELOAD=harness.LIBRARY,
                                         LD_LIBRARY_PATH=harness.SIMCUDA, **AS_HARDWARE)
                run = self.start(self.command, self.environment(
                    **dict(settings, GPUSNAP_EVERY='syncs:%d' % self.every)))
                self.assertTrue(self.wait_for_checkpoint(run), run.errors)
                run.kill()
                self.settle()
                for _ in range(2):
                    run = self.finish(self.start(self.command, self.environment(
                        **dict(settings, GPUSNAP_RESTORE='job@latest'))))
                    self.assert_same_output(run, reference)

    def test_without_it_such_a_driver_has_other_addresses(self):
        reference = self.choose('stencil')
        self.save(reference, **AS_HARDWARE)
        run = self.finish(self.start_restored(self.command, **AS_HARDWARE), harness.IMPOSSIBLE)
        self.assertIn('cannot be had there', run.errors)

    def test_host_memory_lies_where_the_driver_had_memory(self):
        """The driver does the same in each run, but more host memory is mapped in the restore."""
        mapper = os.path.join(harness.HELPERS, 'libhost_mapping.so')
        in_the_way = dict(AS_HARDWARE, SIMCUDA_ASLR=1, LD_PRELOAD=mapper, HOST_MAPPING=1 << 33)
        for arena in ('off', 'on'):
            with self.subTest(arena=arena):
                reference = self.choose('stencil')
                self.save(reference, GPUSNAP_ARENA=arena, **dict(AS_HARDWARE, SIMCUDA_ASLR=1))
                if arena == 'off':
                    self.finish(self.start_restored(self.command, **in_the_way), harness.IMPOSSIBLE)
                else:
                    self.restore(reference, GPUSNAP_ARENA='on', **in_the_way)

    def test_a_restore_need_not_have_the_same_setting(self):
        reference = self.choose('churn')
        for saved, restored in (('on', 'off'), ('off', 'on')):
            with self.subTest(saved=saved):
                self.save(reference, GPUSNAP_ARENA=saved)
                self.restore(reference, GPUSNAP_ARENA=restored)

    def test_a_driver_that_takes_no_hints_serves_itself(self):
        reference = self.choose('churn')
        self.save(reference, GPUSNAP_ARENA='on', SIMCUDA_HINTS='refused')
        self.restore(reference, GPUSNAP_ARENA='on', SIMCUDA_HINTS='refused')

    def test_the_driver_tells_the_same_of_it(self):
        """Attributes, ranges, errors, pitched memory, what is free: as of the driver's own."""
        command = [os.path.join(harness.HELPERS, 'ask_memory')]
        reference = self.reference(command)
        self.assertGreater(len(reference.output.splitlines()), 20)
        for every in ('off', 'syncs:1'):
            run = self.finish(self.start_saved(command, GPUSNAP_ARENA='on', GPUSNAP_EVERY=every,
                                               GPUSNAP_DEVICE_CACHE='0'))
            self.assert_same_output(run, reference)
            self.assertEqual(run.errors, '')


if __name__ == '__main__':
    harness.main()
