#!/usr/bin/env python3
"""A client that nobody here wrote: Numba's CUDA target runs kernels of many kinds, is killed and
restored."""
import harness
import python_client


class Numba(python_client.PythonClient):
    packages = 'numba'
    program = 'kernels.py'
    steps = 15
    every = 'syncs:100'  # later than all that is copied to the device at the beginning

    def environment(self, **settings):
        return super().environment(NUMBA_CACHE_DIR=self.folder + '/numba', **settings)

    def test_killed_and_restored(self):
        reference, launched, kernels = self.undisturbed()
        self.assertEqual(reference.output.count(b' ok\n'), 9, reference.output[-300:])
        self.assertGreaterEqual(kernels, 25)
        self.kill_and_restore(reference, launched)


if __name__ == '__main__':
    harness.main()
