"""What the benchmarks of this folder share: programs that print JSON, and figures with their spread."""
import json
import statistics
import subprocess

LIMIT_S = 600


class BenchError(Exception):
    """One line for the user: a program that cannot be measured."""


def run_program(command, limit_s=LIMIT_S):
    """What it printed. Its last words on stderr are the error's."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BenchError(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        words = done.stderr.strip().splitlines() or [""]
        raise BenchError(f"{command[0]} exited with {done.returncode}: {words[-1]}")
    return done.stdout


def parsed(command, text):
    try:
        return json.loads(text)
    except ValueError as error:
        raise BenchError(f"{command[0]} printed no JSON: {text[:80]!r}") from error


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def spread(samples):
    return {"median": statistics.median(samples), "min": min(samples), "max": max(samples),
            "samples": samples}


def cell(of, digits=0):
    return f"{of['median']:,.{digits}f} ({of['min']:,.{digits}f}-{of['max']:,.{digits}f})"


def probed(probes):
    """Of the rooflines that `baton bench engine` measured at its starts and ends."""
    return {"gflops": spread([probe["flops"] / 1e9 for probe in probes]),
            "read_gb_per_s": spread([probe["read_bytes_per_s"] / 1e9 for probe in probes])}


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return f"{len(names)} × {names[0]}" if names else "unknown"
