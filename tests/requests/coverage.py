#!/usr/bin/env python3
"""coverage.py [--count N] [--seed S]: which lines of common/http and router generated requests reach.

Builds the programs with counters (preset coverage), runs run.py with them, and prints the share of
each file and what was not reached. Then Baton's own clients run, for the two of common/http.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "e2e")]
os.environ["BATON_BIN"] = str(ROOT / "build" / "coverage" / "bin")

from answers import try_clients  # noqa: E402
from ports import free_port  # noqa: E402
from scenes import SCENES, running  # noqa: E402

BUILD = ROOT / "build" / "coverage"
FOLDERS = ("common/http", "router")
PROGRAMS = ("baton", "baton-router", "baton-prefill", "baton-decode")


def build():
    subprocess.run(["cmake", "--preset", "coverage"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", BUILD, "--target", *PROGRAMS], check=True, stdout=sys.stderr)


def forget():
    for file in BUILD.rglob("*.gcda"):
        file.unlink()


def measured():
    """Path -> (lines, those that ran, those that did not)."""
    filters = [argument for folder in FOLDERS for argument in ("--filter", f"{ROOT}/{folder}/")]
    done = subprocess.run(["gcovr", "--root", ROOT, "--object-directory", BUILD, *filters, "--json"],
                          cwd=BUILD, check=True, capture_output=True, text=True)
    out = {}
    for file in json.loads(done.stdout)["files"]:
        lines = [line for line in file["lines"] if not line.get("gcovr/noncode", False)]
        missed = [line["line_number"] for line in lines if line["count"] == 0]
        out[file["file"]] = (len(lines), len(lines) - len(missed), missed)
    return out


def ranges(numbers):
    out = []
    for number in numbers:
        if out and number <= out[-1][1] + 2:
            out[-1][1] = number
        else:
            out.append([number, number])
    return " ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in out)


def report(title, files):
    print(f"\n{title}")
    for path, (lines, ran, missed) in sorted(files.items()):
        print(f"  {100 * ran / lines:5.1f} %  {path} ({ran} of {lines})  {ranges(missed)}")
    for folder in FOLDERS:
        inside = [counts for path, counts in files.items() if path.startswith(folder + "/")]
        lines, ran = sum(c[0] for c in inside), sum(c[1] for c in inside)
        print(f"{100 * ran / lines:5.1f} % of the lines of {folder} ({ran} of {lines})")


def own_clients():
    """What `baton` asks of a router, by both clients of common/http."""
    program = BUILD / "bin" / "baton"
    load = ["--input", "20", "--output", "8", "--slo-ttft-ms", "1000", "--slo-tpot-ms", "100", "--requests",
            "64", "--json"]
    for scene in SCENES:
        if scene.keyed or not scene.tiny:
            continue
        with running(scene) as stage:
            url = ["--url", stage.cluster.url]
            if scene.tls:
                url += ["--cacert", stage.folder / "tls.crt"]
            for command in (["status"], ["status", "--json"], ["bench", "serve", "--concurrency", "8", *load],
                            ["bench", "serve", "--rate", "200", *load], ["chat"]):
                done = subprocess.run([program, *command, *url], cwd=ROOT, input="hello\nand again\n",
                                      capture_output=True, text=True, timeout=120)
                print(f"{scene.title}: baton {' '.join(command[:2])}: {done.returncode} "
                      f"{done.stderr.strip()[-200:]}")
            if scene is SCENES[0]:
                cannot_start(stage.cluster.url.split("//")[1])
    for seed in range(3):
        for problem in try_clients(program, seed):
            print(f"FAILED {problem}")


def cannot_start(taken):
    """Routers that must say why they do not start."""
    for listen, keyless in ((taken, "false"), ("0.0.0.0:0", "false"), ("192.0.2.1:1", "true"),
                            ("nobody.invalid:1", "true")):
        command = [BUILD / "bin" / "baton-router", "--config", "deploy/local.yaml"]
        for setting in (f"router.listen={listen}", f"router.allow_keyless={keyless}",
                        f"router.control=tcp://127.0.0.1:{free_port()}"):
            command += ["--set", setting]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
        print(f"router.listen={listen}: {done.returncode} {done.stderr.strip()[-120:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    build()
    forget()
    status = subprocess.run([HERE / "run.py", "--count", str(options.count), "--seed",
                             str(options.seed)], check=False).returncode
    report("by generated requests:", measured())
    own_clients()
    report("and Baton's own clients:", measured())
    return status


if __name__ == "__main__":
    sys.exit(main())
