#!/usr/bin/env python3
"""Checkpoints of real jobs: resumed bit for bit, on other numbers of workers, after kill -9, a full
disk and damage.

usage: tests/jobs/resume.py FOLDER [TEST...]      where trident is, as build/bin
environment: TRIDENT_KILLS=N   how often the whole job is killed (default 8)
"""
import glob
import json
import os
import random
import signal
import subprocess
import tempfile
import time

import jobs
from jobs import one, program
from read_checkpoint import read_checkpoint
from train_cli import ended, start, train, trained

WAYS = (("--workers", 1), ("--workers", 2), ("--workers", 2, "--scheme", "sfb"),
        ("--workers", 3, "--servers", 2, "--optimizer", "adam", "--lr", 0.002))


def files(folder):
    """Whole checkpoints, the oldest first."""
    return sorted(glob.glob(os.path.join(folder, "clock-*.safetensors")))


def ten_epochs_are_five_and_five_more():
    for way in WAYS[:2] if jobs.FEW else WAYS:
        with tempfile.TemporaryDirectory() as folder:
            whole = trained("--epochs", 10, *way)
            half = trained("--epochs", 5, "--checkpoint", folder, *way)
            rest = trained("--epochs", 10, "--checkpoint", folder, "--resume", *way)
            assert rest["resumed_at"] == half["iterations"], (rest, half)
            assert rest["iterations"] == whole["iterations"], (rest, whole)
            crcs = rest["params_crc32c_by_rank"] + [whole["params_crc32c"]]
            assert one(crcs, way) != half["params_crc32c"], way


def running_statistics_come_back():
    """resnet20 has batch normalisation: statistics are no parameters, and kept."""
    more = ("--model", "resnet20", "--batch", 4, "--lr", 0.01)
    with tempfile.TemporaryDirectory() as folder:
        whole = trained("--iterations", 6, *more)
        trained("--iterations", 3, "--checkpoint", folder, *more)
        rest = trained("--iterations", 6, "--checkpoint", folder, "--resume", *more)
        assert rest["params_crc32c"] == whole["params_crc32c"], (rest, whole)
        assert rest["test_accuracy"] == whole["test_accuracy"], (rest, whole)
        _, tensors = read_checkpoint(files(folder)[-1])
        assert any("running_mean" in name for name in tensors), list(tensors)


def any_number_of_workers_goes_on():
    with tempfile.TemporaryDirectory() as folder:
        made = trained("--workers", 4, "--iterations", 12, "--checkpoint", folder)
        for workers in (1, 2, 3, 4):
            same = trained("--workers", workers, "--iterations", 12, "--checkpoint", folder,
                           "--resume")
            assert same["resumed_at"] == 12, same
            assert one(same["params_crc32c_by_rank"] + [made["params_crc32c"]], workers)
        for workers in (1, 2, 3, 4):
            with tempfile.TemporaryDirectory() as copy:
                os.link(files(folder)[-1], os.path.join(copy, os.path.basename(files(folder)[-1])))
                more = trained("--workers", workers, "--epochs", 6, "--checkpoint", copy, "--resume")
                assert more["test_accuracy"] > 0.95, more
                assert one(more["params_crc32c_by_rank"], workers) != made["params_crc32c"], more


def crc_of_loop(clocks, *args, **variables):
    with jobs.Job(args, [program("job_loop"), "--clocks", clocks, "--fc"], TRIDENT_FLIGHT="off",
                  **variables) as job:
        assert job.end() == 0, job.text()
        return one([result["crc"] for result in job.results()], "replicas")


def a_program_of_ones_own_goes_on_without_a_change_of_it():
    """Servers apart, then in the workers, then one process: the environment says it all."""
    for scheme in ("ps", "sfb", "adam"):
        with tempfile.TemporaryDirectory() as folder:
            more = {"TRIDENT_SCHEME": scheme, "TRIDENT_OPTIMIZER": "adam"}
            saves = {"TRIDENT_CHECKPOINT": folder, "TRIDENT_CHECKPOINT_EVERY": "10",
                     "TRIDENT_CHECKPOINT_KEEP": "9", **more}
            apart = ("-n", 3, "--servers", 2, "--colocate", "no")
            whole = crc_of_loop(24, *apart, **more)
            assert crc_of_loop(24, *apart, **saves) == whole, scheme
            assert newest(folder) in (10, 20), files(folder)
            assert crc_of_loop(24, *apart, TRIDENT_RESUME="on", **saves) == whole, scheme
            assert crc_of_loop(24, "-n", 3, TRIDENT_RESUME="on", **saves) == whole, scheme


def what_is_kept_is_of_the_same_clock():
    """Though servers have everything of it before rank 0 has ended it."""
    with tempfile.TemporaryDirectory() as folder:
        saves = {"TRIDENT_CHECKPOINT": folder, "TRIDENT_CHECKPOINT_EVERY": "6",
                 "TRIDENT_CHECKPOINT_KEEP": "9", "TRIDENT_FLIGHT": "off"}
        for clocks, more in ((21, {}), (40, {"TRIDENT_RESUME": "on"})):
            with jobs.Job(("-n", 2), [program("job_loop"), "--clocks", clocks, "--late"],
                          **saves, **more) as job:
                assert job.end() == 0, job.text()
        for path in files(folder):
            metadata, tensors = read_checkpoint(path)
            assert list(tensors["position"][1]) == [int(metadata["clock"])], (path, metadata)
        assert len(files(folder)) > 2, files(folder)


def a_plain_reader_opens_it():
    with tempfile.TemporaryDirectory() as folder:
        trained("--workers", 2, "--iterations", 9, "--checkpoint", folder, "--optimizer",
                "momentum:0.9")
        metadata, tensors = read_checkpoint(files(folder)[-1])
        assert metadata["clock"] == "9" and metadata["optimizer"] == "momentum:0.9", metadata
        shape, values = tensors["fc1.weight"]
        assert shape == [32, 256] and len(values) == 32 * 256, shape
        assert tensors["optim.0.fc1.weight"][0] == shape, list(tensors)
        assert list(tensors["train"][1])[0] == 9 * 16, tensors["train"]
        assert any(value != 0 for value in tensors["optim.0.fc1.weight"][1])


def the_last_ones_are_kept():
    with tempfile.TemporaryDirectory() as folder:
        trained("--iterations", 40, "--checkpoint", folder, "--checkpoint-every", 5)
        names = [os.path.basename(path) for path in files(folder)]
        assert len(names) == 2 and names[-1] == "clock-000000000040.safetensors", names
        assert sorted(os.listdir(folder)) == names, os.listdir(folder)


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 16]))


def a_damaged_one_is_passed_over_and_named():
    with tempfile.TemporaryDirectory() as folder:
        trained("--iterations", 20, "--checkpoint", folder, "--checkpoint-every", 10)
        older, newest = files(folder)
        flip(newest, os.path.getsize(newest) - 5)
        result = trained("--iterations", 20, "--checkpoint", folder, "--resume")
        assert result["resumed_at"] == 10, result
        assert any(os.path.basename(newest) in event["text"] for event in result["events"]), result
        os.truncate(older, os.path.getsize(older) // 2)
        for path in files(folder):
            if os.path.getsize(path) != os.path.getsize(older):
                flip(path, os.path.getsize(path) // 2)
        code, out, err = jobs.alone(train("--iterations", 20, "--checkpoint", folder, "--resume"))
        assert code == 2 and out == "" and folder in err, (code, out, err)
        code, out, err = jobs.alone([program("trident"), "checkpoint", "verify", folder])
        assert code == 2 and os.path.basename(older) in out + err, (code, out, err)


def what_does_not_fit_is_refused_by_name():
    with tempfile.TemporaryDirectory() as folder:
        trained("--iterations", 5, "--checkpoint", folder)
        before = files(folder)
        for more, names in ((("--model", "mlp:48x1"), ("fc1", "48")), (("--seed", 5), ("seed", "5")),
                            (("--optimizer", "adam"), ("adam", "momentum"))):
            for workers in (1, 2):
                code, out, err = jobs.alone(train("--iterations", 9, "--checkpoint", folder,
                                                  "--resume", "--workers", workers, *more))
                assert code == 2 and out == "", (code, out, err)
                assert all(name in err for name in names), err
        assert files(folder) == before, files(folder)
        code, _, err = jobs.alone(train("--resume"))
        assert code == 2 and "--checkpoint" in err, err


def a_full_disk_loses_no_older_one():
    """On a file system of 1 MB; three checkpoints of this job do not fit."""
    with tempfile.TemporaryDirectory() as folder:
        line = f"mount -t tmpfs -o size=1m trident {folder} && exec \"$@\""
        tried = subprocess.run(["unshare", "-rm", "sh", "-c", line, "-", "true"],
                               capture_output=True, check=False)
        if tried.returncode != 0:
            print("skipped a_full_disk_loses_no_older_one: cannot mount a small file system here")
            return
        args = train("--model", "mlp:256x1", "--iterations", 40, "--checkpoint", folder, "--json",
                     "--checkpoint-every", 10, "--workers", 2)
        code, out, err = jobs.alone(
            ["unshare", "-rm", "sh", "-c", line + f"; code=$?; ls -A {folder} >&2; exit $code",
             "-", "sh", "-c", f"\"$@\"; code=$?; ls -A {folder} >&2; exit $code", "-", *args])
        assert code == 0, (code, out, err)
        said = [event["text"] for event in json.loads(out)["events"]]
        assert any("not saved" in text and "space" in text for text in said), said
        left = err.split("\n")[-2:-1]
        assert left and left[0].startswith("clock-") and "tmp" not in err.split("\n")[-2], err


def killed_at_any_moment_the_newest_whole_one_loads():
    """The whole job, again and again, while it does little else than write checkpoints."""
    kills = int(os.environ.get("TRIDENT_KILLS", 3 if jobs.FEW else 8))
    draw = random.Random(11)
    counts = {"kills": 0, "with a temporary file left": 0}
    with tempfile.TemporaryDirectory() as folder:
        clock = 0
        while counts["kills"] < kills:
            process = start("--model", "mlp:128x2", "--iterations", 1000000, "--checkpoint", folder,
                            "--checkpoint-every", 3, "--resume", "--workers",
                            1 + counts["kills"] % 3)
            jobs.until(lambda was=clock: process.poll() is not None or newest(folder) > was,
                       "a checkpoint")
            time.sleep(draw.random() * 0.05)  # any moment will do
            tree = [process.pid] + jobs.children_of(process.pid)
            for pid in tree:
                jobs.send(pid, signal.SIGKILL)
            process.communicate(timeout=jobs.SECONDS)
            counts["kills"] += 1
            counts["with a temporary file left"] += any(name.endswith(".tmp")
                                                        for name in os.listdir(folder))
            code, out, err = jobs.alone([program("trident"), "checkpoint", "verify", folder])
            assert code == 0, (code, out, err)
            assert newest(folder) > clock, (newest(folder), clock)
            clock = newest(folder)
        last = trained("--model", "mlp:128x2", "--iterations", clock, "--checkpoint", folder,
                       "--resume")
        assert last["resumed_at"] == clock, last
    print("       ", ", ".join(f"{count} {what}" for what, count in counts.items()))


def newest(folder):
    return max((int(os.path.basename(path)[6:18]) for path in files(folder)), default=0)


def ctrl_c_and_resume():
    with tempfile.TemporaryDirectory() as folder:
        process = start("--iterations", 100000, "--checkpoint", folder, "--checkpoint-every", 20,
                        "--workers", 2)
        jobs.until(lambda: process.poll() is not None or newest(folder) > 0, "a checkpoint")
        process.send_signal(signal.SIGINT)
        code, _, err = ended(process)
        assert code == 130, (code, err)
        for workers in (2, 1):    # what momentum has of the order to stop must not stop it again
            clock = newest(folder)
            result = trained("--iterations", clock + 30, "--checkpoint", folder, "--resume",
                             "--workers", workers)
            assert result["resumed_at"] == clock, result
            assert result["iterations"] == clock + 30 == newest(folder), result


def ctrl_c_saves_before_it_stops():
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            process = start("--iterations", 10**8, "--checkpoint", folder, "--checkpoint-every",
                            10**9, "--workers", workers)
            jobs.until(lambda p=process: p.stderr.readline().startswith("epoch "), "an epoch")
            process.send_signal(signal.SIGINT)
            code, _, err = ended(process)
            assert code == 130 and newest(folder) > 0, (code, err, files(folder))


TESTS = (ten_epochs_are_five_and_five_more, running_statistics_come_back,
         any_number_of_workers_goes_on, a_program_of_ones_own_goes_on_without_a_change_of_it,
         what_is_kept_is_of_the_same_clock, a_plain_reader_opens_it, the_last_ones_are_kept,
         a_damaged_one_is_passed_over_and_named, what_does_not_fit_is_refused_by_name,
         a_full_disk_loses_no_older_one, killed_at_any_moment_the_newest_whole_one_loads,
         ctrl_c_and_resume, ctrl_c_saves_before_it_stops)

if __name__ == "__main__":
    jobs.run_tests(TESTS, __doc__)
