#!/usr/bin/env python3
"""`gpusnap status` of programs that stand at known places.

When a checkpoint has to be on its way, the engine that copies to the host is held, or the node's
backend is stopped.
"""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest

import harness
import scripted

ISO_TIME = r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$'


class StatusTest(scripted.TestCase):
    patience = ('--timeout', '60s')

    def jobs(self, *arguments):
        """The jobs that save in this test's store: others may run beside them."""
        said = self.tool('status', '--json', '--store', self.store, *self.patience, *arguments)
        self.assertEqual(said.returncode, 0, said.stderr)
        return json.loads(said.stdout)

    def process(self, number=0):
        """The one process of the one job, or that of several."""
        job, = self.jobs()
        return job['processes'][number]

    def until(self, run, what, is_so, number=0):
        """The first answer that is so."""
        found = []

        def happened():
            jobs = self.jobs()
            found[:] = jobs[0]['processes'][number:number + 1] if jobs else []
            return bool(found) and is_so(found[0])
        self.wait_until(run, what, happened)
        return found[0]

    def text(self, *arguments):
        said = self.tool('status', '--store', self.store, *self.patience, *arguments)
        self.assertEqual(said.returncode, 0, said.stderr)
        return said.stdout

    def runs_nothing(self):
        self.assertEqual(self.jobs(), [])
        said = self.tool('status', 'job', '--store', self.store)
        self.assertEqual(said.returncode, harness.NO_CHECKPOINT)
        self.assertRegex(said.stderr, r'^gpusnap: error: no process of job job .*\n$')
        self.assertEqual(said.stdout, '')


class OneProcess(StatusTest):
    TEXT = '''
        await begin
        stream s
        alloc head 3200000
        say ready
        await first
        sync s
        await dirty
        set head 7 s
        sync s
        say begun
        await cut
        sync s
        say cut
        await last
        print head
        '''

    def start_script(self, text=TEXT, **settings):
        self.command = self.script(text)
        self.held = os.path.join(self.folder, 'held')
        run = self.start_saved(self.command, SIMCUDA_CLOCK='virtual',
                               SIMCUDA_HOLD='to_host:' + self.held,
                               **{'GPUSNAP_EVERY': scripted.EVERY, **settings})
        self.make('begin')
        return run

    def take_first(self, run):
        self.wait_for(run, 'ready')
        self.go_on_with_a_checkpoint(run, 'first')
        self.wait_for_complete(run, 1)

    def hold_second(self, run):
        """It is on its way, and nothing of it comes to the host."""
        self.make('dirty')
        self.wait_for(run, 'begun')
        self.make('held')
        self.go_on_with_a_checkpoint(run, 'cut')
        self.wait_for(run, 'cut')

    @staticmethod
    def go_on(process):
        try:
            os.kill(process, signal.SIGCONT)
        except ProcessLookupError:
            pass

    def test_tells_how_its_checkpoints_get_on(self):
        run = self.start_script()
        self.wait_for(run, 'ready')
        job, = self.jobs()
        process, = job['processes']
        self.assertEqual((job['job'], job['store'], job['ranks'], job['problem']),
                         ('job', self.store, 1, ''))
        self.assertEqual((job['complete_epoch'], job['complete_time'], job['behind']), (0, '', []))
        self.assertEqual((process['rank'], process['pid'], process['host']),
                         (0, run.process.pid, socket.gethostname()))
        self.assertEqual((process['state'], process['reason']), ('recording', ''))
        self.assertEqual((process['epoch'], process['time'], process['saving_epoch']), (0, '', 0))
        self.assertEqual(process['due'], 'not')

        self.take_first(run)
        job, = self.jobs('job')
        process, = job['processes']
        self.assertEqual((job['complete_epoch'], job['behind']), (1, []))
        self.assertRegex(job['complete_time'], ISO_TIME)
        self.assertEqual((process['epoch'], process['saving_epoch']), (1, 0))
        self.assertRegex(process['time'], ISO_TIME)
        self.assertGreater(process['stall_ms'], 0)

        self.hold_second(run)
        process = self.process()
        self.assertEqual((process['epoch'], process['saving_epoch']), (1, 2))
        self.assertEqual((process['saved_bytes'], process['saving_level']), (0, '-'))
        self.assertGreater(process['saving_bytes'], 12000000)
        # One more that is due waits for it.
        run.process.send_signal(signal.SIGUSR1)
        self.until(run, 'a signal that is seen', lambda process: process['due'] == 'call')
        lines = self.text().splitlines()
        self.assertRegex(lines[0], r'^job job in \S+: 1 rank, newest complete job@1 \(\d+ \w+\)$')
        self.assertEqual(lines[1].split(),
                         ['RANK', 'PID', 'HOST', 'STATE', 'LAST', 'AGE', 'STALL', 'SAVING', 'NEXT'])
        self.assertRegex(lines[2], r'^ +0 +%d +\S+ +recording +1 +\d+ \w+ +[\d.]+ [mu]s +'
                                   r'2: 0 B of 12\.\d MiB +due: waits for the end of 2$'
                         % run.process.pid)

        os.remove(self.held)
        self.wait_for_complete(run, 2)
        process = self.process()
        self.assertEqual((process['epoch'], process['saving_epoch']), (2, 0))
        self.make('last')
        self.finish(run)
        self.runs_nothing()

    def test_tells_how_the_backend_gets_on(self):
        run = self.start_script()
        self.take_first(run)
        found = []

        def is_told():
            found[:] = self.jobs()[0]['backends']
            return found and found[0]['committed'] == 1
        self.wait_until(run, 'a backend that tells of the checkpoint', is_told)
        backend, = found
        self.assertEqual(backend['backend'], 'process')
        with open('/proc/%d/comm' % backend['pid']) as file:
            self.assertEqual(file.read(), 'gpusnapd\n')
        self.assertEqual((backend['staging_bytes'], backend['chunk_bytes']), (64 << 20, 16 << 20))
        self.assertLessEqual(backend['staging_used'], backend['staging_bytes'])
        self.assertEqual((backend['checkpoints'], backend['journals'], backend['failed']), (0, 1, 0))
        self.assertGreater(backend['flush_bytes_per_s'], 0)
        self.assertGreater(backend['flushes'], 0)
        memory, durable = backend['tiers']
        self.assertEqual((memory['tier'], memory['waiting'], memory['capacity']), ('memory', 0, 4))
        self.assertEqual(durable, {'tier': 'durable', 'folder': self.store, 'writers': 0,
                                   'waiting': 0, 'flushing': 0, 'capacity': 0})
        self.assertRegex(self.text(), r'\nbackend: gpusnapd %d, .* of 64.0 MiB of staging memory in '
                                      r'use, 0 checkpoints and 1 journal on their way\nflushes: .*\n'
                                      r'TIER +WRITERS.*\nmemory .*\ndurable .*\n$' % backend['pid'])

    def test_local_tiers_are_told_by_name(self):
        ssd = os.path.join(self.folder, 'ssd')
        os.mkdir(ssd)
        run = self.start_script(GPUSNAP_SSD=ssd)
        self.wait_for(run, 'ready')
        tiers = []

        def are_told():
            tiers[:] = [(each['tier'], each['folder'])
                        for each in self.jobs()[0]['backends'][0]['tiers']]
            return tiers
        self.wait_until(run, 'what the backend tells', are_told)
        self.assertEqual(tiers, [('memory', ''), ('ssd', ssd), ('durable', self.store)])

    def test_a_backend_within_the_program(self):
        run = self.start_script(GPUSNAP_BACKEND='thread')
        self.take_first(run)
        job, = self.jobs()
        self.assertEqual([each['backend'] for each in job['backends']], ['thread'])
        self.assertEqual(job['processes'][0]['epoch'], 1)
        self.assertIn('\nbackend: within the programs', self.text())

    def test_what_is_in_memory_and_a_program_that_waits_for_it(self):
        """The backend is stopped, with all of the checkpoint handed over to it."""
        run = self.start_script()
        self.take_first(run)
        backend = self.jobs()[0]['backends'][0]['pid']
        os.kill(backend, signal.SIGSTOP)
        self.addCleanup(self.go_on, backend)
        self.make('dirty')
        self.wait_for(run, 'begun')
        self.go_on_with_a_checkpoint(run, 'cut')
        self.until(run, 'all of it in memory', lambda process: process['saving_level'] == 'memory')
        self.assertRegex(self.text(), r'2: 12\.\d MiB in memory')
        self.make('last')
        process = self.until(run, 'its end', lambda process: process['state'] == 'ending')
        self.assertEqual((process['saving_epoch'], process['saving_level']), (2, 'memory'))
        self.go_on(backend)
        self.finish(run)
        self.runs_nothing()
        self.assertEqual(len(self.complete()), 2)

    def test_time_that_is_left(self):
        run = self.start_script(GPUSNAP_EVERY='10h')
        self.wait_for(run, 'ready')
        process = self.process()
        self.assertEqual(process['due'], 'time')
        self.assertTrue(35000 < process['due_in_s'] <= 36000, process)
        self.assertRegex(self.text(), r' in \d+ (h|min)\n')

    def test_what_ends_checkpoints_is_said(self):
        run = self.start_script('''
            context
            stream s
            alloc_async one 1000 s
            sync s
            end_context
            say outlives
            await last
            ''')
        self.wait_for(run, 'outlives')
        process = self.until(run, 'its end', lambda process: process['state'] == 'off')
        why = 'stream-ordered memory that outlives its context cannot be restored by this version'
        self.assertEqual(process['reason'], why)
        self.assertEqual(process['due'], 'not')
        self.assertRegex(self.text(), r' off .* %s\n' % why)

    def test_a_program_that_was_killed_is_gone(self):
        run = self.start_script()
        self.take_first(run)
        self.assertEqual(len(self.jobs()), 1)
        self.assertTrue(run.kill())
        self.runs_nothing()

    def test_a_program_that_is_stopped_does_not_answer(self):
        run = self.start_script()
        self.wait_for(run, 'ready')
        self.patience = ('--timeout', '200ms')
        run.process.send_signal(signal.SIGSTOP)
        process = self.until(run, 'its stop', lambda process: process['state'] != 'recording')
        self.assertEqual((process['state'], process['pid']),
                         ('does not answer', run.process.pid))
        self.assertIn('it has not answered within 200.0 ms', process['reason'])
        self.assertRegex(self.text(), r' does not answer ')
        run.process.send_signal(signal.SIGCONT)
        self.until(run, 'its answer', lambda process: process['state'] == 'recording')

    def test_a_restored_run(self):
        run = self.start_script()
        self.take_first(run)
        self.assertTrue(run.kill())
        self.settle()
        os.remove(os.path.join(self.working_folder, 'first'))
        restored = self.start_restored(self.command, GPUSNAP_LOG='debug', SIMCUDA_CLOCK='virtual')
        self.wait_for(restored, 'ready')
        process = self.process()
        self.assertEqual((process['state'], process['epoch']), ('replaying', 0))
        self.make('first')
        self.make('dirty')
        self.wait_for(restored, 'begun')
        process = self.process()
        self.assertEqual((process['state'], process['epoch']), ('recording', 1))
        self.make('cut')
        self.make('last')
        self.finish(restored)

    def test_a_program_that_has_not_used_cuda(self):
        run = self.start_saved(['sleep', '1000'])
        process = self.until(run, 'the program', lambda process: True)
        self.assertEqual((process['state'], process['pid']), ('not started', run.process.pid))

    def test_again_and_again(self):
        run = self.start_script()
        self.wait_for(run, 'ready')
        with subprocess.Popen([harness.GPUSNAP, 'status', '--watch=10ms', '--json', '--store',
                               self.store], env=self.environment(**self.settings()),
                              stdout=subprocess.PIPE, text=True) as watching:
            self.addCleanup(watching.kill)
            for _ in range(3):
                job, = json.loads(watching.stdout.readline())
                self.assertEqual(job['processes'][0]['pid'], run.process.pid)
            self.assertTrue(run.kill())
            # Lines that were read of the system before are still on their way.
            while json.loads(watching.stdout.readline()):
                pass
            watching.kill()


class OfSeveralRanks(StatusTest):
    TEXT = '''
        stream s
        alloc a 1000
        say ready
        await last
        '''

    def start_rank(self, rank, ranks, **settings):
        """A program that a launcher says to be one of several."""
        run = self.start_saved(self.script(self.TEXT), GPUSNAP_EVERY=scripted.EVERY,
                               OMPI_COMM_WORLD_RANK=rank, OMPI_COMM_WORLD_SIZE=ranks, **settings)
        self.wait_for(run, 'ready')
        return run

    def test_ranks_of_other_nodes(self):
        """`status` has of them only what the store has."""
        made = subprocess.run([os.path.join(harness.HELPERS, 'make_store'), self.store, 'job', '2',
                               os.path.realpath('/bin/sh')], check=False)
        self.assertEqual(made.returncode, 0)
        run = self.start_rank(1, 3)
        job, = self.jobs()
        self.assertEqual((job['ranks'], job['complete_epoch']), (3, 0))
        self.assertEqual(job['behind'], [{'rank': 1, 'epoch': 0}, {'rank': 2, 'epoch': 0}])
        self.assertEqual([(each['rank'], each['pid'], each['host'], each['state'], each['epoch'])
                          for each in job['processes']],
                         [(0, 0, 'testhost', 'not here', 2),
                          (1, run.process.pid, socket.gethostname(), 'recording', 0),
                          (2, 0, '', 'not here', 0)])
        self.assertEqual(job['processes'][0]['time'], '2023-11-14T22:15:20.123Z')
        lines = self.text().splitlines()
        self.assertIn(': 3 ranks, no complete checkpoint yet; behind: rank 1 (none), rank 2 (none)',
                      lines[0])
        self.assertRegex(lines[2], r'^ +0 +- +testhost +not here +2 ')

    def test_what_is_due_waits_for_the_others(self):
        run = self.start_rank(0, 2)
        run.process.send_signal(signal.SIGUSR1)
        self.until(run, 'a signal that is seen', lambda process: process['due'] == 'ranks')
        self.assertIn(' due: waits for a collective of all ranks\n', self.text())


class Answers(StatusTest):
    """This process answers as a library would, or another one."""

    def listen(self, pid):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(listener.close)
        listener.bind('\0gpusnap-%d-%d' % (os.geteuid(), pid))
        listener.listen(100)
        return listener

    def ask(self, answer):
        listener = self.listen(os.getpid())
        heard = []

        def serve():
            """Other tests ask, too."""
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    heard.append(connection.recv(1000))
                    connection.send(answer)
        server = threading.Thread(target=serve)
        server.start()
        # Not those of this store alone: this one says what it likes.
        said = self.tool('status', '--json', *self.patience)
        listener.shutdown(socket.SHUT_RDWR)
        server.join()
        listener.close()
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertEqual(set(heard), {b'gpusnap 1 status\n'})
        return [(job, process) for job in json.loads(said.stdout) for process in job['processes']
                if process['pid'] == os.getpid()]

    def test_of_a_library(self):
        (job, process), = self.ask(
            b'gpusnap 1 status job=wave store=/nowhere/a%20b rank=1 ranks=2 doing=off '
            b'why=of%09no%1buse epoch=3 cut=1700000000123000000 stall=2500000 later=word\n')
        self.assertEqual((job['job'], job['store'], job['ranks']), ('wave', '/nowhere/a b', 2))
        self.assertEqual((process['state'], process['reason'], process['epoch']),
                         ('off', 'of\tno\x1buse', 3))
        self.assertEqual((process['time'], process['stall_ms']), ('2023-11-14T22:13:20.123Z', 2.5))

    def test_of_an_older_version(self):
        (_, process), = self.ask(b'gpusnap 1 error not a request that this version knows\n')
        self.assertEqual(process['state'], 'does not answer')
        self.assertEqual(process['reason'], 'it does not tell its status (older version)')

    def test_that_cannot_be_read(self):
        for answer in (b'gpusnap 2 status job=a\n', b'\x1b[31m\n', b'x' * 100000):
            (_, process), = self.ask(answer)
            self.assertEqual(process['state'], 'does not answer')
            self.assertIn('cannot be read', process['reason'])

    def test_of_an_impostor(self):
        """A process that has taken another's name is not asked at all."""
        sleeper = subprocess.Popen(['sleep', '1000'])
        self.addCleanup(sleeper.wait)
        self.addCleanup(sleeper.kill)
        self.listen(sleeper.pid)
        said = self.tool('status', '--json', *self.patience)
        self.assertNotIn(sleeper.pid, [process['pid'] for job in json.loads(said.stdout)
                                       for process in job['processes']])


@unittest.skipUnless(shutil.which('mpirun.openmpi') and
                     os.path.exists(harness.app('mpi/openmpi/halo')), 'no Open MPI')
class Mpi(StatusTest):
    RANKS = 4

    def environment(self, **settings):
        return super().environment(**{
            'OMPI_ALLOW_RUN_AS_ROOT': '1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1',
            'OMPI_MCA_mpi_yield_when_idle': '1', 'OMPI_MCA_hwloc_base_binding_policy': 'none',
            **settings})

    def test_all_ranks(self):
        run = self.start_saved(['mpirun.openmpi', '--oversubscribe', '-n', str(self.RANKS),
                                harness.app('mpi/openmpi/ring'), '1000000'])
        # Its ranks end with it, but not if it is killed.
        self.addCleanup(run.process.wait)
        self.addCleanup(run.process.terminate)
        job = {}

        def become(is_so):
            def has_become():
                job.clear()
                job.update(next(iter(self.jobs()), {'processes': []}))
                return len(job['processes']) == self.RANKS and all(map(is_so, job['processes']))
            return has_become
        self.wait_until(run, 'all ranks', become(lambda each: each['state'] == 'recording'))
        self.assertEqual([each['rank'] for each in job['processes']], list(range(self.RANKS)))
        self.assertEqual(len({each['pid'] for each in job['processes']}), self.RANKS)
        # One of them is asked for a checkpoint; all of them take it.
        asked = self.tool('checkpoint', str(job['processes'][2]['pid']))
        self.assertEqual(asked.returncode, 0, asked.stderr)
        self.wait_until(run, 'one epoch', become(lambda each: each['epoch'] == 1))
        self.assertEqual((job['ranks'], job['complete_epoch'], job['behind']), (self.RANKS, 1, []))
        self.assertEqual(len(job['backends']), 1)
        lines = self.text('job').splitlines()
        self.assertIn(': 4 ranks, newest complete job@1 ', lines[0])
        rows = [re.findall(r'\S+', line) for line in lines[2:2 + self.RANKS]]
        self.assertEqual([(row[0], row[3], row[4]) for row in rows],
                         [(str(rank), 'recording', '1') for rank in range(self.RANKS)])


if __name__ == '__main__':
    harness.main()
