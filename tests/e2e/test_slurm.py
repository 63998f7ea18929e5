#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Batch jobs under Slurm (slurm_cluster.py): preempted or told to stop, requeued, and gone on with by the
same script. Nothing is decided by time: a test waits for states."""
import contextlib
import json
import os
import shutil
import tempfile
import unittest

import harness
import patience
import slurm_cluster

PLUGIN = os.path.join(harness.BUILD, 'tools', 'slurm', 'spank_gpusnap.so')
STEPS = '200'

# One script for the first start and for each one after it.
RESUMES = '''#!/bin/sh
exec %(gpusnap)s run --sim --resume --stop-signal USR1,TERM -- \\
  srun --mpi=pmix -n 2 %(wrapper)s %(program)s
'''
# With the plug-in, and without the tool.
PLUGGED = '''#!/bin/sh
exec env ${SLURM_RESTART_COUNT:+GPUSNAP_RESTORE=latest} \\
  srun --gpusnap=off --gpusnap-store=%(store)s --gpusnap-stop-signal=TERM,USR1 --mpi=pmix -n 2 \\
  %(wrapper)s %(program)s
'''
# Says how each rank ended; what the job was sent is the rank's.
WRAPPER = '''#!/bin/sh
trap : USR1 TERM
export SIMCUDA_STATS=$RANK_STATS.$SLURM_PROCID.${SLURM_RESTART_COUNT:-0}
"$@"
status=$?
echo $status >> %(folder)s/ended.$SLURM_PROCID
exit $status
'''


class Slurm(harness.TestCase):
    timeout = 300

    @classmethod
    def setUpClass(cls):
        why = slurm_cluster.why_not()
        if not why and not os.path.exists(harness.app('mpi/openmpi/halo')):
            why = 'there is no Open MPI'
        if why:
            raise unittest.SkipTest(why)
        cls.place = tempfile.mkdtemp(prefix='gpusnap-slurm-')
        cls.addClassCleanup(shutil.rmtree, cls.place, ignore_errors=True)
        plugin = 'required %s library=%s\n' % (PLUGIN, os.path.realpath(harness.LIBRARY))
        cls.cluster = slurm_cluster.Cluster(cls.place, plugin if os.path.exists(PLUGIN) else '')
        cls.addClassCleanup(cls.cluster.end)
        cls.cluster.start()

    def setUp(self):
        super().setUp()
        self.shared = tempfile.mkdtemp(prefix='gpusnap-e2e-', dir='/dev/shm')
        self.addCleanup(shutil.rmtree, self.shared)
        self.program = [harness.app('mpi/openmpi/halo'), STEPS]
        self.wrapper = os.path.join(self.folder, 'wrapper')
        self.write_script(self.wrapper, WRAPPER)
        self.working_folder = os.path.join(self.folder, 'work')
        os.mkdir(self.working_folder)
        # As long as there is such a file nothing is copied from the device: no rank gets far.
        self.held = os.path.join(self.folder, 'held')
        self.reference(['srun', '--mpi=pmix', '-n', '2', self.wrapper, *self.program],
                       RANK_STATS=os.path.join(self.folder, 'undisturbed'))
        self.expected = self.results()
        self.assertEqual(sorted(self.expected), ['out.0', 'out.1'])
        self.all_launches = self.launches('undisturbed', 1)
        for rank in range(2):
            os.remove(os.path.join(self.folder, 'ended.%d' % rank))

    def environment(self, **settings):
        return super().environment(**{
            **self.cluster.environment, 'TMPDIR': self.folder,
            'OMPI_MCA_mpi_yield_when_idle': '1', 'OMPI_MCA_hwloc_base_binding_policy': 'none',
            'OMPI_MCA_btl_vader_backing_directory': self.shared, 'UCX_POSIX_DIR': self.shared,
            **settings})

    def settings(self, **settings):
        return super().settings(**{'GPUSNAP_JOB': None, 'GPUSNAP_REPLAY_OUTPUT': 'once', **settings})

    def launches(self, stats, runs):
        """The kernels that each rank had executed in each of its runs, one after the other."""
        return [[harness.launches(os.path.join(self.folder, '%s.%d.%d' % (stats, rank, run)))
                 for run in range(runs)] for rank in range(2)]

    def results(self):
        found = {}
        for name in os.listdir(self.working_folder):
            if name.startswith('out.'):
                with open(os.path.join(self.working_folder, name), 'rb') as file:
                    found[name] = file.read()
        return found

    def write_script(self, path, text):
        with open(path, 'w') as file:
            file.write(text % {'gpusnap': harness.GPUSNAP, 'store': self.store, 'folder': self.folder,
                               'wrapper': self.wrapper, 'program': ' '.join(self.program)})
        os.chmod(path, 0o755)

    # ---- jobs ----

    def submit(self, script, *options):
        """The number of the job."""
        path = os.path.join(self.folder, 'script')
        self.write_script(path, script)
        with open(self.held, 'w'):
            pass
        for name in os.listdir(self.working_folder):
            os.remove(os.path.join(self.working_folder, name))
        done = patience.run(
            ['sbatch', '--parsable', '--requeue', '--open-mode=append', '--job-name=night', '--exclusive',
             '--output=' + os.path.join(self.folder, 'job.out'), *options, path],
            self.timeout, cwd=self.working_folder,
            env=self.environment(LD_LIBRARY_PATH=harness.SIMCUDA, SIMCUDA_HOLD='to_host:' + self.held,
                                 RANK_STATS=os.path.join(self.folder, 'job'), **self.settings()))
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(done.stdout)

    def told(self):
        with contextlib.suppress(FileNotFoundError):
            with open(os.path.join(self.folder, 'job.out'), errors='replace') as file:
                return harness.tail(file.read())
        return ''

    def wait_until(self, what, happens):
        try:
            self.cluster.wait_until(what, happens, self.timeout)
        except AssertionError as error:
            self.fail('%s\n---- job\n%s' % (error, self.told()))

    def state(self, job):
        return self.cluster.job(job).get('JobState')

    def ranks(self):
        jobs = json.loads(self.tool('status', '--store', self.store, '--json').stdout)
        return [each for job in jobs for each in job['processes'] if each['pid'] != 0]

    def wait_for_ranks(self, what, happens):
        """The job does not end before."""
        def looks():
            ranks = self.ranks()
            if len(ranks) == 2 and all(happens(each) for each in ranks):
                return True
            self.assertIn(self.state(self.number), ('PENDING', 'RUNNING', 'COMPLETING'), self.told())
            return False
        self.wait_until(what, looks)

    def begin(self, script, *options):
        """Both ranks have begun, and wait."""
        self.number = self.submit(script, *options)
        self.wait_for_ranks('ranks do not begin', lambda rank: rank['state'] == 'recording')
        return self.number

    def let_go_when_told(self):
        """Both ranks have got the signal, and go on to their next collective."""
        self.wait_for_ranks('no stop is due', lambda rank: rank['due'] == 'ranks')
        os.remove(self.held)

    def ends(self):
        """The exit statuses of each rank, one for each time that it was started."""
        found = []
        for rank in range(2):
            with open(os.path.join(self.folder, 'ended.%d' % rank)) as file:
                found.append([int(line) for line in file])
        return found

    def assert_gone_on_with(self, job):
        self.wait_until('the job does not end',
                        lambda: self.state(job) in ('COMPLETED', 'FAILED', 'CANCELLED'))
        shown = self.cluster.job(job)
        self.assertEqual((shown['JobState'], shown['Restarts']), ('COMPLETED', '1'), self.told())
        self.assertEqual(self.ends(), [[harness.STOPPED, 0]] * 2, self.told())
        self.assertEqual(self.results(), self.expected)
        self.assertEqual({each['job'] for each in self.complete()}, {'night-%d' % job})
        # Nothing was computed twice, and nothing left out.
        launches = self.launches('job', 2)
        self.assertEqual([[sum(runs)] for runs in launches], self.all_launches)
        for first, second in launches:
            self.assertGreater(first, 0)
            self.assertGreater(second, 0)

    def test_preempted_and_requeued(self):
        job = self.begin(RESUMES, '--partition=low')
        urgent = self.start(['srun', '--partition=high', '--exclusive', 'true'], self.environment())
        self.let_go_when_told()
        self.finish(urgent)
        self.assert_gone_on_with(job)

    def test_told_to_stop_and_requeued_by_its_status(self):
        """As by --signal=B:USR1@300: the script's process gets the signal, which is srun here."""
        job = self.begin(RESUMES)
        self.cluster.call('scancel', '--batch', '--signal=USR1', str(job))
        self.let_go_when_told()
        self.assert_gone_on_with(job)

    @unittest.skipUnless(harness.SOAK, 'it takes a minute; GPUSNAP_SOAK=1 has it')
    def test_signalled_before_its_time_is_over(self):
        job = self.begin(RESUMES, '--time=2', '--signal=B:USR1@60')
        self.let_go_when_told()
        self.assert_gone_on_with(job)

    def test_with_the_plug_in(self):
        if not os.path.exists(PLUGIN):
            self.skipTest('the plug-in was not built: there is no slurm/spank.h (libslurm-dev)')
        job = self.begin(PLUGGED)
        self.cluster.call('scontrol', 'requeue', str(job))
        self.let_go_when_told()
        self.assert_gone_on_with(job)


if __name__ == '__main__':
    harness.main()
