#!/usr/bin/env python3
"""A client that nobody here wrote: Taichi simulates a fluid, is killed and restored."""
import harness
import python_client


class Taichi(python_client.PythonClient):
    packages = 'taichi'
    program = 'fluid.py'
    steps = 7
    every = 'syncs:50'

    def environment(self, **settings):
        return super().environment(XDG_CACHE_HOME=self.folder, **settings)

    def test_killed_and_restored(self):
        reference, launched, kernels = self.undisturbed()
        self.assertEqual(reference.output.count(b' ok\n'), 7, reference.output[-300:])
        self.assertGreaterEqual(kernels, 50)
        self.kill_and_restore(reference, launched)


if __name__ == '__main__':
    harness.main()
