#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of README and guide do what the text says: each is run here as it is written there, or has
a line in ELSEWHERE that says where it is run. A command that neither has fails the test."""
import glob
import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

import harness
import patience

GUIDES = ['README.md', 'docs/usage.md', 'docs/batch-systems.md', 'docs/history.md', 'docs/levels.md',
          'docs/planner.md', 'docs/installing.md', 'tools/simcuda/README.md']
# Words by which a line of a block is a command.
COMMAND = re.compile(r'(?:\$ |\./|gpusnap |mpirun |meson |ninja |scripts/|mpicxx |gcc |head |export |LD_PRELOAD=|LD_LIBRARY_PATH=|'
                     r'exec |flux |apptainer |podman )')
RECIPE = 'a recipe: the page says that it was not run'
SLURM = 'test_slurm.py runs a script with the same options'
ELSEWHERE = {
    './scripts/demo': 'not a test, since it installs and builds: run by hand',
    './scripts/demo --history': 'as above',
    './scripts/test': 'runs this test',
    './scripts/setup --minimal': 'scripts/demo and the tests begin with it',
    'meson setup build --buildtype=release && ninja -C build': 'scripts/demo does the same',
    'meson setup build --buildtype=release --prefix=/opt/gpusnap': 'scripts/package does the same',
    'ninja -C build': 'as above',
    'meson install -C build': 'as above',
    'scripts/package': 'test_package.py makes the packages of this build',
    'exec gpusnap run --resume --store /scratch/$USER/ck --stop-signal USR1,TERM -- '
    'srun --mpi=pmix ./solver big.cfg': SLURM,
    'gpusnap run --resume ... -- srun ./solver big.cfg &': SLURM,
    'exec env ${SLURM_RESTART_COUNT:+GPUSNAP_RESTORE=latest} srun --gpusnap=10m ./solver big.cfg': SLURM,
    'exec gpusnap run --resume --stop-signal USR1,TERM -- mpirun ./solver big.cfg': RECIPE,
    'flux submit -n 4 gpusnap run --resume --stop-signal USR1,TERM -- ./solver big.cfg': RECIPE,
    'flux job kill --signal=USR1 JOB': RECIPE,
    'apptainer exec --nv --bind /scratch,/opt/gpusnap image.sif /opt/gpusnap/bin/gpusnap run --resume '
    '--store /scratch/ck -- ./solver big.cfg': RECIPE,
    'podman run --device nvidia.com/gpu=all --shm-size=5g -v /opt/gpusnap:/opt/gpusnap -v /scratch:/scratch '
    'IMAGE /opt/gpusnap/bin/gpusnap run --resume --store /scratch/ck -- ./solver big.cfg': RECIPE,
    'gpusnap list --store /pfs/run7': 'test_history.py has the checkpoints of a history listed',
    'export GPUSNAP_LEVELS=rs:2+1 GPUSNAP_SSD=/local GPUSNAP_LEVEL_KEY=$HOME/job.key':
        'test_levels.py runs nodes with these settings',
    'export GPUSNAP_PEERS=node1:7400,node2:7400,node3:7400': 'as above',
}
WAITS = (40, 80)
CONFIGURATION = 'steps 120\nheight %%s\nwait_at %s\n' % ','.join(map(str, WAITS))


def text_of(guide):
    with open(os.path.join(harness.SOURCE, guide), encoding='utf-8') as file:
        return file.read()


def documented(guide):
    """Its commands, in order, as a shell gets them."""
    found, block = [], re.sub(r'\\\n\s+', '', text_of(guide))
    for line in re.findall(r'^ {4,}(\S.*)$', block, re.M):
        if COMMAND.match(line):
            found.append(re.sub(r'\s{2,}#.*$', '', line).removeprefix('$ ').strip())
    return found


def output_after(guide, command):
    """The lines of the block below a command with a prompt."""
    lines = text_of(guide).split('\n')
    first = lines.index('    $ ' + command) + 1
    last = next(at for at in range(first, len(lines)) if not lines[at].startswith('    '))
    return [line[4:] for line in lines[first:last]]


class Guide(harness.TestCase):
    """A folder with ./solver, its configuration, and the build; the tool is on PATH."""

    def setUp(self):
        super().setUp()
        # Programs that the guide starts leave what they save in their own folder.
        self.home = tempfile.mkdtemp(prefix='guide-', dir=self.folder)
        os.mkdir(os.path.join(self.home, 'bin'))
        os.symlink(harness.GPUSNAP, os.path.join(self.home, 'bin', 'gpusnap'))
        os.symlink(harness.BUILD, os.path.join(self.home, 'build'))
        shutil.copy(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'guide_solver.py'),
                    self.path('solver'))
        self.write('big.cfg', CONFIGURATION % 0.25)
        self.ran = set()

    def path(self, name):
        return os.path.join(self.home, name)

    def write(self, name, text):
        with open(self.path(name), 'w', encoding='ascii') as file:
            file.write(text)

    def go(self, *steps):
        for step in steps or WAITS:
            self.write('go-%d' % step, '')

    def stay(self):
        for step in WAITS:
            os.remove(self.path('go-%d' % step))

    def surroundings(self, **settings):
        usual = {'GPUSNAP_PFS': None, 'GPUSNAP_JOB': None, 'GPUSNAP_EVERY': 'syncs:30',
                 'GPUSNAP_REPLAY_OUTPUT': None, 'LD_LIBRARY_PATH': harness.SIMCUDA, 'HOME': self.home}
        environment = self.environment(**self.settings(**usual | settings))
        environment['PATH'] = self.path('bin') + ':' + environment['PATH']
        return environment

    def shell(self, command, status=0, **settings):
        done = patience.run(['bash', '-c', command], self.timeout, cwd=self.home,
                            env=self.surroundings(**settings))
        self.assertEqual(done.returncode, status, '%s\n%s\n%s' % (command, done.stdout, done.stderr))
        return done.stdout

    def run_documented(self, guide, command, status=0, replace=(), **settings):
        """Runs a command of the guide; `replace`: what stands there for something of a real machine."""
        self.assertIn(command, documented(guide), 'no longer in ' + guide)
        for old, new in replace:
            self.assertIn(old, command)
            command = command.replace(old, new)
        return self.shell(command, status, **settings)

    def start_documented(self, guide, command, replace=(), **settings):
        self.assertIn(command, documented(guide), 'no longer in ' + guide)
        for old, new in replace:
            command = command.replace(old, new)
        self.working_folder = self.home
        return self.start(['bash', '-c', 'exec ' + command], self.surroundings(**settings))

    def complete_ones(self):
        """The complete checkpoints in the folder that is the default."""
        if not os.path.exists(self.path('gpusnap')):
            return []
        return [each for each in json.loads(self.shell('gpusnap list --json')) if each['state'] == 'complete']

    def wait_for(self, run, step, checkpoints=0):
        """Until the program waits at the step and so many checkpoints are complete."""
        left = patience.Patience(self.timeout)
        while b'waits at %d' % step not in run.output or len(self.complete_ones()) < checkpoints:
            self.assertFalse(run.ended(), run.errors)
            self.assertFalse(left.is_over(), run.errors)

    def undisturbed(self):
        self.go()
        output = self.shell('./solver big.cfg')
        self.stay()
        return output

    def kill_and_restore(self, guide, started, restored, **more):
        expected = self.undisturbed()
        run = self.start_documented(guide, started, **more)
        self.wait_for(run, WAITS[0], checkpoints=1)
        self.assertTrue(run.kill())
        self.shell('gpusnap wait')
        self.go()
        # The line from before the cut is not printed again.
        again = self.run_documented(guide, restored, **more)
        self.assertTrue(expected.endswith(again), again)
        self.assertIn('sum', again)
        self.stay()


class Coverage(unittest.TestCase):
    def test_each_command_is_run(self):
        with open(os.path.abspath(__file__), encoding='utf-8') as file:
            source = re.sub(r"'\s+'", '', file.read())
        for guide in GUIDES:
            for command in documented(guide):
                with self.subTest(guide=guide, command=command):
                    quoted = "'%s', '%s'" % (guide, command.replace("'", "\\'"))
                    named = command in ELSEWHERE or any(
                        line in source for line in (quoted, "'%s'" % command, '"%s"' % command))
                    self.assertTrue(named, 'neither run here nor in ELSEWHERE')

    def test_nothing_else_is_elsewhere(self):
        every = {command for guide in GUIDES for command in documented(guide)}
        self.assertEqual(set(ELSEWHERE) - every, set())

    def test_each_page_has_commands(self):
        """The expression that finds them does."""
        for guide in GUIDES:
            self.assertTrue(documented(guide), guide)


class FirstMinutes(Guide):
    def test_run_and_restore(self):
        self.kill_and_restore('README.md', 'gpusnap run -- ./solver big.cfg',
                              'gpusnap restore -- ./solver big.cfg')

    def test_a_session_looks_like_this(self):
        """The demo's own lines, and the table's columns."""
        with open(os.path.join(harness.SOURCE, 'scripts', 'demo'), encoding='utf-8') as file:
            demo = file.read()
        said = re.findall(r'^ {4}== ([^:\n]+)', text_of('README.md'), re.M)
        self.assertGreater(len(said), 3)
        for line in said:
            self.assertIn('say "%s' % line.replace('${program', ''), demo)
        self.go()
        self.shell('gpusnap run -- ./solver big.cfg', GPUSNAP_JOB='demo')
        shown = self.shell('gpusnap list').split('\n')
        header = next(line for line in text_of('README.md').split('\n') if line.startswith('    ID '))
        self.assertEqual(shown[0].split(), header.split())
        self.assertRegex(shown[1], r'^demo@\d+ +\d+ s +(full|increment on \d+) +\S+ \S+ +\S+ \S+ +\S+ [mu]s +complete$')

    def test_without_the_tool(self):
        expected = self.undisturbed()
        run = self.start_documented(
            'docs/usage.md',
            'LD_PRELOAD=build/interpose/libgpusnap.so GPUSNAP_PFS=/scratch/$USER setarch -R ./solver',
            [('LD_PRELOAD=', 'env LD_PRELOAD='), ('/scratch/$USER', 'gpusnap')], GPUSNAP_JOB='job')
        self.wait_for(run, WAITS[0], checkpoints=1)
        self.assertTrue(run.kill())
        self.shell('gpusnap wait')
        self.go()
        again = self.run_documented(
            'docs/usage.md', 'LD_PRELOAD=... GPUSNAP_RESTORE=latest    setarch -R ./solver',
            replace=[('...', 'build/interpose/libgpusnap.so')], GPUSNAP_JOB='job')
        self.assertTrue(expected.endswith(again), again)
        self.assertIn('sum', again)

    def test_software_gpu(self):
        shutil.copy(self.path('solver'), self.path('program'))
        self.go()
        self.assertIn('sum', self.run_documented('tools/simcuda/README.md',
                                                 'LD_LIBRARY_PATH=build/tools/simcuda ./program'))

    def test_doctor(self):
        """The same checks, one for each line, in the same order."""
        said = self.run_documented('docs/usage.md', 'gpusnap doctor', GPUSNAP_BACKEND='thread',
                                   GPUSNAP_HOST_CACHE='16M').split('\n')
        said = [line for line in said if not line.startswith(' ')]
        for line, written in zip(said, output_after('docs/usage.md', 'gpusnap doctor')[:3]):
            self.assertEqual(line[10:23], written[10:23])
            self.assertRegex(line, r'^(ok|doubtful) ')


class Data(Guide):
    """Of two checkpoints, wave@2 and mutant@2, which differ by one element."""

    def setUp(self):
        super().setUp()
        for job, height in (('wave', 0.25), ('mutant', 0.5)):
            self.write('big.cfg', CONFIGURATION % height + 'calls yes\n')
            run = self.start_documented('README.md', 'gpusnap run -- ./solver big.cfg', GPUSNAP_JOB=job,
                                        GPUSNAP_EVERY='off')
            for step in WAITS:
                self.wait_for(run, step)
                self.shell('gpusnap checkpoint %d' % run.process.pid)
                self.go(step)
            self.finish(run)
            self.stay()
        shown = json.loads(self.shell('gpusnap show wave@2 --json'))['ranks'][0]['ranges']
        self.field = shown[3]

    def test_extract(self):
        page = 'docs/usage.md'
        self.run_documented(page, 'gpusnap extract wave@2')
        self.assertTrue(os.path.exists(self.path('wave-2/index.json')))
        self.run_documented(
            page, 'gpusnap extract wave@2 --range 3 --dtype f32 --shape 512x512 --to height.npy')
        with open(self.path('height.npy'), 'rb') as file:
            data = file.read()
        self.assertIn(b"'shape': (512, 512)", data[:128])
        field = data[10 + struct.unpack('<H', data[8:10])[0]:]
        self.assertEqual(struct.unpack_from('<f', field, 4 * 70001), (0.25,))
        self.assertEqual(field.count(0), len(field) - 2)
        self.run_documented(page, 'gpusnap extract wave@2 --address 0x7f0012345600 --to raw.raw',
                            replace=[('0x7f0012345600', hex(int(self.field['address'], 16) + 0x600))])
        with open(self.path('raw.raw'), 'rb') as file:
            self.assertEqual(file.read(), field)
        site = '%s:%d' % (self.field['call_site'], self.field['ordinal'])
        self.run_documented(page, 'gpusnap extract wave@2 --site 00f1e2d3c4b5a697:2 --dtype f64 --to one.npy',
                            replace=[('00f1e2d3c4b5a697:2', site)])
        with open(self.path('one.npy'), 'rb') as file:
            self.assertTrue(file.read().endswith(field))
        self.run_documented(page, 'gpusnap extract wave@2 --dtype f32 --to all.npz')
        self.assertTrue(os.path.exists(self.path('all.npz')))

    def test_diff(self):
        command = 'gpusnap diff wave@2 mutant@2 --dtype f32'
        said = self.run_documented('docs/usage.md', command, status=1).rstrip('\n').split('\n')
        written = output_after('docs/usage.md', command)
        # Addresses and call sites are the machine's own.
        plain = [[re.sub(r'allocation \w+ #\d+ at 0x\w+', 'allocation', line) for line in lines]
                 for lines in (said, written)]
        self.assertEqual(*plain)

    def test_over_time(self):
        page = 'docs/usage.md'
        self.run_documented(page, 'gpusnap trace wave -o wave.json')
        self.run_documented(page, 'gpusnap trace wave@2')
        for name in ('wave.json', 'wave-2-trace.json'):
            with open(self.path(name), encoding='utf-8') as file:
                self.assertTrue(json.load(file)['traceEvents'])
        self.run_documented(page, 'gpusnap report wave')
        with open(self.path('wave-report.html'), encoding='utf-8') as file:
            self.assertIn('<svg', file.read())


@unittest.skipUnless(shutil.which('mpirun.openmpi'), 'Open MPI is not installed')
class Ranks(Guide):
    def setUp(self):
        super().setUp()
        halo = harness.app('mpi/openmpi/halo')
        if not os.path.exists(halo):
            self.skipTest('the MPI programs are not built')
        os.symlink(shutil.which('mpirun.openmpi'), self.path('bin/mpirun'))
        self.more = {'replace': [('mpirun', 'mpirun --allow-run-as-root --oversubscribe'),
                                 ('./solver big.cfg', halo + ' 60')],
                     'GPUSNAP_EVERY': 'barriers:20', 'OMPI_MCA_mpi_yield_when_idle': '1'}

    def test_run_and_restore(self):
        page = 'docs/usage.md'
        whole = self.run_documented(page, 'gpusnap run -- mpirun -n 4 ./solver big.cfg', **self.more)
        again = self.run_documented(page, 'gpusnap restore -- mpirun -n 4 ./solver big.cfg', **self.more)
        self.assertTrue(again)
        self.assertLessEqual(set(again.split('\n')), set(whole.split('\n')))

    def test_tool_started_by_the_launcher(self):
        before = self.run_documented('docs/usage.md', 'mpirun -n 4 gpusnap run -- ./solver big.cfg', **self.more)
        self.assertTrue(before)
        self.assertTrue(self.complete_ones())


class Building(Guide):
    def run_offload(self, source, name, build, run, restore):
        """The guide's commands for a program with offload regions, which `build` makes of NAME.c."""
        program = 'offload/' + source
        if not os.path.exists(harness.app(program)):
            self.skipTest('gcc makes no code for devices here')
        folder = os.path.join(harness.SOURCE, 'tests', 'apps', 'offload')
        shutil.copy(os.path.join(folder, source + '.c'), self.path(name + '.c'))
        shutil.copy(os.path.join(folder, 'program.h'), self.path('program.h'))
        page = 'docs/usage.md'
        self.run_documented(page, build, replace=[
            (name + '.c', '-foffload-options=-Wa,--no-verify %s.c' % name)])
        steps, every = harness.PROGRAMS[program]
        more = dict(harness.PROGRAM_SETTINGS[program], GPUSNAP_EVERY='syncs:%d' % every,
                    replace=[('./' + name, './%s %s' % (name, steps))])
        whole = self.run_documented(page, run, **more)
        again = self.run_documented(page, restore, **more)
        self.assertTrue(again)
        self.assertTrue(whole.endswith(again), again)

    def test_openacc(self):
        self.run_offload('acc_heat', 'heat', 'gcc -O2 -fopenacc -foffload=nvptx-none heat.c -o heat',
                         'gpusnap run -- ./heat', 'gpusnap restore -- ./heat')

    def test_openmp(self):
        self.run_offload('omp_bodies', 'bodies', 'gcc -O2 -fopenmp -foffload=nvptx-none bodies.c -o bodies',
                         'gpusnap run -- ./bodies', 'gpusnap restore -- ./bodies')

    @unittest.skipUnless(shutil.which('mpicxx'), 'no MPI compiler is installed')
    def test_history(self):
        self.write('adjoint.cpp', '#include <veloc.h>\nint main() {\n'
                   '  if (VELOC_Init_single(0, "veloc.cfg") != VELOC_SUCCESS) return 1;\n'
                   '  return VELOC_Finalize(0) == VELOC_SUCCESS ? 0 : 2;\n}\n')
        self.write('veloc.cfg', 'scratch = %s\npersistent = %s\n' % (self.path('scratch'), self.path('pfs')))
        os.symlink(os.path.join(harness.SOURCE, 'tools'), self.path('tools'))
        self.run_documented(
            'docs/history.md',
            'mpicxx -Itools/veloc adjoint.cpp -o adjoint -Lbuild/tools/veloc -lgpusnap-veloc')
        self.shell('./adjoint', LD_LIBRARY_PATH=harness.SIMCUDA + ':' + self.path('build/tools/veloc'))

    def test_key_of_the_levels(self):
        self.run_documented('docs/levels.md', 'head -c 32 /dev/urandom > ~/job.key && chmod 600 ~/job.key')
        key = os.stat(self.path('job.key'))
        self.assertEqual((key.st_size, key.st_mode & 0o777), (32, 0o600))

    def test_plan(self):
        said = self.run_documented('docs/planner.md', 'gpusnap plan').rstrip('\n').split('\n')
        first, dots, advice, more = output_after('docs/planner.md', 'gpusnap plan')
        self.assertEqual((said[0], dots, more), (first, '...', '...'))
        self.assertIn(advice, said)

    def test_plan_of_ones_own_machine(self):
        block = re.search(r'(?:^ {4}\S.*\n)*^ {4}\[memory\]\n(?:^ {4}\S.*\n)+', text_of('docs/planner.md'), re.M)
        self.write('machine.toml', re.sub(r'^ {4}', '', block.group(0), flags=re.M))
        said = self.shell('gpusnap plan --machine machine.toml --simulate')
        promised = re.search(r'--simulate` gives ([\d.]+%)', text_of('docs/planner.md')).group(1)
        self.assertGreaterEqual(said.count(promised), 2, said)


if __name__ == '__main__':
    harness.main()
