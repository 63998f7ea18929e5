#!/usr/bin/env python3
"""Faults of a store are reported, and the store stays as it was.

One killed run makes a store with several checkpoints. Every case copies it, damages the copy, and
looks at what restore, verify and list say about it.
"""
import glob
import os
import shutil
import tempfile

import harness

COMMAND = [harness.app('stencil'), '60']


def flip(path, at):
    with open(path, 'r+b') as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 0x10]))


class Faults(harness.TestCase):
    reference_run = None

    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.mkdtemp(prefix='gpusnap-e2e-')
        cls.addClassCleanup(shutil.rmtree, cls.shared, ignore_errors=True)
        cls.sound = os.path.join(cls.shared, 'sound')  # the sound store, made once

    def setUp(self):
        super().setUp()
        # A checkpoint remembers where its program worked.
        self.working_folder = self.shared
        if not os.path.exists(self.sound):
            type(self).reference_run = self.reference(COMMAND)
            self.finish(self.start_saved(COMMAND, GPUSNAP_EVERY='syncs:15', GPUSNAP_KEEP=2,
                                         GPUSNAP_ORG='b+i'))
            self.backends.end()
            shutil.move(self.store, self.sound)
        shutil.copytree(self.sound, self.store)
        self.newest, self.older = self.complete()[:2]

    def file(self, kind, checkpoint=None):
        if kind == 'journal':
            found = glob.glob(os.path.join(self.store, 'job', '*.journal'))
        else:
            epoch = (checkpoint or self.newest)['epoch']
            found = [path for path in glob.glob(os.path.join(self.store, 'job', 'e*', '*.' + kind))
                     if os.path.basename(os.path.dirname(path)).lstrip('e0') == str(epoch)]
        self.assertTrue(found, 'no %s in the store' % kind)
        return max(found, key=os.path.getsize)

    def refused(self, code, words, run_settings=None, **start):
        """A restore is refused with the code and one line that holds the words; the store stays."""
        before = harness.fingerprint(self.store)
        run = self.start_restored(COMMAND, **start, **(run_settings or {}))
        status = run.wait(self.timeout)
        lines = run.errors.strip().splitlines()
        self.assertEqual(status, code, run.errors)
        self.assertEqual(len(lines), 1, run.errors)
        for word in words:
            self.assertIn(word, lines[0])
        self.assertEqual(harness.fingerprint(self.store), before)

    def state_of(self, checkpoint):
        return next((each['state'] for each in self.checkpoints() if each['id'] == checkpoint['id']),
                    'gone')

    def verify_fails(self, checkpoint, words):
        before = harness.fingerprint(self.store)
        verified = self.tool('verify', checkpoint['id'])
        self.assertEqual(verified.returncode, harness.DAMAGED, verified.stderr)
        for word in words:
            self.assertIn(word, verified.stderr + verified.stdout)
        self.assertEqual(harness.fingerprint(self.store), before)

    # ---- the files ----

    def test_sound(self):
        self.verify_all()
        self.assert_same_output(self.finish(self.start_restored(COMMAND)), self.reference_run)

    def test_truncated_segment(self):
        path = self.file('segment')
        os.truncate(path, os.path.getsize(path) - 1)
        self.assertNotEqual(self.state_of(self.newest), 'complete')
        self.verify_fails(self.newest, [os.path.basename(path)])
        self.refused(harness.DAMAGED, [os.path.basename(path)], checkpoint=self.newest['id'])

    def test_missing_segment(self):
        path = self.file('segment')
        os.remove(path)
        self.assertNotEqual(self.state_of(self.newest), 'complete')
        self.verify_fails(self.newest, [os.path.basename(path)])
        self.refused(harness.DAMAGED, [os.path.basename(path)], checkpoint=self.newest['id'])

    def test_flipped_bits_in_segment(self):
        path = self.file('segment')
        sound = harness.fingerprint(self.store)
        size = os.path.getsize(path)
        # In the middle of what was saved: headers and padding are the unit tests' business.
        for at in (size // 3, size // 2):
            flip(path, at)
            self.verify_fails(self.newest, [os.path.basename(path)])
            self.refused(harness.DAMAGED, [os.path.basename(path)], checkpoint=self.newest['id'])
            flip(path, at)
        self.assertEqual(harness.fingerprint(self.store), sound)

    def test_truncated_manifest(self):
        path = self.file('manifest')
        for size in (0, 7, os.path.getsize(path) // 2):
            os.truncate(path, size)
            self.assertEqual(self.state_of(self.newest), 'damaged')
            self.verify_fails(self.newest, ['manifest'])
            self.refused(harness.DAMAGED, ['manifest'], checkpoint=self.newest['id'])

    def test_missing_manifest(self):
        os.remove(self.file('manifest'))
        self.assertEqual(self.state_of(self.newest), 'partial')
        self.refused(harness.NO_CHECKPOINT, [self.newest['id']], checkpoint=self.newest['id'])
        # The one before is what 'latest' means now.
        run = self.finish(self.start_restored(COMMAND))
        self.assert_same_output(run, self.reference_run)

    def test_flipped_bits_in_manifest(self):
        path = self.file('manifest')
        size = os.path.getsize(path)
        for at in sorted({0, 9, size // 2, size - 1} | {self.random.randrange(size)
                                                       for _ in range(4)}):
            flip(path, at)
            self.assertEqual(self.state_of(self.newest), 'damaged', 'byte %d' % at)
            self.refused(harness.DAMAGED, ['manifest'], checkpoint=self.newest['id'])
            flip(path, at)
        self.assertEqual(self.state_of(self.newest), 'complete')

    def test_damaged_newest_falls_back_to_older(self):
        flip(self.file('manifest'), 40)
        run = self.finish(self.start_restored(COMMAND))
        self.assert_same_output(run, self.reference_run)

    def test_truncated_journal(self):
        path = self.file('journal')
        os.truncate(path, os.path.getsize(path) // 4)
        self.assertNotEqual(self.state_of(self.newest), 'complete')
        self.verify_fails(self.newest, [os.path.basename(path)])
        self.refused(harness.DAMAGED, [os.path.basename(path)], checkpoint=self.newest['id'])

    def test_missing_journal(self):
        path = self.file('journal')
        os.remove(path)
        self.assertNotEqual(self.state_of(self.newest), 'complete')
        self.refused(harness.DAMAGED, [os.path.basename(path)], checkpoint=self.newest['id'])

    def test_flipped_bits_in_journal(self):
        path = self.file('journal')
        for at in (100, os.path.getsize(path) // 4):
            flip(path, at)
            self.verify_fails(self.newest, [os.path.basename(path)])
            self.refused(harness.DAMAGED, [os.path.basename(path)], checkpoint=self.newest['id'])
            flip(path, at)

    def test_foreign_files_are_passed_over(self):
        for name in ('README', 'job/notes.txt', 'job/e1x', 'job/e99999999999999999999999'):
            with open(os.path.join(self.store, name), 'w') as file:
                file.write('not ours\n')
        self.assertEqual(self.complete()[0]['id'], self.newest['id'])
        self.assert_same_output(self.finish(self.start_restored(COMMAND)), self.reference_run)

    # ---- the folder ----

    def test_no_store(self):
        self.store = os.path.join(self.folder, 'nowhere')
        run = self.start_restored(COMMAND)
        self.assertEqual(run.wait(self.timeout), harness.NO_CHECKPOINT, run.errors)
        self.assertEqual(len(run.errors.strip().splitlines()), 1, run.errors)
        self.assertIn('nowhere', run.errors)
        self.assertFalse(os.path.exists(self.store))

    def test_store_is_a_file(self):
        self.store = os.path.join(self.folder, 'file')
        with open(self.store, 'w') as file:
            file.write('not a folder\n')
        run = self.start_restored(COMMAND)
        self.assertIn(run.wait(self.timeout), (harness.NO_CHECKPOINT, harness.STORE_UNWRITABLE))
        self.assertEqual(len(run.errors.strip().splitlines()), 1, run.errors)
        self.assertIn(self.store, run.errors)
        listed = self.tool('list')
        self.assertNotEqual(listed.returncode, 0)
        self.assertIn(self.store, listed.stderr)
        with open(self.store) as file:
            self.assertEqual(file.read(), 'not a folder\n')

    def test_unreadable_folder(self):
        if os.geteuid() == 0:
            self.skipTest('root reads every folder')
        folder = os.path.join(self.store, 'job')
        before = harness.fingerprint(self.store)
        os.chmod(folder, 0)
        try:
            run = self.start_restored(COMMAND)
            self.assertNotEqual(run.wait(self.timeout), 0)
            self.assertIn(folder, run.errors)
        finally:
            os.chmod(folder, 0o700)
        self.assertEqual(harness.fingerprint(self.store), before)

    def test_no_complete_checkpoint(self):
        for path in self.manifests():
            os.remove(path)
        self.refused(harness.NO_CHECKPOINT, ['job'])
        run = self.finish(self.start_restored(COMMAND, options=['--or-start']))
        self.assert_same_output(run, self.reference_run)

    def test_unknown_checkpoint(self):
        self.refused(harness.NO_CHECKPOINT, ['job@4711'], checkpoint='job@4711')

    # ---- the program ----

    def test_other_program(self):
        before = harness.fingerprint(self.store)
        for command, words in (([harness.app('orbits'), '60'], ['orbits']),
                               ([harness.app('stencil'), '61'], ['61'])):
            run = self.start_restored(command)
            self.assertEqual(run.wait(self.timeout), harness.OTHER_PROGRAM, run.errors)
            self.assertEqual(len(run.errors.strip().splitlines()), 1, run.errors)
            for word in words:
                self.assertIn(word, run.errors)
            self.assertEqual(run.output, b'')
        self.assertEqual(harness.fingerprint(self.store), before)

    # ---- a full disk ----

    def test_full_disk(self):
        """The program goes on, that checkpoint is given up, and what was complete stays."""
        before = {each['id'] for each in self.complete()}
        for at in (1, 5, 12, 30, 60):
            report = os.path.join(self.folder, 'calls-%d' % at)
            run = self.finish(self.start_saved(
                COMMAND, GPUSNAP_EVERY='syncs:15', GPUSNAP_KEEP=10, GPUSNAP_ORG='b+f',
                GPUSNAP_BACKEND='thread',
                LD_PRELOAD=os.path.join(harness.HELPERS, 'libfile_faults.so'),
                FILE_FAULTS='full', FILE_FAULTS_AT=at, FILE_FAULTS_FOLDER=self.store,
                FILE_FAULTS_REPORT=report))
            self.assert_same_output(run, self.reference_run)
            # At any speed it tries each of its checkpoints, and one makes more than twenty calls.
            self.assertGreater(harness.file_faults(report)[1], 0, 'from call %d on' % at)
            self.assertIn('No space left on device', run.errors, 'from call %d on' % at)
            self.assertLess(len(run.errors.splitlines()), 12, run.errors)
            self.assertLessEqual(before, {each['id'] for each in self.complete()})
        self.verify_all()
        self.assert_same_output(self.finish(self.start_restored(COMMAND)), self.reference_run)


if __name__ == '__main__':
    harness.main()
