"""Processes that outlive the programs that started them, as tests find and end them: above all the
backends (gpusnapd).

A backend goes on when its programs have ended. It writes what they handed over, merges increments, and
removes what is not kept, after `gpusnap wait` has said that all is durable. So a test removes a store,
or compares all that is in it, after the backends have ended.
"""
import glob
import os
import re
import shutil
import signal
import subprocess
import time

import patience


class Process:
    """One that ran when it was looked for."""

    def __init__(self, number):
        self.number = number
        self.path = '/proc/%d' % number
        self.program = os.readlink(self.path + '/exe')
        with open(self.path + '/environ', 'rb') as file:
            self.environment = dict(each.partition('=')[::2] for each in
                                    file.read().decode(errors='replace').split('\0'))

    @property
    def rank(self):
        for name in ('OMPI_COMM_WORLD_RANK', 'PMI_RANK'):
            if name in self.environment:
                return int(self.environment[name])
        return None

    def signal(self, number):
        try:
            os.kill(self.number, number)
        except ProcessLookupError:
            pass

    def shared_files(self, names):
        """Files of these names that it has mapped."""
        try:
            with open(self.path + '/maps', encoding='utf-8', errors='replace') as file:
                return set(re.findall(r'/dev/shm/(?:%s)\S*' % names, file.read()))
        except OSError:
            return set()  # it has ended

    def threads(self, what):
        """That file of each of its threads."""
        found = []
        for path in glob.glob(self.path + '/task/[0-9]*/' + what):
            try:
                with open(path, encoding='utf-8', errors='replace') as file:
                    found.append(file.read().strip())
            except OSError:
                continue  # it has ended
        return found

    def states(self):
        return [stat.rpartition(')')[2].split()[0] for stat in self.threads('stat')]

    def is_gone(self):
        """With all that it held: a zombie that is alone holds nothing."""
        return self.states() in ([], ['Z'])

    def is_stopped(self):
        return all(state in 'TZ' for state in self.states())

    def stacks(self):
        """The stacks of all its threads, as far as they can be had."""
        if shutil.which('gdb') is not None:
            try:
                return patience.run(['gdb', '-batch', '-p', str(self.number), '-ex',
                                     'thread apply all backtrace 30'], 60).stdout
            except subprocess.TimeoutExpired:
                pass
        return '\n'.join('%s: %s' % (what, each) for what in ('comm', 'wchan', 'syscall', 'stack')
                         for each in self.threads(what))

    def __str__(self):
        rank = '' if self.rank is None else ', rank %d' % self.rank
        return 'process %d, %s%s' % (self.number, self.program, rank)


def find(is_one, program=None):
    """All processes of this user for which that is so; of one program, where it is named."""
    found = []
    for path in glob.glob('/proc/[0-9]*'):
        try:
            if program is not None and os.readlink(path + '/exe') != program:
                continue
            process = Process(int(os.path.basename(path)))
        except OSError:
            continue  # it has ended, or is another user's
        if is_one(process):
            found.append(process)
    return found


def is_group_gone(group):
    """Whether none of a process group runs. A zombie that nobody waits for holds nothing."""
    for path in glob.glob('/proc/[0-9]*/stat'):
        try:
            with open(path, encoding='utf-8', errors='replace') as file:
                state, _, of_group = file.read().rpartition(')')[2].split()[:3]
        except OSError:
            continue  # it has ended
        if int(of_group) == group and state != 'Z':
            return False
    return True


class Backends:
    """A test's backends. Their nodes (GPUSNAP_NODE) are named after its folder or folders in it."""

    SECONDS = 120  # for one of them to end
    AREA = r'gpusnap-\d+-\d+-[0-9a-f]{16}'  # the name of the memory that it shares with programs

    def __init__(self, program, folder):
        self.program = program
        self.folder = folder
        self.areas = set()  # shared memory that they were seen to have
        self.killed = False

    def running(self, node=None):
        """All of them, or those of one node."""
        def is_one(process):
            name = process.environment.get('GPUSNAP_NODE', '')
            if node is not None:
                return name == node
            return name == self.folder or name.startswith(self.folder + os.sep)
        found = find(is_one, self.program)
        for each in found:
            self.areas |= each.shared_files(self.AREA)
        return found

    def kill(self, node=None):
        """SIGKILL; how many there were."""
        killed = self.running(node)
        self.killed |= bool(killed)
        for each in killed:
            each.signal(signal.SIGKILL)
        left = patience.Patience(self.SECONDS)
        while not all(each.is_gone() for each in killed):
            if left.is_over():
                raise AssertionError('does not end by SIGKILL: ' + ', '.join(map(str, killed)))
            time.sleep(0.002)
        return len(killed)

    def shared_memory(self):
        """The files of what they were seen to have that are still there."""
        return [area for area in self.areas if os.path.exists(area)]

    def end(self):
        """Asks them to end, as they do when nothing is left to do, and waits for it: nothing is
        written from then on. Their programs have ended before."""
        left = patience.Patience(self.SECONDS)
        while running := self.running():
            if left.is_over():
                self.kill()
                raise AssertionError('backends that had nothing to do did not end: ' +
                                     ', '.join(map(str, running)))
            for each in running:
                each.signal(signal.SIGCONT)
                # One that has no memory yet is about to serve, or to find that another one does.
                if each.shared_files(self.AREA):
                    each.signal(signal.SIGTERM)
            time.sleep(0.005)
        stayed = self.shared_memory()
        for area in stayed:
            os.remove(area)
        # Memory that a killed backend left is for another one to take over.
        if stayed and not self.killed:
            raise AssertionError('shared memory stayed: ' + ', '.join(stayed))
