"""Asks the driver library that the process gets for its entry points, and prints what it answers.

  genuine_probe.py VERSION...   names on standard input

A first line has the driver's version. For each name there is a line of what dlsym finds, and for each
version and kind of null stream one of what cuGetProcAddress answers: result, status and the symbol of the
function, in both of its forms. A symbol is '-' where there is no function, and '?' where it has no name. A
last line says how many functions were another library's. No GPU is needed.
"""
import ctypes
import re
import sys

NULL_STREAMS = (0, 1, 2)  # default, legacy, per thread


class Symbol(ctypes.Structure):
    """Dl_info of <dlfcn.h>."""
    _fields_ = [('file', ctypes.c_char_p), ('base', ctypes.c_void_p), ('name', ctypes.c_char_p),
                ('address', ctypes.c_void_p)]


C_LIBRARY = ctypes.CDLL(None)
DRIVER = ctypes.CDLL('libcuda.so.1')
foreign = set()  # addresses outside the driver


def symbol_at(address):
    found = Symbol()
    if not address:
        return '-'
    if not C_LIBRARY.dladdr(ctypes.c_void_p(address), ctypes.byref(found)):
        return '?'
    if b'libcuda.so' not in found.file:
        foreign.add(address)
    return found.name.decode() if found.address == address else '?'


def found_by_dlsym(symbol):
    try:
        return symbol_at(ctypes.cast(getattr(DRIVER, symbol), ctypes.c_void_p).value)
    except AttributeError:
        return '-'


def answers(name, version, null_stream):
    first, second = ctypes.c_void_p(), ctypes.c_void_p()
    status = ctypes.c_int(-1)
    flags = ctypes.c_uint64(null_stream)
    old = DRIVER.cuGetProcAddress(name.encode(), ctypes.byref(first), version, flags)
    new = DRIVER.cuGetProcAddress_v2(name.encode(), ctypes.byref(second), version, flags,
                                     ctypes.byref(status))
    return old, symbol_at(first.value), new, status.value, symbol_at(second.value)


def main():
    version = ctypes.c_int()
    result = DRIVER.cuDriverGetVersion(ctypes.byref(version))
    print('version', result, version.value)
    versions = [int(argument) for argument in sys.argv[1:]]
    names = sys.stdin.read().split()
    for name in names:
        print('dlsym', name, found_by_dlsym(name))
    for name in sorted({re.sub(r'(_v\d+)?(_ptsz|_ptds)?$', '', name) for name in names}):
        for asked in versions:
            for null_stream in NULL_STREAMS:
                print('ask', name, asked, null_stream, *answers(name, asked, null_stream))
    print('foreign', len(foreign))


if __name__ == '__main__':
    main()
