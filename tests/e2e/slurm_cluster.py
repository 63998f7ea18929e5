# SPDX-License-Identifier: Apache-2.0
"""A Slurm of one node for a test: munged, slurmctld and slurmd with a configuration in a folder of their
own, as children of the test. The system's services and configuration are neither used nor changed."""
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time

import patience

NEEDED = ('munged', 'slurmctld', 'slurmd', 'srun', 'sbatch', 'scontrol')
PACKAGES = 'munge slurmctld slurmd slurm-client'

CONFIGURATION = '''ClusterName=test
SlurmctldHost=%(host)s(127.0.0.1)
SlurmctldPort=%(controller_port)d
SlurmdPort=%(node_port)d
AuthType=auth/munge
AuthInfo=socket=%(folder)s/munge.socket,cred_expire=5
CryptoType=crypto/munge
SlurmUser=root
StateSaveLocation=%(folder)s/state
SlurmdSpoolDir=%(folder)s/spool
SlurmctldPidFile=%(folder)s/slurmctld.pid
SlurmdPidFile=%(folder)s/slurmd.pid
PlugStackConfig=%(folder)s/plugstack.conf
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/linear
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=0
InactiveLimit=0
KillWait=600
RequeueExit=76
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0
NodeName=%(host)s NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=low Nodes=%(host)s Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=high Nodes=%(host)s MaxTime=INFINITE State=UP PriorityTier=2 PreemptMode=OFF
'''


def why_not():
    """Why there can be none here; empty: there can."""
    if os.geteuid() != 0:
        return 'slurmd needs root'
    missing = [name for name in NEEDED if shutil.which(name) is None]
    return '%s not installed (packages %s)' % (', '.join(missing), PACKAGES) if missing else ''


def free_ports(count):
    with contextlib.ExitStack() as open_ones:
        sockets = [open_ones.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(('127.0.0.1', 0))
        return [each.getsockname()[1] for each in sockets]


class Cluster:
    seconds = 120

    def __init__(self, folder, plugins=''):
        self.folder = folder
        self.host = socket.gethostname().split('.')[0]
        self.daemons = []
        self.environment = {'SLURM_CONF': os.path.join(folder, 'slurm.conf')}
        for name in ('state', 'spool'):
            os.mkdir(os.path.join(folder, name))
        controller_port, node_port = free_ports(2)
        self.write('slurm.conf', CONFIGURATION % {
            'folder': folder, 'host': self.host, 'controller_port': controller_port,
            'node_port': node_port})
        self.write('plugstack.conf', plugins)
        with open(os.open(os.path.join(folder, 'munge.key'), os.O_CREAT | os.O_WRONLY, 0o400),
                  'wb') as key:
            key.write(os.urandom(128))

    def write(self, name, text):
        with open(os.path.join(self.folder, name), 'w') as file:
            file.write(text)

    def start(self):
        at = lambda name: os.path.join(self.folder, name)  # noqa: E731
        self.start_daemon('munged', '--foreground', '--force', '--key-file', at('munge.key'),
                          '--socket', at('munge.socket'), '--pid-file', at('munged.pid'),
                          '--seed-file', at('munge.seed'), '--log-file', at('munged.log'))
        self.wait_until('munged does not begin', lambda: os.path.exists(at('munge.socket')))
        self.start_daemon('slurmctld', '-D')
        self.start_daemon('slurmd', '-D')
        self.wait_until('the node does not come', lambda: self.states() == ['idle'])

    def start_daemon(self, name, *arguments):
        with open(os.path.join(self.folder, name + '.err'), 'w') as errors:
            self.daemons.append(subprocess.Popen(
                [shutil.which(name), *arguments], cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=errors, stderr=errors, env=dict(os.environ, **self.environment)))

    def call(self, *command):
        """Its output; nothing where it fails, as long as the daemons are not there yet."""
        done = patience.run(list(command), self.seconds, env=dict(os.environ, **self.environment))
        return done.stdout if done.returncode == 0 else ''

    def states(self):
        return sorted(set(self.call('sinfo', '--noheader', '--format=%t').split()))

    def job(self, number):
        """What scontrol says of it: by name."""
        words = self.call('scontrol', '--oneliner', 'show', 'job', str(number)).split()
        return dict(word.split('=', 1) for word in words if '=' in word)

    def wait_until(self, what, happens, seconds=None):
        left = patience.Patience(seconds or self.seconds)
        while not happens():
            if left.is_over():
                raise AssertionError('%s\n%s' % (what, self.told()))
            time.sleep(0.05)

    def told(self):
        text = ''
        for name in ('munged', 'slurmctld', 'slurmd'):
            with contextlib.suppress(FileNotFoundError):
                with open(os.path.join(self.folder, name + '.err'), errors='replace') as file:
                    text += '---- %s\n%s\n' % (name, '\n'.join(file.read().splitlines()[-15:]))
        return text

    def end(self):
        """No job and no process of Slurm's stays."""
        if len(self.daemons) == 3:
            self.call('scancel', '--signal=KILL', '--full', '--user=root')
            self.call('scancel', '--user=root')
            with contextlib.suppress(AssertionError):
                self.wait_until('jobs stay', lambda: not self.call('squeue', '--noheader').strip(), 30)
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                patience.wait(daemon, 30)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.daemons = []
