#!/usr/bin/env python3
"""What an idle cluster costs: CPU of all its processes, each thread on its own.

  ./dev bench idle
  ./dev bench idle --seconds 60 --config deploy/local-2p2d.yaml
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
START_S = 60
SETTLE_S = 2  # after the first answer, until every thread has gone to sleep


def threads(pids):
    """CPU seconds and naps of each thread, by process and thread name."""
    out = {}
    for name, pid in pids.items():
        for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
            used, _, slices = map(int, (thread / "schedstat").read_text().split())
            key = (name, (thread / "comm").read_text().strip(), thread.name)
            out[key] = (used / 1e9, slices)
    return out


def measure(pids, seconds):
    before, start = threads(pids), time.monotonic()
    time.sleep(seconds)
    after, passed = threads(pids), time.monotonic() - start
    rows, total = [], 0
    for key, (used, slices) in after.items():
        had, had_slices = before.get(key, (0, 0))
        share = (used - had) / passed * 100
        total += share
        rows.append((share, (slices - had_slices) / passed, key))
    return total, sorted(rows, reverse=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--config", default="deploy/local.yaml")
    parser.add_argument("--model", default="models/smollm2-135m-instruct-q4_1.gguf")
    parser.add_argument("--seconds", type=float, default=30)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ready = pathlib.Path(folder) / "ready"
        with open(pathlib.Path(folder) / "log", "w+", encoding="utf-8") as log:
            up = subprocess.Popen([args.bin / "baton", "up", args.config, "--model", args.model, "--port",
                                   "0", "--first-answer", "--ready-file", ready],
                                  cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
            try:
                deadline = time.monotonic() + START_S
                while "try: " not in (pathlib.Path(folder) / "log").read_text():
                    if up.poll() is not None or time.monotonic() > deadline:
                        log.seek(0)
                        sys.exit(f"idle.py: the cluster does not start: {log.read()[-500:]}")
                    time.sleep(0.1)
                pids = {process["name"] or process["role"]: process["pid"]
                        for process in json.loads(ready.read_text())["processes"]}
                pids["up"] = up.pid
                # Pools are touched in the background after the start; that is not idling.
                while any(thread == "prefault" for _, thread, _ in threads(pids)):
                    if time.monotonic() > deadline:
                        sys.exit("idle.py: the workers still touch their pools")
                    time.sleep(0.2)
                time.sleep(SETTLE_S)
                total, rows = measure(pids, args.seconds)
            finally:
                up.terminate()
                up.wait()
    print("| process | thread | CPU, % of a core | wake-ups/s |\n|---|---|---|---|")
    for share, slices, (name, thread, _) in rows:
        if share >= 0.005:
            print(f"| {name} | {thread} | {share:.2f} | {slices:.0f} |")
    print(f"| all | | {total:.2f} | {sum(row[1] for row in rows):.0f} |")


if __name__ == "__main__":
    main()
