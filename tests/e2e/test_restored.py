#!/usr/bin/env python3
"""A restored run is a restored run: it computes from what was saved, and from nothing else."""
import glob
import json
import os
import subprocess

import harness


class Restored(harness.TestCase):
    def killed(self, name, **settings):
        steps, every = harness.PROGRAMS[name]
        command = [harness.app(name), steps]
        reference = self.reference(command)
        self.saved_and_killed(command, reference, 'syncs:%d' % every, **settings)
        self.settle()
        return command, reference

    def test_flipped_bit_changes_the_result(self):
        # A block that is compressed as a whole is not changed in place.
        command, reference = self.killed('orbits', GPUSNAP_COMPRESS='off')
        segments = glob.glob(os.path.join(self.store, 'job', 'e*', '*.segment'))
        self.assertTrue(segments)
        newest = self.complete()[0]
        flipped = subprocess.run([os.path.join(harness.HELPERS, 'flip_bit'), self.store,
                                  newest['id']], capture_output=True, text=True, check=False)
        self.assertEqual(flipped.returncode, 0, flipped.stderr)
        self.assertEqual(self.tool('verify', newest['id']).returncode, 0)
        run = self.start_restored(command, checkpoint=newest['id'])
        run.wait(self.timeout)
        # The program checks itself: it may find the bit or print something else.
        self.assertNotEqual(run.output, reference.output)

    def test_other_addresses_at_restore(self):
        for name in ('pointers', 'pipeline', 'pools', 'graph', 'graph_nodes', 'graph_memory', 'peers', 'expandable',
                     'signal_nodes', 'references', 'unpacking', 'tiles'):
            self.program_settings = harness.PROGRAM_SETTINGS.get(name, {})
            with self.subTest(program=name), self.store_of_its_own():
                command, reference = self.killed(name)
                for seed in (1, 2, 3) if harness.SOAK else (1,):
                    run = self.finish(self.start_restored(command, SIMCUDA_ASLR=seed))
                    self.assert_same_output(run, reference)

    def test_other_addresses_while_saving(self):
        command, reference = self.killed('pointers', SIMCUDA_ASLR=7)
        run = self.finish(self.start_restored(command))
        self.assert_same_output(run, reference)

    def test_managed_variables_cannot_be_moved(self):
        if not harness.built(['runtime/managed_globals']):
            self.skipTest('needs the toolkit')
        command, _ = self.killed('runtime/managed_globals')
        run = self.start_restored(command, SIMCUDA_HOST_ASLR=5)
        self.finish(run, harness.IMPOSSIBLE)
        self.assertIn("the program's __managed__ variables lie elsewhere", run.errors)

    def test_older_checkpoint_can_be_chosen(self):
        name = 'stencil'
        steps, every = harness.PROGRAMS[name]
        command = [harness.app(name), steps]
        reference = self.reference(command)
        self.finish(self.start_saved(command, GPUSNAP_EVERY='syncs:%d' % every, GPUSNAP_KEEP=3,
                                     GPUSNAP_ORG='b+i'))
        kept = self.complete()
        self.assertGreaterEqual(len(kept), 3)  # and what they build on
        for each in kept:
            stats = os.path.join(self.folder, 'stats-%d' % each['epoch'])
            run = self.finish(self.start_restored(command, checkpoint=each['id'],
                                                  SIMCUDA_STATS=stats))
            self.assert_same_output(run, reference)
            self.assertEqual(harness.launches(stats),
                             int(steps) - self.launches_before(each['id']))

    def test_compressed(self):
        for name, settings in (
                ('stencil', {'GPUSNAP_COMPRESS': '1'}),
                ('orbits', {'GPUSNAP_COMPRESS': '3:64K', 'GPUSNAP_WRITES': '1'}),
                ('runtime/particles', {'GPUSNAP_COMPRESS': '1:16M', 'GPUSNAP_SLOT': '16M'})):
            with self.subTest(program=name), self.store_of_its_own():
                command, reference = self.killed(name, **settings)
                newest = self.complete()[0]
                self.assertEqual(self.tool('verify', newest['id']).returncode, 0)
                run = self.finish(self.start_restored(command, **settings))
                self.assert_same_output(run, reference)

    def test_who_has_zstd_alone_can_read_it(self):
        name = 'stencil'
        steps, every = harness.PROGRAMS[name]
        contents = {}
        for setting in ('off', '1'):
            with self.store_of_its_own():
                self.finish(self.start_saved([harness.app(name), steps], GPUSNAP_ORG='b+f',
                                             GPUSNAP_EVERY='syncs:%d' % every,
                                             GPUSNAP_COMPRESS=setting))
                contents[setting] = self.read_all(self.complete()[0]['id'])
        self.assertEqual(contents['off'][0], {'stored'})
        self.assertNotEqual(contents['1'][0], {'stored'})
        self.assertEqual(contents['off'][1], contents['1'][1])

    def read_all(self, identifier):
        """By docs/file-format.md: the forms that are there, and the bytes of every range."""
        shown = json.loads(self.tool('show', identifier, '--json', '--extents').stdout)
        rank = shown['ranks'][0]
        folder = os.path.join(self.store, 'job', 'e%d' % shown['epoch'])
        ranges = [bytearray(each['size']) for each in rank['ranges']]
        for extent in rank['extents']:
            with open(os.path.join(folder, rank['segments'][extent['segment']]['file']),
                      'rb') as segment:
                segment.seek(extent['segment_offset'])
                block = segment.read(extent['stored_bytes'])
            if extent['form'] != 'stored':
                block = subprocess.run(['zstd', '-dc'], input=block, check=True,
                                       capture_output=True).stdout
                block = unshuffled(block, extent['form'])
            begin, size = extent['offset'], extent['size']
            ranges[extent['range']][begin:begin + size] = \
                block[extent['within']:extent['within'] + size]
        return {extent['form'] for extent in rank['extents']}, ranges


def unshuffled(block, form):
    """Byte p of element i of n whole ones lies at p * n + i."""
    if not form.startswith('shuffle'):
        return block
    width = int(form[len('shuffle')])
    whole = len(block) // width
    result = bytearray(block)
    for place in range(width):
        result[place:whole * width:width] = block[place * whole:(place + 1) * whole]
    return bytes(result)


if __name__ == '__main__':
    harness.main()
