#!/usr/bin/env python3
"""Computes again what a run of `arrival` computed, from what its ranks say they depended on.

  check_arrival.py FOLDER

FOLDER has the files out.<rank>. Says "consistent", or names the first wrong line and exits with 1. A
file that was cut off is wrong too.
"""
import os
import sys

MASK = (1 << 64) - 1
FACTOR = 6364136223846793005
SPREAD = 0x9e3779b97f4a7c15
CELLS = 64
FIRST_STATE = 0x5eed
WAYS = ['recv', 'probe', 'iprobe', 'waitall', 'waitany', 'waitsome', 'testany', 'testsome', 'test']
POLLING = {'iprobe', 'testany', 'testsome', 'test'}
GROUPING = {'waitsome', 'testsome'}


class Wrong(Exception):
    pass


class Lines:
    """A rank's file, read from the start to the end."""

    def __init__(self, folder, rank):
        self.name = 'out.%d' % rank
        with open(os.path.join(folder, self.name)) as file:
            self.lines = file.read().split('\n')
        self.at = -1

    def next(self):
        self.at += 1
        return self.lines[self.at] if self.at < len(self.lines) else ''

    def wrong(self, why):
        line = self.lines[self.at] if self.at < len(self.lines) else ''
        raise Wrong('%s:%d: %s: %r' % (self.name, self.at + 1, why, line))

    def expect(self, text):
        if self.next() != text:
            self.wrong('expected %r' % text)

    def ended(self):
        """Whether the run ends here: then nothing may follow."""
        if self.lines[self.at + 1:] == ['ok', '']:
            return True
        if self.lines[self.at + 1:self.at + 2] == ['ok']:
            self.at += 2
            self.wrong('expected the end of the file')
        return False


def fold(state, value):
    return (state * FACTOR + value) & MASK


class Worker:
    def __init__(self, rank, lines):
        self.lines = lines
        self.cells = [(rank + 1) * SPREAD * (at + 1) & MASK for at in range(CELLS)]

    def value(self, step, state):
        """Returns the value that the worker sends in this step."""
        words = self.lines.next().split(' ')
        if len(words) != 6 or words[:3] != ['step', str(step), 'wtime'] or words[4] != 'value':
            self.lines.wrong('expected what the worker sent in step %d' % step)
        time = number(self.lines, words[3])
        self.cells = [((cell ^ state) * FACTOR + time + at) & MASK
                      for at, cell in enumerate(self.cells)]
        value = sum(self.cells) & MASK
        if words[5] != '0x%016x' % value:
            self.lines.wrong('the value must be 0x%016x' % value)
        return value


def number(lines, word):
    try:
        return int(word, 0)
    except ValueError:
        return lines.wrong('%r is no number' % word)


def fields(lines, words):
    """Names, each followed by its numbers."""
    found, numbers = {}, None
    for word in words:
        if word in ('order', 'groups', 'polls', 'wtime') and word not in found:
            numbers = found[word] = []
        elif numbers is None:
            lines.wrong('%r is not expected' % word)
        else:
            numbers.append(number(lines, word))
    return found


def arrivals(lines, step, values, state):
    """The state that the master came to, from its line of this step."""
    words = lines.next().split(' ')
    way = WAYS[step % len(WAYS)]
    if words[:3] != ['step', str(step), way]:
        lines.wrong('expected what the master received in step %d by %s' % (step, way))
    found = fields(lines, words[3:])
    if sorted(found) != ['groups', 'order', 'polls', 'wtime']:
        lines.wrong('something is missing')
    if sorted(found['order']) != sorted(values):
        lines.wrong('the values must come from %s' % sorted(values))
    if len(found['polls']) != 1 or len(found['wtime']) != 1:
        lines.wrong('expected one number of polls and one time')
    if found['polls'][0] != 0 and way not in POLLING:
        lines.wrong('%s does not poll' % way)
    if sum(found['groups']) != (len(values) if way in GROUPING else 0):
        lines.wrong('the groups do not fit')
    for source in found['order']:
        state = fold(state, values[source])
    for other in found['groups'] + found['polls'] + found['wtime']:
        state = fold(state, other)
    return state


def check(folder):
    ranks = sorted(int(name[4:]) for name in os.listdir(folder)
                   if name.startswith('out.') and name[4:].isdigit())
    if not ranks or ranks != list(range(len(ranks))):
        raise Wrong('%s: expected out.0, out.1 and so on' % folder)
    files = [Lines(folder, rank) for rank in ranks]
    workers = {rank: Worker(rank, files[rank]) for rank in ranks[1:] or ranks}
    state = FIRST_STATE
    step = 0
    while not files[0].ended():
        values = {rank: worker.value(step, state) for rank, worker in workers.items()}
        state = arrivals(files[0], step, values, state)
        for lines in files:
            lines.expect('step %d state 0x%016x' % (step, state))
        step += 1
    for lines in files:
        if not lines.ended():
            lines.next()
            lines.wrong('expected the end after step %d' % (step - 1))
    if step == 0:
        raise Wrong('out.0: has no step')


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    try:
        check(sys.argv[1])
    except (Wrong, OSError) as error:
        print(error)
        sys.exit(1)
    print('consistent')


if __name__ == '__main__':
    main()
