#!/usr/bin/env python3
"""Every public function of the toolkit's runtime library is one of ours, so that programs link to it.

usage: runtime_names.py OURS THEIRS
"""

import subprocess
import sys


def names(library):
    lines = subprocess.run(['nm', '-D', '--defined-only', library], check=True,
                           stdout=subprocess.PIPE).stdout.decode().splitlines()
    return {line.split()[-1].split('@')[0] for line in lines}


def main():
    ours, theirs = (names(library) for library in sys.argv[1:])
    theirs = {name for name in theirs if name.startswith('cuda')}
    if len(theirs) < 300:
        sys.exit('%s has %d functions only' % (sys.argv[2], len(theirs)))
    missing = sorted(theirs - ours)
    if missing:
        sys.exit('missing from tools/simcuda/runtime, where unsupported.inc has those that are not '
                 'simulated: ' + ' '.join(missing))


main()
