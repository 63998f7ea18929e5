#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The parallel file system goes away for a while and comes back: its file system is frozen, so that
every write waits in the kernel, or it is full. The program goes on, nothing that was safe is lost,
and memory and local devices stay within their settings.

Needs root and a loop device. Each outage lasts until the program has ended; with GPUSNAP_SOAK=1
minutes.
"""
import glob
import os
import shutil
import signal
import subprocess
import time
import unittest

import harness
import patience
import scripted

PAUSE = 180 if harness.SOAK else 1  # seconds that an outage lasts after the program's end
MIB = 1 << 20
MEMORY = 16 * MIB
SSD = 128 * MIB
# Memory of a backend besides the slots: its program, its threads, copies on their way. 35 runs
# needed 19 to 99 MiB, most of them 33 to 50; those with more ran beside others.
BESIDES = 160 * MIB


def command(*arguments):
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode != 0:
        raise unittest.SkipTest('%s: %s' % (' '.join(arguments), done.stdout.strip()))


class StandingStore(harness.TestCase):
    """A store on a file system of its own that can be frozen or filled."""
    memory = MEMORY

    def setUp(self):
        super().setUp()
        for tool in ('mkfs.ext4', 'mount', 'umount', 'fsfreeze'):
            if shutil.which(tool) is None:
                self.skipTest('there is no ' + tool)
        self.mount = os.path.join(self.folder, 'mount')
        self.ssd = os.path.join(self.folder, 'ssd')
        os.mkdir(self.mount)
        os.mkdir(self.ssd)
        image = os.path.join(self.folder, 'image')
        with open(image, 'wb') as file:
            file.truncate(1024 * MIB)  # taken as it is used
        command('mkfs.ext4', '-q', image)
        command('mount', '-o', 'loop,noatime', image, self.mount)
        self.addCleanup(command, 'umount', self.mount)
        self.addCleanup(self.backends.end)
        self.store = os.path.join(self.mount, 'store')
        self.filler = os.path.join(self.mount, 'filler')

    def settings(self, **settings):
        return super().settings(**{
            'GPUSNAP_BACKEND': 'process', 'GPUSNAP_HOST_CACHE': self.memory, 'GPUSNAP_SLOT': '2M',
            'GPUSNAP_CHUNK': '4M', 'GPUSNAP_SSD': '%s:%d' % (self.ssd, SSD),
            'GPUSNAP_PLACEMENT': 'hybrid-naive', 'GPUSNAP_KEEP': 1000000, 'GPUSNAP_WAIT': 'memory',
            'GPUSNAP_COMPRESS': 'off', 'GPUSNAP_LOG': 'warn',
            # Where neither memory nor device has room any more, a checkpoint is given up.
            'GPUSNAP_MAX_STALL': '200ms', **settings})

    # ---- outages ----

    def freeze(self):
        command('fsfreeze', '--freeze', self.mount)
        # Before the file system is unmounted, whatever fails.
        self.addCleanup(subprocess.run, ['fsfreeze', '--unfreeze', self.mount],
                        stderr=subprocess.DEVNULL, check=False)

    def unfreeze(self):
        command('fsfreeze', '--unfreeze', self.mount)

    def fill(self):
        room = os.statvfs(self.mount)
        with open(self.filler, 'wb') as file:
            os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_bsize)

    def empty(self):
        os.remove(self.filler)

    # ---- limits ----

    def check_limits(self):
        for each in self.backends.running():
            for area in each.shared_files(self.backends.AREA):
                # Tables of clients, streams and slots come before the slots.
                self.assertLessEqual(512 * os.stat(area).st_blocks,
                                     self.memory + 8 * MIB)
            try:
                with open(each.path + '/status', encoding='utf-8') as file:
                    lines = dict(line.split(':', 1) for line in file)
            except OSError:
                continue  # it has ended
            own = int(lines.get('RssAnon', '0 kB').split()[0]) * 1024
            self.assertLessEqual(own, BESIDES)
        used = 0
        for kind in 'chunk', 'spill':
            for path in glob.glob(self.ssd + '/**/*.' + kind, recursive=True):
                try:
                    used += os.stat(path).st_size
                except FileNotFoundError:
                    continue
        self.assertLessEqual(used, SSD)

    def begin_store(self):
        """Below the mount."""
        super().begin_store()
        self.store = os.path.join(self.mount, os.path.basename(self.store))

    def wait_until(self, what, happens):
        left = patience.Patience(self.timeout)
        while not happens():
            self.assertFalse(left.is_over(), what)
            time.sleep(0.01)


class Outage(StandingStore):
    def ends(self, run):
        """The program does, while the outage lasts; the limits hold meanwhile."""
        left = patience.Patience(self.timeout)
        while not run.ended():
            self.assertFalse(left.is_over(), 'the program hangs:\n' + run.errors)
            self.check_limits()
            time.sleep(0.01)
        return self.finish(run)

    def outlive(self, begin, end):
        """Runs, saved, through an outage each, until one was met by a checkpoint, which was safe on
        this node or said why it was not: on a busy machine a run may have ended before."""
        program = [harness.app('hoard'), '300', '24']
        reference = self.reference(program)
        for _ in range(20):
            with self.store_of_its_own():
                met = self.one_outage(program, reference, begin, end)
            if met:
                return
        self.fail('each run ended before the outage was met')

    def one_outage(self, program, reference, begin, end):
        run = self.start_saved(program, GPUSNAP_EVERY='syncs:10', HOARD_PAUSE=5)
        if not self.wait_for_checkpoint(run):
            self.assert_same_output(self.finish(run), reference)
            return False
        begin()
        self.ends(run)
        self.assert_same_output(run, reference)
        until = time.monotonic() + PAUSE
        while time.monotonic() < until:
            self.check_limits()
            time.sleep(0.1)
        safe, before = self.safe(), {each['id'] for each in self.complete()}
        end()
        self.settle()
        complete = {each['id'] for each in self.complete()}
        self.assertLessEqual(safe, complete)
        self.verify_all()
        self.backends.end()
        self.assert_same_output(self.finish(self.start_restored(program)), reference)
        print('%s: %d checkpoints before the outage, %d safe within it, %d after it; %d lines' % (
            self.id(), len(before), len(safe - before), len(complete),
            len(run.errors.splitlines())))
        return bool(safe - before) or run.errors != ''

    def outlive_together(self, program, reference):
        """Three programs of a node; one is killed within the outage. Whether that was met."""
        runs = {job: self.start_saved(program, GPUSNAP_EVERY='syncs:10', HOARD_PAUSE=5, GPUSNAP_JOB=job)
                for job in ('job0', 'job1', 'job2')}
        victim = runs['job1']
        self.wait_until('no checkpoints', lambda: victim.ended() or
                        {each['job'] for each in self.complete()} == set(runs))
        before = self.safe()
        self.freeze()
        self.wait_until('the outage is not met', lambda: victim.ended() or any(
            id.startswith('job1@') for id in self.safe() - before))
        was_killed = victim.kill()
        for job in ('job0', 'job2'):
            self.assert_same_output(self.ends(runs[job]), reference)
        safe = self.safe()
        self.unfreeze()
        self.settle()
        self.assertLessEqual(safe, {each['id'] for each in self.complete()})
        self.verify_all()
        self.backends.end()
        for job in {each['job'] for each in self.complete()}:
            run = self.finish(self.start_restored(program, GPUSNAP_JOB=job))
            self.assert_same_output(run, reference)
        print('%d checkpoints of three programs were safe within the outage' % len(safe - before))
        return was_killed and bool(safe - before)

    def safe(self):
        return {each['id'] for each in self.checkpoints()
                if each['state'] == 'complete' or each['level'] in ('memory', 'ssd')}

    # ---- tests ----

    def test_every_write_waits(self):
        self.outlive(self.freeze, self.unfreeze)

    def test_every_write_fails(self):
        self.outlive(self.fill, self.empty)

    def test_several_programs_are_on_their_way(self):
        # Each journal keeps a slot that the store was asked to take, and each part may, too.
        self.memory = 2 * MEMORY
        program = [harness.app('hoard'), '200', '12']
        reference = self.reference(program)
        for _ in range(20):
            with self.store_of_its_own():
                if self.outlive_together(program, reference):
                    return
        self.fail('each run ended before the outage was met')

    def test_checkpoints_go_on_afterwards(self):
        program = [harness.app('hoard'), '600', '8']
        reference = self.reference(program)
        for begin, end in ((self.freeze, self.unfreeze), (self.fill, self.empty)):
            with self.subTest(begin=begin.__name__), self.store_of_its_own():
                run = self.start_saved(program, GPUSNAP_EVERY='syncs:10', HOARD_PAUSE=5,
                                       GPUSNAP_KEEP=2)
                self.assertTrue(self.wait_for_checkpoint(run), run.errors)
                begin()
                self.wait_until('the outage is not met', lambda: run.errors or any(
                    each['state'] != 'complete' and each['level'] in ('memory', 'ssd')
                    for each in self.checkpoints()) or run.ended())
                self.assertFalse(run.ended())
                known = self.manifests()
                end()
                self.assertTrue(self.wait_for_checkpoint(run, other_than=known), run.errors)
                self.assert_same_output(self.finish(run), reference)
                self.assertGreater(os.statvfs(self.mount).f_bavail, 0, 'the store is too small')
                self.verify_all()


class Journals(scripted.TestCase, StandingStore):
    """A journal grows in the outage to several times what memory holds: the program does not wait for
    the store."""
    STEPS = 20
    TEXT = ('stream s\nalloc a %d\nset a 1 s\nsync s\nsay one\nawait first\nsync s\nsay cut\n'
            'await outage\n' % MIB +
            ''.join('stir a %d s\nsync s\nprint a\n' % step for step in range(STEPS)) +
            'say written\nawait second\nsync s\nsay two\nawait last\nprint a\n')

    def outlive(self, between):
        reference = self.undisturbed(self.TEXT)
        command = self.script(self.TEXT)
        run = self.start_saved(command, GPUSNAP_EVERY=scripted.EVERY)
        self.wait_for(run, 'one')
        self.go_on_with_a_checkpoint(run, 'first')
        self.wait_for_complete(run, 1)
        self.freeze()
        self.make('outage')
        written = lambda: b'written' in run.output.splitlines()
        left = patience.Patience(self.timeout)
        while not written():
            self.assertFalse(run.ended() or left.is_over(), run.errors)
            self.check_limits()
            time.sleep(0.01)
        self.assertGreater(self.spilled(), self.STEPS * 4 * MIB // 2)
        between(run)
        self.go_on_with_a_checkpoint(run, 'second')
        self.wait_for(run, 'two')
        self.wait_for_complete(run, 2)
        self.make('last')
        self.finish(run)
        self.assert_same_output(run, reference)
        self.verify_all()
        self.backends.end()
        self.assertEqual(self.spilled(), 0)
        self.assertEqual([each['epoch'] for each in self.complete()], [2, 1])
        self.restores_all(command, reference)

    def spilled(self):
        size = 0
        for path in glob.glob(self.ssd + '/**/*.spill', recursive=True):
            try:
                size += os.stat(path).st_size
            except FileNotFoundError:
                continue
        return size

    def test_waits_on_the_local_tier(self):
        self.outlive(lambda run: self.unfreeze())

    def test_another_backend_finds_it_there(self):
        def kill(_):
            for each in self.backends.running():
                os.kill(int(os.path.basename(each.path)), signal.SIGKILL)
            # Threads that wait for a frozen file system die with its return.
            self.unfreeze()
        self.outlive(kill)


if __name__ == '__main__':
    harness.main()
