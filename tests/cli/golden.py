#!/usr/bin/env python3
"""Runs every case of tests/cli/cases against the trident command and compares what it prints.

usage: golden.py TRIDENT [--update] [NAME...]     from the project's root

A case is one file, NAME.txt:

    $ trident plan --model vgg19 --workers 8        one command line, through sh
    (what it prints on stdout)
    --- stderr                                      only if there is any
    (what it prints on stderr)
    --- exit 2                                      only if it is not 0

--update writes what the command prints now into the files; read the diff before you commit it.
Cases run with a fixed environment, from the project's root, so paths in them are relative.
What a command with --json prints must also load as JSON; what the others print fits 100 columns.
"""
import difflib
import json
import os
import subprocess
import sys

FOLDER = "tests/cli/cases"


def run(trident, command):
    """What the command prints, in the form of a case."""
    env = {"PATH": os.path.dirname(os.path.abspath(trident)) + ":/usr/bin:/bin", "LC_ALL": "C"}
    done = subprocess.run(["sh", "-c", command], env=env, capture_output=True, text=True, timeout=60)
    text = "$ " + command + "\n" + done.stdout
    if done.stderr:
        text += "--- stderr\n" + done.stderr
    if done.returncode != 0:
        text += f"--- exit {done.returncode}\n"
    if "--json" not in command:
        wide = [line for line in done.stdout.split("\n") if len(line) > 100]
        if wide:
            text += f"(wider than 100 columns: {wide[0]})\n"
    elif "|" not in command and done.returncode == 0:
        json.loads(done.stdout)
    return text


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    update = "--update" in sys.argv
    trident, wanted = arguments[0], arguments[1:]
    cases = sorted(f for f in os.listdir(FOLDER) if f.endswith(".txt"))
    cases = [c for c in cases if not wanted or c[:-4] in wanted]
    each = int(os.environ.get("TRIDENT_GOLDEN_EACH", "1"))  # slow builds: every nth case
    if each > 1 and not wanted:
        print(f"every case but one in {each} is left to quicker builds")
        cases = cases[::each]
    skipped = [c for c in cases if c[:-4] == os.environ.get("TRIDENT_GOLDEN_SKIP")]
    for case in skipped:
        print("skipped", case)
        cases.remove(case)
    failed = []
    for case in cases:
        path = os.path.join(FOLDER, case)
        with open(path, encoding="utf-8") as file:
            expected = file.read()
        command = expected.split("\n", 1)[0]
        if not command.startswith("$ "):
            sys.exit(f"{path}: the first line must be '$ ' and a command")
        printed = run(trident, command[2:])
        if printed == expected:
            continue
        if update:
            with open(path, "w", encoding="utf-8") as file:
                file.write(printed)
            print("updated", path)
        else:
            failed.append(case)
            difference = difflib.unified_diff(expected.splitlines(), printed.splitlines(), path, "printed", lineterm="")
            print("\n".join(difference))
    if not cases:
        sys.exit("golden.py: no cases")
    print(f"{len(cases) - len(failed)} cases as expected, {len(failed)} not")
    sys.exit(1 if failed else 0)


main()
