"""Prints what tests have left behind, one path a line: leftovers.py SINCE FOLDER

FOLDER is the temporary folder of the tests: everything in it counts. In shared memory, an entry
counts if it has a name of ours, belongs to this user, is newer than the file SINCE, and stays while
no process uses it: another test run of this user may be making such entries. Exits with 1 if
anything was left.
"""
import glob
import os
import sys
import time

import patience

SHARED_MEMORY = '/dev/shm'
GRACE = 60  # seconds that something may take to go away
SETTLED = 5  # seconds that nothing may use it and that it stays


def in_shared_memory(since):
    found = set()
    for path in glob.glob(os.path.join(SHARED_MEMORY, 'gpusnap*')):
        try:
            about = os.lstat(path)
        except FileNotFoundError:
            continue
        if about.st_uid == os.geteuid() and about.st_mtime_ns >= since:
            found.add(path)
    return found


def is_named_by(process, paths):
    """The paths that a process has mapped or open, works in, or was told of."""
    told = ''
    for name in ('maps', 'cmdline', 'environ'):
        try:
            with open(os.path.join(process, name), errors='replace') as file:
                told += file.read()
        except OSError:
            continue  # it has ended meanwhile, or belongs to somebody else
    for link in glob.glob(os.path.join(process, 'fd', '*')) + [os.path.join(process, 'cwd')]:
        try:
            told += os.readlink(link) + '\n'
        except OSError:
            continue
    return {path for path in paths if path in told}


def in_use(paths):
    used = set()
    for process in glob.glob('/proc/[0-9]*'):
        used |= is_named_by(process, paths)
    return used


def until(holds, seconds):
    left = patience.Patience(seconds)
    while not holds() and not left.is_over():
        time.sleep(0.2)


def left_in(folder):
    """Backends are idle for a moment before they end: what goes away within a minute is not left."""
    until(lambda: not os.listdir(folder), GRACE)
    return {os.path.join(folder, name) for name in os.listdir(folder)}


def left_in_shared_memory(since):
    until(lambda: not in_use(in_shared_memory(since)), GRACE)
    found = in_shared_memory(since)

    def nothing_is_left():
        found.intersection_update(in_shared_memory(since))
        found.difference_update(in_use(found))
        return not found

    until(nothing_is_left, SETTLED)
    return found


def main():
    since_file, folder = sys.argv[1:]
    since = os.stat(since_file).st_mtime_ns
    left = left_in(folder) | left_in_shared_memory(since)
    for path in sorted(left):
        print(path)
    return 1 if left else 0


if __name__ == '__main__':
    sys.exit(main())
