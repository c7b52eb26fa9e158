#!/usr/bin/env python3
"""Breaks jobs of real processes in every way that is known, and looks at what the rest does.

usage: tests/jobs/faults.py FOLDER [TEST...]      where trident is, as build/bin
"""
import json
import os
import random
import re
import signal
import socket
import tempfile
import time

import jobs
import train_cli
from jobs import Gate, Job, alone, environment, free_port, one, program, send, until

CLOCKS = 30
HOLD = 8


def loop(*more):
    return [program("job_loop"), "--clocks", CLOCKS, *more]


def results_of(job, ranks):
    results = {r["rank"]: r for r in job.results()}
    assert sorted(results) == sorted(ranks), job.text()
    one([r["crc"] for r in results.values()], "survivors differ")
    return results


def apart(ranks, servers, gate, **more):
    return Job(["-n", ranks, "--servers", servers, "--colocate", "no"],
               loop("--fc", "--hold", HOLD, gate.path), TRIDENT_LOG="warn", **more)


def the_others_go_on_without_a_killed_rank():
    for scheme in ("ps", "sfb", "adam"):
        with Gate() as gate, apart(4, 1, gate, TRIDENT_SCHEME=scheme) as job:
            job.wait_clock(range(4), HOLD)
            os.kill(job.pids()[2], signal.SIGKILL)
            until(lambda: "going on without rank 2" in job.err("0"), job.text)
            gate.open()
            assert job.end() == 1, job.text()
            results = results_of(job, [0, 1, 3])
            assert all(r["clocks"] == CLOCKS and r["live"] == 3 and r["view"] == 2
                       for r in results.values()), job.text()
            assert "rank 2" in job.err("") and "SIGKILL" in job.err(""), job.text()


def a_rank_killed_in_the_middle_of_its_work_is_survived():
    for _ in range(3):
        with Job(["-n", 4, "--servers", 1, "--colocate", "no"], [
                program("job_loop"), "--clocks", 400], TRIDENT_LOG="warn") as job:
            job.wait_clock(range(4), 5)
            os.kill(job.pids()[3], signal.SIGKILL)
            assert job.end() == 1, job.text()
            results = results_of(job, [0, 1, 2])
            assert all(r["clocks"] == 400 for r in results.values()), job.text()


def a_rank_that_stood_still_too_long_is_evicted():
    with Gate() as gate, apart(3, 1, gate, TRIDENT_HEARTBEAT_MS="200") as job:
        job.wait_clock(range(3), HOLD)
        pid = job.pids()[1]
        os.kill(pid, signal.SIGSTOP)
        until(lambda: "going on without rank 1" in job.err("0"), job.text)
        gate.open()
        until(lambda: len(job.results()) == 2, job.text)
        send(pid, signal.SIGCONT)
        assert job.end() == 1, job.text()
        results_of(job, [0, 2])
        assert "TRI_EEVICTED" in job.err("1"), job.text()
        assert "rank 1" in job.err("") and "exited with 1" in job.err(""), job.text()


def a_short_stop_is_forgiven():
    with Gate() as gate, apart(3, 1, gate, TRIDENT_HEARTBEAT_MS="3000") as job:
        job.wait_clock(range(3), HOLD)
        pid = job.pids()[1]
        os.kill(pid, signal.SIGSTOP)
        gate.open()
        time.sleep(0.5)  # far from the 6 s that others forgive
        send(pid, signal.SIGCONT)
        assert job.end() == 0, job.text()
        assert all(r["live"] == 3 for r in results_of(job, range(3)).values()), job.text()


def without_a_server_all_end_and_name_it():
    with Gate() as gate, apart(3, 2, gate, TRIDENT_SCHEME="ps", TRIDENT_CHUNK="1KiB") as job:
        job.wait_clock(range(3), HOLD)
        os.kill(job.children()["s4"], signal.SIGKILL)
        gate.open()
        assert job.end() == 1 and job.results() == [], job.text()
        for rank in "012":
            assert "TRI_EPEER: server 1 was not heard by" in job.err(rank), job.text()
            assert "server 1 is at 127.0.0.1:" in job.err(rank), job.text()


def without_a_rank_that_serves_all_end_and_name_it():
    with Gate() as gate, Job(["-n", 3], loop("--hold", HOLD, gate.path),
                             TRIDENT_SCHEME="ps") as job:
        job.wait_clock(range(3), HOLD)
        os.kill(job.pids()[1], signal.SIGKILL)
        gate.open()
        assert job.end() == 1 and job.results() == [], job.text()
        for rank in "02":
            assert "TRI_EPEER: rank 1 (with server 1)" in job.err(rank), job.text()
            assert "rank 1 is at 127.0.0.1:" in job.err(rank), job.text()
            assert "TRIDENT_RESUME" in job.err(rank), job.text()


def without_rank_0_all_end_and_name_it():
    with Gate() as gate, apart(3, 1, gate) as job:
        job.wait_clock(range(3), HOLD)
        os.kill(job.pids()[0], signal.SIGKILL)
        gate.open()
        assert job.end() == 1 and job.results() == [], job.text()
        for rank in ("1", "2", "s0"):
            assert "rank 0" in job.err(rank), job.text()
        for rank in "12":
            assert "TRI_EPEER" in job.err(rank), job.text()


def ranks_that_disagree_are_named():
    for odd in ("layers", "name", "optimizer", "consistency", "lr"):
        with Job(["-n", 3], loop("--odd", 1, odd)) as job:
            assert job.end() == 1 and job.results() == [], job.text()
            for rank in "012":
                text = job.err(rank)
                assert "TRI_EMISMATCH" in text and "rank 1" in text, job.text()


def a_scheme_of_another_name_is_named():
    with Job(["-n", 2], ["sh", "-c", 'test $RANK = 0 || export TRIDENT_SCHEME=ps; exec "$0" "$@"',
                         *loop("--fc")], TRIDENT_SCHEME="sfb") as job:
        assert job.end() == 1 and job.results() == [], job.text()
        for rank in "01":
            assert "TRI_EMISMATCH" in job.err(rank), job.text()


def a_rank_that_gives_up_before_the_start_ends_the_job_at_once():
    """The limit is longer than this test waits for anything."""
    for odd in (0, 1):
        with Job(["-n", 3], ["sh", "-c", f'test $RANK != {odd} || export TRIDENT_SCHEME=sfb; '
                             'exec "$0" "$@"', *loop("--fc")], TRIDENT_TIMEOUT_MS="600000",
                 TRIDENT_CONSISTENCY="ssp:2") as job:
            assert job.end() == 1 and job.results() == [], job.text()
            assert "TRI_EINPUT" in job.err(str(odd)), job.text()
            for rank in {0, 1, 2} - {odd}:
                assert "TRI_EPEER" in job.err(str(rank)), job.text()
                assert re.search(f"(rank|node) {odd}", job.err(str(rank))), job.text()


def another_number_of_workers_never_gets_in():
    with Job(["-n", 2], ["sh", "-c", 'test $RANK = 0 || export TRIDENT_WORKERS=3; exec "$0" "$@"',
                         *loop()], TRIDENT_TIMEOUT_MS="1500", TRIDENT_LOG="warn") as job:
        assert job.end() == 1 and job.results() == [], job.text()
        assert "nodes" in job.err("0") or "workers" in job.err("0"), job.text()


def a_rank_that_never_comes_is_named():
    port = free_port()
    shared = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
              "TRIDENT_TIMEOUT_MS": "1500"}
    ranks = [jobs.subprocess.Popen([str(a) for a in loop()], text=True,
                                   stderr=jobs.subprocess.PIPE, stdout=jobs.subprocess.PIPE,
                                   env=environment(RANK=str(r), **shared)) for r in (0, 2)]
    told = 0
    for rank in ranks:
        out, err = rank.communicate(timeout=jobs.SECONDS)
        assert rank.returncode == 1 and out == "", (out, err)
        told += "TRI_ETIMEOUT" in err and "rank 1" in err
        assert "TRI_ETIMEOUT" in err or "it closed the connection" in err, err
    assert told > 0, "nobody named rank 1"  # who gives up first takes the other with it


def a_missing_rank_0_is_named_with_its_address():
    port = free_port()
    code, out, err = alone(loop(), WORLD_SIZE="2", RANK="1", MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(port), TRIDENT_TIMEOUT_MS="1000")
    assert code == 1 and out == "", (out, err)
    assert "rank 0" in err and f"127.0.0.1:{port + 1}" in err, err


def a_port_in_use_is_told():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, out, err = alone(loop(), TRIDENT_WORKERS="2", TRIDENT_RANK="0",
                               TRIDENT_COORDINATOR=address)
        assert code == 1 and out == "" and address in err and "TRI_EIO" in err, err


def who_leaves_early_counts_as_lost():
    for how in ("exit", "close"):
        with Job(["-n", 4, "--servers", 1, "--colocate", "no"], loop("--odd", 2, how),
                 TRIDENT_LOG="warn") as job:
            code = job.end()
            results = results_of(job, [0, 1, 3])
            assert code == 0, job.text()
            assert all(r["clocks"] == CLOCKS for r in results.values()), job.text()
            assert "without rank 2" in job.err("0"), job.text()


def garbage_and_strangers_disturb_nobody():
    rng = random.Random(7)
    with Gate() as gate, Gate() as end, Job(["-n", 3], loop(
            "--hold", HOLD, gate.path, "--hold", CLOCKS - 1, end.path)) as job:
        job.wait_clock(range(3), HOLD)
        values = jobs.read_file(f"/proc/{job.pids()[0]}/environ").split("\0")
        port = int(dict(v.split("=", 1) for v in values if "=" in v)["TRIDENT_PORT"])
        strangers = []
        for i in range(100):
            stranger = socket.create_connection(("127.0.0.1", port), timeout=jobs.SECONDS)
            noise = rng.randbytes(rng.randrange(300)) if i % 3 else b"GET / HTTP/1.1\r\n\r\n" * 9
            try:
                stranger.sendall(noise)
            except OSError:
                pass
            if i % 2:
                stranger.close()
            else:
                strangers.append(stranger)
            if i == 50:
                gate.open()
        end.open()
        assert job.end() == 0, job.text()
        assert all(r["live"] == 3 for r in results_of(job, range(3)).values()), job.text()
        for stranger in strangers:
            stranger.close()


def a_long_wait_says_for_whom_and_where_they_are():
    """One rank stands still, though its process answers: nobody is given up."""
    with Gate() as gate, Job(["-n", 3, "--servers", 1, "--colocate", "no"], [
            "sh", "-c", f'test $RANK != 2 || set -- "$@" --hold {HOLD} {gate.path}; exec "$0" "$@"',
            *loop("--fc")], TRIDENT_LOG="info", TRIDENT_SCHEME="sfb", TRIDENT_TIMEOUT_MS="60000",
            TRIDENT_HEARTBEAT_MS="300") as job:
        told = r"waiting \d+ s for \w+ of worker 2.*; rank 2 is at 127.0.0.1:"
        until(lambda: any(re.search(told, job.err(r)) for r in "01"), job.text)
        gate.open()
        assert job.end() == 0, job.text()
        results_of(job, range(3))
        assert re.search(r"layer '\w+' is there after \d+\.\d s", job.err()), job.text()


def the_log_tells_each_change_of_state_once():
    with Job(["-n", 2], loop(), TRIDENT_LOG="info") as job:
        assert job.end() == 0, job.text()
        for rank in "01":
            for text in ("joined job '", "plan agreed: 3 layers (", "training begins",
                         f"closing after clock {CLOCKS}",
                         "the job has ended: 2 of 2 workers came through"):
                assert job.err(rank).count(text) == 1, (text, job.text())


def ctrl_c_ends_a_wait_in_start_up():
    for number, code, text in ((signal.SIGINT, 130, "interrupted before the first iteration"),
                               (signal.SIGTERM, 1, "stopped by SIGTERM")):
        process = train_cli.start_with(
            ("--iterations", 5), RANK="1", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(free_port()), TRIDENT_TIMEOUT_MS="600000")
        until(lambda: "\nSigCgt:" in jobs.read_file(f"/proc/{process.pid}/status") and
              catches(process.pid, number), "a handler")
        process.send_signal(number)
        out, err = process.communicate(timeout=jobs.SECONDS)
        assert process.returncode == code and text in err and out == "", (out, err)


def ctrl_c_in_start_up_prints_a_document():
    """Rank 0 of two waits for one that never comes; one worker alone reads data that never comes."""
    port = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    with tempfile.TemporaryDirectory() as folder:
        pipe = os.path.join(folder, "never.csv")
        os.mkfifo(pipe)
        held = os.open(pipe, os.O_RDWR)  # so that only who reads it waits
        cases = ((("--json",), {"RANK": "0", "WORLD_SIZE": "2", "TRIDENT_TIMEOUT_MS": "600000"} | port, 2),
                 (("--json", "--data", "csv:" + pipe, "--model", "textcnn"), {}, 1))
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 1)):
            for more, variables, workers in cases:
                process = train_cli.start_with(more, **variables)
                until(lambda p=process, n=number: catches(p.pid, n), "a handler")
                process.send_signal(number)
                os.write(held, b"\n")  # a thread sanitizer keeps signals back until a read ends
                out, err = process.communicate(timeout=jobs.SECONDS)
                result = json.loads(out)
                assert process.returncode == code and result["workers"] == workers, (out, err)
                assert result["complete"] is False and result["iterations"] == 0, result
        os.close(held)


def catches(pid, number):
    caught = re.search(r"SigCgt:\s*(\w+)", jobs.read_file(f"/proc/{pid}/status"))
    return caught is not None and int(caught[1], 16) >> (number - 1) & 1


def sigterm_stops_one_worker_in_order():
    process = train_cli.start_with(("--iterations", 10**9))
    until(lambda: process.stderr.readline().startswith("epoch "), "an epoch")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=jobs.SECONDS)
    assert process.returncode == 1 and "stopped by SIGTERM after" in err, (out, err)
    assert "accuracy" in out, "what there is was not printed"


TESTS = (the_others_go_on_without_a_killed_rank,
         a_rank_killed_in_the_middle_of_its_work_is_survived,
         a_rank_that_stood_still_too_long_is_evicted, a_short_stop_is_forgiven,
         without_a_server_all_end_and_name_it, without_a_rank_that_serves_all_end_and_name_it,
         without_rank_0_all_end_and_name_it, ranks_that_disagree_are_named,
         a_scheme_of_another_name_is_named,
         a_rank_that_gives_up_before_the_start_ends_the_job_at_once, another_number_of_workers_never_gets_in,
         a_rank_that_never_comes_is_named, a_missing_rank_0_is_named_with_its_address,
         a_port_in_use_is_told, who_leaves_early_counts_as_lost,
         garbage_and_strangers_disturb_nobody, a_long_wait_says_for_whom_and_where_they_are,
         the_log_tells_each_change_of_state_once, ctrl_c_ends_a_wait_in_start_up,
         ctrl_c_in_start_up_prints_a_document,
         sigterm_stops_one_worker_in_order)

if __name__ == "__main__":
    jobs.run_tests(TESTS, __doc__)
