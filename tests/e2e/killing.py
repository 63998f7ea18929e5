"""kill -9 of a program, of its node's backend, of both: what had reached the backend becomes durable."""
import glob
import os
import re
import signal
import time

import harness
import patience
import stopping

VICTIMS = ['program', 'backend', 'both', 'both, backend first']


class Killing(stopping.Stopping):
    """For a test case of harness.py."""

    def setUp(self):
        super().setUp()
        self.references = {}
        self.ssd = os.path.join(self.folder, 'ssd')
        self.tiers = {}  # settings

    def wait_until(self, what, happens):
        left = patience.Patience(self.timeout)
        while not happens():
            self.assertFalse(left.is_over(), what)
            time.sleep(0.005)

    # ---- running ----

    def settings(self, **settings):
        return super().settings(**{'GPUSNAP_BACKEND': 'process', 'GPUSNAP_BACKEND_IDLE': '100ms',
                                   'GPUSNAP_HOST_CACHE': '32M', 'GPUSNAP_KEEP': 1000000,
                                   'GPUSNAP_LOG': 'warn', **self.tiers, **settings})

    def reference_of(self, command):
        key = tuple(command)
        if key not in self.references:
            self.references[key] = self.reference(command)
        return self.references[key]

    def safe(self):
        """Checkpoints that must not be lost from now on: complete, or on its way without need of its program."""
        return {each['id'] for each in self.checkpoints()
                if each['state'] == 'complete' or each['level'] in ('memory', 'ssd')}

    def leaves_nothing(self):
        """No process, no shared memory, no temporary file; and no backend had to complain."""
        self.wait_until('a backend stays', lambda: not self.backends.running())
        self.wait_until('shared memory stays', lambda: not self.backends.shared_memory())
        self.leaves_no_temporary_file()
        log = os.path.join(self.folder, 'gpusnap', 'gpusnapd.log')
        if os.path.exists(log):
            # One that is killed leaves its log, and nothing in it.
            with open(log) as file:
                said = file.read()
            self.assertEqual(said, '', 'a backend said: ' + harness.tail(said))

    def asked_to_end(self):
        """It does, once nothing is left to do, and leaves nothing."""
        for each in self.backends.running():
            each.signal(signal.SIGTERM)
        self.leaves_nothing()

    def leaves_no_temporary_file(self):
        self.assertEqual(self.temporary_files(), [])

    def temporary_files(self):
        return [name for name in glob.glob(os.path.join(self.store, '**', '*'), recursive=True)
                if re.search(r'\.(tmp|blocks|chunk)$|\.tmp-', name)]

    def prunes_dead_merges(self):
        """A merge that was killed may leave files. They go when the job is pruned, and only they."""
        for name in self.temporary_files():
            self.assertRegex(name, r'\.[0-9a-f]+m[0-9]+\.tmp$', 'no file of a merge')
        if not os.path.isdir(self.store):
            return  # killed before there was one
        pruned = self.tool('prune', '--keep', '1000')
        self.assertEqual(pruned.returncode, 0, pruned.stderr)

    def becomes_durable(self, before):
        waited = self.tool('wait', '--timeout', '10m')
        self.assertEqual(waited.returncode, 0, waited.stderr)
        complete = {each['id'] for each in self.complete()}
        self.assertLessEqual(before, complete)
        self.verify_all()
        return complete

    def one_kill(self, command, every, victim, counts):
        reference = self.reference_of(command)
        run = self.start_saved(command, GPUSNAP_EVERY='syncs:%d' % every)
        time.sleep(self.random.uniform(0, 1.5 * max(reference.seconds, 0.2)))
        before = self.safe()
        counts['in flight'] += len(before - {each['id'] for each in self.complete()})
        if victim == 'program':
            killed = run.kill()
        elif victim == 'both':
            killed = run.kill()
            self.backends.kill()
        else:
            self.backends.kill()
            killed = victim != 'backend' and run.kill()
        if not killed:
            # It had ended, or only the backend was killed: the program must not notice.
            self.finish(run)
            self.assert_same_output(run, reference)
            self.assertEqual(run.errors, '')
        complete = self.becomes_durable(before)
        if complete:
            restored = self.finish(self.start_restored(command))
            self.assert_same_output(restored, reference)
            counts['restored'] += 1
        self.wait_until('a backend stays', lambda: not self.backends.running())
        if 'backend' in victim or victim == 'both':
            self.prunes_dead_merges()
        self.leaves_nothing()
