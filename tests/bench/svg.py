"""Charts as SVG text: bars in groups, and lines. Nothing but what benchmarks need."""

import math
from xml.sax.saxutils import escape

COLOURS = ['#4e79a7', '#f28e2b', '#59a14f', '#e15759', '#76b7b2', '#edc948', '#b07aa1', '#9c755f',
           '#bab0ac', '#ff9da7', '#2f4b7c']
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 40, 46


def text(x, y, words, anchor='middle', size=12, more=''):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
            f'font-family="sans-serif" {more}>{escape(str(words))}</text>')


def nice_top(value):
    """The least of 1, 2, 2.5, 5 times a power of ten that is not below the value."""
    if value <= 0:
        return 1
    power = 10 ** math.floor(math.log10(value))
    return next(f * power for f in (1, 2, 2.5, 5, 10) if f * power >= value * 0.999)


def short(value):
    """Two digits, or all that are before the point."""
    return f'{value:.0f}' if abs(value) >= 99.5 else f'{value:.2g}'


class Panel:
    """One chart with its own axes; a figure has some of them, one below the other."""

    def __init__(self, title, label, width=960, height=300, top=None, logarithmic=False):
        """A logarithmic axis begins at 1: what is less has no bar."""
        self.title, self.label = title, label
        self.width, self.height, self.top = width, height, top
        self.logarithmic = logarithmic
        self.parts = []

    def part(self, value, top):
        """How far up the axis the value is, from 0 to 1."""
        if not self.logarithmic:
            return min(max(value, 0) / top, 1)
        return min(math.log(max(value, 1)) / math.log(top), 1)

    def ticks(self, top):
        if not self.logarithmic:
            return [top * i / 5 for i in range(6)]
        return [10 ** i for i in range(round(math.log10(top)) + 1)]

    def axes(self, highest):
        top = self.top or nice_top(highest)
        if self.logarithmic:
            top = 10 ** max(math.ceil(math.log10(max(highest, 1)) - 1e-9), 1)
        plot = self.height - TOP - BOTTOM
        self.parts.append(text(LEFT, 18, self.title, 'start', 14, 'font-weight="bold"'))
        self.parts.append(text(14, TOP + plot / 2, self.label, size=11,
                               more=f'transform="rotate(-90 14 {TOP + plot / 2:.1f})"'))
        for tick in self.ticks(top):
            y = TOP + plot * (1 - self.part(tick, top))
            self.parts.append(f'<line x1="{LEFT}" x2="{self.width - RIGHT}" y1="{y:.1f}" '
                              f'y2="{y:.1f}" stroke="#ddd"/>')
            self.parts.append(text(LEFT - 6, y + 4, f'{tick:.4g}', 'end', 11))
        return top, plot

    def legend(self, names, dashed=None):
        x = LEFT
        for i, name in enumerate(names):
            colour = COLOURS[i % len(COLOURS)]
            y = self.height - 12
            self.parts.append(f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{colour}"/>')
            self.parts.append(text(x + 14, y, name, 'start', 11))
            x += 24 + 7 * len(str(name))
        if dashed:
            y = self.height - 16
            self.parts.append(f'<line x1="{x}" x2="{x + 24}" y1="{y}" y2="{y}" stroke="black" '
                              'stroke-dasharray="5 3"/>')
            self.parts.append(text(x + 29, y + 4, dashed, 'start', 11))

    def bars(self, groups, series, values, ranges=None, marks=None):
        """values[group][series]: a number, or None where there is none. ranges[group][series]: the
        least and the greatest, drawn as a whisker. marks[group]: a published value, or None."""
        known = [v for row in values for v in row if v is not None]
        known += [high for row in ranges or [] for _, high in row]
        known += [mark for mark in marks or [] if mark is not None]
        top, plot = self.axes(max(known, default=1))
        wide = (self.width - LEFT - RIGHT) / len(groups)
        bar = wide * 0.85 / len(series)
        for g, group in enumerate(groups):
            left = LEFT + g * wide + wide * 0.075
            labels = []
            for s in range(len(series)):
                value = values[g][s]
                if value is None:
                    continue
                high = plot * self.part(value, top)
                x, y = left + s * bar, TOP + plot - high
                self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{bar * 0.9:.1f}" '
                                  f'height="{high:.1f}" fill="{COLOURS[s % len(COLOURS)]}"/>')
                if ranges:
                    y = self.whisker(x + bar * 0.45, ranges[g][s], top, plot)
                labels.append((x + bar * 0.45, y, short(value)))
            self.parts.append(text(left + wide * 0.425, TOP + plot + 15, group))
            if marks and marks[g] is not None:
                self.mark(left, wide * 0.85, marks[g], top, plot)
            for x, y, label in labels:
                if marks:  # which may cross it
                    half = 2.5 * len(label) + 1
                    self.parts.append(f'<rect x="{x - half:.1f}" y="{y - 10:.1f}" width="{2 * half:.1f}" '
                                      'height="8" fill="white"/>')
                self.parts.append(text(x, y - 3, label, size=8))
        self.legend(series, 'published' if marks else None)
        return self

    def whisker(self, x, ends, top, plot):
        """Where its upper end is."""
        low, high = (TOP + plot * (1 - self.part(end, top)) for end in ends)
        if low - high > 0.5:
            self.parts.append(f'<path d="M{x:.1f} {low:.1f}V{high:.1f}M{x - 3:.1f} {low:.1f}h6'
                              f'M{x - 3:.1f} {high:.1f}h6" stroke="#333" fill="none"/>')
        return high

    def mark(self, x, wide, value, top, plot):
        y = TOP + plot * (1 - self.part(value, top))
        self.parts.append(f'<line x1="{x:.1f}" x2="{x + wide:.1f}" y1="{y:.1f}" y2="{y:.1f}" '
                          'stroke="black" stroke-dasharray="5 3"/>')
        self.parts.append(text(x + wide + 2, y + 3, short(value), 'start', 8))

    def lines(self, series, points, label):
        """points[series]: a list of (x, y)."""
        most = max((y for line in points for _, y in line), default=1)
        right = max((x for line in points for x, _ in line), default=1)
        top, plot = self.axes(most)
        wide = self.width - LEFT - RIGHT
        for s, line in enumerate(points):
            at = ' '.join(f'{LEFT + wide * x / right:.1f},'
                          f'{TOP + plot * (1 - self.part(y, top)):.1f}' for x, y in line)
            colour = COLOURS[s % len(COLOURS)]
            self.parts.append(f'<polyline points="{at}" fill="none" stroke="{colour}" '
                              'stroke-width="1.5"/>')
            for x, y in line if len(line) <= 64 else []:
                self.parts.append(f'<circle cx="{LEFT + wide * x / right:.1f}" '
                                  f'cy="{TOP + plot * (1 - self.part(y, top)):.1f}" r="2" '
                                  f'fill="{colour}"/>')
        self.parts.append(text(self.width - RIGHT, TOP + plot + 15, f'{label}: {right}', 'end', 11))
        self.legend(series)
        return self


def figure(panels):
    width = max(panel.width for panel in panels)
    height = sum(panel.height for panel in panels)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
           f'viewBox="0 0 {width} {height}">', f'<rect width="{width}" height="{height}" fill="white"/>']
    y = 0
    for panel in panels:
        out += [f'<g transform="translate(0 {y})">', *panel.parts, '</g>']
        y += panel.height
    return '\n'.join([*out, '</svg>', ''])
