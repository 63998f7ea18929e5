#!/usr/bin/env python3
"""Without the tool: LD_PRELOAD and environment variables alone."""
import os
import subprocess
import sys

import harness


class Preload(harness.TestCase):
    command = [harness.app('churn'), harness.PROGRAMS['churn'][0]]

    def preloaded(self, command, **settings):
        return self.start(command, self.environment(
            LD_PRELOAD=harness.LIBRARY, LD_LIBRARY_PATH=harness.SIMCUDA,
            **self.settings(**settings)))

    def test_saved_killed_and_restored(self):
        self.saved_killed_and_restored(self.command, 'syncs:40')

    def test_a_program_with_another_runtime(self):
        """Its own libstdc++ and operator new, exported: neither uses anything of the other's."""
        program = os.path.join(harness.HELPERS, 'own_runtime')
        symbols = subprocess.run(['nm', '-DC', '--defined-only', program], check=True,
                                 stdout=subprocess.PIPE).stdout.decode()
        self.assertIn('operator new(unsigned long)', symbols)
        self.assertIn(' std::ostream::', symbols)
        self.saved_killed_and_restored([program, '2000'], 'syncs:100')

    def saved_killed_and_restored(self, command, every):
        reference = self.reference(command)
        run = self.preloaded(command, GPUSNAP_EVERY=every)
        self.assertTrue(self.wait_for_checkpoint(run), run.errors)
        # On a busy machine it may have ended by itself: what it saved is there all the same.
        run.kill()
        self.settle()
        newest = self.complete()[0]['id']
        for wanted in ('job@latest', newest):
            run = self.finish(self.preloaded(command, GPUSNAP_RESTORE=wanted))
            self.assert_same_output(run, reference)

    def test_inert_in_programs_without_cuda(self):
        """Shells, Python and a compiler put out the same, and leave no store behind."""
        source = os.path.join(self.folder, 'empty.c')
        with open(source, 'w') as file:
            file.write('int answer(void) { return 42; }\n')
        for command in (['bash', '-c', 'echo one; (echo two); echo three | cat; exit 3'],
                        [sys.executable, '-c', 'import os, sys; print("here", flush=True); '
                         'os.system("echo child"); sys.exit(4)'],
                        ['cc', '-S', '-O1', '-o', '-', source]):
            plain = self.start(command, self.environment())
            plain.wait(self.timeout)
            settings = self.settings(GPUSNAP_EVERY='1s')
            ours = self.start(command, self.environment(LD_PRELOAD=harness.LIBRARY, **settings))
            ours.wait(self.timeout)
            self.assertEqual(ours.process.returncode, plain.process.returncode)
            self.assertEqual(ours.output, plain.output)
            self.assertEqual(ours.errors, plain.errors)
        self.assertFalse(os.path.exists(self.store))

    def test_clocks_and_random_bytes_as_ever(self):
        """In handlers of signals, threads that are cancelled, children, and at the end."""
        program = os.path.join(harness.HELPERS, 'as_ever')
        for settings in ({}, {'LD_PRELOAD': harness.LIBRARY},
                         {'LD_PRELOAD': harness.LIBRARY, 'GPUSNAP_OUTSIDE': 'real'}):
            run = self.start([program], self.environment(**settings))
            self.finish(run)
            self.assertEqual((run.output, run.errors), (b'ok\n', ''))

    def test_forked_child_is_inert(self):
        """A program that starts others after its cuInit is restored all the same."""
        script = ('import ctypes, os, subprocess, sys\n'
                  'cuda = ctypes.CDLL("libcuda.so.1")\n'
                  'print(cuda.cuInit(0), flush=True)\n'
                  'pid = os.fork()\n'
                  'if pid == 0:\n'
                  '    print("child", flush=True)\n'
                  '    os._exit(0)\n'
                  'os.waitpid(pid, 0)\n'
                  'print(subprocess.run(["echo", "started"], stdout=subprocess.PIPE).stdout)\n')
        command = [sys.executable, '-c', script]
        plain = self.reference(command)
        run = self.finish(self.preloaded(command))
        self.assert_same_output(run, plain)
        self.assertEqual(run.errors, '')


if __name__ == '__main__':
    harness.main()
