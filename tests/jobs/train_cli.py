#!/usr/bin/env python3
"""trident train with the real engine and real processes, on data made here.

usage: tests/jobs/train_cli.py FOLDER [TEST...]      where trident is, as build/bin
"""
import json
import os
import random
import signal
import struct
import subprocess
import tempfile

import jobs
from jobs import near, one, program, until

CLASSES, SIDE, TRAIN, TEST = 4, 16, 256, 64


def write_idx(folder, part, samples, draw):
    """Images of noise with a bright row for each class."""
    labels = [i % CLASSES for i in range(samples)]
    images = bytearray()
    for label in labels:
        for y in range(SIDE):
            images += bytes(draw.randrange(200, 256) if y == 2 * label else draw.randrange(0, 60)
                            for _ in range(SIDE))
    with open(os.path.join(folder, f"{part}-images-idx3-ubyte"), "wb") as file:
        file.write(struct.pack(">IIII", 0x803, samples, SIDE, SIDE) + bytes(images))
    with open(os.path.join(folder, f"{part}-labels-idx1-ubyte"), "wb") as file:
        file.write(struct.pack(">II", 0x801, samples) + bytes(labels))


DATA = tempfile.TemporaryDirectory()
DRAW = random.Random(7)
write_idx(DATA.name, "train", TRAIN, DRAW)
write_idx(DATA.name, "t10k", TEST, DRAW)


def train(*more):
    return [program("trident"), "train", "--data", "idx:" + DATA.name, "--model", "mlp:32x1",
            "--batch", "8", "--lr", "0.05", "--schedule", "constant", *(str(m) for m in more)]


def trained(*more, **variables):
    """The document of a run that went well."""
    code, out, err = jobs.alone(train("--json", *more), **variables)
    assert code == 0, f"exit {code}:\n{err}"
    return json.loads(out)


def start_with(more, **variables):
    return subprocess.Popen(train(*more), env=jobs.environment(**variables),
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def start(*more):
    return start_with(more)


def ended(process):
    out, err = process.communicate(timeout=jobs.SECONDS)
    return process.returncode, out, err


def one_process_learns():
    result = trained("--epochs", 4)
    assert result["test_accuracy"] > 0.95 and result["test_samples"] == TEST, result
    assert result["workers"] == 1 and result["learners"] == 0, result
    assert result["iterations"] == 4 * TRAIN // 8 and result["events"] == [], result
    assert result["samples_per_s"] > 0 and result["train_loss"] < 1, result


def workers_end_with_the_same_parameters():
    for workers in (2, 3):
        for scheme in ("ps", "sfb", "auto"):
            result = trained("--workers", workers, "--iterations", 20, "--scheme", scheme)
            crcs = result["params_crc32c_by_rank"]
            assert len(crcs) == workers and len(result["params_crc32c"]) == 8, result
            assert one(crcs, "replicas") == result["params_crc32c"], result
            assert scheme == "auto" or set(result["schemes"].values()) == {scheme}, result
            assert result["sent_bytes"] > 0, result


def two_workers_do_what_one_with_twice_the_batch_does():
    alone = trained("--iterations", 30, "--batch", 16)
    for scheme in ("ps", "sfb"):
        both = trained("--iterations", 30, "--workers", 2, "--scheme", scheme)
        near(both["train_loss"], alone["train_loss"], 1e-3)
        assert both["test_accuracy"] == alone["test_accuracy"], (both, alone)


def parameters(path):
    """All values of a model file, by name."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    header.pop("__metadata__", None)
    return {name: struct.unpack_from(f"<{(t['data_offsets'][1] - t['data_offsets'][0]) // 4}f",
                                     data, t["data_offsets"][0]) for name, t in header.items()}


def one_step_of_two_workers_is_one_step_on_the_union():
    """With relu, rounding may flip a sign in later steps: so the first one is compared."""
    with tempfile.TemporaryDirectory() as folder:
        def step(name, *more):
            path = os.path.join(folder, name + ".safetensors")
            trained("--model", "cifar10-quick", "--iterations", 1, "--lr", 0.1, "--out", path, *more)
            return parameters(path)

        alone = step("alone", "--batch", 16)
        for scheme in ("ps", "sfb", "adam", "auto"):
            both = step(scheme, "--workers", 2, "--scheme", scheme)
            assert both.keys() == alone.keys(), (both.keys(), alone.keys())
            for name, values in alone.items():
                off = max(abs(a - b) for a, b in zip(values, both[name]))
                most = max(map(abs, values))
                assert off <= 1e-5 * most, f"{scheme}: {name} is off by {off} of {most}"


def the_same_seed_gives_the_same_bits():
    runs = [trained("--iterations", 10, "--workers", 2, "--seed", s) for s in (3, 3, 4)]
    crcs = [run["params_crc32c"] for run in runs]
    assert crcs[0] == crcs[1] != crcs[2], crcs


def under_trident_run_rank_0_prints():
    code, out, err = jobs.alone([program("trident"), "run", "-n", "2", "--",
                                 *train("--json", "--iterations", 10)])
    assert code == 0, err
    lines = out.splitlines()
    assert all(line.startswith("[0] ") for line in lines), out
    result = json.loads("\n".join(line[4:] for line in lines))
    assert result["workers"] == 2 and result["params_crc32c_by_rank"][1] is None, result
    launched = trained("--workers", 2, "--iterations", 10)
    assert launched["params_crc32c"] == result["params_crc32c"], (launched, result)


def bad_data_is_told_once_and_exits_with_2():
    for more in ((), ("--workers", 3)):
        code, out, err = jobs.alone([*train(*more), "--data", "idx:/nowhere/at/all"])
        assert code == 2 and out == "", (code, out, err)
        assert err.count("trident train:") == 1 and "/nowhere/at/all" in err, err


def a_worker_that_is_killed_is_named_and_ends_the_job():
    process = start("--workers", 3, "--iterations", 10**9)
    until(lambda: ranks_of(process.pid).keys() == {0, 1, 2}, "three workers")
    pids = ranks_of(process.pid)
    jobs.send(pids[1], signal.SIGKILL)
    code, out, err = ended(process)
    assert code == 1 and out == "", (code, out, err)
    assert "rank 1 (pid" in err and "SIGKILL" in err, err
    until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids.values()), "their end")


def the_others_go_on_without_a_worker_if_asked_to():
    process = start("--workers", 3, "--servers", 1, "--iterations", 20000, "--on-failure", "continue",
                    "--json")
    line = process.stderr.readline()
    assert "samples" in line, line
    until(lambda: process.stderr.readline().startswith("epoch "), "an epoch")
    jobs.send(ranks_of(process.pid)[2], signal.SIGKILL)
    code, out, err = ended(process)
    assert code == 0, (code, err)
    result = json.loads(out)
    crcs = result["params_crc32c_by_rank"]
    assert crcs[0] == crcs[1] and crcs[2] is None and result["iterations"] == 20000, result
    assert any(event["kind"] == "evicted" and "rank 2" in event["text"]
               for event in result["events"]), result["events"]


def ranks_of(pid):
    found = {}
    for child in jobs.children_of(pid):
        for entry in jobs.read_file(f"/proc/{child}/environ").split("\0"):
            if entry.startswith("TRIDENT_RANK="):
                found[int(entry[13:])] = child
    return found


def ctrl_c_prints_what_there_is():
    for workers in (1, 2):
        process = start("--workers", workers, "--iterations", 10**9, "--json")
        line = process.stderr.readline()
        assert "samples" in line, line
        until(lambda: process.stderr.readline().startswith("epoch "), "an epoch")
        process.send_signal(signal.SIGINT)
        code, out, err = ended(process)
        result = json.loads(out)
        assert code == 130 and "interrupted after" in err, (code, err)
        assert result["complete"] is False and result["iterations"] > 0, result
        assert result["events"] == [] and result["test_accuracy"] is not None, result
        assert len(result["params_crc32c_by_rank"]) == workers, result
        assert None not in result["params_crc32c_by_rank"], result


def resident_kb(pid):
    for line in jobs.read_file(f"/proc/{pid}/status").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def memory_does_not_grow_with_iterations():
    if jobs.FEW:
        print("        not with a sanitizer, whose own memory grows")
        return
    process = start("--model", "lenet", "--epochs", 10**6)
    sizes = []
    for epochs in (2, 32):               # 32 iterations each
        until(lambda: process.stderr.readline().startswith(f"epoch {epochs}"), "an epoch")
        sizes.append(resident_kb(process.pid))
    process.kill()
    process.communicate()
    assert 0 < sizes[0] < 300000 and sizes[1] < sizes[0] + 1000, sizes


def a_model_is_written_or_refused_before_training():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.safetensors")
        trained("--workers", 2, "--iterations", 5, "--out", path)
        assert sorted(os.listdir(folder)) == ["m.json", "m.safetensors"], os.listdir(folder)
        code, out, err = jobs.alone(train("--out", os.path.join(folder, "no", "m.safetensors")))
        assert code == 2 and out == "" and "epoch" not in err, (code, out, err)


def the_summary_shows_layers_times_and_operators():
    code, out, err = jobs.alone(train("--workers", 2, "--iterations", 10, "--profile"))
    assert code == 0, err
    for part in ("test accuracy", "MB/iteration", "% computing", "the same on all 2 workers",
                 "backward ms", "Try next:"):
        assert part in out, f"'{part}' is not in\n{out}"


TESTS = (one_process_learns, workers_end_with_the_same_parameters,
         two_workers_do_what_one_with_twice_the_batch_does,
         one_step_of_two_workers_is_one_step_on_the_union, the_same_seed_gives_the_same_bits,
         under_trident_run_rank_0_prints, bad_data_is_told_once_and_exits_with_2,
         a_worker_that_is_killed_is_named_and_ends_the_job,
         the_others_go_on_without_a_worker_if_asked_to, ctrl_c_prints_what_there_is,
         memory_does_not_grow_with_iterations, a_model_is_written_or_refused_before_training,
         the_summary_shows_layers_times_and_operators)

if __name__ == "__main__":
    jobs.run_tests(TESTS, __doc__)
