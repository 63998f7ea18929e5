#!/usr/bin/env python3
"""Writes a file's bytes, ended by a zero, as a C++ array: embed.py INPUT OUTPUT NAME"""
import sys

source, target, name = sys.argv[1:]
with open(source, 'rb') as file:
    data = file.read() + b'\0'
lines = [', '.join(str(byte) for byte in data[at:at + 24]) for at in range(0, len(data), 24)]
with open(target, 'w') as file:
    file.write('#pragma once\n\ninline constexpr unsigned char %s[] = {\n' % name)
    file.write(',\n'.join(lines))
    file.write('};\n')
