#!/usr/bin/env python3
"""Who may join a job of real processes, who is turned away, and what each of them is told.

usage: tests/jobs/joining.py FOLDER [TEST...]     where trident is, as build/bin
"""
import random
import re
import select
import signal
import socket
import struct
import subprocess
import threading

import jobs
from jobs import Gate, Job, alone, environment, free_port, one, program, until

CLOCKS = 12
HOLD = 4
TOKEN = "c0ffee00-the-secret-of-this-job-and-no-other"
# docs/wire.md, section 12: kinds of first words, reasons for a refusal, lengths.
ASKS, ANSWERS, PROVES, WELCOMES, REFUSES = 1, 2, 3, 4, 5
OTHER_VERSION, OTHER_TOKEN = 1, 4
ANSWER_BYTES, REFUSAL_BYTES = 144, 80


def loop(*more):
    return [program("job_loop"), "--clocks", CLOCKS, *more]


def odd(ranks, setting, *args):
    """A command whose environment is another one on some ranks."""
    return ["sh", "-c", f'case " {ranks} " in *" $RANK "*) export {setting};; esac; exec "$0" "$@"',
            *args]


class Rank:
    """One process, started by hand."""

    def __init__(self, rank, workers, coordinator, args=(), **more):
        self.lines = []
        self.process = subprocess.Popen(
            [str(a) for a in loop(*args)], text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=environment(TRIDENT_RANK=str(rank), TRIDENT_WORKERS=str(workers), RANK=str(rank),
                            TRIDENT_COORDINATOR=coordinator, **more))
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def text(self):
        return "\n".join(self.lines)

    def says(self, text):
        until(lambda: text in self.text(), lambda: f"'{text}':\n{self.text()}")

    def end(self):
        code = self.process.wait(jobs.SECONDS)
        self.reader.join()
        return code

    def crc(self):
        return re.search(r'"crc":"(\w+)"', self.text())[1]


def at(port):
    return f"127.0.0.1:{port}"


# ---- tokens ----

def a_rank_with_another_token_is_refused_by_name():
    with Job(["-n", 3], odd("2", "TRIDENT_TOKEN=guess", *loop()), TRIDENT_TIMEOUT_MS="2500",
             TRIDENT_LOG="warn") as job:
        assert job.end() == 1 and job.results() == [], job.text()
        assert "TRI_EMISMATCH" in job.err("2"), job.text()
        assert re.search(r"rank 0 at 127\.0\.0\.1:\d+ refused this process: wrong token; give all "
                         "processes of a job the same TRIDENT_TOKEN", job.err("2")), job.text()
        assert "does not know the token of job" in job.err("0"), job.text()
        for rank in "01":
            assert "rank 2 exited with 1 before it had joined" in job.err(rank), job.text()
        turned = job.err("0").count("turned away 127.0.0.1")
        assert turned <= 2, f"it was told {turned} times:\n{job.text()}"


def without_a_token_other_machines_cannot_be_used():
    port = free_port()
    for rank, address in ((0, f"0.0.0.0:{port}"), (0, f"[::]:{port}"), (1, "192.0.2.1:7000")):
        code, out, err = alone(loop(), TRIDENT_RANK=str(rank), TRIDENT_WORKERS="2",
                               TRIDENT_COORDINATOR=address)
        assert code == 1 and out == "" and "TRI_EINPUT" in err, err
        assert "without a token" in err and "TRIDENT_TOKEN" in err and "trident run" in err, err


def servers_that_nobody_started_are_told_with_their_setting():
    with Rank(0, 1, at(free_port()), TRIDENT_COLOCATE="off", TRIDENT_TIMEOUT_MS="300") as rank:
        assert rank.end() == 1 and "in vain for server 0 to join" in rank.text(), rank.text()
        assert "with TRIDENT_COLOCATE on" in rank.text(), rank.text()


def another_number_of_workers_is_told_at_once():
    """The limit is longer than this test waits for anything."""
    port = free_port()
    with Rank(0, 2, at(port), TRIDENT_TIMEOUT_MS="600000", TRIDENT_LOG="warn") as first, \
            Rank(1, 3, at(port), TRIDENT_TIMEOUT_MS="600000") as second:
        assert second.end() == 1, second.text()
        assert "TRI_EMISMATCH" in second.text(), second.text()
        assert "node 0 counts 2 nodes, node 1 counts 3" in second.text(), second.text()
        first.says("node 1 counts 3 nodes, node 0 counts 2")


# ---- other models ----

def what_differs_is_told_to_all():
    cases = (("layers", "layer 1: 'fc1' is 47x64 on rank 1, 48x64 on rank 0"),
             ("name", "layer 1 is 'fc0' on rank 1, 'fc1' on rank 0"),
             ("optimizer", "option optimizer is "), ("consistency", "option consistency is "))
    for what, text in cases:
        with Job(["-n", 3], loop("--odd", 1, what)) as job:
            assert job.end() == 1 and job.results() == [], job.text()
            for rank in "012":
                assert "TRI_EMISMATCH" in job.err(rank) and text in job.err(rank), job.text()


def all_that_differ_are_named():
    with Job(["-n", 4], odd("1 3", "TRIDENT_PLACEMENT=lpt", *loop())) as job:
        assert job.end() == 1 and job.results() == [], job.text()
        for rank in "0123":
            for other in "13":
                text = f"option placement is 'lpt' on rank {other}, 'hash' on rank 0"
                assert text in job.err(rank), job.text()


# ---- waiting ----

def the_order_of_start_does_not_matter_and_waits_are_named():
    port = free_port()
    more = {"TRIDENT_TIMEOUT_MS": "600000", "TRIDENT_LOG": "warn"}
    short = {"TRIDENT_TIMEOUT_MS": "20000", "TRIDENT_LOG": "warn"}
    with Rank(2, 3, at(port), **more) as third, Rank(0, 3, at(port), **short) as first:
        first.says(f"waiting 2 s for rank 1 to join at {at(port)}")
        with Rank(1, 3, at(port), **more) as second:
            ranks = first, second, third
            assert [r.end() for r in ranks] == [0, 0, 0], [r.text() for r in ranks]
            one([r.crc() for r in ranks], "ranks differ")


def a_rank_that_dies_while_others_join_ends_it_at_once():
    """The limit is longer than this test waits for anything."""
    port = free_port()
    more = {"TRIDENT_TIMEOUT_MS": "600000", "TRIDENT_TRANSPORT": "trace:tcp",
            "TRIDENT_LOG": "trace"}
    with Rank(0, 4, at(port), **more) as first, Rank(1, 4, at(port), **more) as second, \
            Rank(2, 4, at(port), **more) as third:
        for rank in "12":
            first.says(f"{rank} is up")
        second.process.send_signal(signal.SIGKILL)
        for rank in first, third:
            assert rank.end() == 1, rank.text()
            assert "TRI_EPEER" in rank.text(), rank.text()
            assert re.search(r"rank 1 at 127\.0\.0\.1:\d+ hung up before all had joined",
                             rank.text()), rank.text()


# ---- strangers ----

def port_of(job):
    values = jobs.read_file(f"/proc/{job.pids()[0]}/environ").split("\0")
    return int(dict(v.split("=", 1) for v in values if "=" in v)["TRIDENT_PORT"])


def base(kind, version=2, index=0, sockets=2):
    return b"TRIP" + struct.pack("<HBBII", version, kind, 0, index, sockets)


def read_all(connection, count):
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            break
        data += more
    return data


def noise_of(rng, kind):
    tls = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(500)
    return (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", tls, b"\x00" + rng.randbytes(300),
            base(ASKS) + rng.randbytes(96), base(ASKS, version=1) + rng.randbytes(64), b"",
            b"TRIP")[kind]


def run_disturbed(connections):
    """A training with that many strangers in the middle: its crc, and what rank 0 logged."""
    rng = random.Random(11)
    with Gate() as gate, Gate() as end, Job(["-n", 3], loop(
            "--hold", HOLD, gate.path, "--hold", CLOCKS - 1, end.path), TRIDENT_LOG="warn") as job:
        job.wait_clock(range(3), HOLD)
        port, strangers = port_of(job), []
        for i in range(connections):
            stranger = socket.create_connection(("127.0.0.1", port), timeout=jobs.SECONDS)
            try:
                stranger.sendall(noise_of(rng, i % 7))
            except OSError:
                pass
            if i % 7 == 6 and len(strangers) < 50:
                strangers.append(stranger)  # half a word, and nothing more
            else:
                stranger.close()
            if i == connections // 2:
                gate.open()
        gate.open()
        end.open()
        assert job.end() == 0, job.text()
        for stranger in strangers:
            stranger.close()
        assert all(r["live"] == 3 for r in job.results()), job.text()
        return one([r["crc"] for r in job.results()], "ranks differ"), job.err("0").splitlines()


def a_thousand_strangers_disturb_nobody_and_fill_no_log():
    quiet, told = run_disturbed(0)
    assert told == [], told
    crc, told = run_disturbed(200 if jobs.FEW else 1000)
    assert crc == quiet, "another result"
    assert 1 <= len(told) <= 20, told
    for what in ("GET /metrics", "version 1 of the first words", "turned away 127.0.0.1"):
        assert any(what in line for line in told), (what, told)


def another_version_is_told_both_numbers():
    with Gate() as gate, Job(["-n", 2], loop("--hold", HOLD, gate.path),
                             TRIDENT_LOG="warn") as job:
        job.wait_clock(range(2), HOLD)
        with socket.create_connection(("127.0.0.1", port_of(job)), timeout=jobs.SECONDS) as old:
            old.sendall(base(ASKS, version=1) + bytes(64))
            answer = read_all(old, REFUSAL_BYTES)
        assert answer[:16] == base(REFUSES, index=OTHER_VERSION), answer
        gate.open()
        assert job.end() == 0, job.text()
        assert "it speaks version 1 of the first words, this process version 2" in job.err("0"), \
            job.text()


# ---- who listens on the wire ----

class Proxy:
    """Passes connections on to a port, and keeps all that was said."""

    def __init__(self, to):
        self.to, self.tapes = to, []
        self.door = socket.socket()
        self.door.bind(("127.0.0.1", 0))
        self.door.listen()
        self.port = self.door.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.door.close()

    def serve(self):
        while True:
            try:
                near, _ = self.door.accept()
            except OSError:
                return
            threading.Thread(target=self.pass_on, args=(near,), daemon=True).start()

    def pass_on(self, near):
        try:
            far = socket.create_connection(("127.0.0.1", self.to))
        except OSError:
            near.close()
            return
        tape = {near: bytearray(), far: bytearray()}
        self.tapes.append((tape[near], tape[far]))
        while True:
            for end in select.select([near, far], [], [])[0]:
                data = end.recv(1 << 16)
                if not data:
                    near.close()
                    far.close()
                    return
                tape[end] += data
                (far if end is near else near).sendall(data)


def play(tape, port):
    """Says again what a rank said: its question, then, behind the answer, all the rest."""
    with socket.create_connection(("127.0.0.1", port), timeout=jobs.SECONDS) as thief:
        thief.sendall(tape[:112])
        answer = read_all(thief, ANSWER_BYTES)
        assert len(answer) == ANSWER_BYTES and answer[6] == ANSWERS, answer
        try:
            thief.sendall(tape[112:])
        except OSError:
            pass
        try:
            refusal = read_all(thief, REFUSAL_BYTES)
        except ConnectionResetError:
            return
        assert refusal == b"" or refusal[:16] == base(REFUSES, index=OTHER_TOKEN), refusal


def a_recorded_join_holds_no_token_and_opens_no_door():
    port, refused = free_port(), "it does not know the token of job"
    shared = {"TRIDENT_TOKEN": TOKEN, "TRIDENT_LOG": "warn"}
    with Proxy(port) as proxy, Gate() as gate:
        hold = ("--hold", HOLD, gate.path)
        with Rank(0, 2, at(port), hold, **shared) as first, \
                Rank(1, 2, at(proxy.port), hold, **shared) as second:
            second.says(f"clock {HOLD}")
            tapes = [bytes(said) for said, _ in proxy.tapes]
            for tape in tapes:
                play(tape, port)  # to the same listener
            first.says(refused)
            gate.open()
            assert first.end() == 0 and second.end() == 0, first.text() + second.text()
            crc = one([first.crc(), second.crc()], "ranks differ")
        spoken = b"".join(bytes(part) for tape in proxy.tapes for part in tape)
    assert len(tapes) >= 2 and len(spoken) > 4000, "nothing was recorded"
    for i in range(len(TOKEN) - 7):
        assert TOKEN[i:i + 8].encode() not in spoken, "the token was on the wire"
    with Rank(0, 2, at(port), **shared) as first:  # to another one with the same token
        until(lambda: can_connect(port), "a listener")
        for tape in tapes:
            play(tape, port)
        first.says(refused)
        with Rank(1, 2, at(port), **shared) as second:
            assert first.end() == 0 and second.end() == 0, first.text() + second.text()
            assert one([first.crc(), second.crc()], "ranks differ") == crc


def can_connect(port):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
        return True
    except OSError:
        return False


TESTS = (a_rank_with_another_token_is_refused_by_name, without_a_token_other_machines_cannot_be_used,
         servers_that_nobody_started_are_told_with_their_setting,
         another_number_of_workers_is_told_at_once, what_differs_is_told_to_all,
         all_that_differ_are_named, the_order_of_start_does_not_matter_and_waits_are_named,
         a_rank_that_dies_while_others_join_ends_it_at_once,
         a_thousand_strangers_disturb_nobody_and_fill_no_log,
         another_version_is_told_both_numbers, a_recorded_join_holds_no_token_and_opens_no_door)

if __name__ == "__main__":
    jobs.run_tests(TESTS, __doc__)
