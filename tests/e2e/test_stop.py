#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs that are stopped after a checkpoint, by `gpusnap stop` or a signal, and gone on with: the output
of both runs together is that of an undisturbed one, to the byte, since the program does nothing between
the checkpoint and its end. Without a checkpoint no job is ended, unless that is asked for."""
import contextlib
import json
import os
import signal
import subprocess
import unittest

import harness
import mpi_job
import patience
import scripted

TEXT = '''alloc a 600000
when HELD await never
set a 3 default
print a
say before
await go
stir a 5 default
say after
await end
stir a 7 default
print a
'''


class Asking:
    """For a test case of harness.py."""

    def statuses(self):
        jobs = json.loads(self.tool('status', '--store', self.store, '--json').stdout)
        return [process for job in jobs for process in job['processes']]

    def stop(self, *arguments):
        """The job of this test, where several of its name run."""
        return [harness.GPUSNAP, 'stop', '--store', self.store, *arguments]

    @contextlib.contextmanager
    def asked(self, *arguments, status=0):
        """While `gpusnap stop` waits; at the end it has ended like that, and its line is in `said`."""
        said = []
        with subprocess.Popen(self.stop(*arguments), cwd=self.folder, text=True,
                              env=self.environment(**self.settings()), stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as asking:
            self.addCleanup(asking.kill)
            yield said
            said.append(asking.stdout.read())
            self.assertEqual(patience.wait(asking, self.timeout), status, said)

    def stop_now(self, *arguments, status=0):
        done = patience.run(self.stop(*arguments), self.timeout, cwd=self.folder,
                            env=self.environment(**self.settings()))
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(len((done.stdout + done.stderr).splitlines()), 1, done.stderr)
        return done.stdout + done.stderr


class Begun(Asking, scripted.TestCase):
    """A program that is between two of its CUDA calls, as long as the test wants."""

    def settings(self, **settings):
        """What is printed before a checkpoint is not printed by the run that goes on from there."""
        return super().settings(**{'GPUSNAP_REPLAY_OUTPUT': 'once', **settings})

    def wait_for_due(self, run):
        """The program would make its checkpoint at its next CUDA call."""
        self.wait_until(run, 'nothing is due',
                        lambda: any(each['due'] == 'call' for each in self.statuses()))

    def setUp(self):
        super().setUp()
        self.said = self.undisturbed(TEXT).output
        self.command = self.script(TEXT)


class Stopped(Begun):
    def begun(self, **settings):
        run = self.start_saved(self.command, **settings)
        self.wait_for(run, 'before')
        return run

    def assert_goes_on(self, stopped, checkpoint='job@1'):
        """From that checkpoint, with what is missing of the output."""
        self.assertIn('stopped after checkpoint ' + checkpoint, stopped.errors)
        self.assertEqual(self.complete()[0]['id'], checkpoint)
        self.assertEqual(stopped.output, self.said[:self.said.index(b'after')])
        self.make('go')
        self.make('end')
        again = self.finish(self.start_restored(self.command))
        self.assertEqual(stopped.output + again.output, self.said)

    def assert_is_stopped_by(self, what):
        run = self.begun()
        with self.asked(what or str(run.process.pid)) as said:
            self.wait_for_due(run)
            self.make('go')
        self.assertRegex(said[0], r'^job@1: .* MiB, program held .*; stopped\n$')
        self.finish(run, harness.STOPPED)
        self.assert_goes_on(run)

    def test_by_its_process(self):
        self.assert_is_stopped_by(None)

    def test_by_its_name(self):
        self.assert_is_stopped_by('job')

    def test_by_any_of_several_signals(self):
        run = self.begun(GPUSNAP_STOP_SIGNAL='USR1,TERM')
        run.process.send_signal(signal.SIGTERM)
        self.wait_for_due(run)
        self.make('go')
        self.finish(run, harness.STOPPED)
        self.assert_goes_on(run)

    def test_in_its_replay_it_loses_nothing(self):
        """The checkpoint that it comes from is as good as a new one."""
        run = self.begun()
        with self.asked('job'):
            self.wait_for_due(run)
            self.make('go')
        self.finish(run, harness.STOPPED)
        for how in ('signal', 'tool'):
            again = self.start_restored(self.command, HELD='1', GPUSNAP_STOP_SIGNAL='USR1')
            self.wait_until(again, 'no replay', lambda: any(
                each['state'] == 'replaying' for each in self.statuses()))
            if how == 'signal':
                again.process.send_signal(signal.SIGUSR1)
            else:
                self.assertTrue(self.stop_now('job').startswith('job@1'))
            self.finish(again, harness.STOPPED)
            self.assertEqual(again.output, b'')
        self.assert_goes_on(run)

    def test_who_gives_up_asking_stops_nothing(self):
        run = self.begun()
        with self.asked('job', '--timeout', '100ms', status=harness.NOT_SAVED) as said:
            pass
        self.assertIn('was not stopped', said[0])
        self.wait_until(run, 'it is still to be stopped', lambda: all(
            each['due'] == 'not' for each in self.statuses()))
        self.make('go')
        self.make('end')
        self.assertEqual(self.finish(run).output, self.said)
        self.assertEqual(self.complete(), [])

    def test_nothing_is_there_to_be_stopped(self):
        for what, status in (('job', harness.NO_CHECKPOINT), (str(os.getpid()), harness.NOT_SAVED),
                             ('', harness.USAGE)):
            self.stop_now(*([what] if what else []), status=status)


    # ---- no checkpoint can be made ----

    def assert_goes_on_undisturbed(self, run):
        self.make('go')
        self.make('end')
        self.assertEqual(self.finish(run).output, self.said)
        self.assertEqual(self.complete(), [])

    def assert_not_stopped(self, why, **settings):
        run = self.begun(GPUSNAP_STOP_SIGNAL='USR1', **settings)
        run.process.send_signal(signal.SIGUSR1)
        self.make('go')
        self.wait_for_errors(run, 'not stopped, the program goes on: ' + why)
        self.assertIn('job job was not stopped: ' + why, self.stop_now('job', status=harness.NOT_SAVED))
        self.assert_goes_on_undisturbed(run)

    def test_what_is_refused_is_not_stopped(self):
        # Junk, which the journal cannot make smaller, and more than its writer may be behind.
        text = TEXT.replace('set a 3 default\n', '').replace('600000', '1200000')
        self.said = self.undisturbed(text).output
        self.command = self.script(text)
        self.assert_not_stopped('a replay journal of more than GPUSNAP_JOURNAL', GPUSNAP_JOURNAL='1M')

    def break_store(self):
        """No folder of a checkpoint can be made."""
        os.rename(os.path.join(self.store, 'job'), os.path.join(self.store, 'away'))
        self.make(os.path.join(self.store, 'job'))

    def test_outage(self):
        run = self.begun(GPUSNAP_STOP_SIGNAL='USR1')
        self.break_store()
        run.process.send_signal(signal.SIGUSR1)
        self.wait_for_due(run)
        self.make('go')
        self.wait_for_errors(run, 'not stopped, the program goes on: ')
        self.make('end')
        self.assertEqual(self.finish(run).output, self.said)

    def test_anyway(self):
        run = self.begun()
        self.break_store()
        with self.asked('job', '--anyway', status=harness.NOT_SAVED) as said:
            self.wait_for_due(run)
            self.make('go')
        self.assertIn('job job was killed without a checkpoint: ', said[0])
        self.finish(run, -signal.SIGKILL)


class Resumed(Begun):
    """`gpusnap run --resume`: the same command starts the job and goes on with it."""

    def start_or_resume(self, *options, **settings):
        return self.start([harness.GPUSNAP, 'run', '--sim', '--resume', *options, '--', *self.command],
                          self.environment(**self.settings(GPUSNAP_STOP_SIGNAL='USR1', **settings)))

    def stopped_once(self, **settings):
        run = self.start_or_resume(**settings)
        self.wait_for(run, 'before')
        run.process.send_signal(signal.SIGUSR1)
        self.wait_for_due(run)
        self.make('go')
        return self.finish(run, harness.STOPPED)

    def test_starts_and_goes_on(self):
        first = self.stopped_once()
        second = self.start_or_resume()
        self.wait_for(second, 'after')
        second.process.send_signal(signal.SIGUSR1)
        self.wait_for_due(second)
        self.make('end')
        self.finish(second, harness.STOPPED)
        third = self.finish(self.start_or_resume())
        self.assertEqual(first.output + second.output + third.output, self.said)
        self.assertNotIn('starts afresh', first.errors, 'nothing is wrong with a first start')

    def test_a_requeued_job_is_the_same_and_another_is_not(self):
        job = {'GPUSNAP_JOB': None, 'SLURM_JOB_NAME': 'night', 'SLURM_JOB_ID': '7'}
        first = self.stopped_once(**job)
        self.assertEqual([each['job'] for each in self.complete()], ['night-7'])
        self.make('end')
        again = self.finish(self.start_or_resume(**job))
        self.assertEqual(first.output + again.output, self.said)
        other = self.finish(self.start_or_resume(**dict(job, SLURM_JOB_ID='8')))
        self.assertEqual(other.output, self.said)

    def test_does_not_start_afresh_what_it_cannot_go_on_with(self):
        self.stopped_once()
        self.make('end')
        self.command = self.command + ['more']
        run = self.finish(self.start_or_resume(), harness.OTHER_PROGRAM)
        self.assertEqual(run.output, b'')
        self.command.pop()
        store = os.path.join(self.store, 'job')
        os.rename(store, store + '.away')
        os.symlink(store, store)
        run = self.finish(self.start_or_resume(), harness.NO_CHECKPOINT)
        self.assertIn('Too many levels of symbolic links', run.errors)
        self.assertEqual(run.output, b'')


class OfRanks(Asking):
    """An MPI job: each rank ends with that exit status, when the parts of all ranks are durable."""

    STEPS = '30000'

    def setUp(self):
        super().setUp()
        self.command = self.program('halo', self.STEPS)
        self.undisturbed = self.reference(self.launched(2, self.command))
        self.expected = self.results()
        if self.told_by_each:
            self.tell_ends()

    def tell_ends(self):
        """Has each rank's wrapper tell the exit status. Signals are the rank's."""
        with open(self.of_each_rank) as file:
            text = file.read()
        with open(self.of_each_rank, 'w') as file:
            file.write(text.replace('exec "$@"', 'trap : USR1; "$@"; status=$?; '
                                                 'echo $status > $RANK_STATS.$rank.new; '
                                                 'mv $RANK_STATS.$rank.new $RANK_STATS.$rank.end; '
                                                 'exit $status'))

    def assert_ended(self, run):
        """With that exit status; a launcher that ends the other ranks may not let all of them tell."""
        self.assertEqual(run.process.returncode, harness.STOPPED, run.errors)
        found = set()
        for rank in range(2):
            with contextlib.suppress(FileNotFoundError):
                with open('%s.%d.end' % (self.stats_of(self._runs.index(run)), rank)) as file:
                    found.add(int(file.read()))
        self.assertEqual(found, {harness.STOPPED} if self.told_by_each else set(), run.errors)

    def are_recording(self):
        return [each['state'] for each in self.statuses()] == ['recording'] * 2

    def assert_goes_on(self, run):
        self.assert_ended(run)
        self.assertEqual([each['ranks'] for each in self.complete()], [2])
        for command in ([harness.GPUSNAP, 'run', '--sim', '--resume', '--',
                         *self.launched(2, self.command)],
                        self.launched(2, [harness.GPUSNAP, 'run', '--sim', '--resume', '--',
                                          *self.command])):
            again = self.start(command, self.environment(**self.settings(GPUSNAP_LOG='info')))
            self.finish(again)
            self.assertIn('restoring job@1', again.errors)
            self.assertEqual(self.results(), self.expected)

    def stopped(self, ask):
        """A run that was stopped by what `ask` does; another one where it had ended before."""
        for _ in range(20):
            run = self.start_saved(self.launched(2, self.command), GPUSNAP_STOP_SIGNAL='USR1')
            self.wait_until('ranks do not begin', lambda: self.are_recording() or run.ended())
            if not run.ended():
                ask(run)
            if run.wait(self.timeout) != 0:
                return run
            self.begin_store()
        return self.fail('it ended each time before it was stopped')

    def test_by_the_tool(self):
        said = []

        def ask(run):
            done = patience.run(self.stop('job'), self.timeout, cwd=self.folder,
                                env=self.environment(**self.settings()))
            said.append(done.stdout)

        run = self.stopped(ask)
        self.assertRegex(said[-1], r'^job@1: .* of 2 ranks, program held .*; stopped\n$')
        self.assert_goes_on(run)

    def test_by_a_signal_to_the_launcher(self):
        run = self.stopped(lambda run: run.process.send_signal(signal.SIGUSR1))
        self.assert_goes_on(run)


class OfRanksOfOpenMpi(OfRanks, mpi_job.TestCase):
    mpi = 'openmpi'
    told_by_each = True


class OfRanksOfMpich(OfRanks, mpi_job.TestCase):
    """Its launcher kills a wrapper that outlives its rank, and ends with the status of that."""

    mpi = 'mpich'
    told_by_each = False


if __name__ == '__main__':
    harness.main()
