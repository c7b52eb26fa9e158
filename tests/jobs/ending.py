#!/usr/bin/env python3
"""How jobs end before their time: processes that fail before they join, signals, files that cannot
be written.

usage: tests/jobs/ending.py FOLDER [TEST...]      where trident and job_loop are, as build/bin
"""
import json
import os
import signal
import subprocess
import tempfile

import jobs
import train_cli
from jobs import Job, alone, environment, free_port, program, until

CLOCKS = 5


def loop():
    return [program("job_loop"), "--clocks", CLOCKS]


def nobody_waits_for_one_that_ended_before_it_joined():
    """The limit is longer than this test waits for anything."""
    for place in ((), ("--hosts", "localhost:2,127.0.0.1:1")):
        for code, odd in ((3, 2), (0, 0)):
            with Job(["-n", 3, *place], ["sh", "-c", f'test $RANK != {odd} || exit {code}; '
                                         'exec "$0" "$@"', *loop()],
                     TRIDENT_TIMEOUT_MS="600000") as job:
                assert job.end() == 1 and job.results() == [], job.text()
                for rank in {0, 1, 2} - {odd}:
                    assert f"rank {odd} exited with {code} before it had joined" in \
                        job.err(str(rank)), job.text()
                if code != 0:
                    assert f"first rank {odd} (pid" in job.err(""), job.text()


def checkpoints(folder):
    return [name for name in os.listdir(folder) if name.endswith(".safetensors")]


def sigterm_saves_however_many_train():
    for how in (("--workers", 1), ("--workers", 2), ("--learners", 2)):
        with tempfile.TemporaryDirectory() as folder:
            process = train_cli.start("--iterations", 10**8, "--checkpoint", folder,
                                      "--checkpoint-every", 10**9, *how)
            until(lambda p=process: p.stderr.readline().startswith("epoch "), "an epoch")
            process.send_signal(signal.SIGTERM)
            code, out, err = train_cli.ended(process)
            assert code == 1 and "stopped by SIGTERM after" in err, (how, code, err)
            assert "test accuracy" in out and len(checkpoints(folder)) == 1, (how, out, err)
            result = train_cli.trained("--iterations", 10, "--checkpoint", folder, "--resume", *how)
            assert result["resumed_at"] > 10, (how, result)


def workers_that_stop_one_after_the_other_are_a_note():
    """Under asp the first to stop ends the job of the others, which is no error."""
    process = train_cli.start("--iterations", 10**8, "--workers", 3, "--consistency", "asp", "--json")
    until(lambda: process.stderr.readline().startswith("epoch "), "an epoch")
    process.send_signal(signal.SIGTERM)
    code, out, err = train_cli.ended(process)
    assert code == 1 and "stopped by SIGTERM after" in err, (code, err)
    told = [line for line in err.splitlines() if "closed at clock" in line]
    assert all(line.startswith("trident train: note: ") for line in told) and len(told) < 2, err
    kinds = {event["kind"] for event in json.loads(out)["events"] if "closed" in event["text"]}
    assert kinds <= {"stopped"}, out


def two_signals_at_once_are_one_wish():
    """timeout(1) signals a process, and then its group."""
    for workers in (1, 2):
        process = train_cli.start("--iterations", 10**8, "--workers", workers)
        until(lambda p=process: p.stderr.readline().startswith("epoch "), "an epoch")
        for _ in range(20):
            process.send_signal(signal.SIGTERM)
        code, out, err = train_cli.ended(process)
        assert code == 1 and "stopped by SIGTERM after" in err, (workers, code, err)
        assert "test accuracy" in out, (workers, out, err)


def has_file_in_folder(folder):
    """A thread sanitizer has a file of its own there for a moment."""
    inside = [os.path.join(folder, name) for name in os.listdir(folder)]
    return any(os.path.isdir(name) and os.listdir(name) for name in inside)


def a_killed_benchmark_leaves_no_files():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        with tempfile.TemporaryDirectory() as folder:
            with subprocess.Popen([program("trident"), "bench", "checkpoint", "--only", "elsewhere"],
                                  env=environment(TMPDIR=folder, TRIDENT_QUICK="1"),
                                  stdout=subprocess.DEVNULL) as process:
                until(lambda f=folder: has_file_in_folder(f), "a file in a folder of the benchmark")
                process.send_signal(number)
                process.wait(jobs.SECONDS)
            until(lambda f=folder: os.listdir(f) == [], lambda f=folder: f"{f} to be empty")


def by_hand(**more):
    """Two ranks without trident run, so without its log: exit code and standard error of each."""
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())} | more
    ranks = [subprocess.Popen([str(a) for a in loop()], text=True, stderr=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, env=environment(RANK=str(r), **shared))
             for r in (0, 1)]
    ends = [rank.communicate(timeout=jobs.SECONDS)[1] for rank in ranks]
    return [(rank.returncode, err) for rank, err in zip(ranks, ends)]


def a_trace_that_cannot_be_written_is_told_once():
    for code, err in by_hand(TRIDENT_TRACE="/nowhere/at/all"):
        assert code == 0, err
        assert err.count("'/nowhere/at/all' cannot be written: No such file") == 1, err
    for code, err in by_hand(TRIDENT_TRACE="/dev/full"):
        assert code == 0 and err.count("/dev/full") == 1, err
    for code, err in by_hand():
        assert code == 0 and err == "", err


def a_flight_file_that_cannot_be_written_is_told_once():
    code, _, err = alone(loop(), WORLD_SIZE="2", RANK="0", MASTER_ADDR="127.0.0.1",
                         MASTER_PORT=str(free_port()), TRIDENT_TIMEOUT_MS="300",
                         TRIDENT_FLIGHT="/nowhere/at/all")
    assert code == 1 and "TRI_ETIMEOUT" in err, err
    assert err.count("not in /nowhere/at/all/trident-flight-0.json: No such file") == 1, err


TESTS = (nobody_waits_for_one_that_ended_before_it_joined, sigterm_saves_however_many_train,
         workers_that_stop_one_after_the_other_are_a_note,
         two_signals_at_once_are_one_wish, a_killed_benchmark_leaves_no_files,
         a_trace_that_cannot_be_written_is_told_once,
         a_flight_file_that_cannot_be_written_is_told_once)

if __name__ == "__main__":
    jobs.run_tests(TESTS, __doc__)
