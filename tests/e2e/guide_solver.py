#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program of the guide's commands: ./solver big.cfg. Steps a field of floats through the driver's own
interface. Its file has a name and a value for each line: steps, height (one float of the field), and
wait_at: steps at which it waits for the file "go-STEP", with calls meanwhile if there is "calls yes"."""
import ctypes
import os
import struct
import sys
import time

ALLOCATIONS, WORDS = 5, 262144
FIELD, CELL = 3, 70001

cuda = ctypes.CDLL('libcuda.so.1')


def check(result):
    if result != 0:
        sys.exit('solver: the driver says %d' % result)


def allocate(words):
    address = ctypes.c_uint64()
    check(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4 * words)))
    check(cuda.cuMemsetD32_v2(address, ctypes.c_uint(0), ctypes.c_size_t(words)))
    return address


def set_word(memory, word, value):
    check(cuda.cuMemsetD32_v2(ctypes.c_uint64(memory.value + 4 * word), ctypes.c_uint(value), ctypes.c_size_t(1)))


def main():
    with open(sys.argv[1] if len(sys.argv) > 1 else 'big.cfg', encoding='ascii') as file:
        settings = dict(line.split() for line in file)
    context, device = ctypes.c_void_p(), ctypes.c_int()
    check(cuda.cuInit(0))
    check(cuda.cuDeviceGet(ctypes.byref(device), 0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    check(cuda.cuCtxSetCurrent(context))
    memory = [allocate(WORDS) for _ in range(ALLOCATIONS)]
    height = struct.unpack('<I', struct.pack('<f', float(settings['height'])))[0]
    set_word(memory[FIELD], CELL, height)
    for step in range(int(settings['steps'])):
        set_word(memory[0], step, 3 * step + 1)
        check(cuda.cuCtxSynchronize())
        if str(step) in settings['wait_at'].split(','):
            print('waits at', step, flush=True)
            while not os.path.exists('go-%d' % step):
                if settings.get('calls') == 'yes':
                    check(cuda.cuCtxSynchronize())
                time.sleep(0.002)
    words = (ctypes.c_uint * 1000)()
    check(cuda.cuMemcpyDtoH_v2(words, memory[0], ctypes.c_size_t(4 * 1000)))
    print('sum', sum(words))


if __name__ == '__main__':
    main()
