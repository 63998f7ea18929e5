#!/usr/bin/env python3
"""Every function that libraries and headers of the toolkit have is one of ours, so that programs find
it.

usage: exported_names.py OURS PREFIX UNSUPPORTED THEIRS...

UNSUPPORTED is the list of those that say that they are not simulated.
"""

import pathlib
import re
import subprocess
import sys


def exported(library):
    lines = subprocess.run(['nm', '-D', '--defined-only', library], check=True,
                           stdout=subprocess.PIPE).stdout.decode().splitlines()
    return {line.split()[-1].split('@')[0] for line in lines}


def declared(header):
    text = pathlib.Path(header).read_text(encoding='utf-8')
    for_linux = re.sub(r'#ifdef _WIN32.*?#endif', '', text, flags=re.S)
    return (set(re.findall(r'CUDAAPI\s+(\w+)\(', for_linux)) |
            set(re.findall(r'#define \w+ +(?:__CUDA_API_PT[DS][SZ]\()?(cu\w+_v\d)', for_linux)))


def main():
    ours, prefix, unsupported, *theirs = sys.argv[1:]
    wanted = set()
    for each in theirs:
        found = declared(each) if each.endswith('.h') else exported(each)
        found = {name for name in found if name.startswith(prefix)}
        if len(found) < (5 if each.endswith('.h') else 300):
            sys.exit('%s has %d functions only' % (each, len(found)))
        wanted |= found
    missing = sorted(wanted - exported(ours))
    if missing:
        sys.exit('missing, and not in %s: %s' % (unsupported, ' '.join(missing)))


main()
