"""Backends that are stopped (SIGSTOP) in the midst of a checkpoint."""
import glob
import os
import signal
import time


class Stopping:
    """For a test case of harness.py that has wait_until()."""

    def unfinished(self):
        """Folders of checkpoints that have begun and have no manifest."""
        return [folder for folder in glob.glob(os.path.join(self.store, '*', 'e*'))
                if not glob.glob(os.path.join(folder, '*.manifest'))]

    def stop(self, backend):
        """All of its threads: each goes on for a little."""
        backend.signal(signal.SIGSTOP)
        self.wait_until('the backend does not stop', backend.is_stopped)

    def stop_backend_within_a_checkpoint(self, run):
        """The backend; nothing where the run ends before."""
        while True:
            self.wait_until('no checkpoint begins', lambda: self.unfinished() or run.ended())
            if run.ended():
                return None
            backend, = self.backends.running()
            begun = self.unfinished()
            self.stop(backend)
            if set(begun) & set(self.unfinished()):
                return backend
            backend.signal(signal.SIGCONT)

    def restorable_before_it_is_durable(self):
        """The newest checkpoint, where that is so."""
        newest = max(self.checkpoints(), key=lambda each: each['epoch'], default=None)
        if newest is None or newest['state'] == 'complete' or not newest['restorable']:
            return None
        return newest

    def step_until_restorable(self, backend):
        """The program has gone, and its backend has stopped: it takes short steps until the newest
        checkpoint can be restored and is not in the store. That one, or nothing, and the backend goes
        on, where it has brought all to an end before."""
        while any(each['level'] in ('memory', 'ssd') for each in self.checkpoints()):
            found = self.restorable_before_it_is_durable()
            if found:
                return found
            backend.signal(signal.SIGCONT)
            time.sleep(self.random.choice([0, 0, self.random.uniform(0, 0.002)]))
            self.stop(backend)
        backend.signal(signal.SIGCONT)
        return None
