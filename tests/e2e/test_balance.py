#!/usr/bin/env python3
"""Load balancing over the devices of a process: what does not fit into one device's buffer goes to
the buffers of others, too, and belongs to the checkpoint like everything else.

In `Held` the engine that copies to the host is held by a file, so all that is saved meanwhile lies on
devices; the trace of the software GPU tells what went over its links. `Uneven` kills and restores a
program with three devices at any moment.
"""
import json
import os

import harness
import scripted

MIB = 1 << 20
CACHE = 8 * MIB           # of each device
HEAD, MIDDLE, TAIL = 1 * MIB, 13 * MIB, 2 * MIB
MEMORY = HEAD + MIDDLE + TAIL
# The peer must get MEMORY - CACHE, but for one copy that waits for the host and for what
# rounding to zones leaves.
ENOUGH = MEMORY - CACHE - MIB

BEGIN = '''
device 1
stream s
alloc head %d
alloc middle %d
alloc tail %d
stir_part middle 1000 1000 1 s
sync s
say one
await first
sync s
await dirty
set head 7 s
set middle 8 s
set tail 9 s
stir_part middle 5000 1000 2 s
sync s
say two
await second
sync s
say cut
''' % (HEAD // 4, MIDDLE // 4, TAIL // 4)
WRITES = '''
await overwrite
set middle 10 s
stir_part middle 9000 1000 3 s
sync s
say written
'''
END = '''
await last
print head
print middle
print tail
'''


class Held(scripted.TestCase):
    SETTINGS = {'SIMCUDA_DEVICES': '2', 'SIMCUDA_LINKS': '0,48G/48G,0'}

    def setUp(self):
        super().setUp()
        self.program_settings = self.SETTINGS
        self.trace_file = os.path.join(self.folder, 'trace')
        self.held = os.path.join(self.folder, 'held')

    def sent(self):
        """Bytes that have gone from the first device to the other one."""
        with open(self.trace_file) as file:
            lines = [line.split() for line in file.read().splitlines()]
        return sum(int(size) for *_, engine, size in lines if engine == 'copy_to_1')

    def start_held(self, text, cache=CACHE, **settings):
        """Its first checkpoint is complete, and the second one gets nothing to the host."""
        run = self.start_saved(self.script(text), GPUSNAP_EVERY=scripted.EVERY, GPUSNAP_KEEP=20,
                               GPUSNAP_DEVICE_CACHE=cache, SIMCUDA_CLOCK='virtual',
                               SIMCUDA_TRACE=self.trace_file, SIMCUDA_HOLD='to_host:' + self.held,
                               **settings)
        self.wait_for(run, 'one')
        self.go_on_with_a_checkpoint(run, 'first')
        self.wait_for_complete(run, 1)
        self.make('dirty')
        self.wait_for(run, 'two')
        self.make('held')
        self.before = self.sent()
        self.go_on_with_a_checkpoint(run, 'second')
        self.wait_for(run, 'cut')
        return run

    def wait_until_sent(self, run, enough=ENOUGH):
        self.wait_until(run, 'zones on the other device',
                        lambda: self.sent() - self.before >= enough)

    def peer_bytes(self, checkpoint):
        return self.show(checkpoint['id'])['ranks'][0]['peer_bytes']

    def test_what_lies_at_a_peer_may_be_overwritten_and_is_saved(self):
        """Far more than fits into the device's own buffer is overwritten before anything has got to
        the host."""
        text = BEGIN + WRITES + END
        reference = self.undisturbed(text)
        run = self.start_held(text)
        self.wait_until_sent(run)
        self.make('overwrite')
        self.wait_for(run, 'written')
        self.assertEqual(len(self.manifests()), 1)
        os.remove(self.held)
        self.make('last')
        self.finish(run)
        self.assert_same_output(run, reference)
        self.assertEqual(self.warnings(run), [])
        self.verify_all()
        found = self.complete()
        self.assertEqual(len(found), 2)
        self.assertGreaterEqual(self.peer_bytes(found[0]), ENOUGH)
        self.restores_all(self.script(text), reference)

    def stream_waits_without_peers(self, **settings):
        """The same program: zones that have no place on the device wait for the host."""
        text = BEGIN + WRITES + END
        reference = self.undisturbed(text)
        run = self.start_held(text, **settings)
        self.make('overwrite')
        self.wait_for_sleep(run)
        self.assertNotIn(b'written', run.output.splitlines())
        self.assertEqual(self.sent(), 0)
        os.remove(self.held)
        self.make('last')
        self.finish(run)
        self.assert_same_output(run, reference)
        self.assertEqual([self.peer_bytes(each) for each in self.complete()], [0, 0])

    def test_the_stream_waits_where_balancing_is_off(self):
        self.stream_waits_without_peers(GPUSNAP_BALANCE='off')

    def test_the_stream_waits_where_no_link_is(self):
        self.stream_waits_without_peers(SIMCUDA_LINKS='0,0/0,0')

    def test_killed_while_zones_lie_at_a_peer(self):
        """They are gone with the process: the checkpoint is not complete, and the one before it is."""
        text = BEGIN + WRITES + END
        reference = self.undisturbed(text)
        run = self.start_held(text)
        self.wait_until_sent(run)
        run.kill()
        os.remove(self.held)
        self.settle()
        self.assertEqual([each['epoch'] for each in self.complete()], [1])
        self.make_all(text)
        self.restores_all(self.script(text), reference)

    def test_memory_that_is_freed_at_once(self):
        text = BEGIN + '''
await overwrite
free middle
free tail
say freed
''' + END.replace('print middle\nprint tail\n', '')
        reference = self.undisturbed(text)
        run = self.start_held(text)
        self.wait_until_sent(run)
        self.make('overwrite')
        # Zones that are still on the device have to get to the host first.
        os.remove(self.held)
        self.wait_for(run, 'freed')
        self.make('last')
        self.finish(run)
        self.assert_same_output(run, reference)
        self.verify_all()
        self.assertGreaterEqual(self.peer_bytes(self.complete()[0]), ENOUGH)
        self.restores_all(self.script(text), reference)

    def test_scattered_zones_make_room_for_others(self):
        """They are gathered in the device's own buffer, and go on to the peer where that gets full."""
        count, size, cache = 96, 128 << 10, 4 * MIB
        enough = cache - MIB  # all that the other device has room for, but for a flight
        names = ['z%d' % number for number in range(count)]
        written = names[::8]
        text = '\n'.join([
            'device 1', 'stream s',
            *('alloc %s %d' % (name, size // 4) for name in names),
            'sync s', 'say one', 'await first', 'sync s', 'await dirty',
            *('set %s %d s' % (name, number) for number, name in enumerate(names)),
            'sync s', 'say two', 'await second', 'sync s', 'say cut', 'await overwrite',
            *('set %s 200 s' % name for name in written),
            'sync s', 'say written', 'await last', *('print ' + name for name in names), ''])
        reference = self.undisturbed(text)
        run = self.start_held(text, cache)
        self.wait_until_sent(run, enough)
        self.make('overwrite')
        os.remove(self.held)
        self.make('last')
        self.finish(run)
        self.assert_same_output(run, reference)
        self.assertEqual(self.warnings(run), [])
        self.verify_all()
        self.assertGreaterEqual(self.peer_bytes(self.complete()[0]), enough)
        self.restores_all(self.script(text), reference)

    def test_a_copy_that_fails_costs_the_snapshot_alone(self):
        """To the peer or to the host. The first three copies are the program's, the next are ours."""
        text = BEGIN + WRITES + END
        reference = self.undisturbed(text)
        for number in range(4, 10):
            with self.subTest(number=number), self.store_of_its_own():
                run = self.start_saved(
                    self.script(text), GPUSNAP_EVERY=scripted.EVERY, GPUSNAP_DEVICE_CACHE=CACHE,
                    SIMCUDA_FAULT='copy:%d' % number)
                self.wait_for(run, 'one')
                self.go_on_with_a_checkpoint(run, 'first')
                self.wait_for_given_up(run, 1)
                self.make('dirty')
                self.wait_for(run, 'two')
                self.go_on_with_a_checkpoint(run, 'second')
                self.make_all(text)
                self.finish(run)
                self.assert_same_output(run, reference)
                self.assertEqual(self.given_up_so_far(run), 1)
                self.verify_all()
                self.restores_all(self.script(text), reference)
            for name in ('first', 'dirty', 'second', 'overwrite', 'last'):
                os.remove(os.path.join(self.folder, name))


# NVLinks of a DGX-1V.
EIGHT = '/'.join(','.join('%dG' % (24 * int(links)) if links != '0' else '0' for links in row)
                 for row in ('01122000', '10210200', '12020010', '21200001', '20000112', '02001021',
                             '00101202', '00012120'))


class Uneven(harness.TestCase):
    STEPS = '60'
    ROUNDS = 20 if harness.SOAK else 4
    # The way to the host takes long enough for zones to go to peers.
    SLOW = {'SIMCUDA_CLOCK': 'virtual', 'SIMCUDA_PACE': '1', 'SIMCUDA_BANDWIDTH': 'to_host:400M'}
    NODES = [harness.PROGRAM_SETTINGS['uneven'], {'SIMCUDA_DEVICES': '8', 'SIMCUDA_LINKS': EIGHT}]

    def setUp(self):
        super().setUp()
        self.command = [harness.app('uneven'), self.STEPS]

    def peer_bytes(self):
        shown = [json.loads(self.tool('show', each['id'], '--json').stdout)
                 for each in self.complete()]
        return [each['ranks'][0]['peer_bytes'] for each in shown]

    def test_killed_at_any_moment(self):
        sent = 0
        for number in range(self.ROUNDS):
            self.program_settings = dict(self.SLOW, **self.NODES[number % 2])
            reference = self.reference(self.command)
            every = 'syncs:%d' % self.random.randint(8, 40)
            cache = self.random.choice(['2M', '8M', '64M'])
            organisation = self.random.choice(['nb+i+h+d', 'nb+i+h+d', 'nb+f+h+d', 'nb+i+d', 'b+i'])
            with self.subTest(number=number, every=every, cache=cache, organisation=organisation):
                settings = {'GPUSNAP_DEVICE_CACHE': cache, 'GPUSNAP_ORG': organisation,
                            'GPUSNAP_KEEP': 40}
                self.saved_and_killed(self.command, reference, every, **settings)
                again = self.start_restored(self.command, GPUSNAP_EVERY=every, **settings)
                if not (not again.ends_within(self.random.uniform(0, 2 * reference.seconds))
                        and again.kill()):
                    self.finish(again)
                    self.assert_same_output(again, reference)
                self.verify_all()
                sent += sum(self.peer_bytes())
                found = self.complete()
                for each in {found[0]['id'], self.random.choice(found)['id']}:
                    run = self.finish(self.start_restored(self.command, checkpoint=each))
                    self.assert_same_output(run, reference)
        print('%d bytes went over peers' % sent)


if __name__ == '__main__':
    harness.main()
