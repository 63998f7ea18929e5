#!/usr/bin/env python3
"""A restore that cannot work says so in one line before the program starts; what it compares can be
passed over, and is shown."""
import os
import shutil
import time

import harness
import scripted

TEXT = '''
    stream s
    alloc a 1000
    stir a 1 s
    sync s
    say ready
    await cut
    stir a 2 s
    await last
    print a
    '''


class Preflight(scripted.TestCase):
    def setUp(self):
        super().setUp()
        self.reference_run = self.undisturbed(TEXT)

    @staticmethod
    def wait_for_the_clock(path):
        """Until a program that begins now finds the file older than itself, by the system's coarse
        clock: what is newer is its own work. A file's own time may be finer."""
        coarse_clock = 5
        while time.clock_gettime_ns(coarse_clock) <= os.stat(path).st_ctime_ns:
            time.sleep(0.001)

    def saved_and_killed_at_last(self, **settings):
        """The command; its run has a checkpoint of the place where it waited for "cut"."""
        command = self.script(TEXT)
        self.wait_for_the_clock(command[1])
        run = self.start_saved(command, GPUSNAP_EVERY=scripted.EVERY, **settings)
        self.wait_for(run, 'ready')
        self.go_on_with_a_checkpoint(run, 'cut')
        self.wait_for_complete(run, 1)
        self.assertTrue(run.kill())
        self.settle()
        self.make('last')
        return command

    def start_preloaded(self, command, **settings):
        """Without the tool."""
        return self.start(command, self.environment(
            LD_PRELOAD=harness.LIBRARY, LD_LIBRARY_PATH=harness.SIMCUDA,
            **self.settings(GPUSNAP_RESTORE='job@latest', **settings)))

    def refused(self, run, status, *words):
        self.assertEqual(run.wait(self.timeout), status, run.errors)
        lines = run.errors.splitlines()
        self.assertEqual(len(lines), 1, run.errors)
        for word in words:
            self.assertIn(word, lines[0])
        self.assertEqual(run.output, b'')

    def restored(self, run, *warnings):
        """Each warning has those words in its only line."""
        self.finish(run)
        self.assert_same_output(run, self.reference_run)
        lines = run.errors.splitlines()
        self.assertEqual(len(lines), len(warnings), run.errors)
        for line, words in zip(lines, warnings):
            self.assertTrue(line.startswith('gpusnap: warning: '), line)
            self.assertIn(words, line)

    def test_inputs(self):
        command = self.saved_and_killed_at_last()
        path = command[1]
        program = self.show('job@latest')['ranks'][0]['program']
        self.assertEqual([each['path'] for each in program['inputs']], [path])
        self.assertEqual(program['inputs'][0]['size'], os.path.getsize(path))
        self.assertIn('has read   ' + path, self.tool('show', 'job@latest').stdout)
        self.restored(self.start_restored(command))
        # The same content at another time.
        shutil.copy(path, path + '.copy')
        os.replace(path + '.copy', path)
        self.restored(self.start_restored(command))
        with open(path, 'a') as file:
            file.write('\n')
        before = self.stored()
        for start in (self.start_restored, self.start_preloaded):
            self.refused(start(command), harness.OTHER_PROGRAM, 'job@1: ', path + ' has ', ' bytes, not ',
                         '--force-inputs')
        self.assertEqual(self.stored(), before)
        self.restored(self.start_restored(command, options=['--force-inputs']))
        self.restored(self.start_preloaded(command, GPUSNAP_RESTORE_FORCE='inputs'))
        os.remove(path)
        self.refused(self.start_restored(command), harness.OTHER_PROGRAM, path + ' is not there')

    def test_what_the_program_has_made_is_no_input(self):
        text = '''
            write own first
            read own
            stream s
            alloc a 1000
            stir a 1 s
            sync s
            write own second
            read own
            say ready
            await cut
            stir a 2 s
            write own third
            await last
            read own
            print a
            '''
        reference = self.undisturbed(text)
        command = self.script(text)
        run = self.start_saved(command, GPUSNAP_EVERY=scripted.EVERY)
        self.wait_for(run, 'ready')
        self.go_on_with_a_checkpoint(run, 'cut')
        self.wait_for_complete(run, 1)
        self.wait_until(run, 'third', lambda: b'third' in self.content('own'))
        self.assertTrue(run.kill())
        self.settle()
        self.make('last')
        run = self.finish(self.start_restored(command))
        self.assert_same_output(run, reference)
        self.assertEqual(run.errors, '')

    def content(self, name):
        with open(os.path.join(self.working_folder, name), 'rb') as file:
            return file.read()

    def test_devices(self):
        command = self.saved_and_killed_at_last(SIMCUDA_MEMORY='2G', SIMCUDA_DEVICES='2')
        program = self.show('job@latest')['ranks'][0]['program']
        self.assertEqual(program['device_count'], 2)
        self.assertEqual([each['memory'] for each in program['devices']], [2 << 30])
        self.assertIn('compute capability', self.tool('show', 'job@latest').stdout)
        same = {'SIMCUDA_MEMORY': '2G', 'SIMCUDA_DEVICES': '2'}
        self.restored(self.start_restored(command, **same))
        other = dict(same, SIMCUDA_MEMORY='1G')
        for start in (self.start_restored, self.start_preloaded):
            self.refused(start(command, **other), harness.IMPOSSIBLE, 'job@1: ', '2048 MiB', '1024 MiB',
                         '--force-device')
        self.restored(self.start_restored(command, options=['--force-device'], **other))
        fewer = dict(same, SIMCUDA_DEVICES='1')
        for start in (self.start_restored, self.start_preloaded):
            self.restored(start(command, **fewer), 'saw 2 device(s), here are 1')
        self.restored(self.start_restored(command, options=['--force-devices'], **fewer))

    def test_fewer_devices_than_were_used(self):
        steps, every = harness.PROGRAMS['two_devices']
        self.program_settings = harness.PROGRAM_SETTINGS['two_devices']
        command = [harness.app('two_devices'), steps]
        self.saved_and_killed(command, self.reference(command), 'syncs:%d' % every)
        self.settle()
        self.assertEqual(len(self.show('job@latest')['ranks'][0]['program']['devices']), 2)
        for start in (self.start_restored, self.start_preloaded):
            self.refused(start(command, SIMCUDA_DEVICES='1'), harness.IMPOSSIBLE,
                         'it was saved from 2 devices, here are 1', '--force-devices')

    def test_folder_and_libraries_are_told(self):
        library = os.path.join(self.folder, 'libother.so')
        shutil.copy(os.path.join(harness.HELPERS, 'libsecond_interposer.so'), library)
        command = self.saved_and_killed_at_last(LD_PRELOAD=library)
        libraries = self.show('job@latest')['ranks'][0]['program']['libraries']
        self.assertIn(library, [each['path'] for each in libraries])
        self.assertNotIn(os.path.realpath(harness.LIBRARY), [each['path'] for each in libraries])
        self.restored(self.start_restored(command, LD_PRELOAD=library))
        os.remove(library)
        told = library + ' is not there'
        for start in (self.start_restored, self.start_preloaded):
            self.restored(start(command), told)
        self.working_folder = os.path.join(self.folder, 'elsewhere')
        os.mkdir(self.working_folder)
        for name in ('cut', 'last'):
            self.make(name)
        for start in (self.start_restored, self.start_preloaded):
            self.restored(start(command), 'this one works in ' + self.working_folder, told)
        self.restored(self.start_restored(command, GPUSNAP_RESTORE_FORCE='folder,libraries'))


if __name__ == '__main__':
    harness.main()
