#!/usr/bin/env python3
"""Load balancing over the devices of a process, and over processes of a node: what does not fit into
one device's buffer goes to the buffers of others, too, and belongs to the checkpoint like everything
else.

In `Held` the engine that copies to the host is held by a file, so all that is saved meanwhile lies on
devices; the trace of the software GPU tells what went over its links. `Lent` does that with a process
for each device. `Uneven` kills and restores a program with three devices at any moment, `Node` two or
three processes with one each.
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

    def complete_of_job(self):
        return [each for each in self.complete() if each['job'] == 'job']

    def overwrite(self, run):
        """All of it, while nothing gets to the host."""
        self.make('overwrite')
        self.wait_for(run, 'written')
        self.assertEqual(len(self.complete_of_job()), 1)

    def finish_saved(self, run, text, reference, enough=ENOUGH):
        """The program goes on to its end. Its second checkpoint has so much from a peer, and both are
        restored."""
        os.remove(self.held)
        self.make('last')
        self.finish(run)
        self.assert_same_output(run, reference)
        self.assertEqual(self.warnings(run), [])
        self.verify_all()
        found = self.complete_of_job()
        self.assertEqual(len(found), 2)
        self.assertGreaterEqual(self.peer_bytes(found[0]), enough)
        for each in found:
            again = self.start_restored(self.script(text), checkpoint=each['id'])
            self.assert_same_output(self.finish(again), reference)

    def test_what_lies_at_a_peer_may_be_overwritten_and_is_saved(self):
        """Far more than fits into the device's own buffer is overwritten before anything has got to
        the host."""
        text = BEGIN + WRITES + END
        reference = self.undisturbed(text)
        run = self.start_held(text)
        self.wait_until_sent(run)
        self.overwrite(run)
        self.finish_saved(run, text, reference)

    def stream_waits_without_peers(self, text=BEGIN + WRITES + END, **settings):
        """The same program: zones that have no place on the device wait for the host."""
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
        self.assertEqual([self.peer_bytes(each) for each in self.complete_of_job()], [0, 0])

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
        self.finish_saved(run, text, reference, enough)

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


class Lent(Held):
    """A process for each device: one lends the other a part of its buffer."""
    SETTINGS = dict(Held.SETTINGS, GPUSNAP_BALANCE='node')
    OWN = MIB  # what the lender saves, and keeps room for
    LENDER = '''
on_device 1
stream s
alloc own %d
stir_part own 0 %d 1 s
sync s
say lender
await lend
sync s
await lender_goes_on
set own 3 s
sync s
await lender_ends
print own
''' % (OWN // 4, OWN // 4)
    ALONE = 'stream s\n' + BEGIN.split('stream s\n', 1)[1]  # no context on the other device
    TEXT = ALONE + WRITES + END

    def script_of(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, 'w') as file:
            file.write(text.strip() + '\n')
        return [harness.app('script'), path]

    def start_lender(self, cache=MEMORY):
        """It has a buffer once it has a checkpoint."""
        lender = self.start_saved(self.script_of('lender.txt', self.LENDER), GPUSNAP_JOB='lender',
                                  GPUSNAP_EVERY=scripted.EVERY, GPUSNAP_DEVICE_CACHE=cache)
        self.wait_for(lender, 'lender')
        self.go_on_with_a_checkpoint(lender, 'lend')
        self.wait_for_complete(lender, 1)
        return lender

    def end_lender(self, lender):
        self.make('lender_goes_on')
        self.make('lender_ends')
        self.finish(lender)
        self.assertEqual(self.warnings(lender), [])

    def test_what_lies_at_a_peer_may_be_overwritten_and_is_saved(self):
        """At a peer that is another process."""
        reference = self.undisturbed(self.TEXT)
        lender = self.start_lender()
        run = self.start_held(self.TEXT)
        self.wait_until_sent(run)
        self.overwrite(run)
        self.finish_saved(run, self.TEXT, reference)
        self.end_lender(lender)

    def test_the_lender_is_killed_while_zones_lie_there(self):
        """Its memory is there as long as the borrower has it."""
        reference = self.undisturbed(self.TEXT)
        lender = self.start_lender()
        run = self.start_held(self.TEXT)
        self.wait_until_sent(run)
        self.assertTrue(lender.kill())
        self.overwrite(run)
        self.finish_saved(run, self.TEXT, reference)

    def test_killed_while_zones_lie_at_a_peer(self):
        """The borrower: its checkpoint is not complete, and the lender has its blocks again, of
        which there are enough for one borrower alone."""
        reference = self.undisturbed(self.TEXT)
        lender = self.start_lender(MEMORY - CACHE + self.OWN)
        run = self.start_held(self.TEXT)
        self.wait_until_sent(run)
        self.assertTrue(run.kill())
        os.remove(self.held)
        self.settle()
        self.assertEqual([each['epoch'] for each in self.complete_of_job()], [1])
        for name in ('first', 'dirty', 'second'):
            os.remove(os.path.join(self.folder, name))
        self.begin_store()
        run = self.start_held(self.TEXT)
        self.wait_until_sent(run)
        self.overwrite(run)
        self.finish_saved(run, self.TEXT, reference)
        self.end_lender(lender)

    def test_the_stream_waits_where_balancing_is_off(self):
        lender = self.start_lender()
        self.stream_waits_without_peers(self.TEXT, GPUSNAP_BALANCE='on')
        self.end_lender(lender)

    def test_the_stream_waits_where_no_link_is(self):
        lender = self.start_lender()
        self.stream_waits_without_peers(self.TEXT, SIMCUDA_LINKS='0,0/0,0')
        self.end_lender(lender)

    test_memory_that_is_freed_at_once = None
    test_scattered_zones_make_room_for_others = None
    test_a_copy_that_fails_costs_the_snapshot_alone = None


# NVLinks of a DGX-1V.
EIGHT = '/'.join(','.join('%dG' % (24 * int(links)) if links != '0' else '0' for links in row)
                 for row in ('01122000', '10210200', '12020010', '21200001', '20000112', '02001021',
                             '00101202', '00012120'))


class Uneven(harness.TestCase):
    STEPS = '60'
    ROUNDS = 20 if harness.SOAK else 2
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


class Node(scripted.TestCase):
    """Two or three processes of a node, each with a device: what one of them has to save is larger
    than its buffer, and the others lend. Some are killed at any moment, and are restored."""
    ROUNDS = 12 if harness.SOAK else 1
    STEPS = 60
    BYTES = [24 * MIB, MIB, 6 * MIB]
    CACHES = [4 * MIB, 32 * MIB, 16 * MIB]

    def command(self, device):
        words = self.BYTES[device] // 4
        lines = ['on_device %d' % device, 'stream s', 'alloc a %d' % words]
        for step in range(self.STEPS):
            lines += ['set a %d s' % (step % 251),
                      'stir_part a %d 1000 %d s' % (step * 997 % (words - 1000), step), 'sync s']
            if step % 10 == 9:
                lines.append('print a')
        lines += ['say done', 'await end', 'print a']
        path = os.path.join(self.folder, 'device%d.txt' % device)
        with open(path, 'w') as file:
            file.write('\n'.join(lines) + '\n')
        return [harness.app('script'), path]

    def of_job(self, device):
        return [each for each in self.complete() if each['job'] == 'device%d' % device]

    def settings_of(self, device, every):
        return {'GPUSNAP_JOB': 'device%d' % device, 'GPUSNAP_EVERY': every, 'GPUSNAP_KEEP': 40,
                'GPUSNAP_DEVICE_CACHE': self.CACHES[device]}

    def play(self, devices, every):
        """Returns bytes that went over peers."""
        commands = [self.command(device) for device in range(devices)]
        self.make('end')
        references = [self.reference(command) for command in commands]
        os.remove(os.path.join(self.folder, 'end'))
        # Lenders have a buffer before the others want to have it.
        order = list(reversed(range(devices)))
        runs = {}
        for device in order:
            runs[device] = self.start_saved(commands[device], **self.settings_of(device, every))
            self.wait_for_complete(runs[device], 1)
        for device in self.random.sample(order, self.random.randint(1, devices)):
            self.assertFalse(runs[device].ends_within(
                self.random.uniform(0, references[0].seconds)))
            if runs[device].kill():
                self.settle()
                runs[device] = self.start_restored(commands[device],
                                                   **self.settings_of(device, every))
        for device in order:
            self.wait_for(runs[device], 'done')
        self.make('end')
        for device in order:
            self.finish(runs[device])
            self.assert_same_output(runs[device], references[device])
        self.verify_all()
        sent = 0
        for device in order:
            found = self.of_job(device)
            sent += sum(self.show(each['id'])['ranks'][0]['peer_bytes'] for each in found)
            for each in {found[0]['id'], self.random.choice(found)['id']}:
                run = self.start_restored(commands[device], checkpoint=each,
                                          GPUSNAP_JOB='device%d' % device)
                self.assert_same_output(self.finish(run), references[device])
        return sent

    def test_killed_at_any_moment(self):
        sent = 0
        for number in range(2 * self.ROUNDS):
            devices = 2 + number % 2
            self.program_settings = {
                'SIMCUDA_DEVICES': '3', 'SIMCUDA_LINKS': '0,48G,24G/48G,0,24G/24G,24G,0',
                'GPUSNAP_BALANCE': 'node', 'SIMCUDA_CLOCK': 'virtual', 'SIMCUDA_PACE': '1',
                'SIMCUDA_BANDWIDTH': 'to_host:400M'}
            every = 'syncs:%d' % self.random.randint(4, 12)
            with self.subTest(number=number, every=every), self.store_of_its_own():
                sent += self.play(devices, every)
            os.remove(os.path.join(self.folder, 'end'))
        print('%d bytes went over peers' % sent)
        self.assertGreater(sent, 0)


if __name__ == '__main__':
    harness.main()
