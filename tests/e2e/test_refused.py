#!/usr/bin/env python3
"""Calls that are not followed are refused by their names, never passed over: every call of that
kind in interpose/cuda/hooks.table."""
import os

import harness

TABLE = os.path.join(harness.SOURCE, 'interpose', 'cuda', 'hooks.table')
# A driver whose every function succeeds at once.
NOOP = os.path.join(harness.BUILD, 'tests', 'bench', 'noop_driver')
# The subjects of the rules about imported memory and about shared memory.
SHARING = ('cuMemImportFromShareableHandle', 'cuMemExportToShareableHandle', 'cuMemPoolImportPointer',
           'cuImportExternalMemory', 'cuImportExternalSemaphore', 'cuGraphicsMapResources',
           'cuMulticastCreate')
# Followed where processes take their checkpoints together, which this one does not.
OF_RANKS = ('cuIpcGetMemHandle', 'cuIpcOpenMemHandle', 'cuIpcOpenMemHandle_v2', 'cuIpcGetEventHandle',
            'cuIpcOpenEventHandle')


def unsupported():
    """The symbols."""
    with open(TABLE) as file:
        rows = [line.split('#')[0].split() for line in file]
    for symbol, _, _, variant, kind, *_ in filter(None, rows):
        if kind == 'unsupported':
            yield symbol
            if variant != '-':
                yield '%s_%s' % (symbol, variant)


class Refused(harness.TestCase):
    def calls(self, driver, symbols):
        """The outcome of each call: (result, answer to a request for a checkpoint after it)."""
        run = self.finish(self.start(
            [os.path.join(harness.HELPERS, 'call_and_ask')] + symbols,
            self.environment(LD_PRELOAD=harness.LIBRARY, LD_LIBRARY_PATH=driver,
                             **self.settings())))
        lines = [line.split('\t') for line in run.output.decode().splitlines()]
        self.assertEqual([line[0] for line in lines], symbols, run.errors)
        return {symbol: rest for symbol, *rest in lines}, run.errors.splitlines()

    def test_every_call_that_is_not_followed(self):
        symbols = list(unsupported())
        for symbol in SHARING:
            self.assertIn(symbol, symbols)
        found, said = self.calls(NOOP, symbols)
        for symbol in symbols:
            with self.subTest(symbol):
                why = '%s cannot be restored by this version' % symbol
                self.assertEqual(found[symbol], ['0', why])
                self.assertIn('gpusnap: warning: no more checkpoints of this process, the program '
                              'goes on: ' + why, said)
        self.assertEqual(len(said), len(symbols))

    def test_sharing_by_a_process_that_stands_alone(self):
        """Nobody knows when the other process writes."""
        found, said = self.calls(NOOP, list(OF_RANKS))
        for symbol in OF_RANKS:
            with self.subTest(symbol):
                why = '%s outside of an MPI job cannot be restored by this version' % symbol
                self.assertEqual(found[symbol], ['0', why])
                self.assertIn('gpusnap: warning: no more checkpoints of this process, the program '
                              'goes on: ' + why, said)
        self.assertEqual(len(said), len(OF_RANKS))

    def test_sharing_by_the_runtime(self):
        """Two processes share by the runtime, and go on."""
        if not harness.built(['runtime/relay']):
            self.skipTest('needs the toolkit')
        command = [harness.app('runtime/relay')]
        reference = self.reference(command)
        self.assertTrue(reference.output.endswith(b'ok\n'), reference.output)
        run = self.finish(self.start_saved(command))
        self.assert_same_output(run, reference)
        self.assertIn('cuIpcGetMemHandle outside of an MPI job cannot be restored', run.errors)

    def test_the_drivers_own_checkpoints(self):
        """Calls about other processes are none of our business."""
        symbols = ['cuCheckpointProcess' + what for what in ('Lock', 'Checkpoint', 'Restore', 'Unlock')]
        found, said = self.calls(NOOP, symbols)
        self.assertEqual(found, {symbol: ['0', 'ok'] for symbol in symbols})
        self.assertEqual(said, [])
        found, said = self.calls(NOOP, [symbol + ':self' for symbol in symbols])
        for symbol in symbols:
            with self.subTest(symbol):
                why = '%s of the program itself cannot be restored by this version' % symbol
                self.assertEqual(found[symbol + ':self'], ['0', why])
        self.assertEqual(len(said), len(symbols))

    def test_messages_that_a_replay_does_not_bring(self):
        command = [harness.app('logbook'), '60', 'told']
        reference = self.reference(command)
        run = self.finish(self.start_saved(command, GPUSNAP_EVERY='syncs:20'))
        self.assert_same_output(run, reference)
        self.assertEqual(run.errors.splitlines(), [
            'gpusnap: warning: no more checkpoints of this process, the program goes on: a message '
            "of the driver's to a function of cuLogsRegisterCallback cannot be restored by this version"])
        self.assertEqual(self.complete(), [])

    def test_what_fails_has_done_nothing(self):
        """Programs try calls to see whether a device has them: checkpoints go on."""
        found, said = self.calls(harness.SIMCUDA, list(unsupported()) + list(OF_RANKS))
        offered = {symbol: rest for symbol, rest in found.items() if rest != ['absent']}
        self.assertTrue(offered)
        for symbol, (result, answer) in offered.items():
            with self.subTest(symbol):
                self.assertNotEqual(result, '0')
                self.assertEqual(answer, 'ok')
        self.assertEqual([line for line in said if not line.startswith('simcuda: ')], [])


if __name__ == '__main__':
    harness.main()
