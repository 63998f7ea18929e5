#!/usr/bin/env python3
"""A restored run prints what comes after the cut, and writes its files anew: together with what the
killed run had printed it is the output of a whole one."""
import os
import sys

import harness
import scripted

STDBUF = '/usr/libexec/coreutils/libstdbuf.so'
LINES = {'LD_PRELOAD': STDBUF, '_STDBUF_O': 'L'}


PYTHON = os.path.realpath(sys.executable)
PYTHON_PROGRAM = """
import ctypes, os, subprocess, time

cuda = ctypes.CDLL('libcuda.so.1')
context, memory = ctypes.c_void_p(), ctypes.c_uint64()


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    assert result == 0, (name, result)


def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.001)


print('one', flush=True)
call('cuInit', 0)
call('cuDevicePrimaryCtxRetain', ctypes.byref(context), 0)
call('cuCtxSetCurrent', context)
call('cuMemAlloc_v2', ctypes.byref(memory), ctypes.c_size_t(4096))
copy = os.dup(1)
child = os.fork()
if child == 0:
    os.write(1, b'forked\\n')
    os._exit(0)
os.waitpid(child, 0)
subprocess.run(['echo', 'spawned'], check=True, close_fds=False)
call('cuMemsetD8_v2', memory, 1, ctypes.c_size_t(4096))
call('cuCtxSynchronize')
print('ready', flush=True)
wait_for('cut')
call('cuMemsetD8_v2', memory, 2, ctypes.c_size_t(4096))
os.write(copy, b'by the copy\\n')
print('waits', flush=True)
wait_for('last')
call('cuCtxSynchronize')
print('end', flush=True)
"""


class Output(scripted.TestCase):
    def start_restored(self, command, checkpoint=None, options=(), **settings):
        return super().start_restored(command, checkpoint, options,
                                      **dict({'GPUSNAP_REPLAY_OUTPUT': None}, **settings))

    def saved_and_killed_at_last(self, text):
        """The script's command and its killed run."""
        command = self.script(text)
        run = self.start_saved(command, GPUSNAP_EVERY=scripted.EVERY)
        self.wait_for(run, 'ready')
        self.go_on_with_a_checkpoint(run, 'cut')
        self.wait_for_complete(run, 1)
        self.wait_for(run, 'waits')
        self.assertTrue(run.kill())
        self.settle()
        self.make('last')
        return command, run

    def assert_goes_on(self, killed, restored, reference):
        """Where it was cut nothing is missing and nothing is there twice."""
        printed = len(reference.output) - len(restored.output)
        self.assertGreaterEqual(printed, 0)
        self.assertEqual(killed.output[:printed] + restored.output, reference.output)
        return printed

    def test_lines_before_the_cut_are_not_printed_again(self):
        text = '''
            say before any call
            stream s
            alloc a 1000
            stir a 1 s
            sync s
            say ready
            await cut
            stir a 2 s
            say after the cut
            say waits
            await last
            print a
            '''
        reference = self.undisturbed(text)
        command, _ = self.saved_and_killed_at_last(text)
        lines = reference.output.splitlines()
        again = lines.index(b'after the cut')
        run = self.finish(self.start_restored(command))
        self.assertEqual(run.output.splitlines(), lines[again:])
        run = self.finish(self.start_restored(command, options=['--replay-output', 'again']))
        self.assert_same_output(run, reference)
        # Output of another process, which becomes the program or starts it, is not the program's.
        for shell in ('echo the shell; exec "$@"', 'echo the shell; "$@"'):
            run = self.finish(self.start_restored(['sh', '-c', shell, 'sh'] + command))
            self.assertEqual(run.output.splitlines(), [b'the shell'] + lines[again:])
        self.assertNotEqual(self.tool('restore', '--replay-output', 'x', '--', 'true').returncode, 0)

    def test_what_was_held_back_at_the_cut_is_printed(self):
        """However the C library writes in the one run and in the other."""
        steps, every = harness.PROGRAMS['stencil']
        command = [harness.app('stencil'), steps]
        reference = self.reference(command)
        ways = [{}] + ([LINES] if os.path.exists(STDBUF) else [])
        for before in ways:
            killed = self.saved_and_killed(command, reference, 'syncs:%d' % every, **before)
            self.settle()
            for after in ways:
                with self.subTest(before=before, after=after):
                    run = self.finish(self.start_restored(command, **after))
                    printed = self.assert_goes_on(killed, run, reference)
                    if before:
                        self.assertGreater(printed, 0)

    def test_last_words_of_a_replay_are_printed(self):
        steps, every = harness.PROGRAMS['stencil']
        command = [harness.app('stencil'), steps]
        reference = self.reference(command)
        self.saved_and_killed(command, reference, 'syncs:%d' % every)
        self.settle()
        run = self.start_restored([command[0], '8'], options=['--force-arguments'])
        self.assertEqual(run.wait(self.timeout), harness.DIVERGED, run.errors)
        self.assertTrue(run.output)
        self.assertTrue(reference.output.startswith(run.output.splitlines(True)[0]))

    def test_copies_and_other_processes(self):
        """Copies that the program made of its standard output before the cut lead where they belong
        after it, and processes that are no part of the replay print."""
        path = os.path.join(self.folder, 'program.py')
        with open(path, 'w') as file:
            file.write(PYTHON_PROGRAM)
        command = [PYTHON, path]
        run = self.start_saved(command, GPUSNAP_EVERY=scripted.EVERY)
        self.wait_for(run, 'ready')
        self.go_on_with_a_checkpoint(run, 'cut')
        self.wait_for_complete(run, 1)
        self.wait_for(run, 'waits')
        self.assertTrue(run.kill())
        self.settle()
        self.make('last')
        before = [b'one', b'forked', b'spawned', b'ready']
        after = [b'by the copy', b'waits', b'end']
        self.assertEqual(run.output.splitlines(), before + after[:-1])
        run = self.finish(self.start_restored(command))
        self.assertEqual(run.output.splitlines(), [b'forked', b'spawned'] + after)

    def test_files_are_the_same(self):
        text = '''
            write log begins
            stream s
            alloc a 1000
            stir a 1 s
            sync s
            append log before the cut
            write state before the cut
            say ready
            await cut
            stir a 2 s
            append log after the cut
            write state after the cut
            append late a file of its own
            say waits
            await last
            append log at last
            print a
            '''
        names = ('log', 'state', 'late')

        def contents():
            found = {}
            for name in names:
                with open(os.path.join(self.working_folder, name)) as file:
                    found[name] = file.read()
                os.remove(os.path.join(self.working_folder, name))
            return found

        self.make_all(text)
        reference = self.finish(self.start_plain(self.script(text)))
        whole = contents()
        for name in ('cut', 'last'):
            os.remove(os.path.join(self.working_folder, name))
        command, _ = self.saved_and_killed_at_last(text)
        # A file that is only ever appended to has the killed run's lines from after the cut.
        os.remove(os.path.join(self.working_folder, 'late'))
        run = self.finish(self.start_restored(command))
        self.assertTrue(reference.output.endswith(run.output))
        self.assertEqual(contents(), whole)


if __name__ == '__main__':
    harness.main()
