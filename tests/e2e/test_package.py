#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `meson install` and scripts/package put somewhere works there: a program is run, killed and
restored with it, apart from the build folder."""
import glob
import os
import re
import shutil
import subprocess

import harness

PACKAGE = os.path.join(harness.SOURCE, 'scripts', 'package')
STEPS, EVERY = '240', 'syncs:40'


class Packages(harness.TestCase):
    timeout = 300

    def call(self, *command, **more):
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, **more)
        self.assertEqual(done.returncode, 0, '%s\n%s\n%s' % (command, done.stdout, done.stderr))
        return done.stdout

    def package(self, kind):
        """The packages of that kind, made of the build that is tested."""
        into = os.path.join(self.folder, kind)
        self.call(PACKAGE, '--no-build', '--build', harness.BUILD, '--into', into, kind)
        return sorted(glob.glob(into + '/*'))

    def assert_works(self, tree):
        """With the tool below it alone."""
        tool = os.path.join(tree, 'bin', 'gpusnap')
        program = [shutil.copy(harness.app('stencil'), self.folder), STEPS]
        simcuda = os.path.join(tree, 'lib', 'gpusnap', 'simcuda')
        reference = self.finish(self.start(program, self.environment(LD_LIBRARY_PATH=simcuda)))
        settings = self.settings(GPUSNAP_EVERY=EVERY)
        self.begin_store()
        settings['GPUSNAP_PFS'] = self.store
        whole = self.finish(self.start([tool, 'run', '--sim', '--'] + program, self.environment(**settings)))
        self.assert_same_output(whole, reference)
        self.assertEqual(whole.errors, '')
        again = self.finish(self.start([tool, 'restore', '--sim', '--'] + program, self.environment(**settings)))
        self.assert_same_output(again, reference)
        self.assertEqual(again.errors, '')
        # The backend, too, is the one of this tree.
        logs = glob.glob(self.folder + '/**/*.log', recursive=True)
        self.assertIn('complete', self.call(tool, 'list', env=self.environment(**settings)), logs)

    def run_paths(self, tree):
        for path in glob.glob(tree + '/lib/**/*.so*', recursive=True) + glob.glob(tree + '/bin/*'):
            dynamic = self.call('readelf', '-d', path)
            yield from re.findall(r'R(?:UN)?PATH.*\[(.*)\]', dynamic)

    def test_tar(self):
        """It works where it is unpacked, and where it is moved to; it knows nothing of the build folder."""
        archive = self.package('tar')
        self.assertEqual(len(archive), 1)
        self.call('tar', '-xzf', archive[0])
        tree = glob.glob(self.folder + '/gpusnap-*-x86_64')[0]
        for path in self.run_paths(tree):
            self.assertTrue(path.startswith('$ORIGIN'), path)
        self.assert_works(tree)
        moved = os.path.join(self.folder, 'elsewhere')
        os.rename(tree, moved)
        self.assert_works(moved)
        self.assertTrue(glob.glob(moved + '/lib/gpusnap/libisal.so*'))
        self.assertIn('.TH', self.call('cat', moved + '/share/man/man1/gpusnap.1'))
        self.call('bash', '-n', moved + '/share/bash-completion/completions/gpusnap.bash')

    def test_deb(self):
        if shutil.which('dpkg-deb') is None or shutil.which('dpkg-shlibdeps') is None:
            self.skipTest('Debian packages cannot be made here')
        root = os.path.join(self.folder, 'root')
        made = self.package('deb')
        self.assertEqual(len(made), 2)
        for path in made:
            self.call('dpkg-deb', '-x', path, root)
            depends = self.call('dpkg-deb', '--field', path, 'Depends')
            self.assertRegex(depends, r'libc6 \(>= 2\.\d+\)')
        self.assert_works(os.path.join(root, 'usr'))

    def test_rpm(self):
        if shutil.which('rpmbuild') is None or shutil.which('rpm2archive') is None:
            self.skipTest('RPM packages cannot be made here')
        root = os.path.join(self.folder, 'root')
        os.mkdir(root)
        made = self.package('rpm')
        self.assertEqual(len(made), 2)
        for path in made:
            with open(path, 'rb') as file:
                archive = subprocess.run(['rpm2archive', '-'], stdin=file, capture_output=True, check=True)
            subprocess.run(['tar', '-xz', '-C', root], input=archive.stdout, check=True)
            asked = self.call('rpm', '-qp', '--requires', path)
            self.assertRegex(asked, r'libc\.so\.6')
            self.assertNotIn('libcuda', asked)
        self.assert_works(os.path.join(root, 'usr'))


if __name__ == '__main__':
    harness.main()
