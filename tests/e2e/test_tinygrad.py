#!/usr/bin/env python3
"""A client that nobody here wrote: tinygrad trains on its CUDA device, is killed and restored."""
import harness
import python_client


class Tinygrad(python_client.PythonClient):
    packages = 'tinygrad'
    program = 'digits.py'
    steps = 26
    # The PTX back end of its CUDA device, without CUDA graphs and without its cache on disk.
    device = {'DEV': 'CUDA:PTX', 'JIT': '2', 'CACHELEVEL': '0'}

    def environment(self, **settings):
        return super().environment(XDG_CACHE_HOME=self.folder, **settings)

    def test_killed_and_restored(self):
        reference, launched, _ = self.undisturbed()
        self.assertTrue(reference.output.endswith(b'ok\n'), reference.output[-200:])
        losses = [float(line.split()[-1]) for line in reference.output.splitlines()
                  if b': loss ' in line]
        self.assertEqual(len(losses), self.steps)
        self.assertLess(losses[-1], losses[0] / 2, 'it does not learn')
        self.kill_and_restore(reference, launched)


if __name__ == '__main__':
    harness.main()
