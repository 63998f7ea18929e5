#!/usr/bin/env python3
"""Three nodes in network namespaces, each with a store, an SSD and a gpusnapd of its own: backends
are killed and cables cut at random moments, a foreign key is refused, and a node is lost with all
that it had. Checkpoints that were listed as protected come back, byte for byte.

Needs root and network namespaces; where these are not to be had it is skipped.
"""
import glob
import json
import os
import shutil
import subprocess
import time
import unittest

import harness
import patience

DISTURBANCES = 60 if harness.SOAK else 6
COMMAND, STEPS, EVERY = 'stencil', '240', 20
PORT = 7400


def ip(*arguments):
    subprocess.run(['ip', *arguments], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.PIPE, text=True)


def why_not():
    """Why there can be no nodes; empty where there can."""
    if os.geteuid() != 0:
        return 'network namespaces need root'
    if shutil.which('ip') is None:
        return 'there is no ip'
    try:
        ip('netns', 'add', 'gpusnap-probe-%d' % os.getpid())
        ip('netns', 'del', 'gpusnap-probe-%d' % os.getpid())
    except subprocess.CalledProcessError as error:
        return 'no network namespace can be made: ' + error.stderr.strip()
    return ''


class Network:
    """A switch and as many nodes at its cables."""

    def __init__(self, nodes):
        self.prefix = 'gs%d' % os.getpid()
        self.switch = self.prefix + '-s'
        self.spaces = ['%s-%d' % (self.prefix, node) for node in range(nodes)]
        ip('netns', 'add', self.switch)
        self._in(self.switch, 'link', 'add', 'bridge', 'type', 'bridge')
        self._in(self.switch, 'link', 'set', 'bridge', 'up')
        for node, space in enumerate(self.spaces):
            ip('netns', 'add', space)
            port = 'port%d' % node
            self._in(self.switch, 'link', 'add', port, 'type', 'veth', 'peer', 'name', 'eth0',
                     'netns', space)
            self._in(self.switch, 'link', 'set', port, 'master', 'bridge', 'up')
            self._in(space, 'addr', 'add', self.address(node) + '/24', 'dev', 'eth0')
            self._in(space, 'link', 'set', 'eth0', 'up')
            self._in(space, 'link', 'set', 'lo', 'up')

    @staticmethod
    def _in(space, *arguments):
        ip('-n', space, *arguments)

    @staticmethod
    def address(node):
        return '10.77.0.%d' % (node + 1)

    def cut(self, node):
        self._in(self.switch, 'link', 'set', 'port%d' % node, 'down')

    def mend(self, node):
        self._in(self.switch, 'link', 'set', 'port%d' % node, 'up')

    def remove(self):
        for space in [self.switch, *self.spaces]:
            subprocess.run(['ip', 'netns', 'del', space], stderr=subprocess.DEVNULL, check=False)


@unittest.skipIf(why_not(), why_not())
class Levels(harness.TestCase):

    NODES = 3

    def setUp(self):
        super().setUp()
        self.network = Network(self.NODES)
        self.addCleanup(self.network.remove)
        self.addCleanup(self.end_backends)
        self.started = []
        self.lives = [0] * self.NODES  # of each node: which machine it is
        self.key = self.make_key('key', b'k' * 32)
        self.scheme = 'rs:2+1'
        self.command = [harness.app(COMMAND), STEPS]

    def make_key(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, 'wb') as file:
            file.write(content)
        os.chmod(path, 0o600)
        return path

    # ---- nodes ----

    def folder_of(self, node):
        folder = os.path.join(self.folder, 'node%d' % node)
        os.makedirs(os.path.join(folder, 'ssd'), exist_ok=True)
        return folder

    def on(self, node, **settings):
        folder = self.folder_of(node)
        peers = ','.join('%s:%d' % (self.network.address(each), PORT)
                         for each in range(self.NODES))
        return self.environment(**self.settings(**{
            'GPUSNAP_PFS': os.path.join(folder, 'store'), 'GPUSNAP_JOB': 'job%d' % node,
            'GPUSNAP_SSD': os.path.join(folder, 'ssd'), 'XDG_RUNTIME_DIR': folder,
            'GPUSNAP_NODE': self.name_of(node), 'GPUSNAP_HOST_CACHE': '32M',
            'GPUSNAP_KEEP': 1000000, 'GPUSNAP_LEVELS': self.scheme, 'GPUSNAP_PEERS': peers,
            'GPUSNAP_LEVEL_KEY': self.key, **settings}))

    def inside(self, node, command):
        return ['ip', 'netns', 'exec', self.network.spaces[node], *command]

    def start_backend(self, node, **settings):
        log = open(os.path.join(self.folder_of(node), 'backend.log'), 'a', encoding='utf-8')
        with log:
            self.started.append(subprocess.Popen(self.inside(node, [harness.BACKEND]),
                                                 env=self.on(node, **settings),
                                                 stdout=log, stderr=log))

    def name_of(self, node):
        return '%s-%d' % (self.folder_of(node), self.lives[node])

    def kill_backend(self, node):
        self.backends.kill(self.name_of(node))

    def end_backends(self):
        for node in range(self.NODES):
            self.kill_backend(node)
        for process in self.started:
            patience.wait(process, self.timeout)

    def said_by_backend(self, node):
        text = ''
        for name in ('backend.log', os.path.join('gpusnap', 'gpusnapd.log')):
            path = os.path.join(self.folder_of(node), name)
            if os.path.exists(path):
                with open(path, encoding='utf-8') as file:
                    text += file.read()
        return text

    def lose(self, node):
        """All that the node had, and its memory."""
        self.kill_backend(node)
        shutil.rmtree(os.path.join(self.folder_of(node), 'ssd'))
        shutil.rmtree(os.path.join(self.folder_of(node), 'store'), ignore_errors=True)
        self.lives[node] += 1

    def tool_on(self, node, *arguments, **settings):
        return patience.run(self.inside(node, [harness.GPUSNAP, *arguments]), self.timeout,
                            cwd=self.folder, env=self.on(node, **settings))

    def listed(self, node, **settings):
        shown = self.tool_on(node, 'list', '--json', **settings)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        return json.loads(shown.stdout)

    def complete_on(self, node):
        return {each['id'] for each in self.listed(node) if each['state'] == 'complete'}

    def protected(self, node):
        return {each['id'] for each in self.listed(node) if each['protection'] == self.scheme}

    def wait_until(self, what, happens, pause=0.05):
        left = patience.Patience(self.timeout)
        while not happens():
            said = [harness.tail(self.said_by_backend(node)) for node in range(self.NODES)]
            self.assertFalse(left.is_over(), '%s; backends said: %s' % (what, said))
            time.sleep(pause)

    def start_program(self, node, **settings):
        return self.start(self.inside(node, [harness.GPUSNAP, 'run', '--sim', '--', *self.command]),
                          self.on(node, GPUSNAP_EVERY='syncs:%d' % EVERY, **settings))

    def restore_on(self, node, checkpoint):
        return self.start(self.inside(node, [harness.GPUSNAP, 'restore', '--sim', '--id', checkpoint,
                                             '--', *self.command]), self.on(node))

    def brought_back(self, node, checkpoint):
        """Without going on from it: another program is refused, after its files are there."""
        refused = self.tool_on(node, 'restore', '--sim', '--id', checkpoint, '--', '/bin/true')
        self.assertEqual(refused.returncode, harness.OTHER_PROGRAM, refused.stderr)
        verified = self.tool_on(node, 'verify', checkpoint)
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)

    # ---- tests ----

    def test_what_was_protected_survives_kills_cuts_and_a_lost_node(self):
        for node in range(self.NODES):
            self.start_backend(node)
        reference = self.reference(self.command)
        program = self.start_program(0)
        safe = set()
        for _ in range(DISTURBANCES):
            self.disturb()
            safe |= self.protected(0)
            if program.ended():  # the same job goes on with another run
                self.finish(program)
                program = self.start_program(0)
        self.finish(program)
        for node in range(self.NODES):
            self.start_backend(node)  # the first one of a node goes on, the others end
        self.wait_until('nothing is protected', lambda: self.protected(0))
        # Each noted part is protected in the end, whatever was killed.
        complete = self.complete_on(0)
        self.wait_until('not all is protected', lambda: self.protected(0) >= complete, 0.2)
        safe |= self.protected(0)
        before = harness.fingerprint(os.path.join(self.folder_of(0), 'store'))
        self.lose(0)
        lost = {each['id']: each for each in self.listed(0)}
        self.assertEqual(set(lost), safe)
        self.assertTrue(all(each['level'] == 'nodes' for each in lost.values()), lost)
        newest = max(safe, key=lambda each: int(each.rpartition('@')[2]))
        for checkpoint in self.random.sample(sorted(safe - {newest}), min(2, len(safe) - 1)):
            self.brought_back(0, checkpoint)
        restored = self.restore_on(0, newest)
        self.finish(restored)
        self.assert_same_output(restored, reference)
        # The new machine gets its shards again, from the others.
        self.wait_until('shards of the lost node stay lost', lambda: safe <= self.protected(0), 0.2)
        after = harness.fingerprint(os.path.join(self.folder_of(0), 'store'))
        for path, content in after.items():
            if path in before and not path.endswith('.journal'):
                self.assertEqual(content, before[path], path)

    def disturb(self):
        """One node's backend is killed, or its cable cut for a moment, at some moment."""
        time.sleep(self.random.uniform(0, 0.3))
        node = self.random.randrange(self.NODES)
        if self.random.random() < 0.5:
            self.kill_backend(node)
            self.start_backend(node)
        else:
            self.network.cut(node)
            time.sleep(self.random.uniform(0, 0.5))
            self.network.mend(node)

    def test_partners_prune_and_foreign_keys(self):
        self.scheme = 'partner'
        for node in range(self.NODES):
            self.start_backend(node)
        while len(self.complete_on(0)) < 2:  # on a busy machine a run may have one
            self.finish(self.start_program(0, GPUSNAP_CHAIN=0))
        # All of them: what is protected later is pruned later.
        self.wait_until('not all is protected', lambda: self.protected(0) >= self.complete_on(0))
        # Another job's key: refused, by name, on both sides.
        foreign = self.make_key('foreign', b'f' * 32)
        shown = self.tool_on(0, 'list', '--json', GPUSNAP_LEVEL_KEY=foreign)
        self.assertIn('another job\'s key', shown.stderr)
        self.assertFalse([each for each in json.loads(shown.stdout)
                          if each['protection'] == self.scheme])
        self.wait_until('nobody said that a key was refused',
                        lambda: 'another job\'s key' in self.said_by_backend(1))
        os.chmod(foreign, 0o644)
        shown = self.tool_on(0, 'list', GPUSNAP_LEVEL_KEY=foreign)
        self.assertIn('chmod 600', shown.stderr)
        # A part that the store has pruned has no shards.
        pruned = self.tool_on(0, 'prune', '--keep', '1')
        self.assertEqual(pruned.returncode, 0, pruned.stderr)
        kept = {each['epoch'] for each in self.listed(0)}
        self.assertEqual(len(kept), 1, pruned.stdout + pruned.stderr)
        shards = glob.glob(os.path.join(self.folder, 'node*', 'ssd', '*', 'shards', '*', 'job0',
                                        'e*', '*.shard'))
        self.assertEqual({int(path.split('/')[-2][1:]) for path in shards}, kept)


if __name__ == '__main__':
    harness.main()
