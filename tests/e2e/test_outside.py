#!/usr/bin/env python3
"""A restored run reads the same clocks and random bytes again that it read before the cut, so that
a program that seeds from them is restored. No two whole runs of such a program are the same: the
lines printed up to the cut are compared, and those that several restores print."""
import os
import subprocess
import sys
import time

import harness

STEPS, EVERY = '200', 90  # all that is drawn is drawn before the first cut


# Python seeds its generators when they are imported. Its threads look at clocks as often as it takes
# them to get their turn, and wait until moments that they reckon from these.
PYTHON = os.path.realpath(sys.executable)
PYTHON_PROGRAM = """
import ctypes, os, queue, random, tempfile, threading, time, uuid

cuda = ctypes.CDLL('libcuda.so.1')
context, memory = ctypes.c_void_p(), ctypes.c_uint64()


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    assert result == 0, (name, result)


orders, ended = queue.Queue(), threading.Event()


def serve():
    while not ended.is_set():
        try:
            orders.get(timeout=0.002).set()
        except queue.Empty:
            pass


server = threading.Thread(target=serve)
server.start()
seed = f'{random.random()} {uuid.uuid4()} {time.time_ns()} {os.urandom(4)} {tempfile.mktemp()}'
generator = random.Random(seed)
print(generator.random())
call('cuInit', 0)
call('cuDevicePrimaryCtxRetain', ctypes.byref(context), 0)
call('cuCtxSetCurrent', context)
call('cuMemAlloc_v2', ctypes.byref(memory), ctypes.c_size_t(generator.randrange(1, 1 << 20)))
for step in range(400):
    if step % 10 == 0:
        done = threading.Event()
        orders.put(done)
        assert done.wait(60)
    call('cuMemsetD8_v2', memory, generator.randrange(256), ctypes.c_size_t(1))
    call('cuCtxSynchronize')
    byte = ctypes.create_string_buffer(1)
    call('cuMemcpyDtoH_v2', byte, memory, ctypes.c_size_t(1))
    print(step, byte.raw, flush=True)
ended.set()
server.join()
print('ok')
"""

# The child is the one that uses CUDA.
PYTHON_PARENT = """
import os, random, sys
before = random.random()
child = os.fork()
if child:
    print(len(str(random.SystemRandom().random())) > 2, flush=True)
    sys.exit(os.waitpid(child, 0)[1])
"""


class Outside(harness.TestCase):
    program = [harness.app('seeds'), STEPS]

    def saved_at_once(self, **settings):
        reference = self.reference(self.program)
        killed = self.saved_and_killed(self.program, reference, 'syncs:%d' % EVERY, **settings)
        self.settle()
        return killed

    def restored(self, checkpoint, **settings):
        return self.finish(self.start_restored(self.program, checkpoint, **settings))

    def test_no_two_runs_are_the_same(self):
        first, second = self.reference(self.program), self.reference(self.program)
        self.assertTrue(first.output.endswith(b'ok\n'))
        self.assertNotEqual(first.output, second.output)

    def test_restored_any_number_of_times(self):
        for kill in range(harness.KILLS):
            with self.subTest(kill=kill):
                killed = self.saved_at_once()
                checkpoint = self.complete()[0]['id']
                first = self.restored(checkpoint)
                self.assertTrue(first.output.endswith(b'ok\n'), first.errors)
                self.assertEqual(first.errors, '')
                # The last line may be one that it was killed within.
                self.assertTrue(first.output.startswith(killed.output[:killed.output.rfind(b'\n')]),
                                killed.output)
                self.assert_same_output(self.restored(checkpoint), first)

    def test_a_restored_run_is_restored(self):
        for _ in range(10):
            self.saved_at_once()
            first = self.complete()[0]
            whole = self.restored(first['id'])
            # Another part of the journal, and as many readings as before.
            again = self.start_restored(self.program, first['id'], GPUSNAP_EVERY='syncs:%d' % EVERY)
            saved = self.wait_for_checkpoint(again, self.manifests())
            again.kill()
            self.settle()
            if saved:
                break
            # The checkpoint was one of the last steps', so that no other could follow it.
            self.assertEqual(again.process.returncode, 0, again.errors)
        newest = self.complete()[0]
        self.assertGreater(newest['epoch'], first['epoch'], again.errors)
        self.assert_same_output(self.restored(newest['id']), whole)

    def test_a_python_program(self):
        self.program = [PYTHON, '-c', PYTHON_PROGRAM]
        killed = self.saved_at_once()
        checkpoint = self.complete()[0]['id']
        first = self.restored(checkpoint)
        self.assertTrue(first.output.endswith(b'ok\n'), first.errors)
        self.assertEqual(first.output.splitlines()[:60], killed.output.splitlines()[:60])
        self.assert_same_output(self.restored(checkpoint), first)

    def test_a_child(self):
        self.program = [PYTHON, '-c', PYTHON_PARENT + PYTHON_PROGRAM]
        self.saved_at_once()
        checkpoint = self.complete()[0]['id']
        first = self.restored(checkpoint)
        self.assertIn(b'ok\n', first.output, first.errors)
        second = self.restored(checkpoint)
        # Two processes write there.
        self.assertEqual(sorted(first.output.splitlines()), sorted(second.output.splitlines()))

    def test_without_the_tool(self):
        self.saved_at_once()
        whole = self.restored(self.complete()[0]['id'])
        environment = self.environment(**self.settings(
            LD_LIBRARY_PATH=harness.SIMCUDA, LD_PRELOAD=harness.LIBRARY, GPUSNAP_RESTORE='latest'))
        run = self.finish(self.start(['setarch', '-R'] + self.program, environment))
        self.assert_same_output(run, whole)

    def test_what_was_not_noted_is_said(self):
        self.saved_at_once(GPUSNAP_OUTSIDE='real')
        before = self.stored()
        run = self.start_restored(self.program)
        self.finish(run, harness.DIVERGED)
        self.assertIn('does not repeat itself', run.errors)
        self.assertIn('had no clocks and random bytes noted', run.errors)
        self.assertEqual(self.stored(), before)

    def test_what_is_not_to_be_repeated_is_said(self):
        self.saved_at_once()
        run = self.finish(self.start_restored(self.program, GPUSNAP_OUTSIDE='real'),
                          harness.DIVERGED)
        self.assertIn('does not repeat itself', run.errors)
        self.assertIn('GPUSNAP_OUTSIDE=real', run.errors)

    def test_a_value_that_is_none(self):
        run = self.finish(self.start_saved(self.program, GPUSNAP_OUTSIDE='none'))
        self.assertIn('GPUSNAP_OUTSIDE=none: not journal or real', run.errors)

    def test_waits_on_another_machine(self):
        """The other machine's clocks are behind the checkpoint's by a month, or ahead by hours.

        If this machine has run for less than 8 hours, they are ahead by half of that: no clock was
        before its start.
        """
        self.program = [harness.app('waits'), '60']
        reference = self.reference(self.program)
        ahead = min(4 * 3600, int(time.clock_gettime(time.CLOCK_MONOTONIC) / 2))
        for seconds in (30 * 86400, -ahead):
            with self.subTest(seconds=seconds):
                killed = self.saved_and_killed(self.program, reference, 'syncs:21')
                self.settle()
                newest = self.complete()[0]
                manifest, = (path for path in self.manifests()
                             if '/e%d/' % newest['epoch'] in path)
                subprocess.run([os.path.join(harness.HELPERS, 'shift_clocks'), str(seconds),
                                manifest], check=True)
                run = self.restored(newest['id'])
                self.assertEqual(run.errors, '', killed.errors)
                self.assert_same_output(run, reference)


if __name__ == '__main__':
    harness.main()
