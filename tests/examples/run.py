#!/usr/bin/env python3
"""Runs the example programs, alone and as ranks of one job, and looks at what they print.

usage: tests/examples/run.py FOLDER      where the programs are, as build/bin/examples
"""
import json
import os
import random
import socket
import subprocess
import sys

SECONDS = 60
FOLDER = ""
LAUNCHED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def environment(**more):
    """Ours, without what a launcher of this test may have set."""
    return {name: value for name, value in os.environ.items()
            if name not in LAUNCHED and not name.startswith("TRIDENT_")} | more


def free_port():
    """One of those that the kernel does not give to connections, and the next one."""
    while True:
        port = random.randrange(10240, 30720)
        with socket.socket() as first, socket.socket() as second:
            try:
                first.bind(("127.0.0.1", port))
                second.bind(("127.0.0.1", port + 1))
                return port
            except OSError:
                continue


def start(args, **more):
    return subprocess.Popen([os.path.join(FOLDER, args[0])] + args[1:], env=environment(**more),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    """Exit code, stdout and stderr; a process that hangs is killed and told from the rest."""
    try:
        out, err = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        return "timeout", out, err
    return process.returncode, out, err


def alone(line, **more):
    return finish(start(line.split(), **more))


def result(answer):
    code, out, err = answer
    assert code == 0 and err == "", f"exit {code}: {err}{out}"
    assert out.count("\n") == 1, f"not one line: {out!r}"
    return json.loads(out)


def ranks(count, line):
    """The results of `count` processes that make one job."""
    shared = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    processes = [start(line.split(), RANK=str(rank), **shared) for rank in range(count)]
    results = [result(answer) for answer in [finish(process) for process in processes]]
    assert [r["rank"] for r in results] == list(range(count)), results
    assert all(r["workers"] == count for r in results), results
    assert len({r["params_crc32c"] for r in results}) == 1, f"replicas differ: {results}"
    assert len({r["loss"] for r in results}) == 1, results
    return results


def near(a, b, part):
    assert abs(a - b) <= part * abs(b), f"{a} is not near {b}"


def sgd_fits_the_line():
    r = result(alone("sgd"))
    assert (r["example"], r["rank"], r["workers"], r["clocks"]) == ("sgd", 0, 1, 200), r
    assert 0.001 < r["loss"] < 0.002, r      # half the variance of the noise is 0.00167
    assert len(r["params_crc32c"]) == 8, r


def sgd_comes_to_the_same_with_four_ranks():
    near(ranks(4, "sgd")[0]["loss"], result(alone("sgd"))["loss"], 1e-4)


def local_fits_the_line_in_every_mode():
    for number, mode in enumerate(("server", "direct", "sync", "replicas")):
        for count in (1, 3):
            # Shared memory is found by the job's name, which may be another test's as well.
            shared = {"WORLD_SIZE": str(count), "TRIDENT_LOCAL": mode,
                      "TRIDENT_JOB": f"examples-{os.getpid()}-{number}-{count}"}
            processes = [start(["local"], RANK=str(rank), **shared) for rank in range(count)]
            first, *others = [finish(process) for process in processes]
            assert all(answer == (0, "", "") for answer in others), others
            r = result(first)
            assert (r["learners"], r["local"]) == (count, mode), r
            assert r["gradients"] == 20 * 1024 // count * count, r
            assert 0.001 < r["loss"] < 0.002, r


def mlp_learns():
    for more in ("", " --activation relu", " --give dense", " --union 2", " --layers 1 --batch 1"):
        r = result(alone("mlp --small --json --steps 100" + more))
        assert r["clocks"] == 100 and r["loss"] < 0.5 * r["first_loss"], r
        assert r["samples_per_s"] > 0 and len(r["schemes"]) == r["layers"], r


def mlp_repeats_to_the_last_bit():
    line = "mlp --small --json --hidden 100 --layers 4 --batch 5 --seed "
    crcs = [result(alone(line + seed))["params_crc32c"] for seed in ("7", "7", "8")]
    assert crcs[0] == crcs[1] != crcs[2], crcs


def mlp_with_factors_equals_one_process_on_the_union():
    for count, more in ((2, ""), (3, " --hidden 50 --batch 3"), (2, " --activation relu")):
        line = "mlp --small --json --scheme sfb" + more
        one = result(alone(f"{line} --union {count}"))
        for r in ranks(count, line):
            assert r["params_crc32c"] == one["params_crc32c"], (r, one)
            assert r["loss"] == one["loss"], (r, one)


def mlp_with_any_scheme_comes_near_the_union():
    for more in ("", " --give dense", " --scheme ps", " --scheme ps --give dense"):
        one = result(alone("mlp --small --json --union 2"))
        near(ranks(2, "mlp --small --json" + more)[0]["loss"], one["loss"], 1e-3)


def bad_usage_exits_2_and_says_what_to_try():
    for line, want in (("mlp --hiden 3", "no option '--hiden'"), ("mlp --hidden", "no value"),
                       ("mlp --hidden 0", "from 1 to 65536"), ("mlp --lr nan", "above 0"),
                       ("mlp --steps 1e3", "impossible number"),
                       ("mlp --give rows", "factors or dense"),
                       ("local --learners 4", "no option '--learners'"),
                       ("local 4", "takes no argument '4'"), ("local --help 4", "'4'")):
        code, out, err = alone(line)
        assert (code, out) == (2, "") and want in err and "  try:   " in err, (line, code, err)


def help_goes_to_stdout():
    for line in ("mlp --help", "local --help"):
        code, out, err = alone(line)
        assert (code, err) == (0, "") and out.startswith("Usage: "), (line, code, err)
        assert max(map(len, out.split("\n"))) <= 100, line


def errors_of_the_library_are_shown():
    for line in ("mlp --small --scheme none-such", "mlp --small", "sgd", "local"):
        more = {} if "none" in line else {"RANK": "0"}
        code, out, err = alone(line, **more)
        assert (code, out) == (2, "") and err.startswith(line.split()[0] + ": "), (line, code, err)


TESTS = (sgd_fits_the_line, sgd_comes_to_the_same_with_four_ranks,
         local_fits_the_line_in_every_mode, mlp_learns,
         mlp_repeats_to_the_last_bit, mlp_with_factors_equals_one_process_on_the_union,
         mlp_with_any_scheme_comes_near_the_union, bad_usage_exits_2_and_says_what_to_try,
         help_goes_to_stdout, errors_of_the_library_are_shown)


def main():
    global FOLDER
    if len(sys.argv) != 2 or not os.path.isdir(sys.argv[1]):
        print(__doc__.split("\n\n", 1)[1].strip(), file=sys.stderr)
        sys.exit(2)
    FOLDER = sys.argv[1]
    failed = 0
    for test in TESTS:
        try:
            test()
            print(f"ok      {test.__name__}")
        except (AssertionError, ValueError, KeyError) as wrong:
            failed += 1
            print(f"failed  {test.__name__}: {wrong}")
    print(f"{len(TESTS) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
