#!/usr/bin/env python3
"""A program that nobody here wrote or built: the distribution's ffmpeg, whose filters are kernels that
clang has compiled, reading frames through textures."""
import re
import shutil
import unittest

import harness

SOURCE = 'testsrc2=s=160x120:r=25:d=%d'
# A picture in a picture: both are deinterlaced and scaled before. (Of hwupload_cuda each has a context
# of its own, and nothing orders two of them.)
GRAPH = ('format=yuv420p,split[a][b];'
         '[a]hwupload,yadif_cuda,scale_cuda=120:90:interp_algo=bicubic[large];'
         '[b]hwupload,scale_cuda=40:30:interp_algo=lanczos[small];'
         '[large][small]overlay_cuda=x=10:y=8,hwdownload,format=yuv420p')
# Compares the picture of the device's filter with that of the processor's.
COMPARED = 'format=yuv420p,split[a][b];%s[theirs];%s[ours];[theirs][ours]psnr'
DECIBELS = {
    '[a]hwupload,yadif_cuda,hwdownload,format=yuv420p': ('[b]yadif', 40),
    '[a]split[c][d];[c]hwupload[e];[d]crop=64:48:10:10,hwupload[f];'
    '[e][f]overlay_cuda=x=16:y=8,hwdownload,format=yuv420p':
        ('[b]split[g][h];[h]crop=64:48:10:10[i];[g][i]overlay=x=16:y=8', float('inf')),
}


@unittest.skipIf(shutil.which('ffmpeg') is None, 'there is no ffmpeg')
class Ffmpeg(harness.TestCase):
    @staticmethod
    def command(graph, seconds, *output, log='warning'):
        return ['ffmpeg', '-nostdin', '-v', log, '-threads', '1', '-filter_threads', '1',
                '-init_hw_device', 'cuda=gpu', '-filter_hw_device', 'gpu',
                '-f', 'lavfi', '-i', SOURCE % seconds, '-filter_complex', graph, '-f', *output, '-']

    def test_as_on_the_processor(self):
        for on_device, (on_processor, least) in DECIBELS.items():
            with self.subTest(on_device):
                run = self.reference(self.command(COMPARED % (on_device, on_processor), 1, 'null',
                                                  log='info'))
                found = re.search(r'PSNR .* average:(\S+)', run.errors)
                self.assertIsNotNone(found, run.errors)
                self.assertGreaterEqual(float(found[1]), least)

    def test_killed_and_restored(self):
        command = self.command(GRAPH, 6, 'framemd5')
        reference = self.reference(command)
        frames = [line for line in reference.output.splitlines() if not line.startswith(b'#')]
        self.assertEqual(len(frames), 150)
        self.assertGreater(len({line.split()[-1] for line in frames}), 140)
        for kill in range(harness.KILLS):
            with self.subTest(kill=kill):
                killed = self.saved_and_killed(command, reference, 'syncs:20')
                self.assertEqual(killed.errors, reference.errors)
                self.settle()
                run = self.finish(self.start_restored(command, GPUSNAP_EVERY='syncs:20'))
                self.assert_same_output(run, reference)
                self.assertEqual(run.errors, reference.errors)


if __name__ == '__main__':
    harness.main()
