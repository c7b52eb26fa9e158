#!/usr/bin/env python3
"""trident train --learners with real processes, on texts made here: that they learn, and that they
learn although things are killed.

usage: tests/jobs/learners.py FOLDER [TEST...]       where trident is, as build/bin

TRIDENT_CHAOS=200 for so many runs in which things are killed, TRIDENT_CHAOS_SEED to repeat some.
"""
import collections
import fcntl
import glob
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time

import jobs
from jobs import program, until
from train_cli import parameters

SAMPLES = 480
ONE_SET = ("direct", "server", "sync")           # of parameters, that all read
MODES = ONE_SET + ("replicas",)
SERVED = ("server", "sync")
SOME = ("server",) if jobs.FEW else MODES        # where each takes its time
KEYS = (("red", "crimson"), ("blue", "navy"), ("green", "olive"), ("white", "ivory"))


def write_texts(path):
    """Four classes of texts: noise, and two words of the class."""
    draw = random.Random(5)
    with open(path, "w", encoding="utf-8") as file:
        for i in range(SAMPLES):
            words = [f"w{draw.randrange(60)}" for _ in range(draw.randrange(3, 8))]
            for _ in range(2):
                words.insert(draw.randrange(len(words) + 1), draw.choice(KEYS[i % 4]))
            file.write(f"c{i % 4}\t{' '.join(words)}\n")


DATA = tempfile.TemporaryDirectory()
TEXTS = os.path.join(DATA.name, "texts.tsv")
write_texts(TEXTS)


MODEL = "textcnn:embed=16,filters=16,hidden=0,dropout=0"


def train(*more):
    model = () if "--model" in more else ("--model", MODEL)
    return [program("trident"), "train", "--data", "tsv:" + TEXTS, *model, "--optimizer", "sgd",
            "--lr", "0.2", "--batch", "4", "--schedule", "constant", *(str(m) for m in more)]


def trained(*more, **variables):
    code, out, err = jobs.alone(train("--json", *more), **variables)
    assert code == 0, f"{more}: exit {code}:\n{err}"
    return json.loads(out)


def start(*more, **variables):
    """A process whose standard error can be read while it runs, by said()."""
    with tempfile.NamedTemporaryFile(dir=DATA.name, delete=False) as errors:
        process = subprocess.Popen(train("--json", *more), env=jobs.environment(**variables),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                                   text=True)
        process.errors = errors.name
    return process


def said(process):
    return jobs.read_file(process.errors)


def ended(process):
    out, _ = process.communicate(timeout=jobs.SECONDS)
    return process.returncode, out, said(process)


# ---- who is there ----

def roles_of(pid):
    """Children of a launcher: learners by rank, "server", "sweep"."""
    found = {}
    for child in jobs.children_of(pid):
        values = dict(entry.split("=", 1) for entry in
                      jobs.read_file(f"/proc/{child}/environ").split("\0") if "=" in entry)
        role = values.get("TRIDENT_TRAIN_WORKER")
        if role in ("1", "finish"):
            found[int(values["TRIDENT_RANK"])] = child
        elif role is not None:
            found[role] = child
    return found


def learners_of(pid):
    return {rank: child for rank, child in roles_of(pid).items() if isinstance(rank, int)}


def regions(pid=None):
    """Files of regions: of one launcher's job, or of all launchers that are gone."""
    found = []
    for folder in ("/dev/shm", "/tmp"):
        for path in glob.glob(os.path.join(folder, "trident-*train-*")):
            owner = path.rsplit("train-", 1)[1].split(".")[0]
            if pid is None or owner == str(pid):
                found.append(path)
    return found


def has_region(pid, launcher):
    return f"train-{launcher}" in jobs.read_file(f"/proc/{pid}/maps")


def lives(pid):
    state = jobs.read_file(f"/proc/{pid}/stat").rsplit(")", 1)[-1].split()
    return bool(state) and state[0] != "Z"


def check_nothing_left(pid, children):
    until(lambda: not any(lives(child) for child in children), f"the end of {children}")
    until(lambda: not regions(pid), lambda: f"{regions(pid)} to go")


def sums_up(result):
    """Every gradient that was handed over is accounted for."""
    g = result["gradients"]
    return g["pushed"] == g["applied"] + g["torn"] + g["discarded"]


# ---- learning ----

def learners_learn():
    for mode in MODES:
        for learners in (2,) if jobs.FEW else (1, 2, 4):
            result = trained("--learners", learners, "--local", mode, "--epochs", 8)
            assert result["test_accuracy"] > 0.9, result
            assert result["learners"] == learners and result["workers"] == 0, result
            assert result["local"] == mode and result["events"] == [], result
            assert result["gradients"]["pushed"] == learners * result["iterations"], result
            assert sums_up(result) and result["gradients"]["lost"] == 0, result
            assert mode != "sync" or result["staleness"]["max"] == 0, result


def other_optimizers_and_locks_learn():
    for mode in ONE_SET:
        for more in (("--optimizer", "adam", "--lr", 0.01), ("--locked",)):
            result = trained("--learners", 2, "--local", mode, "--epochs", 8, *more)
            assert result["test_accuracy"] > 0.9 and sums_up(result), (more, result)


def learners_with_copies_of_their_own_learn():
    """With a push and a pull thread each gradient counts once, and is in the result once."""
    for mode in ONE_SET:
        for more in ((), ("--locked",)):
            result = trained("--learners", 2, "--local", mode, "--epochs", 8, *more,
                             TRIDENT_LOCAL_COPIES="on")
            assert result["test_accuracy"] > 0.9 and sums_up(result), (more, result)
            assert result["gradients"]["pushed"] == 2 * result["iterations"], (more, result)
            assert result["gradients"]["applied"] == 2 * result["iterations"], (more, result)


def sgd_is_direct_and_others_have_a_server():
    assert trained("--learners", 1, "--iterations", 3)["local"] == "direct"
    adam = trained("--learners", 1, "--iterations", 3, "--optimizer", "adam", "--lr", 0.01)
    assert adam["local"] == "server", adam


def parameters_of(*more, **variables):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors")
        trained("--out", path, *more, **variables)
        return parameters(path)


def check_alike(one, other, what):
    assert one.keys() == other.keys(), (one.keys(), other.keys())
    for key, values in one.items():
        off = max(abs(a - b) for a, b in zip(values, other[key]))
        most = max(map(abs, values))
        assert off <= 1e-5 * most, f"{what}: {key} is off by {off} of {most}"


def a_round_of_two_is_a_step_of_one_with_twice_the_batch():
    alone = parameters_of("--iterations", 1, "--batch", 8)
    for more in (("--workers", 2), ("--learners", 2, "--local", "sync")):
        check_alike(alone, parameters_of("--iterations", 1, *more), more)


def steps_of_its_own_add_up():
    def learn(*more):
        return parameters_of("--learners", 1, "--schedule", "cosine", *more)

    alone = learn("--iterations", 20)
    for mode in ("direct", "sync"):          # which do not run ahead of what they have handed over
        check_alike(alone, learn("--local", mode, "--iterations", 4, "--exchange-every", 5), mode)


def learners_that_exchange_seldom_learn_and_resume():
    for mode in ONE_SET:
        with tempfile.TemporaryDirectory() as folder:
            def go(epochs, *more):
                result = trained("--learners", 2, "--local", mode, "--exchange-every", 4,
                                 "--epochs", epochs, "--checkpoint", folder, *more)
                assert result["exchange_every"] == 4 and sums_up(result), result
                return result

            first, more = go(5), go(10, "--resume")
            per_iteration = 2 * 4 * 4
            want = -(-5 * first["train_samples"] // per_iteration)
            assert first["iterations"] == want, (first, want)
            assert first["gradients"]["pushed"] == 2 * want, first
            assert more["resumed_at"] == want and abs(more["iterations"] - 2 * want) <= 1, more
            assert more["test_accuracy"] > 0.9, more


def one_with_a_copy_of_its_own_learns_as_one_without():
    """A step that is made when the rows are read next is the same step."""
    alone = parameters_of("--learners", 1, "--local", "direct", "--iterations", 40)
    check_alike(alone, parameters_of("--learners", 1, "--local", "replicas", "--iterations", 40),
                "replicas")


DEEP = ("--model", MODEL.replace("hidden=0", "hidden=32"))


def a_layer_that_lies_there_once_is_learned_as_one_of_each():
    deep = ("--local", "replicas", "--iterations", 40, *DEEP)
    check_alike(parameters_of("--learners", 1, *deep, TRIDENT_LOCAL_COMMON="0"),
                parameters_of("--learners", 1, *deep, TRIDENT_LOCAL_COMMON="1"), "common")
    with tempfile.TemporaryDirectory() as folder:
        for learners, epochs in ((3, 10), (2, 20)):
            result = trained("--learners", learners, "--local", "replicas", "--epochs", epochs,
                             "--evaluate-every", 3, "--checkpoint", folder, "--resume", *DEEP,
                             TRIDENT_LOCAL_COMMON="1")
            assert result["test_accuracy"] > 0.9 and sums_up(result), result
            common = [layer["name"] for layer in result["layers"] if layer["common"]]
            assert common == ["fc_hidden"], result["layers"]
    result = trained("--learners", 2, *deep)         # small layers are not, by default
    assert not any(layer["common"] for layer in result["layers"]), result["layers"]


def rounds_can_be_repeated_bit_by_bit():
    crcs = {trained("--learners", 3, "--local", "sync", "--epochs", 2)["params_crc32c"]
            for _ in range(2)}
    assert len(crcs) == 1, crcs


def more_learners_than_cores():
    for mode in SOME:
        result = trained("--learners", 8, "--local", mode, "--epochs", 8)
        assert result["test_accuracy"] > 0.9 and sums_up(result), result


def the_heading_comes_whoever_is_the_first():
    """Rank 0 dies before it has begun, so that often the other is."""
    for _ in range(3 if jobs.FEW else 10):
        code, _, err = jobs.alone(train("--learners", 2, "--epochs", 8),
                                  TRIDENT_LOCAL_FAULT="0:seats:1")
        heads = [line for line in err.splitlines() if " parameters on " in line]
        assert code == 0 and len(heads) == 1 and "2 learners, batches of 4" in heads[0], err


def two_jobs_do_not_meet():
    both = [start("--learners", 2, "--local", "server", "--epochs", 20) for _ in range(2)]
    for process in both:
        code, out, err = ended(process)
        assert code == 0, err
        assert json.loads(out)["test_accuracy"] > 0.9, out


def settings_of_workers_do_not_concern_learners():
    for name, value in (("TRIDENT_COLOCATE", "off"), ("TRIDENT_MODE", "network")):
        assert trained("--learners", 2, "--iterations", 5, **{name: value})["learners"] == 2


def what_a_setting_says_of_local_holds_unless_an_option_does():
    def local(*more, launcher=(), **variables):
        code, out, err = jobs.alone([*launcher, *train("--json", "--learners", 2, "--iterations", 3,
                                                       *more)], **variables)
        assert code == 0, err
        return json.loads(out.replace("[0] ", ""))["local"]

    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write("local = server\n")
        file.flush()
        config = {"TRIDENT_CONFIG": file.name}
        assert local(**config) == "server"
        assert local(**config, TRIDENT_LOCAL="sync") == "sync"
        assert local("--local", "replicas", **config, TRIDENT_LOCAL="sync") == "replicas"
        assert local("--local", "auto", **config, TRIDENT_LOCAL="sync") == "direct"
        assert local(**config, TRIDENT_LOCAL="auto") == "direct"
    under = (program("trident"), "run", "-n", "2", "--")
    assert local(launcher=under, TRIDENT_LOCAL="sync") == "sync"
    assert local("--local", "direct", launcher=under, TRIDENT_LOCAL="sync") == "direct"


def settings_that_would_not_reach_learners_are_refused():
    for name, value, option in (("TRIDENT_CHECKPOINT", "somewhere", "--checkpoint DIR"),
                                ("TRIDENT_LOCKED", "on", "--locked")):
        code, _, err = jobs.alone(train("--learners", 2, "--iterations", 5), **{name: value})
        assert code == 2 and option in err, (code, err)


def under_another_launcher_they_share_memory_too():
    for mode in SOME:
        code, out, err = jobs.alone([program("trident"), "run", "-n", "3", "--",
                                     *train("--json", "--learners", 3, "--local", mode,
                                            "--epochs", 8)])
        assert code == 0, err
        result = json.loads("\n".join(line[4:] for line in out.splitlines()))
        assert result["learners"] == 3 and result["test_accuracy"] > 0.9, result
        assert sums_up(result), result
    code, out, err = jobs.alone([program("trident"), "run", "-n", "2", "--",
                                 *train("--learners", 3)])
    assert code == 1 and "'--learners' cannot be '3'" in err, (code, err)


def a_recipe_sets_what_is_not_given():
    result = trained("--learners", 2, "--recipe", "service", "--epochs", 1, "--lr", 0.02)
    assert result["batch"] == 4 and result["lr"] == 0.02 and result["recipe"] == "service", result
    code, out, err = jobs.alone([program("trident"), "train", "--data", "tsv:" + TEXTS, "--model",
                                 "textcnn:embed=8,filters=8,hidden=0", "--recipe", "service",
                                 "--iterations", "5", "--json"])
    assert code == 0, err
    result = json.loads(out)
    assert (result["batch"], result["lr"], result["optimizer"]) == (2, 0.01, "sgd"), result


# ---- checkpoints ----

def a_job_is_resumed_by_any_number_of_either_kind():
    for mode, optimizer, lr in (("direct", "sgd", 0.2), ("server", "adam", 0.01),
                                ("sync", "momentum:0.5", 0.1), ("replicas", "sgd", 0.2)):
        with tempfile.TemporaryDirectory() as folder:
            same = ("--optimizer", optimizer, "--lr", lr, "--checkpoint", folder)
            first = trained("--learners", 2, "--local", mode, "--epochs", 3, *same)
            assert sums_up(first), first
            at = first["iterations"]
            code, out, err = jobs.alone([program("trident"), "checkpoint", "verify", folder])
            assert code == 0 and f"{at:012}" in out, (out, err)
            more = trained("--learners", 3, "--local", mode, "--epochs", 5, "--resume", *same)
            assert more["resumed_at"] == at and more["iterations"] > at, more
            assert sums_up(more) and more["gradients"]["pushed"] < first["gradients"]["pushed"]
            last = trained("--workers", 2, "--epochs", 8, "--resume", *same)
            assert last["resumed_at"] == more["iterations"], (last, more)
            back = trained("--learners", 1, "--local", mode, "--epochs", 10, "--resume", *same)
            assert back["resumed_at"] == last["iterations"], (back, last)
            assert back["test_accuracy"] > 0.9, back


def programs_save_and_resume_in_shared_memory_too():
    """Without a watchdog rank 0 saves."""
    for mode in SOME:
        with tempfile.TemporaryDirectory() as folder:
            def go(epochs, *more):
                code, out, err = jobs.alone([program("trident"), "run", "-n", "2", "--", *train(
                    "--json", "--learners", 2, "--local", mode, "--epochs", epochs,
                    "--checkpoint", folder, *more)])
                assert code == 0, err
                return json.loads("\n".join(line[4:] for line in out.splitlines()))

            first, second = go(2), go(4, "--resume")
            assert second["resumed_at"] == first["iterations"] > 0, (first, second)


def while_it_saves(mode, act, *more):
    """Starts a job on a disk that takes its time, and calls act(process) while a checkpoint is being
    written there: exit code, output, errors, and the clock of the newest checkpoint in the end."""
    with jobs.Gate() as gate, tempfile.TemporaryDirectory() as folder:
        process = start("--learners", 2, "--local", mode, "--checkpoint", folder,
                        "--checkpoint-every", 5, *more, LD_PRELOAD=program("slow_disk.so"),
                        SLOW_DISK=gate.path)
        try:
            until(lambda: os.path.exists(gate.path + ".waits"), "a checkpoint to be written")
            act(process)
            assert newest_in(folder) is None and process.poll() is None, said(process)
        finally:
            gate.open()
            jobs.send(process.pid, signal.SIGINT)    # if it has not ended by then
            code, out, err = ended(process)
        return code, out, err, newest_in(folder)


def learners_end(process):
    until(lambda: not any(map(lives, learners_of(process.pid).values())), "the end of the learners")


def a_signal_is_heeded_while_a_checkpoint_is_written():
    def stop(process):
        jobs.send(process.pid, signal.SIGINT)
        learners_end(process)

    for mode in SOME:
        code, out, err, saved = while_it_saves(mode, stop, "--epochs", 100000)
        assert code == 130 and saved is not None, (code, out, err)
        check_counts(json.loads(out), err, saved)


def who_dies_while_a_checkpoint_is_written_is_started_again():
    def hurt(process):
        kill(learners_of(process.pid)[1])
        until(lambda: " gradients and is started again\n" in said(process), "a word of its death")

    code, out, err, saved = while_it_saves("direct", hurt, "--epochs", 100000)
    assert code == 130 and json.loads(out)["restarts"]["learners"] == 1, (code, out, err)
    check_counts(json.loads(out), err, saved)


def the_last_checkpoint_is_awaited():
    with jobs.Gate() as gate, tempfile.TemporaryDirectory() as folder:
        process = start("--learners", 2, "--epochs", 2, "--checkpoint", folder,
                        LD_PRELOAD=program("slow_disk.so"), SLOW_DISK=gate.path)
        until(lambda: os.path.exists(gate.path + ".waits"), "a checkpoint to be written")
        learners_end(process)
        assert newest_in(folder) is None and process.poll() is None, said(process)
        gate.open()
        code, out, err = ended(process)
        assert code == 0 and newest_in(folder) == json.loads(out)["iterations"], (code, out, err)


def a_checkpoint_that_cannot_be_written_is_told():
    """As a warning, on the way and in the end; what was learnt is told all the same."""
    with tempfile.TemporaryDirectory() as outer:
        folder = os.path.join(outer, "folder")
        process = start("--learners", 2, "--epochs", 100000, "--checkpoint", folder,
                        "--checkpoint-every", 5)
        try:
            until(lambda: os.path.isdir(folder) and newest_in(folder),
                  lambda: f"a checkpoint: {process.poll()}, {said(process)[-2000:]}")
            os.rename(folder, folder + "-away")
            with open(folder, "w", encoding="utf-8"):
                until(lambda: "trident train: no checkpoint: " in said(process), "a warning")
        finally:
            jobs.send(process.pid, signal.SIGINT)
            code, out, err = ended(process)
        missing = f"the last checkpoint is missing: cannot make the folder '{folder}' (Not a directory)"
        assert code == 130 and missing in err, (code, out, err[-700:])
        result = json.loads(out)
        assert result["test_accuracy"] > 0.9 and result["events"][-1]["text"] == missing, out
        assert newest_in(folder + "-away"), err


# ---- when things die ----

def run_and_hurt(mode, learners, hurt, *more):
    """Starts a job that lasts a moment, waits until all of it trains, and calls hurt(pid)."""
    process = start("--learners", learners, "--local", mode, *more)
    seen = set()

    def trains():
        roles = roles_of(process.pid)
        seen.update(roles.values())
        shared = [has_region(child, process.pid) for role, child in roles.items()
                  if role != "sweep"]
        return process.poll() is not None or (
            len(shared) == learners + (mode in SERVED) and all(shared) and
            "epoch" in said(process))

    until(trains, "learners")
    hurt(process.pid)
    seen.update(roles_of(process.pid).values())
    code, out, err = ended(process)
    check_nothing_left(process.pid, seen)
    return code, out, err


def kill(pid):
    jobs.send(pid, signal.SIGKILL)


LONG = ("--epochs", 30 if jobs.FEW else 150)


def a_dead_learner_is_named_and_started_again():
    for mode in SOME:
        code, out, err = run_and_hurt(mode, 2, lambda pid: kill(learners_of(pid)[1]), *LONG)
        assert code == 0, err
        result = json.loads(out)
        assert "learner 1" in err and result["restarts"]["learners"] == 1, (result, err)
        assert " gradients and is started again\n" in err, err
        assert [event["kind"] for event in result["events"]] == ["warning"], result["events"]
        assert result["test_accuracy"] > 0.9 and sums_up(result), result


def the_rest_goes_on_without_a_learner_if_asked_to():
    for mode in SOME:
        code, out, err = run_and_hurt(mode, 3, lambda pid: kill(learners_of(pid)[0]),
                                      "--learner-restarts", 0, *LONG)
        assert code == 0, err
        result = json.loads(out)
        assert result["restarts"] == {"learners": 0, "server": 0, "all": 0}, result
        assert " gradients and the others go on without it\n" in err, err
        # It may have been the only one that had begun: then what it did is told to be lost, too.
        kinds = [event["kind"] for event in result["events"]
                 if "all who had them are dead" not in event["text"]]
        assert kinds == ["evicted"], result["events"]
        assert result["test_accuracy"] > 0.9 and sums_up(result), result


def one_that_dies_before_it_has_begun_is_not_started_again_either():
    for mode, victim in [(mode, 1) for mode in SOME] + [("server", 0)]:
        code, out, err = jobs.alone(train("--json", "--learners", 2, "--local", mode, "--epochs", 8,
                                          "--learner-restarts", 0),
                                    TRIDENT_LOCAL_FAULT=f"{victim}:seats:1")
        assert code == 0 and f"learner {victim} was ended by SIGKILL before it had begun and the " \
            "others go on without it\n" in err, (code, err)
        result = json.loads(out)
        assert result["restarts"] == {"learners": 0, "server": 0, "all": 0}, result
        assert result["learners_gone"] == 1 and sums_up(result), result
        assert [event["kind"] for event in result["events"]] == ["evicted"], result["events"]


def if_none_has_begun_all_start_again():
    result = trained("--learners", 2, "--epochs", 8, "--learner-restarts", 0,
                     TRIDENT_LOCAL_FAULT="0:seats:1,1:seats:1")
    assert result["restarts"] == {"learners": 0, "server": 0, "all": 1}, result
    assert result["learners_gone"] == 0 and result["test_accuracy"] > 0.9, result


def nobody_goes_on_without_the_one_that_begins():
    """Rank 0 is killed before it has made the region."""
    for _ in range(20):
        process = start("--learners", 2, "--epochs", 8, "--learner-restarts", 0)
        first = until(lambda pid=process.pid: learners_of(pid).get(0), "learner 0")
        jobs.send(first, signal.SIGSTOP)
        early = not regions(process.pid)
        kill(first)
        code, out, err = ended(process)
        if early:
            assert code == 1 and out == "" and "learner 0 failed: it was ended once before it had " \
                "begun" in err, (code, out, err)
            return
    raise AssertionError("learner 0 was too quick 20 times")


def what_is_told_is_of_all_learners_if_one_is_gone():
    """Also if it was rank 0, and another one has tested what there is."""
    for mode, fault, victim in (("server", "taken", 0), ("server", "taken", 1), ("direct", "marked", 0),
                                ("sync", "taken", 0), ("replicas", "taken", 0)):
        more = ("--learners", 2, "--local", mode, "--epochs", 8, "--learner-restarts", 0)
        variables = {"TRIDENT_LOCAL_FAULT": f"{victim}:{fault}:100"}
        result = trained(*more, **variables)
        assert result["learners"] == 2 and result["learners_gone"] == 1, result
        mean = check_mean(result)[1]
        # One that dies before the other has begun takes the only copy along, and all it did.
        assert 4 < mean < 8 or mean == 4 and result["gradients"]["discarded"] > 0, result
        assert result["train_loss"] < 1 and result["train_accuracy"] > 0.5, result
        assert result["complete"] and result["samples_per_s"] > 0, result
    code, out, err = jobs.alone(train(*more), **variables)
    assert code == 0 and "\nwent on with 1 of 2 learners\n" in out, (code, out, err)
    assert "nan" not in out and " 8 epochs" not in out, out
    code, out, err = jobs.alone(train("--learners", 1, "--epochs", 8))
    assert code == 0 and "went on with" not in out, (code, out, err)


def when_all_are_dead_all_start_again_from_a_checkpoint():
    def kill_all(pid):
        for child in learners_of(pid).values():
            kill(child)

    for mode in SOME:
        code, out, err = run_and_hurt(mode, 2, kill_all, "--learner-restarts", 0, *LONG)
        assert code == 0, err
        result = json.loads(out)
        assert result["restarts"]["all"] == 1 and result["learners_gone"] == 0, (result, err)
        assert " gradients and is not started again\n" in err, err
        assert result["test_accuracy"] > 0.9 and sums_up(result), result


def the_last_copies_are_those_of_the_watchdog():
    """When all die and are started again, they go on from the last snapshot, not from the start."""
    def kill_all(pid):
        time.sleep(1.2)                          # snapshots come every second
        for child in learners_of(pid).values():
            kill(child)

    code, out, err = run_and_hurt("replicas", 2, kill_all, "--epochs", 400)
    result = json.loads(out)
    assert code == 0 and result["test_accuracy"] > 0.9 and sums_up(result), (code, out, err)
    if result["restarts"]["learners"] == 2:      # else one had ended, or was there again already
        assert "go on from the last snapshot, of " in err, err


def the_rate_is_by_the_time_until_the_last_is_done():
    """Also if rank 0 is long done by then."""
    held_s = 1.5

    def hold(pid):
        slow = learners_of(pid)[1]
        jobs.send(slow, signal.SIGSTOP)
        time.sleep(held_s)
        jobs.send(slow, signal.SIGCONT)

    code, out, err = run_and_hurt("direct", 2, hold, "--epochs", 400)
    result = json.loads(out)
    samples = result["gradients"]["applied"] * result["batch"]
    assert code == 0 and 0 < result["samples_per_s"] < samples / held_s, (code, out, err)


def the_time_in_all_is_that_of_the_launcher():
    """Rank 0 is killed in the end; the one in its place has been there for a moment only."""
    held_s = 2

    def hold(pid):
        time.sleep(held_s)
        kill(learners_of(pid)[0])

    for restarts in (3, 0):
        began = time.monotonic()
        code, out, err = run_and_hurt("server", 2, hold, "--epochs", 1200,
                                      "--learner-restarts", restarts)
        took_s = time.monotonic() - began
        result = json.loads(out)
        assert code == 0 and "learner 0" in err, (code, out, err)
        assert took_s - 1.5 < result["wall_s"] < took_s, (took_s, result)


def it_gives_up_in_the_end():
    def kill_always(pid):
        until(lambda: [kill(child) for child in learners_of(pid).values()] and False or
              not lives(pid), "the launcher to give up")

    code, out, err = run_and_hurt("server", 2, kill_always, *LONG)
    assert code == 1 and out == "" and "trident train:" in err, (code, out, err)


def a_dead_server_is_replaced():
    for mode in ("server", "sync"):
        code, out, err = run_and_hurt(mode, 2, lambda pid: kill(roles_of(pid)["server"]), *LONG)
        assert code == 0, err
        result = json.loads(out)
        assert result["restarts"]["server"] == 1, result
        assert result["test_accuracy"] > 0.9 and sums_up(result), result


def dies_at(fault, mode, *more):
    """The result of two learners, of which something dies at a step: as "1:writing:20"."""
    result = trained("--learners", 2, "--local", mode, "--epochs", 8, *more,
                     TRIDENT_LOCAL_FAULT=fault)
    assert result["test_accuracy"] > 0.9 and sums_up(result), (fault, result)
    restarts = result["restarts"]
    expected = {"learners": 0, "server": 1} if "server" in fault else {"learners": 1, "server": 0}
    # Rank 0 may die before anybody else has found its region. Then that goes with it, the next one
    # makes another, and is the first there: it dies once more.
    again = {**expected, "learners": 2} if fault.startswith("0:") else expected
    assert restarts in ({**expected, "all": 0}, {**again, "all": 0}), (fault, restarts)
    return result


def a_lock_that_a_dead_one_held_is_taken_up():
    for fault, mode, more in (("1:writing:20", "direct", ("--locked",)),
                              ("0:reading:20", "direct", ("--locked",)),
                              ("1:reading:20", "server", ("--locked",)),
                              ("server:writing:20", "server", ("--locked",)),
                              ("0:seats:1", "direct", ()), ("1:seats:1", "server", ()),
                              ("1:held:1", "replicas", ()), ("0:seats:1", "replicas", ())):
        dies_at(fault, mode, *more)


def a_death_that_never_comes_is_refused():
    for fault, mode, why in (("7:taken:3", "server", "there is no learner 7"),
                             ("server:marked:1", "direct", "no server"),
                             ("1:writing:3", "direct", "nothing is locked"),
                             ("1:taken:3", "direct", "comes only to pull, marked"),
                             ("1:set:1", "replicas", "no layer lies there once")):
        code, out, err = jobs.alone(train("--learners", 2, "--local", mode, "--epochs", 2),
                                    TRIDENT_LOCAL_FAULT=fault)
        assert code == 2 and out == "" and fault in err and why in err, (code, out, err)


def the_death_that_is_advised_comes():
    """In a job by default, which has neither a lock nor a server."""
    code, _, err = jobs.alone(train("--learners", 2, "--epochs", 2), TRIDENT_LOCAL_FAULT="1:nowhere:3")
    assert code == 2 and "time: 1:marked:3, or with a server 1:taken:3" in err, (code, err)
    dies_at("1:marked:3", "auto")
    dies_at("1:taken:3", "server")


def start_and_halt(*more, **variables):
    """A launcher that is stopped after it has started two learners and before it has seen their
    region; and learner 1."""
    for _ in range(20):
        process = start("--learners", 2, *more, **variables)
        seen = {}  # learner 1 may be dead before a second look

        def have_started(pid=process.pid, seen=seen):
            seen.update(learners_of(pid))
            return seen.keys() >= {0, 1}

        until(have_started, "two learners")
        learner = seen[1]
        jobs.send(process.pid, signal.SIGSTOP)
        if not has_region(process.pid, process.pid):
            return process, learner
        process.kill()
        process.communicate()
    raise AssertionError("the launcher was too quick 20 times")


def one_that_dies_before_the_launcher_looks_is_counted_once():
    """The launcher is halted until the learner has sat down and died."""
    process, learner = start_and_halt("--local", "direct", "--epochs", 8,
                                      TRIDENT_LOCAL_FAULT="1:marked:1")
    try:
        until(lambda: not lives(learner), "the death of learner 1")
    except AssertionError:
        process.kill()
        raise
    jobs.send(process.pid, signal.SIGCONT)
    code, out, err = ended(process)
    assert code == 0 and "before it had begun" not in err, err
    assert json.loads(out)["restarts"] == {"learners": 1, "server": 0, "all": 0}, (out, err)


def what_a_dead_one_was_in_the_middle_of_is_told():
    """Each gradient is applied once, or it is said what became of it."""
    counts = dies_at("1:half-full:20", "server")["gradients"]
    assert counts["lost"] == 1 and counts["torn"] + counts["discarded"] == 0, counts
    counts = dies_at("0:marked:20", "direct")["gradients"]
    assert counts["possibly_partial"] == 1 and counts["lost"] == 0, counts
    counts = dies_at("1:half-full:20", "server", "--locked")["gradients"]
    assert counts["lost"] == 1 and counts["possibly_partial"] == 0, counts
    # A step may be made with a gradient open, or without. Who was alone when it died is the last
    # that had its gradients: those are undone, and told as that.
    for fault, lost in (("1:half-full:20", (1,)), ("0:half-step:20", (0, 1)),
                        ("1:published:20", (0,))):
        counts = dies_at(fault, "replicas")["gradients"]
        assert counts["lost"] in lost, (fault, counts)
        assert counts["possibly_partial"] + counts["torn"] == 0, (fault, counts)


def a_new_server_counts_on_from_the_checkpoint():
    """Of the 20 gradients (rounds) that the dead one began, those since the checkpoint are undone,
    and the last is torn. All that came later counts on from there."""
    for mode, each in (("server", 1), ("sync", 2)):
        result = dies_at("server:half-step:20", mode)
        counts, pushed = result["gradients"], 2 * result["iterations"]
        assert counts["pushed"] == pushed and counts["torn"] == each, (mode, counts)
        assert counts["discarded"] <= 19 * each and counts["discarded"] % each == 0, (mode, counts)
        assert counts["applied"] >= pushed - 20 * each, (mode, counts)
        counts = dies_at("server:committed:20", mode)["gradients"] if mode == "server" else (
            dies_at("server:round:20", mode)["gradients"])
        assert counts["torn"] == 0, (mode, counts)


def nothing_outlives_a_killed_launcher():
    for mode in SOME:
        code, _, _ = run_and_hurt(mode, 2, kill, *LONG)
        assert code == -signal.SIGKILL, code


def check_mean(result):
    """Iterations, epochs and the last test are of all learners; returns both."""
    counts = result["gradients"]
    at = result["resumed_at"] + counts["applied"] // result["learners"]
    epochs = at * result["batch"] * result["learners"] / result["train_samples"]
    assert result["iterations"] == at and abs(result["epochs"] - epochs) < 1e-6, (at, epochs, result)
    assert result["tests"][-1]["epoch"] == result["epochs"], result
    return at, epochs


def check_counts(result, err, saved=None):
    """After a signal that is so, and the checkpoint is of the same moment."""
    at, epochs = check_mean(result)
    assert f"interrupted after {epochs:.2f} of" in err, (epochs, err)
    assert saved in (None, at), (saved, at)


def what_is_told_after_a_signal_is_what_was_saved():
    for mode in SOME:
        with tempfile.TemporaryDirectory() as folder:
            for more in ((), ("--resume",)):
                code, out, err = run_and_hurt(
                    mode, 2, lambda pid: jobs.send(pid, signal.SIGINT), "--epochs", 100000,
                    "--checkpoint", folder, "--checkpoint-every", 100000, *more)
                assert code == 130, (code, err)
                check_counts(json.loads(out), err, newest_in(folder))


def newest_in(folder):
    """The clock of the newest checkpoint, or None."""
    names = [name for name in os.listdir(folder) if name.endswith(".safetensors")]
    return int("".join(filter(str.isdigit, max(names)))) if names else None


def unread_of(pid):
    """Bytes that a process has printed and nobody has read yet."""
    pipe = os.open(f"/proc/{pid}/fd/1", os.O_RDONLY | os.O_NONBLOCK)
    try:
        return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]
    finally:
        os.close(pipe)


def a_signal_before_the_launcher_has_looked_saves_too():
    """It is halted until both have told that they have begun, and more; it finds the signal first."""
    with tempfile.TemporaryDirectory() as folder:
        process, _ = start_and_halt("--local", "direct", "--epochs", 100000, "--checkpoint", folder)
        try:
            for learner in learners_of(process.pid).values():
                begun = until(lambda who=learner: unread_of(who), "the first line of a learner")
                until(lambda who=learner, size=begun: unread_of(who) > size, "the second line")
        except AssertionError:
            process.kill()
            raise
        jobs.send(process.pid, signal.SIGINT)
        jobs.send(process.pid, signal.SIGCONT)
        code, out, err = ended(process)
        assert code == 130 and newest_in(folder) is not None, (code, out, err)
        check_counts(json.loads(out), err, newest_in(folder))


def signals_end_it_in_order():
    def stop(number):
        return lambda pid: jobs.send(pid, number)

    for mode in SOME:
        code, out, err = run_and_hurt(mode, 2, stop(signal.SIGINT), "--epochs", 100000)
        result = json.loads(out)
        assert code == 130 and result["complete"] is False, (code, out, err)
        assert result["test_accuracy"] is not None and sums_up(result), result
        check_counts(result, err)
    code, out, err = run_and_hurt("server", 2, stop(signal.SIGTERM), "--epochs", 100000)
    assert code == 1 and "SIGTERM" in err, (code, err)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as for who is started by a script's &
    try:
        code, out, err = run_and_hurt("direct", 2, stop(signal.SIGTERM), "--epochs", 100000)
    finally:
        signal.signal(signal.SIGINT, before)
    assert code == 1 and "SIGTERM" in err and "did not" not in err, (code, err)
    assert json.loads(out)["test_accuracy"] is not None, out


def who_dies_when_all_are_told_to_stop_holds_nobody_up():
    """What was learnt is tested all the same, by another one if rank 0 is dead."""
    for mode, victim in (("direct", 0), ("server", 1), ("sync", 0), ("replicas", 0), ("replicas", 1),
                         ("server", "server"), ("sync", "server")):
        began = []

        def stop(pid, victim=victim, began=began):
            victims = roles_of(pid)
            began.append(time.monotonic())
            kill(victims[victim])
            jobs.send(pid, signal.SIGINT)

        code, out, err = run_and_hurt(mode, 2, stop, "--epochs", 100000)
        took_s = time.monotonic() - began[0]
        result = json.loads(out)
        what = (mode, victim, took_s, out, err)
        assert code == 130 and result["complete"] is False and took_s < 4, what
        assert result["test_accuracy"] is not None and sums_up(result), what
        assert result["gradients"]["applied"] > 0 and result["params_crc32c"] is not None, what


def bad_data_is_told_once():
    code, out, err = jobs.alone([*train("--learners", 3), "--data", "tsv:/nowhere/at/all"])
    assert code == 2 and out == "", (code, out, err)
    assert err.count("trident train:") == 1 and "/nowhere/at/all" in err, err


def a_learner_that_diverges_ends_the_job():
    code, out, err = jobs.alone(train("--learners", 2, "--lr", 900, "--epochs", 50))
    assert code == 2 and out == "" and "no number" in err, (code, out, err)


def with_small(folders, *more):
    """In a mount namespace of its own, where these have 16 KiB. None: that cannot be had here."""
    mounts = " && ".join(f"mount -t tmpfs -o size=16k none {folder}" for folder in folders)
    if shutil.which("unshare") is None or subprocess.run(
            ["unshare", "-m", "sh", "-c", mounts], capture_output=True,
            check=False).returncode != 0:
        return None
    words = [*train("--json", "--learners", 2, "--local", "server", "--iterations", 5, *more)]
    return subprocess.run(["unshare", "-m", "sh", "-c", f'{mounts} && exec "$@"', "sh", *words],
                          env=jobs.environment(), capture_output=True, text=True,
                          timeout=jobs.SECONDS, check=False)


def with_little_shared_memory_they_go_elsewhere_or_say_so():
    done = with_small(["/dev/shm"])
    if done is None:
        print("skip    cannot mount here")
        return
    assert done.returncode == 0, done.stderr
    assert any("instead" in event["text"] for event in json.loads(done.stdout)["events"]), done
    if program("trident").startswith("/tmp/"):
        print("skip    a full /tmp, as trident is there")
        return
    with tempfile.TemporaryDirectory(dir=program("")) as folder: # /tmp is to be full
        texts = shutil.copy(TEXTS, folder)
        done = with_small(["/dev/shm", "/tmp"], "--data", "tsv:" + texts)
    assert done.returncode == 2 and done.stdout == "", done
    assert "room" in done.stderr or "space" in done.stderr, done.stderr


# ---- chaos ----

class Chaos:
    """Runs in which something is killed at some moment."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.counts = collections.Counter()

    def victims(self, pid, what):
        roles = roles_of(pid)
        learners = sorted(rank for rank in roles if isinstance(rank, int))
        if what == "launcher":
            return [pid]
        if what == "all":
            return [roles[rank] for rank in learners]
        if what == "server":
            return [roles["server"]] if "server" in roles else []
        return [roles[self.draw.choice(learners)]] if learners else []

    def fault(self, mode, locked, learners, common):
        """Who dies at which step, and what: half of them hold a lock there, if there is one."""
        push = ("taken", "half-full", "published")
        own = {"server": push, "direct": ("marked", "stepped"), "sync": push,
               "replicas": push + ("half-step", "stepped", "committed")}[mode]
        held = ("seats", "held") if mode == "replicas" else ("seats",)
        held += ("set", "set") if common else ()
        if locked and mode in ("server", "direct"):
            held = ("reading", "pull") + (("writing",) if mode == "direct" else ())
        if mode in SERVED and self.draw.random() < 0.3:
            step = self.draw.choice(("writing",) if locked else
                                    ("marked", "half-step", "stepped"))
            who = "server"
        else:
            step = self.draw.choice(self.draw.choice((own, held)))
            who = self.draw.randrange(learners)
        self.counts[f"{'server' if who == 'server' else 'learner'} died at {step}"] += 1
        once = step in ("seats", "held")
        return f"{who}:{step}:{1 if once else self.draw.randrange(1, 60)}"

    def once(self):
        draw = self.draw
        mode, learners = draw.choice(MODES), draw.choice((1, 2, 2, 3))
        restarts = draw.choice((0, 3, 3))
        locked, copies = draw.random() < 0.4, draw.random() < 0.25
        if mode == "replicas":
            locked = copies = False
        variables = {"TRIDENT_LOCAL_COPIES": "on"} if copies else {}
        common = mode == "replicas" and draw.random() < 0.7
        if common:  # the hidden layer lies there once
            variables["TRIDENT_LOCAL_COMMON"] = "1"
            self.counts["common layers"] += 1
        if draw.random() < 0.5:
            variables["TRIDENT_LOCAL_FAULT"] = self.fault(mode, locked, learners, common)
        kills = [draw.choice(("learner", "learner", "learner", "server", "all", "launcher"))
                 for _ in range(draw.choice((1, 1, 2, 3)))]
        what = (f"{mode}, {learners} learners, {restarts} restarts, {'' if locked else 'not '}locked, "
                f"{variables}, killing {kills}")
        process = start("--learners", learners, "--local", mode, "--learner-restarts", restarts,
                        *(("--locked",) if locked else ()),
                        *(DEEP if common else ()),
                        "--epochs", 30 if jobs.FEW else 120, **variables)
        seen = set()
        for kind in kills:
            deadline = time.monotonic() + draw.uniform(0, 0.4)
            while time.monotonic() < deadline and process.poll() is None:
                seen.update(roles_of(process.pid).values())
                time.sleep(0.005)
            for victim in self.victims(process.pid, kind):
                seen.add(victim)
                kill(victim)
            self.counts["killed " + kind] += 1
        code, out, err = ended(process)
        check_nothing_left(process.pid, seen)
        self.judge(what, code, out, err)

    def judge(self, what, code, out, err):
        if "launcher" in what and code == -signal.SIGKILL:
            self.counts["launcher gone"] += 1
            return
        if code != 0:
            assert code == 1 and "trident train:" in err, f"{what}: exit {code}:\n{err}"
            self.counts["clear errors"] += 1
            return
        result = json.loads(out)
        assert sums_up(result), f"{what}: {result['gradients']}"
        assert result["test_accuracy"] > 0.9, f"{what}: {result['test_accuracy']}\n{err}"
        self.counts["finished"] += 1
        for name, count in result["gradients"].items():
            self.counts["gradients " + name] += count
        for name, count in result["restarts"].items():
            self.counts["restarts of " + name] += count


def chaos():
    runs = int(os.environ.get("TRIDENT_CHAOS", "4" if jobs.FEW else "20"))
    seed = int(os.environ.get("TRIDENT_CHAOS_SEED", "1"))
    all_of_it = Chaos(seed)
    for i in range(runs):
        try:
            all_of_it.once()
        except AssertionError as wrong:
            raise AssertionError(f"run {i} of seed {seed}: {wrong}") from None
    print(f"chaos: {runs} runs; " +
          ", ".join(f"{name} {count}" for name, count in sorted(all_of_it.counts.items())))


TESTS = (learners_learn, other_optimizers_and_locks_learn,
         learners_with_copies_of_their_own_learn, sgd_is_direct_and_others_have_a_server,
         a_round_of_two_is_a_step_of_one_with_twice_the_batch, steps_of_its_own_add_up,
         learners_that_exchange_seldom_learn_and_resume,
         one_with_a_copy_of_its_own_learns_as_one_without,
         a_layer_that_lies_there_once_is_learned_as_one_of_each, rounds_can_be_repeated_bit_by_bit,
         more_learners_than_cores, the_heading_comes_whoever_is_the_first, two_jobs_do_not_meet,
         settings_of_workers_do_not_concern_learners,
         what_a_setting_says_of_local_holds_unless_an_option_does,
         settings_that_would_not_reach_learners_are_refused,
         under_another_launcher_they_share_memory_too, a_recipe_sets_what_is_not_given,
         a_job_is_resumed_by_any_number_of_either_kind,
         programs_save_and_resume_in_shared_memory_too,
         a_signal_is_heeded_while_a_checkpoint_is_written,
         who_dies_while_a_checkpoint_is_written_is_started_again, the_last_checkpoint_is_awaited,
         a_checkpoint_that_cannot_be_written_is_told,
         a_dead_learner_is_named_and_started_again,
         the_rest_goes_on_without_a_learner_if_asked_to,
         one_that_dies_before_it_has_begun_is_not_started_again_either,
         if_none_has_begun_all_start_again, nobody_goes_on_without_the_one_that_begins,
         what_is_told_is_of_all_learners_if_one_is_gone,
         when_all_are_dead_all_start_again_from_a_checkpoint,
         the_last_copies_are_those_of_the_watchdog,
         the_rate_is_by_the_time_until_the_last_is_done,
         the_time_in_all_is_that_of_the_launcher, it_gives_up_in_the_end,
         one_that_dies_before_the_launcher_looks_is_counted_once,
         a_dead_server_is_replaced, a_death_that_never_comes_is_refused,
         the_death_that_is_advised_comes,
         a_lock_that_a_dead_one_held_is_taken_up,
         what_a_dead_one_was_in_the_middle_of_is_told, a_new_server_counts_on_from_the_checkpoint,
         nothing_outlives_a_killed_launcher, signals_end_it_in_order,
         what_is_told_after_a_signal_is_what_was_saved,
         a_signal_before_the_launcher_has_looked_saves_too,
         who_dies_when_all_are_told_to_stop_holds_nobody_up,
         bad_data_is_told_once, a_learner_that_diverges_ends_the_job,
         with_little_shared_memory_they_go_elsewhere_or_say_so, chaos)

if __name__ == "__main__":
    jobs.run_tests(TESTS, __doc__)
