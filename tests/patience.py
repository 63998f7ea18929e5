"""How long tests wait for what may never come.

A hang is an error. A machine that stands still is none, and a virtual one may for minutes, when it is
not given its processors: so what lies between two looks counts as a second at most.
"""
import subprocess
import time


class Patience:
    """Lasts so many seconds from now on, if it is looked at more often than once a second; longer
    else."""

    MOST = 1.0

    def __init__(self, seconds):
        self.left = seconds
        self.looked = time.monotonic()

    def is_over(self):
        now = time.monotonic()
        self.left -= min(now - self.looked, self.MOST)
        self.looked = now
        return self.left < 0


def _until_it_ends(process, seconds, look):
    patience = Patience(seconds)
    while True:
        try:
            return look(Patience.MOST / 2)
        except subprocess.TimeoutExpired:
            if patience.is_over():
                raise subprocess.TimeoutExpired(process.args, seconds) from None


def wait(process, seconds):
    """Its exit status. Raises TimeoutExpired, and leaves it running, as process.wait does."""
    return _until_it_ends(process, seconds, process.wait)


def communicate(process, seconds):
    """Returns what the process puts out on pipes until it ends. Raises TimeoutExpired, and leaves
    the process running, as process.communicate does."""
    return _until_it_ends(process, seconds, lambda look: process.communicate(timeout=look))


def run(command, seconds, **settings):
    """Without input; the completed process, with what it has put out as text. Raises TimeoutExpired
    when it has been ended."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, errors='replace',
                          **settings) as process:
        try:
            output, errors = communicate(process, seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)
