#!/usr/bin/env python3
"""Starts one program by every launcher there is, and looks whether it trains to the same bits.

usage: tests/jobs/launch.py FOLDER [TEST...]      where trident is, as build/bin

What is not installed is skipped, and said so. TRIDENT_LAUNCH_FULL=1 adds what takes longer: Slurm
with two nodes on this machine (as root), and torchrun itself.
"""
import contextlib
import getpass
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

import jobs
from jobs import environment, free_port, one, program, read_file, until

RANKS = 4
FULL = os.environ.get("TRIDENT_LAUNCH_FULL") == "1"
NOT_OURS = re.compile("(SLURM|PMI|PMIX|OMPI|MPI)_")
WAITS = "echo ready; sleep 1000 & sleep 1000"    # a process of its own, as scripts start them


class Skip(Exception):
    """Why a test cannot be run here."""


def need(*names):
    paths = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    found = [shutil.which(name, path=paths) for name in names]
    if None in found:
        raise Skip(f"{names[found.index(None)]} is not installed")
    return found


def clean(**more):
    return {k: v for k, v in environment().items() if not NOT_OURS.match(k)} | more


def mlp():
    return [program("examples/mlp"), "--small", "--json", "--steps", "20"]


def run(args, **more):
    """Exit code and output of a command; what it has started is killed with it if it hangs."""
    process = subprocess.Popen([str(a) for a in args], env=clean(**more), text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, start_new_session=True)
    try:
        out, err = process.communicate(timeout=jobs.SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        out, err = process.communicate(timeout=jobs.SECONDS)
        raise AssertionError(f"hangs: {args}\n{out}{err}") from None
    return process.returncode, out, err


def crc_of(answer, ranks=RANKS):
    """The checksum of the parameters, which all ranks have printed."""
    code, out, err = answer
    assert code == 0, f"exit {code}:\n{out}{err}"
    results = [json.loads(text) for text in re.findall(r"\{.*\}", out)]
    assert sorted(r["rank"] for r in results) == list(range(ranks)), f"{out}{err}"
    assert all(r["workers"] == ranks for r in results), out
    return one([r["params_crc32c"] for r in results], "replicas differ")


def reference():
    if reference.crc is None:
        reference.crc = crc_of(run([program("trident"), "run", "-n", RANKS, "--"] + mlp()))
    return reference.crc


reference.crc = None


def same(answer):
    crc = crc_of(answer)
    assert crc == reference(), f"{crc} is not {reference()}"


# ---- by variables ----

def by_hand_in_torchruns_variables():
    shared = {"WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": str(free_port())}
    processes = [subprocess.Popen(mlp(), env=clean(RANK=str(rank), **shared), text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                 for rank in range(RANKS)]
    answers = [p.communicate(timeout=jobs.SECONDS) for p in processes]
    same((max(p.returncode for p in processes), "".join(a[0] for a in answers),
          "".join(a[1] for a in answers)))


def torchrun():
    if not FULL:
        raise Skip("it takes seconds to start; TRIDENT_LAUNCH_FULL=1 runs it")
    path, = need("torchrun")
    words = [path, "--nnodes", 1, "--nproc_per_node", RANKS, "--master_addr", "127.0.0.1",
             "--master_port", free_port(), "--no_python"]
    code, _, err = run(words + ["true"])
    if code != 0:                                # Debian 12's cannot start anything
        raise Skip(f"torchrun itself fails: {err.strip().splitlines()[-1]}")
    same(run(words + mlp()))


# ---- mpirun ----

def mpirun_words(ranks=RANKS):
    path, = need("mpirun")
    if jobs.FEW:
        raise Skip("PMIx is not made for sanitizers")
    more = ["--allow-run-as-root"] if os.getuid() == 0 else []
    return [path, *more, "--oversubscribe", "-n", str(ranks)]


def mpirun():
    same(run(mpirun_words() + mlp()))


def mpirun_tells_the_token_to_nobody_else():
    """It is agreed upon by way of PMIx: no variable and no command line has it."""
    script = "tr '\\0' '\\n' </proc/$$/environ | grep -c ^TRIDENT_TOKEN=; exec \"$@\""
    code, out, err = run(mpirun_words(2) + ["sh", "-c", script, "sh"] + mlp())
    assert code == 0 and out.count("0\n") >= 2, (code, out, err)
    assert len(re.findall(r"\{.*\}", out)) == 2, out


def check_train(words, before="", **more):
    """Two ranks of trident train, of which rank 0 prints."""
    code, out, err = run(words + [program("trident"), "train", "--data", data(), "--model",
                                  "textcnn:embed=8,filters=4,hidden=8", "--epochs", "1", "--batch",
                                  "4", "--json"], **more)
    assert code == 0 and all(line.startswith(before) for line in out.splitlines()), (code, out, err)
    result = json.loads("".join(line[len(before):] for line in out.splitlines()))
    assert result["workers"] == 2 and result["iterations"] > 0, result


def trident_train_joins_mpirun():
    check_train(mpirun_words(2))


def data():
    """A few lines that any model learns."""
    path = os.path.join(SCRATCH.name, "words.tsv")
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as file:
            for i in range(64):
                file.write(f"{'ab'[i % 2]}\t{'yes' if i % 2 else 'no'} {i % 7} word\n")
    return "tsv:" + path


# ---- ssh ----

class Sshd:
    """Our own sshd on a free port, that lets this user in by a key, under two names."""

    def __init__(self):
        self.sshd, self.ssh, keygen = need("sshd", "ssh", "ssh-keygen")
        self.folder = SCRATCH.name
        for name in ("host", "user"):
            subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", self.at(name)],
                           check=True)
        port = free_port()
        self.write("sshd_config", f"""Port {port}
ListenAddress 127.0.0.1
HostKey {self.at("host")}
AuthorizedKeysFile {self.at("user.pub")}
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
MaxStartups 100
""")
        self.write("ssh_config", f"""Host alpha beta
  HostName 127.0.0.1
Host *
  Port {port}
  User {getpass.getuser()}
  IdentityFile {self.at("user")}
  IdentitiesOnly yes
  BatchMode yes
  UserKnownHostsFile /dev/null
  StrictHostKeyChecking no
  LogLevel ERROR
""")
        if os.getuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)      # it wants an empty folder there
        self.log = open(self.at("sshd.log"), "w", encoding="utf-8")
        self.process = subprocess.Popen([self.sshd, "-D", "-e", "-f", self.at("sshd_config")],
                                        stderr=self.log)

    def at(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.at(name), "w", encoding="utf-8") as file:
            file.write(text)

    def command(self):
        return f"{self.ssh} -F {self.at('ssh_config')}"

    def wait(self):
        until(lambda: "Server listening" in read_file(self.at("sshd.log"))
              or self.process.poll() is not None, "sshd")
        code, _, err = run(self.command().split() + ["alpha", "true"])
        if code != 0:
            raise Skip(f"our sshd does not let us in: {err.strip()} "
                       f"{read_file(self.at('sshd.log'))[-200:]}")

    def close(self):
        self.process.terminate()
        self.process.wait(jobs.SECONDS)
        self.log.close()


def sshd():
    if SERVER[0] is None:
        SERVER[0] = Sshd()
        STACK.callback(SERVER[0].close)
        SERVER[0].wait()
    return SERVER[0]


def on_hosts(hosts, *more):
    return [program("trident"), "run", "--hosts", hosts, "--ssh", sshd().command(), *more]


def hosts_by_ssh():
    with open(sshd().at("hosts"), "w", encoding="utf-8") as file:
        file.write("# two names of this machine\nalpha slots=3 max_slots=4\n\nbeta  # one slot\n")
    same(run(on_hosts(sshd().at("hosts"), "-n", RANKS, "--") + mlp()))
    same(run(on_hosts("beta:1,alpha:3", "-n", RANKS, "--servers", 3, "--colocate", "no", "--")
             + mlp()))


def this_machine_needs_no_ssh():
    same(run([program("trident"), "run", "--hosts", f"localhost:2,{socket.gethostname()}:2", "-n",
              RANKS, "--"] + mlp(), TRIDENT_SSH="/nonexistent"))


def ranks_are_placed_by_slot():
    show = "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR $TRIDENT_LOG $A $PWD"
    code, out, err = run(on_hosts("alpha:2,beta:9", "-n", 3, "--env", "A=1", "--", "sh", "-c",
                                  show), TRIDENT_LOG="warn")
    where = f"127.0.0.1 warn 1 {os.getcwd()}"
    assert code == 0 and sorted(out.splitlines()) == [
        f"[0] 0/3 0/2 {where}", f"[1] 1/3 1/2 {where}", f"[2] 2/3 0/1 {where}"], (code, out, err)


def trident_train_joins_hosts():
    check_train(on_hosts("alpha,beta", "-n", 2, "--"), "[0] ")


def what_goes_wrong_on_a_host_is_told_before_anything_runs():
    ran = os.path.join(SCRATCH.name, "ran")
    touch = ["--", "touch", ran]
    for args, code, texts in (
            (on_hosts("alpha,no-such-host", "-n", 2, *touch), 1,
             ["host 'no-such-host' cannot be reached", "Could not resolve hostname"]),
            (on_hosts("alpha,beta", "-n", 2, "--", "./no-such-program"), 2,
             ["cannot start the program './no-such-program'", "where: host "]),
            (on_hosts("alpha:2", "-n", 3, *touch), 2, ["-n 3 is more than the 2 slots"]),
            ([program("trident"), "run", "-n", 2, "--hosts", "alpha,beta", "--ssh", "false",
              *touch], 1, ["trident cannot be started on host '"])):
        got, out, err = run(args)
        assert got == code and all(text in err for text in texts), (got, out, err)
        assert not os.path.exists(ran), args


def noise_of_a_remote_shell_is_no_answer():
    noisy = os.path.join(SCRATCH.name, "noisy")
    with open(noisy, "w", encoding="utf-8") as file:
        file.write('#!/bin/sh\necho Welcome to $1; exec sh -c "$2"\n')
    os.chmod(noisy, 0o755)
    code, out, err = run([program("trident"), "run", "-n", 2, "--hosts", "a,b", "--ssh", noisy,
                          "--", "sh", "-c", "echo $RANK"])
    assert code == 0 and sorted(out.splitlines()) == ["[0] 0", "[1] 1"], (code, out, err)


def a_failure_names_rank_and_host():
    script = "[ $RANK = 0 ] || { echo no disk >&2; exit 3; }; echo on; exec sleep $0"
    code, out, err = run(on_hosts("alpha,beta", "-n", 2, "--", "sh", "-c", script, "0"))
    assert code == 1 and re.search(r"rank 1 \(pid \d+ on beta\) exited with 3: no disk", err), err
    assert "[0] on" in out, (out, err)
    code, out, err = run(on_hosts("alpha,beta", "-n", 2, "--on-failure", "stop", "--", "sh", "-c",
                                  script, "1000"))
    assert code == 1 and "stopping the others" in err, (code, err)
    code, out, err = run(on_hosts("alpha,beta", "-n", 2, "--timeout", "3s", "--", "sleep", 1000))
    assert code == 1 and "have passed: stopping 2 processes" in err, (code, err)


def marked(mark):
    """Processes that have this in their environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if mark in read_file(f"/proc/{pid}/environ").split("\0"):
            found.append(int(pid))
    return found


class Started:
    """A job of processes that wait, and say by a variable that they are its."""

    def __init__(self):
        self.mark = f"LAUNCH_TEST={random.getrandbits(60):x}"
        self.out = ""
        self.process = subprocess.Popen(
            [str(a) for a in on_hosts("alpha:2,beta:2", "-n", 4, "--env", self.mark, "--", "sh",
                                      "-c", WAITS)], env=clean(), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        STACK.callback(self.clean)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        until(lambda: self.out.count("] ready\n") == 4, lambda: self.out)

    def read(self):
        for line in self.process.stdout:
            self.out += line

    def clean(self):
        """After a test that failed."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pid in marked(self.mark):
            jobs.send(pid, signal.SIGKILL)

    def end(self):
        code = self.process.wait(jobs.SECONDS)
        until(lambda: not marked(self.mark), lambda: f"the end of {marked(self.mark)}")
        self.reader.join(jobs.SECONDS)
        return code


def no_process_is_left_on_any_host():
    for number, code, text in ((signal.SIGINT, 130, "SIGINT: stopping 4 processes"),
                               (signal.SIGTERM, 1, "stopped by SIGTERM"),
                               (signal.SIGKILL, -9, "")):
        job = Started()
        assert len(marked(job.mark)) >= 8, marked(job.mark)
        job.process.send_signal(number)
        assert job.end() == code and text in job.out, (number, job.out)


def a_host_that_is_gone_takes_its_ranks_along():
    job = Started()
    deputies = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                if read_file(f"/proc/{pid}/cmdline").split("\0")[1:3] == ["run", "--deputy"]]
    lost = [pid for pid in deputies
            if set(jobs.children_of(pid)) & set(marked(job.mark))]
    assert len(lost) == 2, (lost, deputies)
    os.kill(lost[0], signal.SIGKILL)
    until(lambda: job.out.count("is lost: the connection to") == 2, lambda: job.out)
    assert len(marked(job.mark)) >= 4, job.out           # the others go on
    job.process.send_signal(signal.SIGINT)
    assert job.end() == 130, job.out


def the_token_is_on_no_command_line():
    """Started by ssh it comes on standard input; the processes have it in their environment."""
    job = Started()
    values = read_file(f"/proc/{marked(job.mark)[0]}/environ").split("\0")
    token, = [v.split("=", 1)[1] for v in values if v.startswith("TRIDENT_TOKEN=")]
    shown = [pid for pid in filter(str.isdigit, os.listdir("/proc"))
             if token in read_file(f"/proc/{pid}/cmdline")]
    job.process.send_signal(signal.SIGTERM)
    assert job.end() == 1 and len(token) >= 32 and not shown, (shown, job.out)


NODES = """
set -eu
first=${TRIDENT_ADDRESSES%% *} second=${TRIDENT_ADDRESSES##* } folder=$1 trident=$2
shift 2
sed "s/^ListenAddress.*//" $folder/sshd_config >$folder/nodes_sshd
sed "s/^Host alpha.*/Host first/; s/127.0.0.1/$first/
s/^Host \\*/Host second\\n  HostName $second\\n&/" $folder/ssh_config >$folder/nodes_ssh
ssh="ssh -F $folder/nodes_ssh"
for node in 0 1; do
    tools/netns exec $node -- $0 -D -e -f $folder/nodes_sshd 2>$folder/node$node.log &
    pids="${pids:-} $!"
done
trap 'kill $pids' EXIT
for node in 0 1; do
    until grep -q listening $folder/node$node.log; do sleep 0.05; done
done
tools/netns exec 0 -- "$trident" run -n 4 --hosts second:2,first:2 --ssh "$ssh" -- \\
    sh -c 'echo $RANK: $MASTER_ADDR; exec "$@"' sh "$@"
# this machine as the first host: the address by which the other one knows it
tools/netns exec 0 -- env TRIDENT_SSH="$ssh" "$trident" run -n 2 \\
    --hosts localhost,second -- sh -c 'echo here $RANK: $MASTER_ADDR'
"""


def hosts_with_addresses_of_their_own():
    """Two namespaces that share nothing but a wire: loopback would not do."""
    if not FULL:
        raise Skip("TRIDENT_LAUNCH_FULL=1 runs it")
    need("ip")
    code, out, err = run(["tools/netns", "run", 2, "--name", f"launch{os.getpid()}", "--", "sh",
                          "-c", NODES, sshd().sshd, sshd().folder, program("trident")] + mlp())
    if code == 77:
        raise Skip(err.strip().splitlines()[0])
    assert out.count(": 10.77.0.2\n") == 4, (code, out, err)
    assert sorted(re.findall(r"here (\d: .*)", out)) == ["0: 10.77.0.1", "1: 10.77.0.1"], (out, err)
    same((code, out, err))


# ---- Slurm ----

class Slurm:
    """A cluster of two nodes that are this machine, with daemons and keys of its own."""

    def __init__(self):
        self.daemons, self.folder = [], os.path.join(SCRATCH.name, "slurm")
        munged, slurmctld, slurmd, self.srun, self.sinfo = need("munged", "slurmctld", "slurmd",
                                                                "srun", "sinfo")
        if os.getuid() != 0:
            raise Skip("Slurm's daemons need root")
        for name in ("state", "spool-n1", "spool-n2", "tmp-n1", "tmp-n2"):
            os.makedirs(os.path.join(self.folder, name))
        os.chmod(self.folder, 0o755)
        with open(self.at("key"), "wb") as file:
            file.write(os.urandom(128))
        os.chmod(self.at("key"), 0o400)
        self.configure()
        self.env = clean(SLURM_CONF=self.at("slurm.conf"))
        self.start(munged, "--foreground", "--force", "--key-file", self.at("key"), "--socket",
                   self.at("munge.sock"), "--pid-file", self.at("munge.pid"), "--log-file",
                   self.at("munge.log"), "--seed-file", self.at("munge.seed"))
        until(lambda: os.path.exists(self.at("munge.sock")), "munged")
        self.start(slurmctld, "-D", "-i", "-f", self.at("slurm.conf"))
        for node in ("n1", "n2"):
            self.start(slurmd, "-D", "-N", node, "-f", self.at("slurm.conf"))

    def at(self, name):
        return os.path.join(self.folder, name)

    def configure(self):
        ports = [free_port() for _ in range(3)]
        host = socket.gethostname()
        lines = [f"SlurmctldHost={host}(127.0.0.1)", "ClusterName=test", "SlurmUser=root",
                 "SlurmdUser=root", f"SlurmctldPort={ports[0]}", "AuthType=auth/munge",
                 f"AuthInfo=socket={self.at('munge.sock')}", "CredType=cred/munge",
                 "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "MpiDefault=pmix",
                 "SelectType=select/cons_tres", "ReturnToService=2",
                 "SlurmdParameters=config_overrides", f"TmpFS={self.folder}/tmp-%n",
                 f"StateSaveLocation={self.at('state')}", f"SlurmdSpoolDir={self.folder}/spool-%n",
                 f"SlurmctldPidFile={self.at('ctld.pid')}", f"SlurmdPidFile={self.folder}/%n.pid",
                 f"SlurmctldLogFile={self.at('ctld.log')}", f"SlurmdLogFile={self.folder}/%n.log"]
        for node, port in (("n1", ports[1]), ("n2", ports[2])):
            lines.append(f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} "
                         "CPUs=8")
        lines.append("PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE:32 State=UP")
        with open(self.at("slurm.conf"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    def start(self, *words):
        self.daemons.append(subprocess.Popen(words, env=self.env, start_new_session=True,
                                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                             stderr=subprocess.DEVNULL))

    def wait(self):
        def idle():
            done = subprocess.run([self.sinfo, "-h", "-o", "%T %D"], env=self.env, text=True,
                                  capture_output=True, check=False)
            return "idle 2" in done.stdout
        until(idle, lambda: "two nodes: " + read_file(self.at("ctld.log"))[-800:]
              + read_file(self.at("n1.log"))[-400:])

    def close(self):
        for daemon in reversed(self.daemons):
            if daemon.poll() is None:
                daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(daemon.pid, signal.SIGKILL)
                daemon.wait()


def slurm():
    if not FULL:
        raise Skip("it takes seconds to start; TRIDENT_LAUNCH_FULL=1 runs it")
    if CLUSTER[0] is None:
        cluster = Slurm.__new__(Slurm)
        STACK.callback(lambda: cluster.close() if hasattr(cluster, "daemons") else None)
        cluster.__init__()
        cluster.wait()
        CLUSTER[0] = cluster
    return CLUSTER[0]


def srun():
    conf = slurm().at("slurm.conf")
    same(run([slurm().srun, "-N", "2", "-n", RANKS] + mlp(), SLURM_CONF=conf))
    check_train([slurm().srun, "-N", "2", "-n", 2], SLURM_CONF=conf)


def a_script_of_slurm_is_no_job():
    """Its variables speak of four tasks, which it is not one of."""
    script, out = slurm().at("script"), slurm().at("script.out")
    with open(script, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nexec " + " ".join(mlp()) + "\n")
    done = run([need("sbatch")[0], "--wait", "-N", "2", "-n", RANKS, "-o", out, script],
               SLURM_CONF=slurm().at("slurm.conf"))
    assert done[0] == 0, done
    crc_of((0, read_file(out), ""), 1)


TESTS = (by_hand_in_torchruns_variables, torchrun, mpirun, mpirun_tells_the_token_to_nobody_else,
         trident_train_joins_mpirun, hosts_by_ssh, this_machine_needs_no_ssh,
         ranks_are_placed_by_slot, trident_train_joins_hosts,
         what_goes_wrong_on_a_host_is_told_before_anything_runs,
         noise_of_a_remote_shell_is_no_answer, a_failure_names_rank_and_host,
         no_process_is_left_on_any_host, a_host_that_is_gone_takes_its_ranks_along,
         the_token_is_on_no_command_line, hosts_with_addresses_of_their_own, srun,
         a_script_of_slurm_is_no_job)
SERVER, CLUSTER = [None], [None]
STACK = contextlib.ExitStack()
SCRATCH = None


def main():
    global SCRATCH
    if len(sys.argv) < 2 or not os.path.isdir(sys.argv[1]):
        print(__doc__.split("\n\n", 1)[1].strip(), file=sys.stderr)
        sys.exit(2)
    jobs.FOLDER = os.path.abspath(sys.argv[1])
    chosen = [t for t in TESTS if len(sys.argv) == 2 or t.__name__.startswith(tuple(sys.argv[2:]))]
    failed = skipped = 0
    with tempfile.TemporaryDirectory() as folder, STACK:
        SCRATCH = type("Scratch", (), {"name": folder})
        for test in chosen:
            try:
                test()
                print(f"ok      {test.__name__}", flush=True)
            except Skip as why:
                skipped += 1
                print(f"skipped {test.__name__}: {why}", flush=True)
            except (AssertionError, ValueError, KeyError, IndexError, OSError,
                    subprocess.SubprocessError) as wrong:
                failed += 1
                print(f"failed  {test.__name__}: {wrong}", flush=True)
    print(f"{len(chosen) - failed - skipped} passed, {skipped} skipped, {failed} failed")
    sys.exit(1 if failed or not chosen else 0)


main()
