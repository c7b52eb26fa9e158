"""Jobs of real processes for the tests beside this file: started by `trident run`, watched line by
line, waited for by condition and never by time."""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

SECONDS = 60                                     # longer than anything here takes, anywhere
FEW = os.environ.get("TRIDENT_JOBS_FEW") == "1"  # sanitizers: fewer and smaller
FOLDER = ""
OURS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

# A shell lets what it starts in the background ignore Ctrl-C, and with it what that starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def program(name):
    return os.path.join(FOLDER, name)


def environment(**more):
    """Ours, without what a launcher of this test may have set; who fails leaves no file behind,
    unless told where."""
    return {name: value for name, value in os.environ.items()
            if name not in OURS and not name.startswith("TRIDENT_")} | {"TRIDENT_FLIGHT": "off"} | more


def free_port():
    """One whose next one is free, too: rank 0 listens there when torchrun has the first."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
                return port
            except (OSError, OverflowError):
                pass


def until(is_so, what):
    """Waits for a condition; what it gives back when it holds."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        found = is_so()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"waited in vain for {what() if callable(what) else what}")


class Job:
    """Processes under one command. Lines are [(who, text)], who "0", "s1" or "" for the command."""

    def __init__(self, args, program_args, **more):
        self.lines = {"out": [], "err": []}
        self.process = subprocess.Popen(
            [program("trident"), "run"] + [str(a) for a in args] + ["--"] +
            [str(a) for a in program_args], env=environment(**more), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.readers = [threading.Thread(target=self.read, args=(pipe, name), daemon=True)
                        for pipe, name in ((self.process.stdout, "out"),
                                           (self.process.stderr, "err"))]
        for reader in self.readers:
            reader.start()

    def read(self, pipe, name):
        for line in pipe:
            match = re.match(r"\[(s?\d+)\] (.*)", line.rstrip("\n"))
            self.lines[name].append(match.groups() if match else ("", line.rstrip("\n")))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            for pid in self.children().values():
                send(pid, signal.SIGCONT)
            self.process.terminate()
        try:
            self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def end(self):
        """The exit code, when all has been read."""
        try:
            code = self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"does not end:\n{self.text()}") from None
        for reader in self.readers:
            reader.join()
        return code

    def text(self):
        return "\n".join(f"  {name} [{who}] {text}" for name in ("out", "err")
                         for who, text in self.lines[name])

    def err(self, who=None):
        return "\n".join(text for w, text in self.lines["err"] if who in (None, w))

    def results(self):
        return [json.loads(text) for _, text in self.lines["out"] if text.startswith("{")]

    def pids(self):
        """Of the ranks that have ended an iteration, by rank."""
        found = (re.match(r"rank (\d+) pid (\d+) ", text) for _, text in list(self.lines["out"]))
        return {int(m[1]): int(m[2]) for m in found if m}

    def clock(self, rank):
        found = [re.match(rf"rank {rank} pid \d+ clock (\d+)", text)
                 for _, text in list(self.lines["out"])]
        return max([int(m[1]) for m in found if m], default=0)

    def wait_clock(self, ranks, clock):
        until(lambda: self.process.poll() is not None or
              all(self.clock(r) >= clock for r in ranks),
              lambda: f"clock {clock} of {list(ranks)}:\n{self.text()}")
        assert all(self.clock(r) >= clock for r in ranks), self.text()

    def children(self):
        """Processes of the job by TRIDENT_NODE of servers ("s2") and TRIDENT_RANK of workers."""
        found = {}
        for pid in children_of(self.process.pid):
            values = dict(entry.split("=", 1) for entry in
                          read_file(f"/proc/{pid}/environ").split("\0") if "=" in entry)
            if "TRIDENT_RANK" in values:
                found[values["TRIDENT_RANK"]] = pid
            elif "TRIDENT_NODE" in values:
                found["s" + values["TRIDENT_NODE"]] = pid
        return found


def read_file(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def children_of(pid):
    return [int(child) for child in read_file(f"/proc/{pid}/task/{pid}/children").split()]


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Gate:
    """A file that the processes of a job wait for."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "gate")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.open()
        self.folder.cleanup()

    def open(self):
        with open(self.path, "w", encoding="utf-8"):
            pass


def one(values, what):
    """The value that all of them have."""
    assert len(set(values)) == 1, f"{what}: {values}"
    return values[0]


def near(a, b, part):
    assert abs(a - b) <= part * abs(b), f"{a} is not near {b}"


def alone(args, **more):
    """Exit code, stdout and stderr of one process."""
    done = subprocess.run([str(a) for a in args], env=environment(**more), timeout=SECONDS,
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def run_tests(tests, usage):
    """Runs those whose names begin with one of the words behind the folder; none: all."""
    global FOLDER
    if len(sys.argv) < 2 or not os.path.isdir(sys.argv[1]):
        print(usage.split("\n\n", 1)[1].strip(), file=sys.stderr)
        sys.exit(2)
    FOLDER = sys.argv[1]
    chosen = [t for t in tests if len(sys.argv) == 2 or t.__name__.startswith(tuple(sys.argv[2:]))]
    failed = 0
    for test in chosen:
        try:
            test()
            print(f"ok      {test.__name__}", flush=True)
        except (AssertionError, ValueError, KeyError, OSError,
                subprocess.TimeoutExpired) as wrong:
            failed += 1
            print(f"failed  {test.__name__}: {wrong}", flush=True)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    sys.exit(1 if failed or not chosen else 0)
