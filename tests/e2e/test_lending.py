#!/usr/bin/env python3
"""Ranks of one MPI job lend each other device memory: test_lending.py {openmpi,mpich}

The first rank has much to save and little room on its device; the others, each on a device of its own,
have the opposite. In two of the tests nothing of the first rank gets to the host until its zones lie at
the others. The third kills the job at any moment: once; with GPUSNAP_SOAK=1 20 times for each MPI.
"""
import os
import signal
import sys
import time

import harness
import mpi_job
import test_mpi

MIB = 1 << 20
RANKS = 3
ROUNDS = 20 if harness.SOAK else 1
MOST_ROUNDS = 20
MEMORY, CACHE = 24 * MIB, 8 * MIB  # of the first rank
# The others must get that, but for one copy that waits for the host.
ENOUGH = MEMORY - CACHE - MIB


class Lending(test_mpi.Ring):

    def setUp(self):
        super().setUp()
        self.command = self.program('lopsided', '120')
        self.program_settings = {
            'SIMCUDA_DEVICES': str(RANKS), 'SIMCUDA_LINKS': '0,48G,24G/48G,0,24G/24G,24G,0',
            'SIMCUDA_CLOCK': 'virtual', 'GPUSNAP_BALANCE': 'node'}
        self.held = os.path.join(self.folder, 'held')
        self.trace = os.path.join(self.folder, 'trace')
        self.set_rank(0, GPUSNAP_DEVICE_CACHE=CACHE)
        for rank in range(1, RANKS):
            self.set_rank(rank, GPUSNAP_DEVICE_CACHE=MEMORY)

    def settings(self, **settings):
        # Taking turns at growing, a rank may be left without a buffer for a while.
        return super().settings(**{'GPUSNAP_PIN': 'concurrent', 'GPUSNAP_KEEP': 1000,
                                   'GPUSNAP_HOST_CACHE': '64M', **settings})

    def make(self, name):
        open(os.path.join(self.working_folder, name), 'w').close()

    def sent(self):
        """Bytes that have gone from the first rank's device to the others'."""
        with open(self.trace) as file:
            lines = [line.split() for line in file.read().splitlines()]
        return sum(int(size) for *_, engine, size in lines if engine in ('copy_to_1', 'copy_to_2'))

    def peer_bytes(self):
        """Bytes that each rank has sent to others, by the epoch of each complete checkpoint."""
        return {each['epoch']: [rank['peer_bytes'] for rank in self.show(each['id'])['ranks']]
                for each in self.complete()}

    def kill_some(self, run):
        """kill -9 of one rank, or of all. Ranks that are left end, or are ended a little later."""
        ranks = sorted(run.ranks().values(), key=lambda each: each.number)
        victims = len(ranks) if self.random.random() < 0.5 else min(len(ranks), 1)
        for each in self.random.sample(ranks, victims):
            each.signal(signal.SIGKILL)
        run.ends_within(self.random.uniform(0, 0.5))
        run.kill()
        return run.process.returncode != 0

    def restores_all(self, reference):
        """From each complete checkpoint."""
        self.settle()
        for each in self.complete():
            run = self.finish(self.start_restored(self.launched(RANKS, self.command), each['id']))
            self.assert_right(run, reference)
            self.assertEqual(self.complaints(run), [])
        self.verify_all()

    # ---- while the first rank's engine to the host is held ----

    def wait_for_pause(self, run, name):
        """Three barriers are before each pause, and four in it, of which one takes a checkpoint."""
        self.wait_until('no pause', lambda: b'waits for %s\n' % name.encode() in
                        self.results().get('out.0', b''), run)

    def undisturbed_with_pauses(self):
        self.command = self.program('lopsided', '20', 'first', 'second')
        names = [name + end for name in ('first', 'second') for end in ('', '.on')]
        for name in names:
            self.make(name)
        reference = self.undisturbed(RANKS)
        for name in names:
            os.remove(os.path.join(self.working_folder, name))
        return reference

    def start_held(self):
        """The second cut is made and nothing of the first rank gets to its host: its zones lie at the
        other ranks."""
        self.set_rank(0, GPUSNAP_DEVICE_CACHE=CACHE, SIMCUDA_HOLD='to_host:' + self.held,
                      SIMCUDA_TRACE=self.trace)
        run = self.start_saved(self.launched(RANKS, self.command), GPUSNAP_EVERY='barriers:6')
        self.wait_for_pause(run, 'first')
        self.make('first')
        self.wait_until('no first checkpoint', lambda: self.epochs() == [1] and not self.saving(),
                        run)
        self.make('first.on')
        self.wait_for_pause(run, 'second')
        before = self.sent()
        open(self.held, 'w').close()
        self.make('second')
        self.wait_until('no zones at other ranks', lambda: self.sent() - before >= ENOUGH, run)
        return run

    def end_pauses(self):
        """A restored run does not wait, and nothing is held."""
        os.remove(self.held)
        self.make('second')
        self.make('second.on')

    def test_what_lies_at_other_ranks_is_saved(self):
        """The first rank overwrites it afterwards."""
        reference = self.undisturbed_with_pauses()
        run = self.start_held()
        self.assertEqual(self.epochs(), [1])
        self.end_pauses()
        self.assert_right(self.finish(run), reference)
        self.assertEqual(self.complaints(run), [])
        self.restores_all(reference)
        first, *others = self.peer_bytes()[2]
        self.assertGreaterEqual(first, ENOUGH)
        self.assertEqual(others, [0, 0])
        self.leaves_nothing()

    def test_killed_while_zones_lie_at_other_ranks(self):
        """They are gone with their owner: the checkpoint before it is restored."""
        reference = self.undisturbed_with_pauses()
        run = self.start_held()
        self.assertTrue(self.kill_some(run))
        self.end_pauses()
        self.settle()
        self.assertEqual(self.epochs(), [1])
        self.restores_all(reference)
        self.leaves_nothing()

    # ---- at any moment ----

    def test_killed_at_any_moment(self):
        # The way to the host takes long enough for zones to go to other ranks.
        self.program_settings.update({'SIMCUDA_PACE': '1', 'SIMCUDA_BANDWIDTH': 'to_host:400M'})
        reference = self.undisturbed(RANKS)
        sent = number = 0
        # Whether zones go to other ranks before the kill is the machine's affair: until some did.
        while number < ROUNDS or (sent == 0 and number < MOST_ROUNDS):
            number += 1
            every = 'barriers:%d' % self.random.randint(6, 12)
            with self.subTest(number=number, every=every), self.store_of_its_own():
                command = self.launched(RANKS, self.command)
                run = self.start_saved(command, GPUSNAP_EVERY=every)
                # The others have buffers after the first one.
                self.wait_until('no checkpoints', lambda: len(self.epochs()) >= 2 or run.ended())
                time.sleep(self.random.uniform(0, reference.run.seconds))
                if self.kill_some(run):
                    self.settle()
                    run = self.start_restored(command, GPUSNAP_EVERY=every)
                    self.finish(run)
                self.assert_right(run, reference)
                self.assertEqual(self.complaints(run), [])
                self.settle()
                self.assertGreater(len(self.epochs()), 0)
                sent += sum(sum(each) for each in self.peer_bytes().values())
                self.assert_restores(command, reference)
                self.verify_all()
        print('%d bytes went over other ranks' % sent)
        self.assertGreater(sent, 0)
        self.leaves_nothing()


if __name__ == '__main__':
    if len(sys.argv) < 2 or sys.argv[1] not in mpi_job.LAUNCHERS:
        sys.exit('usage: test_lending.py {%s}' % ','.join(mpi_job.LAUNCHERS))
    mpi_job.TestCase.mpi = sys.argv.pop(1)
    test_mpi.share(Lending)
    harness.main()
