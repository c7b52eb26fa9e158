"""What the tools that train for a page share: running `trident train`, keeping what came out, and
drawing lines.

TRIDENT names the command (default: build/bin/trident), TRIDENT_DATA the folder of the data sets
(default: ../shared/data); DATA in the words of a run stands for it.
"""
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULTS = os.path.join(ROOT, "docs", "results")
TRIDENT = os.environ.get("TRIDENT", os.path.join("build", "bin", "trident"))
DATA = os.environ.get("TRIDENT_DATA", os.path.join("..", "shared", "data"))
COLOURS = ("#1b6ca8", "#d1495b", "#2e933c", "#8a5a9e")
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 360, 60, 20, 90, 50
LINE_HEIGHT = 13


class Runs:
    """Named runs, each the words behind `trident train`, and their results in build/FOLDER."""

    def __init__(self, folder, words):
        self.folder = os.path.join(ROOT, "build", folder)
        self.words = words
        os.makedirs(self.folder, exist_ok=True)

    def path(self, name):
        return os.path.join(self.folder, name + ".json")

    def is_done(self, name):
        return os.path.exists(self.path(name))

    def missing(self):
        return [name for name in self.words if not self.is_done(name)]

    def command(self, name):
        return "trident train " + self.words[name].replace("DATA", "../shared/data")

    def kept(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)

    def run(self, name):
        words = self.words[name].replace("DATA", DATA).split()
        done = subprocess.run([TRIDENT, "train", *words, "--json"], cwd=ROOT, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode != 0:
            sys.exit(f"{name}: exit {done.returncode}\n{done.stderr}")
        result = json.loads(done.stdout)
        result["tests"] = [test["test_accuracy"] for test in result["tests"]]
        with open(self.path(name) + ".new", "w", encoding="utf-8") as file:
            json.dump(result, file)
        os.replace(self.path(name) + ".new", self.path(name))
        print(f"{name}: {result['test_accuracy']:.4f} in {result['wall_s']:.0f} s", flush=True)


def draw(lines, x_axis, y_axis):
    """An SVG picture of lines: {label: [(x, y), ...]}. Of an axis: `label`, `low`, `high`, `ticks`
    and `at`, which says where between 0 and 1 a value is."""
    def x(value):
        return LEFT + (WIDTH - LEFT - RIGHT) * x_axis.at(value)
    def y(value):
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - y_axis.at(value))
    right = x(x_axis.high)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for tick in y_axis.ticks:
        out += [f'<line x1="{LEFT}" x2="{right:.1f}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" '
                'stroke="#ddd"/>',
                f'<text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick}</text>']
    for tick in x_axis.ticks:
        out.append(f'<text x="{x(tick):.1f}" y="{HEIGHT - 28}" text-anchor="middle">{tick}</text>')
    out += [f'<text x="{(LEFT + right) / 2:.0f}" y="{HEIGHT - 8}" '
            f'text-anchor="middle">{x_axis.label}</text>',
            f'<text x="14" y="{HEIGHT / 2:.0f}" transform="rotate(-90 14 {HEIGHT / 2:.0f})" '
            f'text-anchor="middle">{y_axis.label}</text>']
    ends = []
    for colour, (label, points) in zip(COLOURS, lines.items()):
        places = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in points)
        at = y(points[-1][1]) + 4
        while any(abs(at - other) < LINE_HEIGHT for other in ends):
            at += LINE_HEIGHT
        ends.append(at)
        out += [f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2"/>',
                f'<text x="{right + 6:.1f}" y="{at:.1f}" fill="{colour}">{label}</text>']
    return "\n".join(out + ["</svg>"]) + "\n"


class Axis:
    """From low to high, in even steps or (scale = math.log) in even factors."""

    def __init__(self, label, low, high, ticks, scale=float):
        self.label, self.low, self.high, self.ticks, self.scale = label, low, high, ticks, scale

    def at(self, value):
        value = min(max(value, self.low), self.high)
        low = self.scale(self.low)
        return (self.scale(value) - low) / (self.scale(self.high) - low)


def write(name, text):
    with open(os.path.join(RESULTS, name), "w", encoding="utf-8") as file:
        file.write(text)


def main(tool, runs, page, usage):
    """The command line of such a tool: run [NAME...], page, or nothing for both."""
    args = sys.argv[1:]
    if args == ["page"]:
        page()
    elif not args or args[0] == "run":
        for name in args[1:] or runs.missing():
            if name not in runs.words:
                print(f"{tool}: no run '{name}'; there are {', '.join(runs.words)}",
                      file=sys.stderr)
                sys.exit(2)
            runs.run(name)
        if not args:
            page()
    else:
        print(usage.split("\n\n", 1)[1].strip(), file=sys.stderr)
        sys.exit(2)
