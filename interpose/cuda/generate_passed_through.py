#!/usr/bin/env python3
"""Writes the names of passed_through.table as C strings, sorted, each once and without the ending of a form:
generate_passed_through.py TABLE OUTPUT"""

import pathlib
import re
import sys


def names(text):
    listed = (line.strip() for line in text.splitlines() if re.match(r"  cu\w+$", line))
    return sorted({re.sub(r"(_v\d)?(_ptsz|_ptds)?$", "", name) for name in listed})


def main():
    table, output = map(pathlib.Path, sys.argv[1:])
    output.write_text("".join(f'"{name}",\n' for name in names(table.read_text())))


if __name__ == "__main__":
    main()
