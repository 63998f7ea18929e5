#!/usr/bin/env python3
"""Extract and diff: what another program reads of a checkpoint is what the program had in its device
memory, and where two runs part is found."""
import glob
import json
import os
import struct
import subprocess

import harness
import python_client
import scripted
import test_cli

WORDS = {'a': 20000, 'b': 300}
DIFFERS = 1  # the exit code
MEMORY = '''
    stream s
    alloc a %(a)d
    alloc b %(b)d
    stir a 5 s
    mix b a s
    count 3 s
''' % WORDS
PRINT = '''
    sync s
    print a
    print b
    say there%d
    await cut%d
'''


def digest(data):
    """As the program has it: FNV-1a with 64 bits."""
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return '%016x' % value


def read_npy(data):
    """Its header, and the bytes of its elements."""
    assert data[:8] == b'\x93NUMPY\x01\x00'
    begin = 10 + struct.unpack('<H', data[8:10])[0]
    return data[10:begin].decode('ascii'), data[begin:]


def content(path):
    with open(path, 'rb') as file:
        return file.read()


class Extracting:
    def extract(self, *arguments):
        return json.loads(self.call('extract', *arguments, '--json').stdout)

    def path(self, name):
        return os.path.join(self.folder, name)

    def left(self):
        return [name for name in os.listdir(self.folder) if 'partial' in name]


class TestCase(Extracting, scripted.TestCase, test_cli.CliTest):
    def save(self, job, steps, **settings):
        """A checkpoint behind each of the steps; what the program printed of a and b before it."""
        text = MEMORY + ''.join(step + PRINT % (i, i) for i, step in enumerate(steps))
        run = self.start_saved(self.script(text + 'sync s\nawait never\n'), GPUSNAP_JOB=job,
                               GPUSNAP_EVERY=scripted.EVERY, **settings)
        for i in range(len(steps)):
            self.wait_for(run, 'there%d' % i)
            self.go_on_with_a_checkpoint(run, 'cut%d' % i)
            self.wait_for_complete(run, i + 1)
        printed = [line.split() for line in run.output.decode().splitlines()]
        run.kill()
        self.settle()
        for i in range(len(steps)):
            os.remove(os.path.join(self.working_folder, 'cut%d' % i))
        of = {name: [words[1] for words in printed if words[0] == name] for name in WORDS}
        return [dict(zip(of, both)) for both in zip(*of.values())]

    def ranges(self, checkpoint):
        """The numbers of a and b, and of all ranges what is shown of them."""
        ranges = self.show(checkpoint)['ranks'][0]['ranges']
        sizes = [each['size'] for each in ranges]
        return {name: sizes.index(4 * words) for name, words in WORDS.items()}, ranges


class Extract(TestCase):
    def assert_extracted(self, checkpoint, printed):
        """The whole of it, and each of the two alone, in any way."""
        numbers, ranges = self.ranges(checkpoint)
        folder = self.path(checkpoint)
        self.extract(checkpoint, '--to', folder)
        index = json.loads(content(folder + '/index.json'))
        self.assertEqual(sorted(os.listdir(folder)), sorted(
            ['index.json'] + [each['file'] for each in index['arrays']]))
        self.assertEqual([each['range'] for each in index['arrays']], list(range(len(ranges))))
        for name, number in numbers.items():
            shown, told = ranges[number], index['arrays'][number]
            for key in ('kind', 'address', 'size', 'call_site', 'ordinal'):
                self.assertEqual(told[key], shown[key])
            header, data = read_npy(content(os.path.join(folder, told['file'])))
            self.assertIn("'shape': (%d,)" % (4 * WORDS[name]), header)
            self.assertEqual(digest(data), printed[name])
            inside = hex(int(shown['address'], 16) + 9)
            site = '%s:%d' % (shown['call_site'], shown['ordinal'])
            for i, way in enumerate((['--range', str(number)], ['--address', inside],
                                     ['--site', site])):
                raw = self.path('%s-%s-%d.raw' % (checkpoint, name, i))
                self.extract(checkpoint, *way, '--to', raw)
                self.assertEqual(content(raw), data)
        self.assertEqual(self.left(), [])

    def test_is_what_the_program_had(self):
        """A full checkpoint and an increment, stored as they are and compressed."""
        steps = ['', 'stir_part a 10000 700 6 s\n']
        for job, level in (('plain', 'off'), ('packed', '3')):
            printed = self.save(job, steps, GPUSNAP_COMPRESS=level)
            self.assertNotEqual(printed[0]['a'], printed[1]['a'])
            self.assertEqual(printed[0]['b'], printed[1]['b'])
            self.assertGreater(self.show(job + '@2')['chain'], 0)
            for epoch, each in enumerate(printed, 1):
                self.assert_extracted('%s@%d' % (job, epoch), each)

    def test_many_files(self):
        """More than are open at a time."""
        sizes = range(1, 301)
        text = 'stream s\n' + ''.join('alloc m%d %d\n' % (i, i) for i in sizes)
        text += ''.join('print m%d\n' % i for i in sizes)
        run = self.start_saved(self.script(text + 'say there\nawait cut\nsync s\nawait never\n'),
                               GPUSNAP_EVERY=scripted.EVERY)
        self.wait_for(run, 'there')
        self.go_on_with_a_checkpoint(run, 'cut')
        self.wait_for_complete(run, 1)
        printed = dict(line.split() for line in run.output.decode().splitlines()[:len(sizes)])
        run.kill()
        self.settle()
        folder = self.path('many')
        told = self.extract('job@1', '--format', 'raw', '--to', folder)
        found = [each for each in told['arrays'] if each['kind'] == 'allocation']
        self.assertEqual(len(found), len(sizes))
        for each in found:
            self.assertEqual(digest(content(os.path.join(folder, each['file']))),
                             printed['m%d' % (each['size'] // 4)])

    def test_variable_and_part(self):
        self.save('job', [''])
        numbers, ranges = self.ranges('job@1')
        counter = next(each for each in ranges if each.get('name') == 'counter')
        told = self.extract('job@1', '--name', 'counter', '--to', self.path('counter.npy'))
        self.assertEqual(told['arrays'][0]['bytes'], counter['size'])
        raw, part = self.path('a.raw'), self.path('part.npy')
        number = str(numbers['a'])
        self.extract('job@1', '--range', number, '--to', raw)
        self.extract('job@1', '--range', number, '--to', part, '--dtype', 'i16', '--shape', '7x30',
                     '--offset', '70000')
        header, data = read_npy(content(part))
        self.assertIn("'descr': '<i2'", header)
        self.assertIn("'shape': (7, 30)", header)
        self.assertEqual(data, content(raw)[70000:70420])

    def test_numpy_reads_it(self):
        python = python_client.python_with('tinygrad')
        printed = self.save('job', [''])[0]
        number = str(self.ranges('job@1')[0]['a'])
        npy, npz = self.path('a.npy'), self.path('all.npz')
        self.extract('job@1', '--range', number, '--dtype', 'f32', '--shape', '200x100', '--to', npy)
        self.extract('job@1', '--to', npz)
        code = '''import numpy, sys
npy, npz = numpy.load(sys.argv[1]), numpy.load(sys.argv[2])
print(npy.dtype.str, npy.shape, len(npz.files))
sys.stdout.flush()
sys.stdout.buffer.write(npy.tobytes())
sys.stdout.buffer.write(npz['r0-' + sys.argv[3]].tobytes())'''
        done = subprocess.run([python, '-c', code, npy, npz, number], capture_output=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        line, _, data = done.stdout.partition(b'\n')
        self.assertEqual(line.decode(), '<f4 (200, 100) %d' % len(self.ranges('job@1')[1]))
        half = len(data) // 2
        self.assertEqual(digest(data[:half]), printed['a'])
        self.assertEqual(data[:half], data[half:])


class WrittenStores(Extracting, test_cli.CliTest):
    """Stores that were written for it; the tool's working folder is the test's."""

    def refuse(self, status, *arguments, words):
        before = sorted(os.listdir(self.folder))
        self.assert_one_line(self.call('extract', *arguments, status=status), *words)
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_extract_refuses(self):
        self.make(2)
        self.extract('job@1', '--range', '0', '--to', 'there.npy')
        os.mkdir(self.path('folder'))
        for status, arguments, words in (
                (harness.NO_CHECKPOINT, ['job@7'], ['job@7']),
                (harness.NO_CHECKPOINT, ['job@1', '--range', '2'], ['number 2', 'gpusnap show']),
                (harness.NO_CHECKPOINT, ['job@1', '--site', '1234:5'], ['0000000000001234 #5']),
                (harness.NO_CHECKPOINT, ['job@1', '--address', '0x10'], ['0x10']),
                (harness.NO_CHECKPOINT, ['job@1', '--name', 'x'], ["'x'"]),
                (harness.NO_CHECKPOINT, ['job@1', '--rank', '1'], ['no rank 1']),
                (harness.USAGE, ['job@1', '--range', '0', '--shape', '10x15001'], ['150000', '150010']),
                (harness.USAGE, ['job@1', '--dtype', 'c128', '--offset', '8'], ['c128']),
                (harness.USAGE, ['job@1', '--dtype', 'bf16'], ['bf16']),
                (harness.USAGE, ['job@1', '--to', 'two.npy'], ['two.npy', '2 ranges']),
                (harness.USAGE, ['job@1', '--shape', '3x'], ['3x', '--help']),
                (harness.USAGE, ['job@1', '--dtype', 'f33'], ['f33', '--help']),
                (harness.USAGE, ['job@1', '--range', '-1'], ['--help']),
                (harness.USAGE, ['job@1', '--format', 'tar'], ['tar', '--help']),
                (harness.STORE_UNWRITABLE, ['job@1', '--range', '0', '--to', 'there.npy'],
                 ['there.npy', '--force']),
                (harness.STORE_UNWRITABLE, ['job@1', '--to', 'folder'], ['folder', '--force']),
                (harness.STORE_UNWRITABLE, ['job@1', '--to', 'none/x.npz'], ['none']),
                (harness.STORE_UNWRITABLE, ['job@1', '--to', '.', '--force'], ['. is there']),
                (harness.STORE_UNWRITABLE, ['job@1', '--to', 'there.npy/x.npz'], ['there.npy'])):
            with self.subTest(arguments=arguments):
                self.refuse(status, *arguments, words=words)

    def test_force_replaces_files_alone(self):
        self.make(2)
        os.mkdir(self.path('folder'))
        for name in ('notes', 'r0-0.npy'):
            with open(self.path('folder/' + name), 'w', encoding='ascii') as file:
                file.write('mine')
        self.extract('job@1', '--to', 'folder', '--force')
        self.assertEqual(content(self.path('folder/notes')), b'mine')
        self.extract('job@1', '--to', 'fresh')
        for name in os.listdir(self.path('fresh')):
            if name != 'index.json':
                self.assertEqual(content(self.path('folder/' + name)),
                                 content(self.path('fresh/' + name)))
        self.assertEqual(self.left(), [])

    def test_damaged(self):
        self.make(2)
        self.damage('job/e2/*.segment')
        self.refuse(harness.DAMAGED, 'job@2', words=['job@2'])
        self.refuse(harness.DAMAGED, 'job@2', '--to', 'all.npz', words=['job@2'])
        self.assert_one_line(self.call('diff', 'job@1', 'job@2', status=harness.DAMAGED), 'job@2')
        self.extract('job@1', '--to', 'sound')
        for path in glob.glob(self.store + '/job/e2/*.manifest'):
            os.remove(path)
        self.refuse(harness.NO_CHECKPOINT, 'job@2', words=['job@2', 'partial'])

    def test_diff_refuses(self):
        self.make(1)
        for status, arguments in (
                (harness.NO_CHECKPOINT, ['job@1', 'job@7']), (harness.USAGE, ['job@1']),
                (harness.NO_CHECKPOINT, ['job@1', 'job@1', '--range', '9']),
                (harness.NO_CHECKPOINT, ['job@1', 'job@1', '--other-store', 'none']),
                (harness.USAGE, ['job@1', 'job@1', '--most', '-1'])):
            with self.subTest(arguments=arguments):
                self.assert_one_line(self.call('diff', *arguments, status=status))

    def test_of_two_stores(self):
        self.make(1)
        store = self.store
        self.begin_store()
        self.make(2)
        self.call('diff', 'job@1', 'job@1', '--other-store', store)
        text = self.call('diff', 'job@2', 'job@1', '--other-store', store, '--most', '2',
                         status=DIFFERS).stdout
        self.assertIn('2 of 2 ranges', text)
        self.assertIn('and 37498 more', text)


class Diff(TestCase):
    def diff(self, *arguments, status):
        return json.loads(self.call('diff', *arguments, '--json', status=status).stdout)

    def words(self, checkpoint, number):
        path = self.path(checkpoint + '.raw')
        self.extract(checkpoint, '--range', str(number), '--to', path)
        data = content(path)
        return struct.unpack('<%dI' % (len(data) // 4), data)

    def test_finds_the_one_word(self):
        """Two runs whose kernels differ in one of the words that they write."""
        for job, number in (('run', 8), ('mutant', 9)):
            self.save(job, ['stir_part a 12345 1 %d s\n' % number])
        numbers, ranges = self.ranges('run@1')
        found = self.diff('run@1', 'mutant@1', status=DIFFERS)
        self.assertFalse(found['equal'])
        self.assertEqual(found['compared_ranges'], len(ranges))
        rank, = found['ranks']
        self.assertEqual((rank['only_one'], rank['only_other']), ([], []))
        different, = rank['different']
        self.assertEqual(different['one']['range'], numbers['a'])
        self.assertEqual((different['matched_by'], different['elements'], different['zones']),
                         ('identity', 1, 1))
        one, other = (self.words(each, numbers['a'])[12345] for each in ('run@1', 'mutant@1'))
        self.assertNotEqual(one, other)
        self.assertEqual(different['first'], [
            {'index': 12345, 'one': '0x%08x' % one, 'other': '0x%08x' % other}])
        self.assertEqual(different['bytes'], sum(
            (one ^ other) >> shift & 255 != 0 for shift in (0, 8, 16, 24)))
        text = self.call('diff', 'run@1', 'mutant@1', '--dtype', 'u32', status=DIFFERS).stdout
        self.assertRegex(text, r'\[12345\] +%d +%d\n' % (one, other))
        self.assertIn('1 u32 element and 1 zone differ', text)
        text = self.call('diff', 'run@1', 'mutant@1', '--range', str(numbers['b'])).stdout
        self.assertIn('equal (1 range', text)

    def test_of_one_run(self):
        """An increment: what it shares with its parent is not read, and equal."""
        self.save('job', ['alloc c 5000\n', 'free c\nalloc d 6000\nstir_part a 15000 2 1 s\n'])
        self.assertTrue(self.diff('job@2', 'job@2', status=0)['equal'])
        numbers, ranges = self.ranges('job@1')
        rank, = self.diff('job@1', 'job@2', status=DIFFERS)['ranks']
        different, = rank['different']
        self.assertEqual(different['one']['range'], numbers['a'])
        self.assertEqual([each['index'] for each in different['first']], [15000, 15001])
        self.assertEqual([each['size'] for each in rank['only_one']], [20000])
        self.assertEqual([each['size'] for each in rank['only_other']], [24000])
        self.assertEqual(len(ranges), len(self.ranges('job@2')[1]))


if __name__ == '__main__':
    harness.main()
