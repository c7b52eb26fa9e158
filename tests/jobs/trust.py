#!/usr/bin/env python3
"""The fault matrix: one job of real processes for each thing that may go wrong, and a row of what
everybody else printed, how they ended, and how long it took.

usage: tests/jobs/trust.py FOLDER [--full] [--table] [CASE...]
FOLDER is where trident is, as build/bin. Without --full only the cases for CI run; CASE is the
beginning of a case's name. --table prints the rows as Markdown, for docs/results/faults.md.
"""
import dataclasses
import glob
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import jobs
from jobs import Gate, Job, free_port, one, program, read_file, send, until

CLOCKS, HOLD = 30, 8
TOKEN = "0123456789abcdef0123456789abcdef"
NETNS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "netns")


class Skip(Exception):
    """This machine cannot do it, and why."""


@dataclasses.dataclass
class Row:
    """What came of a case. `who` is "0" for rank 0, "s0" for a server, "" for trident run."""
    seconds: float
    codes: dict                     # who: exit code, or the name of a signal
    lines: list                     # (who, line of standard error)
    results: dict                   # rank: what it printed at its end
    flights: dict                   # who: document
    note: str = ""

    def err(self, who):
        return "\n".join(line for w, line in self.lines if w == who)

    def text(self):
        return "\n".join(f"  [{w}] {line}" for w, line in self.lines)


# ---- files of those who failed ----

FLIGHT_KEYS = {"trident", "when", "job", "node", "roles", "host", "pid", "failure", "phase",
               "peers", "events"}


def read_flights(folder):
    found = {}
    for path in glob.glob(os.path.join(folder, "*")):
        match = re.fullmatch(r"trident-flight-(s?\d+)\.json", os.path.basename(path))
        assert match, f"a strange file: {path}"
        document = json.loads(read_file(path))
        assert FLIGHT_KEYS <= document.keys(), (path, document.keys())
        assert document["events"] and document["failure"]["text"], path
        found[match[1]] = document
    return found


def check_flights(row):
    """Those who failed by themselves wrote one, with the status that they printed; nobody else."""
    for who, code in row.codes.items():
        if who and code == 1:
            assert who in row.flights, f"no file of {who}:\n{row.text()}"
            failure = row.flights[who]["failure"]
            assert failure["status"] in row.err(who) or failure["text"][:60] in row.err(who), \
                (failure, row.text())
        else:
            assert who not in row.flights, f"a file of {who}, which ended with {code}"


# ---- jobs under trident run ----

class Watched(Job):
    """A job whose end becomes a Row."""

    def __init__(self, args, program_args, **more):
        self.folder = tempfile.TemporaryDirectory()
        self.seen = {}
        self.since = time.monotonic()
        super().__init__(args, program_args, TRIDENT_FLIGHT=self.folder.name, **more)

    def __exit__(self, *exc):
        super().__exit__(*exc)
        self.folder.cleanup()

    def at_hold(self, ranks, clock=HOLD):
        """All have come so far; what happens from here on is what the case is about."""
        self.wait_clock(ranks, clock)
        self.seen = self.children()
        self.since = time.monotonic()

    def row(self, note=""):
        code = self.end()
        seconds = time.monotonic() - self.since
        codes = {"": code} | {who: 0 for who in self.names()}
        for who, text in self.lines["err"]:
            match = re.match(r"trident run: (rank|server) (\d+) \(pid \d+\) "
                             r"(?:exited with (\d+)|was killed by (SIG\w+))", text)
            if who == "" and match:
                name = ("s" if match[1] == "server" else "") + match[2]
                codes[name] = int(match[3]) if match[3] else match[4]
        left = [pid for pid in self.seen.values() if os.path.exists(f"/proc/{pid}")]
        assert left == [], f"still there: {left}"
        row = Row(seconds, codes, list(self.lines["err"]),
                  {r["rank"]: r for r in self.results()}, read_flights(self.folder.name), note)
        check_flights(row)
        return row

    def names(self):
        return {w for name in ("out", "err") for w, _ in self.lines[name] if w}


def loop(*more, clocks=CLOCKS):
    return [program("job_loop"), "--clocks", clocks, *more]


def held(gate, ranks=4, servers=1, clocks=CLOCKS, **more):
    return Watched(["-n", ranks, "--servers", servers, "--colocate", "no"],
                   loop("--fc", "--hold", HOLD, gate.path, clocks=clocks), TRIDENT_LOG="warn",
                   **more)


def check_survivors(row, ranks, clocks=CLOCKS, crc=None):
    assert sorted(row.results) == sorted(ranks), row.text()
    assert all(r["clocks"] == clocks and r["live"] == len(ranks)
               for r in row.results.values()), row.results
    same = one([r["crc"] for r in row.results.values()], "survivors differ")
    assert crc in (None, same), f"{same} is not {crc}, which an undisturbed job has"


REFERENCE = {}


def reference(clocks=CLOCKS):
    """The checksum of the same job of three with nothing going wrong."""
    if clocks not in REFERENCE:
        with Watched(["-n", 3, "--servers", 1, "--colocate", "no"],
                     loop("--fc", clocks=clocks)) as job:
            row = job.row()
            check_survivors(row, range(3), clocks)
            assert not row.flights and row.codes[""] == 0, row.text()
            REFERENCE[clocks] = row.results[0]["crc"]
    return REFERENCE[clocks]


# ---- the cases ----

def kill_workers(lost):
    with Gate() as gate, held(gate) as job:
        job.at_hold(range(4))
        for rank in lost:
            os.kill(job.pids()[rank], signal.SIGKILL)
        for rank in lost:
            until(lambda r=rank: f"going on without rank {r} at 127.0.0.1:" in job.err("0"),
                  job.text)
        gate.open()
        row = job.row()
    left = [r for r in range(4) if r not in lost]
    check_survivors(row, left)
    for who in [str(r) for r in left] + ["s0"]:
        for rank in lost:
            said = "going on without" if who == "s0" else "lost the connection to"
            assert f"{said} rank {rank} at 127.0.0.1:" in row.err(who), row.text()
    assert row.codes == {"": 1, "s0": 0} | {str(r): "SIGKILL" if r in lost else 0
                                            for r in range(4)}, row.codes
    return row


def a_worker_is_killed():
    return kill_workers([2])


def two_of_four_workers_are_killed():
    return kill_workers([1, 3])


def a_server_is_killed():
    with Gate() as gate, held(gate, ranks=3, servers=2, TRIDENT_SCHEME="ps",
                              TRIDENT_CHUNK="1KiB") as job:
        job.at_hold(range(3))
        os.kill(job.seen["s4"], signal.SIGKILL)
        gate.open()
        row = job.row()
    assert row.results == {}, row.text()
    for who in "012":
        text = row.err(who)
        assert "TRI_EPEER: server 1 " in text and "server 1 is at 127.0.0.1:" in text, row.text()
        assert "TRIDENT_RESUME" in text and f"trident-flight-{who}.json" in text, row.text()
    assert row.codes == {"": 1, "0": 1, "1": 1, "2": 1, "s0": 1, "s1": "SIGKILL"}, row.codes
    return row


def the_coordinator_is_killed():
    with Gate() as gate, held(gate) as job:
        job.at_hold(range(4))
        os.kill(job.pids()[0], signal.SIGKILL)
        gate.open()
        row = job.row()
    assert row.results == {}, row.text()
    for who in ("1", "2", "3", "s0"):
        text = row.err(who)
        assert "rank 0, which coordinates the job, is lost" in text, row.text()
        assert "TRIDENT_RESUME" in text and f"trident-flight-{who}.json" in text, row.text()
    assert row.codes == {"": 1, "0": "SIGKILL", "1": 1, "2": 1, "3": 1, "s0": 1}, row.codes
    return row


def a_worker_is_stopped_and_wakes_too_late():
    with Gate() as gate, held(gate, ranks=3, TRIDENT_HEARTBEAT_MS="400") as job:
        job.at_hold(range(3))
        pid = job.pids()[1]
        os.kill(pid, signal.SIGSTOP)
        until(lambda: "going on without rank 1 at" in job.err("0"), job.text)
        gate.open()
        until(lambda: len(job.results()) == 2, job.text)
        send(pid, signal.SIGCONT)
        row = job.row()
    check_survivors(row, [0, 2])
    assert "rank 1 is out of the job: was not heard by" in row.err("0"), row.text()
    assert "TRI_EEVICTED: rank 1 is out of the job" in row.err("1"), row.text()
    assert "see what kept this process from answering" in row.err("1"), row.text()
    assert row.codes == {"": 1, "0": 0, "1": 1, "2": 0, "s0": 0}, row.codes
    return row


def a_worker_is_stopped_for_a_short_while():
    with Gate() as gate, held(gate, ranks=3, TRIDENT_HEARTBEAT_MS="3000") as job:
        job.at_hold(range(3))
        pid = job.pids()[1]
        os.kill(pid, signal.SIGSTOP)
        gate.open()
        time.sleep(0.5)
        send(pid, signal.SIGCONT)
        row = job.row("0.5 s; the heartbeat is 3 s")
    check_survivors(row, range(3), crc=reference())
    assert set(row.codes.values()) == {0}, row.codes
    return row


def a_worker_is_slow():
    """Stopped again and again, never for as long as the others have patience."""
    clocks = 300
    with Gate() as gate, held(gate, ranks=3, clocks=clocks, TRIDENT_HEARTBEAT_MS="2000") as job:
        job.at_hold(range(3))
        pid = job.pids()[2]
        gate.open()
        while job.process.poll() is None and len(job.results()) < 3:
            send(pid, signal.SIGSTOP)
            time.sleep(0.08)
            send(pid, signal.SIGCONT)
            time.sleep(0.02)
        row = job.row(f"stopped for 80 of every 100 ms, {clocks} iterations")
    check_survivors(row, range(3), clocks, crc=reference(clocks))
    assert set(row.codes.values()) == {0}, row.codes
    return row


def a_worker_has_another_model():
    with Watched(["-n", 3], loop("--odd", 1, "layers")) as job:
        row = job.row()
    assert row.results == {} and row.codes == {"": 1, "0": 1, "1": 1, "2": 1}, row.text()
    for who in "012":
        assert "TRI_EMISMATCH" in row.err(who) and "'fc1' is 47x64 on rank 1" in row.err(who), \
            row.text()
    return row


def first_words(version, kind=1, index=0, sockets=2):
    """As docs/wire.md says: the 16 bytes that a connection begins with, whatever the version."""
    return b"TRIP" + struct.pack("<HHII", version, kind, index, sockets)


def alone_together(ranks, workers, **more):
    """Ranks started one by one, as by hand."""
    port = free_port()
    folder = tempfile.TemporaryDirectory()
    started = {str(r): subprocess.Popen(
        [str(a) for a in loop("--fc")], text=True, stderr=subprocess.PIPE, stdout=subprocess.PIPE,
        env=jobs.environment(RANK=str(r), WORLD_SIZE=str(workers), MASTER_ADDR="127.0.0.1",
                             MASTER_PORT=str(port), TRIDENT_FLIGHT=folder.name, **more))
               for r in ranks}
    return port + 1, folder, started


def row_of(started, folder, since, note=""):
    lines, codes, results = [], {}, {}
    for who, process in started.items():
        out, err = process.communicate(timeout=jobs.SECONDS)
        codes[who] = process.returncode
        lines += [(who, line) for line in err.splitlines()]
        results |= {r["rank"]: r for r in map(json.loads, re.findall(r"^\{.*\}$", out, re.M))}
    row = Row(time.monotonic() - since, codes, lines, results, read_flights(folder.name), note)
    check_flights(row)
    folder.cleanup()
    return row


def a_worker_is_of_another_version():
    port, folder, started = alone_together((0, 2), 3, TRIDENT_TIMEOUT_MS="3000",
                                           TRIDENT_LOG="info")
    since = time.monotonic()
    hello = first_words(99) + bytes(100)

    def turned_away():
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=jobs.SECONDS) as peer:
                peer.sendall(hello)
                peer.settimeout(jobs.SECONDS)
                while peer.recv(4096):
                    pass
                return True
        except ConnectionRefusedError:
            return False                         # rank 0 does not listen yet
        except OSError:
            return True

    until(turned_away, "rank 0 to listen")
    row = row_of(started, folder, since, "ranks 0 and 2; rank 1 speaks version 99")
    assert row.results == {} and set(row.codes.values()) == {1}, row.text()
    assert "version" in row.err("0") and "99" in row.err("0"), row.text()
    assert "rank 1" in row.err("0") + row.err("2"), row.text()
    return row


GARBAGE = 1000


def garbage_during_training():
    rng = random.Random(11)
    kinds = (lambda: rng.randbytes(rng.randrange(300)), lambda: b"GET / HTTP/1.1\r\n\r\n",
             lambda: b"\x16\x03\x01" + rng.randbytes(64), lambda: first_words(1) + rng.randbytes(20),
             lambda: b"")
    with Gate() as gate, Gate() as end, Watched(["-n", 3, "--servers", 1, "--colocate", "no"], loop(
            "--fc", "--hold", HOLD, gate.path, "--hold", CLOCKS - 1, end.path)) as job:
        job.at_hold(range(3))
        values = read_file(f"/proc/{job.pids()[0]}/environ").split("\0")
        port = int(dict(v.split("=", 1) for v in values if "=" in v)["TRIDENT_PORT"])
        kept = []
        for i in range(GARBAGE):
            stranger = socket.create_connection(("127.0.0.1", port), timeout=jobs.SECONDS)
            try:
                stranger.sendall(kinds[i % len(kinds)]())
            except OSError:
                pass
            kept.append(stranger)
            if len(kept) > 50:
                kept.pop(0).close()
            if i == GARBAGE // 2:
                gate.open()
        end.open()
        row = job.row(f"{GARBAGE} connections to rank 0")
        for stranger in kept:
            stranger.close()
    check_survivors(row, range(3), crc=reference())
    assert set(row.codes.values()) == {0}, row.codes
    return row


# ---- cables: network namespaces ----

def cut_cable(way):
    """Runs cut_inside() as root over four nodes of its own."""
    done = subprocess.run([NETNS, "run", "4", "--", sys.executable, os.path.abspath(__file__),
                           jobs.FOLDER, "--inside", way], env=jobs.environment(), text=True,
                          capture_output=True, timeout=2 * jobs.SECONDS, check=False)
    # Where / is no mount of its own, as in a chroot, ip netns cannot work.
    if done.returncode == 77 or "cannot set up 4 nodes" in done.stderr:
        raise Skip(done.stderr.strip().splitlines()[0])
    assert done.returncode == 0, done.stdout + done.stderr
    return Row(**json.loads(done.stdout.splitlines()[-1]))


def netns(command, *more):
    subprocess.run([NETNS, command, *more, "--name", os.environ["TRIDENT_NETNS"]], check=True,
                   timeout=jobs.SECONDS)


def start_inside(rank, gate, folder):
    return subprocess.Popen(
        [NETNS, "exec", str(rank), "--name", os.environ["TRIDENT_NETNS"], "--",
         *(str(a) for a in loop("--fc", "--hold", HOLD, gate.path))],
        text=True, stderr=subprocess.PIPE, stdout=open(os.path.join(folder, str(rank)), "w",
                                                        encoding="utf-8"),
        env=jobs.environment(RANK=str(rank), WORLD_SIZE="4", MASTER_ADDR="10.77.0.1",
                             MASTER_PORT="7400", TRIDENT_SERVERS="1", TRIDENT_TOKEN=TOKEN,
                             TRIDENT_LOG="warn", TRIDENT_HEARTBEAT_MS="500",
                             TRIDENT_FLIGHT=os.path.join(folder, "flight")))


def cut_inside(way):
    """On four nodes: the cable of the last one is cut, one way or both, and nobody is told."""
    lost = "3"
    with Gate() as gate, tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "flight"))
        started = {str(r): start_inside(r, gate, folder) for r in range(4)}
        out = {who: (lambda w=who: read_file(os.path.join(folder, w))) for who in started}
        until(lambda: all(f"clock {HOLD}\n" in out[who]() for who in started), "all to come")
        since = time.monotonic()
        netns("cut", lost, way)
        gate.open()
        lines, codes, results = [], {}, {}
        for who, process in started.items():
            _, err = process.communicate(timeout=jobs.SECONDS)
            codes[who] = process.returncode
            lines += [(who, line) for line in err.splitlines()]
            results |= {r["rank"]: r for r in
                        map(json.loads, re.findall(r"^\{.*\}$", out[who](), re.M))}
        row = Row(time.monotonic() - since, codes, lines, results,
                  read_flights(os.path.join(folder, "flight")),
                  f"rank 3, {way}: nothing {'reaches it' if way == 'in' else 'leaves it'}"
                  if way != "both" else "rank 3, both ways")
    check_flights(row)
    check_survivors(row, [0, 1, 2])
    for who in "012":
        assert "going on without rank 3 at 10.77.0.4:" in row.err(who), row.text()
    told = ("TRI_EPEER", "TRI_EEVICTED")
    assert row.codes == {"0": 0, "1": 0, "2": 0, lost: 1}, row.codes
    assert any(t in row.err(lost) for t in told) and f"flight-{lost}.json" in row.err(lost), \
        row.text()
    print(json.dumps(dataclasses.asdict(row)))


def a_cable_is_cut_both_ways():
    return cut_cable("both")


def a_cable_is_cut_towards_a_worker():
    return cut_cable("in")


def a_cable_is_cut_from_a_worker():
    return cut_cable("out")


# ---- the table ----

# What is tried, the function that does it, and whether CI has the time for it. The checkpoint's
# cases (a full disk under one, one cut short, one with a flipped bit) belong behind the last.
CASES = (
    ("kill -9 of a worker, 1 of 4", a_worker_is_killed, True),
    ("kill -9 of two workers of 4", two_of_four_workers_are_killed, True),
    ("kill -9 of a server", a_server_is_killed, True),
    ("kill -9 of the coordinator, rank 0", the_coordinator_is_killed, True),
    ("SIGSTOP of a worker, SIGCONT too late", a_worker_is_stopped_and_wakes_too_late, True),
    ("SIGSTOP of a worker, SIGCONT in time", a_worker_is_stopped_for_a_short_while, True),
    ("a cable cut silently, both ways", a_cable_is_cut_both_ways, True),
    ("a cable cut silently, towards a worker", a_cable_is_cut_towards_a_worker, False),
    ("a cable cut silently, from a worker", a_cable_is_cut_from_a_worker, False),
    ("a slow worker", a_worker_is_slow, False),
    ("a worker with another model", a_worker_has_another_model, True),
    ("a worker of another version", a_worker_is_of_another_version, True),
    ("1,000 garbage connections", garbage_during_training, True),
)


def short(line):
    """What a line says, without what is another each time."""
    line = re.sub(r"^trident \S+ (worker|server) \d+: (warn|error|info): ", "", line)
    line = re.sub(r"^loop: ", "", line)
    line = re.sub(r"((?:127|10)\.\d+\.\d+\.\d+):\d+", r"\1:PORT", line)
    line = re.sub(r"(?<=not heard for )\d+\.\d+ s", "N s", line)
    return line


def named(who):
    """"ranks 0, 2 and server 0" """
    ranks = sorted(w for w in who if not w.startswith("s"))
    servers = sorted(w[1:] for w in who if w.startswith("s"))
    parts = [f"{word}{'s' if len(group) > 1 else ''} {', '.join(group)}"
             for word, group in (("rank", ranks), ("server", servers)) if group]
    return " and ".join(parts)


# Of what survivors print, the lines that tell the case; not those that every message repeats.
TELLING = re.compile(r"TRI_E|going on without|trident server: |turned away|is out of the job")


def said(row):
    texts = {}
    for who, line in row.lines:
        if who and TELLING.search(line) and " error: " not in line:
            texts.setdefault(short(line), set()).add(who)
    return [f"{named(who)}: {text}" for text, who in texts.items()][:5]


def ended(row):
    by_code = {}
    for who, code in row.codes.items():
        if who:
            by_code.setdefault(code, set()).add(who)
    parts = [f"{named(who)}: {code}" for code, who in
             sorted(by_code.items(), key=lambda item: str(item[0]))]
    return "; ".join(parts + ([f"trident run: {row.codes['']}"] if "" in row.codes else []))


def outcome(row):
    if not row.results:
        return "the job ends"
    crc = next(iter(row.results.values()))["crc"]
    return (f"{len(row.results)} ranks end with the same parameters ({crc})" +
            (", those of an undisturbed job" if crc in REFERENCE.values() else ""))


def markdown(rows):
    print("| what | what is printed | exit codes | outcome | s |")
    print("|---|---|---|---|---|")
    for name, row in rows:
        if isinstance(row, str):
            print(f"| {name} | | | not run: {row} | |")
            continue
        lines = "<br>".join(f"`{line}`" for line in said(row)) or "nothing"
        note = f" ({row.note})" if row.note else ""
        print(f"| {name}{note} | {lines} | {ended(row)} | {outcome(row)} | {row.seconds:.1f} |")


def run(cases, table):
    rows, failed, skipped = [], 0, 0
    for name, case, _ in cases:
        try:
            row = case()
            rows.append((name, row))
            verdict = f"ok      {case.__name__}: {row.seconds:.1f} s; {ended(row)}"
        except Skip as why:
            skipped += 1
            rows.append((name, str(why)))
            verdict = f"skipped {case.__name__}: {why}"
        except (AssertionError, ValueError, KeyError, OSError,
                subprocess.TimeoutExpired) as wrong:
            failed += 1
            verdict = f"failed  {case.__name__}: {wrong}"
        print(verdict, file=sys.stderr if table else sys.stdout, flush=True)
    if table:
        markdown(rows)
    print(f"{len(cases) - failed - skipped} passed, {failed} failed, {skipped} skipped",
          file=sys.stderr if table else sys.stdout)
    return 1 if failed or not cases else 0


def main():
    words = [w for w in sys.argv[1:] if not w.startswith("--")]
    flags = {w for w in sys.argv[1:] if w.startswith("--")}
    if not words or not os.path.isdir(words[0]) or flags - {"--full", "--table", "--inside"}:
        print(__doc__.split("\n\n", 1)[1].strip(), file=sys.stderr)
        sys.exit(2)
    jobs.FOLDER = os.path.abspath(words[0])
    if "--inside" in flags:
        cut_inside(words[1])
        return
    full = "--full" in flags or os.environ.get("TRIDENT_TRUST_FULL") == "1"
    chosen = [c for c in CASES if (words[1:] and c[1].__name__.startswith(tuple(words[1:]))) or
              (not words[1:] and (full or c[2]))]
    sys.exit(run(chosen, "--table" in flags))


if __name__ == "__main__":
    main()
