#!/usr/bin/env python3
"""generate_hooks.py names what is wrong with a table, and generates only what the table says."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

GENERATOR = sys.argv.pop(1)

ABI = '''CUresult cuInit(unsigned flags);
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size);
decltype(cuMemcpy) cuMemcpy_ptds;
CUresult cuCtxSynchronize();
'''
GOOD = '''# a comment
cuInit            cuInit            2000 -    init          nothing     -     -
cuMemcpy          cuMemcpy          4000 ptds copy_any      destination apart any  # another
cuCtxSynchronize  cuCtxSynchronize  2000 -    sync_context  nothing     all   -
'''


class Generate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def generate(self, table):
        (self.folder / 'table').write_text(table)
        (self.folder / 'abi.h').write_text(ABI)
        (self.folder / 'exports').write_text('# what else there is\nMPI_Init\n')
        outputs = [self.folder / name for name in ('ids.h', 'objects.h', 'source.cpp', 'map', 'handlers.h')]
        done = subprocess.run([sys.executable, GENERATOR, self.folder / 'table',
                               self.folder / 'abi.h', self.folder / 'exports', *outputs],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            return done.stderr
        return [output.read_text() for output in outputs]

    def test_good(self):
        ids, _, source, script, _ = self.generate(GOOD)
        self.assertIn('kHookCount = 4;', ids)
        self.assertIn('''[kHookCount] = {
    Threads::kNone,  // cuInit
    Threads::kApart,  // cuMemcpy
    Threads::kApart,  // cuMemcpy_ptds
    Threads::kAll,  // cuCtxSynchronize
};''', ids)
        self.assertIn('''[kHookCount] = {
    Order::kPlace,  // cuInit
    Order::kAny,  // cuMemcpy
    Order::kAny,  // cuMemcpy_ptds
    Order::kPlace,  // cuCtxSynchronize
};''', ids)
        self.assertIn('gpusnap_wrap_cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t size)',
                      source)
        self.assertIn('"cuMemcpy_ptds", true, Writes::kDestination}', source)
        self.assertIn('"cuInit", false, Writes::kNothing}', source)
        self.assertIn('{"cuMemcpy", 4000, HookId::cuMemcpy, HookId::cuMemcpy_ptds}', source)
        self.assertEqual([line.strip() for line in script.splitlines() if line.strip().startswith(('cu', 'M', '#'))],
                         ['MPI_Init;', 'cuCtxSynchronize;', 'cuInit;', 'cuMemcpy;', 'cuMemcpy_ptds;'])

    def test_handlers(self):
        """A declaration for each form of a call, none where a template takes any form."""
        handlers = self.generate(GOOD)[4]
        self.assertEqual([line for line in handlers.splitlines() if line.startswith('CUresult')],
                         ['CUresult copy_any(const Call<CUresult(CUdeviceptr, CUdeviceptr, size_t)>& call, '
                          'CUdeviceptr, CUdeviceptr, size_t);  // cuMemcpy'])

    def test_bad(self):
        for row, complaint in {
                'cuInit cuInit 2000 init nothing - -': ':5: expected symbol, name',
                'cuFree cuFree 2000 - context nothing -': ':5: expected symbol, name',
                'cuFree cuFree 2000 - context all - -': "'all' is nothing that a call may write",
                'cuFree cuFree 2000 - context nothing some -': "'some' is nothing that a call may be",
                'cuFree cuFree 2000 - context nothing - some': "'some' is no order",
                'cuFree cuFree then - context nothing - -': "'then' is no CUDA version",
                'cuFree cuFree 2000 async context nothing - -': "variant 'async'",
                'cuFree cuFree 2000 - contxt nothing - -': "no kind 'contxt'",
                'cuFree cuAlloc 2000 - context nothing - -': "'cuFree' is no form of 'cuAlloc'",
                'cuInit cuInit 3000 - context nothing - -': "'cuInit' is there twice",
                'cuInit_v2 cuInit 2000 - context nothing - -': "'cuInit' is there twice at 2000",
                'cuFree cuFree 2000 - context nothing - -': 'does not declare cuFree',
                'cuInit_v2 cuInit 3000 ptsz context nothing - -': 'does not declare cuInit_v2',
        }.items():
            with self.subTest(row=row):
                self.assertIn(complaint, self.generate(GOOD + row + '\n'))


if __name__ == '__main__':
    unittest.main()
