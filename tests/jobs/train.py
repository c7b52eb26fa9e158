#!/usr/bin/env python3
"""Trains with real processes, and looks at what they come to.

usage: tests/jobs/train.py FOLDER [TEST...]      where trident is, as build/bin
"""
import re

import jobs
from jobs import FEW, Gate, Job, alone, near, one, program

MLP = ["--small", "--json", "--steps", "10"]
SIZES = (1, 2, 4) if FEW else (1, 2, 4, 8)


def mlp(*more):
    return [program("examples/mlp"), *MLP, *more]


def finished(job, count):
    """The results by rank, when all went well and are alike."""
    code = job.end()
    assert code == 0 and job.err() == "", f"exit {code}:\n{job.text()}"
    results = sorted(job.results(), key=lambda r: r["rank"])
    assert [r["rank"] for r in results] == list(range(count)), job.text()
    one([r.get("params_crc32c", r.get("crc")) for r in results], "replicas differ")
    return results


def union(count, *more):
    code, out, err = alone(mlp("--union", count, *more))
    assert (code, err) == (0, ""), err
    return jobs.json.loads(out)


def compare(count, results, scheme):
    """Factors give the bits of one process on the union; sums differ by rounding."""
    all_at_once = union(count)
    if scheme in ("sfb", "adam") or count == 1:
        assert results[0]["params_crc32c"] == all_at_once["params_crc32c"], results
        assert results[0]["loss"] == all_at_once["loss"], results
    near(results[0]["loss"], all_at_once["loss"], 1e-5)


def any_number_of_ranks_trains_as_one_process():
    for count in SIZES:
        for scheme in ("ps", "sfb", "adam", None):
            with Job(["-n", count], mlp(*(["--scheme", scheme] if scheme else []))) as job:
                results = finished(job, count)
                assert scheme is None or count == 1 or \
                    set(results[0]["schemes"].values()) == {scheme}, results
                compare(count, results, scheme)


def servers_of_their_own_change_nothing():
    for servers in (1, 2):
        for scheme in ("ps", "sfb", "adam"):
            with Job(["-n", 3, "--servers", servers, "--colocate", "no"],
                     mlp("--scheme", scheme)) as job:
                compare(3, finished(job, 3), scheme)


def fewer_servers_than_ranks_change_nothing():
    for scheme in ("ps", "adam"):
        with Job(["-n", 3, "--servers", 1], mlp("--scheme", scheme)) as job:
            compare(3, finished(job, 3), scheme)


def dense_updates_train_as_factors_do():
    with Job(["-n", 2], mlp("--give", "dense", "--scheme", "ps")) as job:
        near(finished(job, 2)[0]["loss"], union(2)["loss"], 1e-5)


def more_sockets_and_threads_change_no_bit():
    crcs = []
    for sockets, threads in ((1, 0), (4, 0), (1, 3), (3, 2)):
        with Job(["-n", 3], mlp("--scheme", "ps", "--hidden", "200"),
                 TRIDENT_SOCKETS=str(sockets), TRIDENT_THREADS=str(threads),
                 TRIDENT_CHUNK="4KiB") as job:
            crcs.append(finished(job, 3)[0]["params_crc32c"])
    one(crcs, "sockets and threads")


def replicas_compared_on_the_way_are_equal():
    with Job(["-n", 3], mlp(), TRIDENT_CHECKSUM_EVERY="2") as job:
        finished(job, 3)


def stale_consistencies_end_and_learn():
    for consistency in ("ssp:2", "asp"):
        with Job(["-n", 3], mlp("--scheme", "ps", "--steps", "60"),
                 TRIDENT_CONSISTENCY=consistency) as job:
            assert job.end() == 0, job.text()
            for r in job.results():
                assert r["clocks"] == 60 and r["loss"] < 0.8 * r["first_loss"], r


def two_jobs_at_once_do_not_meet():
    with Job(["-n", 3], mlp("--scheme", "sfb", "--seed", "1")) as a, \
            Job(["-n", 3], mlp("--scheme", "sfb", "--seed", "2")) as b:
        crcs = [finished(job, 3)[0]["params_crc32c"] for job in (a, b)]
    assert crcs == [union(3, "--seed", s)["params_crc32c"] for s in ("1", "2")], crcs


def torchrun_s_variables_alone_are_enough():
    port = jobs.free_port()
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [jobs.subprocess.Popen(mlp("--scheme", "sfb"), stdout=jobs.subprocess.PIPE, text=True,
                                   env=jobs.environment(RANK=str(r), **shared)) for r in (0, 1)]
    outs = [rank.communicate(timeout=jobs.SECONDS)[0] for rank in ranks]
    crcs = [jobs.json.loads(out)["params_crc32c"] for out in outs]
    assert one(crcs, "replicas") == union(2)["params_crc32c"], crcs


def sample(pids):
    """Memory in KiB and open files of each process."""
    def memory(pid):
        return int(re.search(r"VmRSS:\s+(\d+)", jobs.read_file(f"/proc/{pid}/status"))[1])
    return {rank: (memory(pid), len(jobs.os.listdir(f"/proc/{pid}/fd")))
            for rank, pid in pids.items()}


def long_jobs_need_no_more_memory_or_files():
    """Scratch memory comes once per thread and at any time, a leak comes in every iteration."""
    count, clocks = (6, (25, 50, 75, 100)) if FEW else (16, (50, 100, 150, 200))
    gates = [Gate() for _ in clocks]
    holds = [word for clock, gate in zip(clocks, gates) for word in ("--hold", clock, gate.path)]
    samples = []
    with Job(["-n", count], [program("job_loop"), "--clocks", clocks[-1] + 1, *holds]) as job:
        for clock, gate in zip(clocks, gates):
            job.wait_clock(range(count), clock)
            samples.append(sample(job.pids()))
            gate.open()
        finished(job, count)
    for rank in range(count):
        memory, files = zip(*(s[rank] for s in samples))
        one(files, f"open files of rank {rank}")
        steps = [b - a for a, b in zip(memory, memory[1:])]
        assert FEW or min(steps) < 64 and sum(steps) < 5000, f"rank {rank}: {memory} KiB"


TESTS = (any_number_of_ranks_trains_as_one_process, servers_of_their_own_change_nothing,
         fewer_servers_than_ranks_change_nothing, dense_updates_train_as_factors_do,
         more_sockets_and_threads_change_no_bit, replicas_compared_on_the_way_are_equal,
         stale_consistencies_end_and_learn, two_jobs_at_once_do_not_meet,
         torchrun_s_variables_alone_are_enough, long_jobs_need_no_more_memory_or_files)

if __name__ == "__main__":
    jobs.run_tests(TESTS, __doc__)
