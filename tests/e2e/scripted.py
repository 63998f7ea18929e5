"""Tests whose program is a text: tests/apps/script.cpp says what its lines mean.

What the program waits for is a file ("await NAME") that the test makes when it has seen enough; a
restored run finds all of them. Nothing is decided by time: a test waits for what the program says.
"""
import glob
import itertools
import os
import signal
import time

import harness
import patience


EVERY = 'signal:USR1'


class TestCase(harness.TestCase):
    def script(self, text):
        """The command that does what the text says."""
        path = os.path.join(self.folder, 'script.txt')
        with open(path, 'w') as file:
            file.write(text)
        return [harness.app('script'), path]

    def make(self, name, content=''):
        """The file that the program waits for; there at once, with all that is in it."""
        path = os.path.join(self.working_folder, name)
        with open(path + '.new', 'w') as file:
            file.write(content)
        os.rename(path + '.new', path)

    def make_all(self, text):
        for line in text.splitlines():
            for command, name in itertools.pairwise(line.split()):
                if command in ('await', 'attend', 'rework'):
                    self.make(name)

    def undisturbed(self, text, ends_with=0):
        """Runs the script without the library; returns the ended run."""
        names = set(os.listdir(self.working_folder))
        self.make_all(text)
        reference = self.finish(self.start_plain(self.script(text)), ends_with)
        for name in set(os.listdir(self.working_folder)) - names - {'script.txt'}:
            if not name.startswith('run'):
                os.remove(os.path.join(self.working_folder, name))
        return reference

    def wait_until(self, run, what, happened):
        left = patience.Patience(self.timeout)
        while not happened():
            if run.ended():
                self.assertTrue(happened(), 'ended before %s:\n%s\n%s' % (
                    what, run.output.decode(), run.errors))
                return
            if left.is_over():
                self.fail('%s did not come:\n%s\n%s' % (what, run.output.decode(), run.errors))
            time.sleep(0.002)

    def wait_for(self, run, said):
        """Until the program has said so."""
        self.wait_until(run, repr(said), lambda: said.encode() in run.output.splitlines())

    def wait_for_file(self, run, name):
        """Until the program has made it."""
        path = os.path.join(self.working_folder, name)
        self.wait_until(run, name, lambda: os.path.exists(path))

    def wait_for_errors(self, run, words):
        self.wait_until(run, repr(words), lambda: words in run.errors)

    def start_saved(self, command, **settings):
        """Tells of each snapshot when it has ended: the next one may begin from then on."""
        return super().start_saved(command, GPUSNAP_LOG='debug', **settings)

    @staticmethod
    def warnings(run):
        """The lines that are printed without a request for more."""
        return [line for line in run.errors.splitlines()
                if not line.startswith(('gpusnap: info: ', 'gpusnap: debug: '))]

    @staticmethod
    def complete_so_far(run):
        return run.errors.count('gpusnap: info: checkpoint ')

    def wait_for_complete(self, run, count):
        self.wait_until(run, '%d checkpoints' % count, lambda: self.complete_so_far(run) >= count)

    @staticmethod
    def given_up_so_far(run):
        return run.errors.count('no checkpoint was taken')

    def wait_for_given_up(self, run, count):
        self.wait_until(run, '%d failures' % count, lambda: self.given_up_so_far(run) >= count)

    def restores_all(self, command, reference, **settings):
        """From every complete checkpoint."""
        found = self.complete()
        self.assertGreater(len(found), 0)
        for each in found:
            run = self.finish(self.start_restored(command, checkpoint=each['id'], **settings))
            self.assert_same_output(run, reference)

    def go_on_with_a_checkpoint(self, run, name):
        """The program's first call after "await NAME" begins with a cut, where GPUSNAP_EVERY is
        EVERY: it sees the signal before it can see the file."""
        run.process.send_signal(signal.SIGUSR1)
        self.make(name)

    @staticmethod
    def pids_of(run):
        """The program is a child of the tool, or has taken its place."""
        pids = [run.process.pid]
        for folder in glob.glob('/proc/%d/task/*' % pids[0]):
            with open(folder + '/children') as file:
                pids += [int(child) for child in file.read().split()]
        return pids

    def wait_for_sleep(self, run):
        """Until the program's first thread waits for something."""
        def sleeps():
            states = []
            for pid in self.pids_of(run):
                with open('/proc/%d/stat' % pid) as file:
                    before, _, after = file.read().rpartition(')')
                if before.endswith('(script'):
                    states.append(after.split()[0])
            return 'S' in states
        self.wait_until(run, 'its wait', sleeps)

    @staticmethod
    def state_of_thread(run, name):
        """As the system has it: 'S' for one that waits."""
        pids = TestCase.pids_of(run)
        for folder in itertools.chain(*(glob.glob('/proc/%d/task/*' % pid) for pid in pids)):
            with open(folder + '/stat') as file:
                before, _, after = file.read().rpartition(')')
            if before.endswith('(' + name):
                return after.split()[0]
        return None

    def meanwhile(self, checkpoint):
        return self.show(checkpoint['id'])['ranks'][0]['meanwhile']
