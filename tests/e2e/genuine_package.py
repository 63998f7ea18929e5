"""NVIDIA's driver library, as the distribution's non-free package has it, unpacked into a folder.

apt fetches it from the mirrors that the machine is set up for, and verifies it. The system is only read:
sources, package lists and packages of ours lie in the folder, and nothing is installed. Once unpacked, it
is taken from the folder and no network is needed.
"""
import contextlib
import fcntl
import os
import pathlib
import shutil
import subprocess

COMPONENT = 'non-free'
# The key that the distribution signs with, for sources that name it instead of trusting every key.
KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'
SECONDS = 300  # that one command of apt may take


class NotToBeHad(Exception):
    """Says why there is no such package here."""


def _run(command, folder):
    environment = dict(os.environ, LC_ALL='C', DEBIAN_FRONTEND='noninteractive')
    try:
        return subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors='replace', timeout=SECONDS,
                              check=False)
    except OSError as error:
        raise NotToBeHad('%s: %s' % (command[0], error.strerror)) from None
    except subprocess.TimeoutExpired:
        raise NotToBeHad('%s had not ended after %d s' % (command[0], SECONDS)) from None


def _complaint(done):
    """The first error of apt, else its first warning."""
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith('E:')]
    return (errors + lines + ['no reason given'])[0]


def _sources():
    """A line for each mirror and release of the distribution that the machine is set up for."""
    listed = _run(['apt-get', 'indextargets', '--format', '$(REPO_URI) $(RELEASE) $(ORIGIN)',
                   'Created-By: Packages', 'Component: main'], '/')
    signed = '[signed-by=%s] ' % KEYRING if os.path.exists(KEYRING) else ''
    lines = set()
    for line in listed.stdout.splitlines():
        address, release, *origin = line.split()
        # Before the first update nobody has said whose packages these are.
        if origin[:1] in (['Debian'], ['$(ORIGIN)'], []):
            lines.add('deb %s%s %s %s\n' % (signed, address, release, COMPONENT))
    if not lines:
        raise NotToBeHad('no mirror of Debian is among the sources of apt')
    return sorted(lines)


def _set_up(folder):
    """A configuration of apt that leaves the system's own state alone: where it is."""
    for part in ('lists/partial', 'cache/archives/partial'):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / 'sources.list').write_text(''.join(_sources()))
    configuration = folder / 'apt.conf'
    # The system's own hooks tidy the system.
    configuration.write_text(f'''
        #clear APT::Update;
        APT::Sandbox::User "";
        Acquire::Languages "none";
        Acquire::Retries "1";
        Dir::Etc::SourceList "{folder}/sources.list";
        Dir::Etc::SourceParts "-";
        Dir::State::Lists "{folder}/lists";
        Dir::Cache "{folder}/cache";
        ''')
    return configuration


def _download(package, folder, configuration):
    """Fetches the package into the folder: its file."""
    apt = ['apt-get', '-c', str(configuration)]
    updated = _run(apt + ['update'], folder)
    fetched = _run(apt + ['download', package], folder)
    found = list(folder.glob('*.deb'))
    if fetched.returncode != 0 or len(found) != 1:
        # A list that cannot be read is a warning, and then there is no such package.
        raise NotToBeHad('apt cannot fetch %s: %s' % (
            package, _complaint(updated if updated.stderr.strip() else fetched)))
    return found[0]


def _unpack(package, folder, configuration):
    """Fetches the package and unpacks it below `folder`. Its version."""
    packages = folder / 'packages'
    packages.mkdir(parents=True)
    file = _download(package, packages, configuration)
    for command in (['dpkg-deb', '-x', str(file), str(folder)],
                    ['dpkg-deb', '-f', str(file), 'Version']):
        done = _run(command, folder)
        if done.returncode != 0:
            raise NotToBeHad('%s cannot be unpacked: %s' % (file.name, _complaint(done)))
    shutil.rmtree(packages)
    return done.stdout.strip()


@contextlib.contextmanager
def _locked(folder):
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / 'lock', 'w') as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def fetch(package, folder, say):
    """Where the package is unpacked, and its version. Raises NotToBeHad."""
    folder = pathlib.Path(folder).resolve()
    unpacked = folder / package
    with _locked(folder):
        if not (unpacked / 'version').exists():
            say('asking apt for %s in %s' % (package, COMPONENT))
            configuration = _set_up(folder)
            shutil.rmtree(unpacked, ignore_errors=True)
            version = _unpack(package, unpacked, configuration)
            (unpacked / 'version').write_text(version)  # last: it is complete
            say('unpacked %s %s into %s' % (package, version, unpacked))
        return unpacked, (unpacked / 'version').read_text()


def find_library(unpacked, name):
    """The folder of a library in an unpacked package."""
    for path in sorted(pathlib.Path(unpacked).rglob(name)):
        return str(path.parent)
    raise FileNotFoundError('%s is not in %s' % (name, unpacked))
