#!/usr/bin/env python3
"""Tokens per second of Baton and of other engines on the CPUs of this machine, in turn.

  ./dev bench cpu --llama-bench PATH --llama-batched-bench PATH
  ./dev bench cpu --openvino PYTHON --openvino-model FILE
  ./dev bench cpu --runs 3 --level avx512,avx2 --json ...

Every row is measured --runs times, Baton and each peer right after one another, the first of them
changing with every run. A ratio is taken within a run, so that what the machine does to both cancels;
the table has the median and, in brackets, the least and greatest. Beside it stands the share of the
roofline that `baton bench engine` probed in the same process. docs/performance.md says how to build
a peer.
"""
import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
GENERATED = 32  # tokens of a peer's decode measurement, half of them before the context, half after
PEER_SAMPLES = 3  # of one run of a peer; its median counts
LIMIT_S = 600


class BenchError(Exception):
    """One line for the user: a program that cannot be measured."""


@dataclasses.dataclass(frozen=True)
class Row:
    """`batch` 0: a prompt of `size` tokens; otherwise that many sequences that hold `size` each."""
    size: int
    batch: int = 0
    level: str = ""
    target: float = 0

    def name(self):
        what = (f"decode, batch {self.batch}, context {self.size}" if self.batch
                else f"prefill {self.size}")
        return what + (f", `{self.level}`" if self.level else "")


# Rows that one start of a program measures, with the ratio to the best peer that Baton aims at.
GROUPS = [
    [Row(512, target=3), Row(2048, target=3)],
    [Row(32, 1, target=1)],
    [Row(1024, 1, target=2)],
    [Row(256, 8, target=2.5), Row(256, 16, target=3), Row(256, 32, target=4)],
]


def level_groups(level):
    return [
        [Row(512, level=level, target=1.5)],
        [Row(32, 1, level, 0.9)],
        [Row(256, 16, level, 1.5)],
    ]


def run_program(command):
    """What it printed. Its last words on stderr are the error's."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
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


def named(engine, model):
    """An engine that reads a file of its own is another one in the table."""
    return f"{engine}, {os.path.basename(model)}" if model else engine


class Baton:
    name = "Baton"

    def __init__(self, options):
        self.options = options
        self.probes = []
        self.unsteady = 0
        self.isa = ""

    def measure(self, rows):
        """Per row (tokens/s, share of the roofline)."""
        batches = [row.batch for row in rows if row.batch]
        prompts = [row.size for row in rows if not row.batch]
        command = [
            self.options.baton, "bench", "engine", "--json", "--model", self.options.model,
            "--threads", str(self.options.threads),
            "--prompt", ",".join(map(str, prompts or [16])),
            "--decode-batch", ",".join(map(str, batches or [1])),
            "--context", str(rows[0].size if batches else 16)]
        if rows[0].level:
            command += ["--isa", rows[0].level]
        result = parsed(command, run_program(command))
        self.probes += [result["probe"]["start"], result["probe"]["end"]]
        self.unsteady += not result["probe"]["steady"]
        self.isa = self.isa or result["isa"]
        if batches:
            return [(one["tokens_per_s"], one["bandwidth_share"]) for one in result["decode"]]
        return [(one["tokens_per_s"], one["peak_share"]) for one in result["prefill"]]


class LlamaCpp:
    """llama-bench for one sequence, llama-batched-bench for several; with flash attention, the
    faster setting. Rows of a level are without weights repacked for the CPU's best instructions."""
    name = "llama.cpp"

    def __init__(self, options):
        self.options = options
        self.model = options.llama_model or options.model
        self.name = named(self.name, options.llama_model)

    def measure(self, rows):
        if rows[0].batch > 1:
            return self._several(rows)
        command = [self.options.llama_bench, "-m", self.model,
                   "-t", str(self.options.threads), "-fa", "1", "-r", str(PEER_SAMPLES),
                   "-o", "json"]
        if rows[0].batch:
            command += ["-p", "0", "-n", str(GENERATED), "-d", str(rows[0].size - GENERATED // 2)]
        else:
            command += ["-n", "0", "-p", ",".join(str(row.size) for row in rows)]
        if rows[0].level:
            command += ["--repack", "0"]
        tests = parsed(command, run_program(command))
        return [(statistics.median(test["samples_ts"]), None) for test in tests]

    def _several(self, rows):
        prompt = rows[0].size - GENERATED // 2
        most = max(row.batch for row in rows)
        # Sequences share the prompt's computation, and each gets a copy of its cache.
        command = [self.options.llama_batched_bench, "-m", self.model,
                   "-t", str(self.options.threads), "-fa", "on", "-b", "2048", "-ub", "512",
                   "-c", str(most * (prompt + GENERATED)), "-npp", str(prompt), "-pps",
                   "-ntg", str(GENERATED), "-npl", ",".join(str(row.batch) for row in rows),
                   "--output-format", "jsonl"]
        if rows[0].level:
            command += ["--no-repack"]
        lines = [line for line in run_program(command).splitlines() if line.startswith("{")]
        rates = {one["pl"]: one["speed_tg"] for one in (parsed(command, line) for line in lines)}
        return [(rates[row.batch], None) for row in rows]


class OpenVino:
    """openvino_rates.py, by a Python that has openvino-genai."""
    name = "OpenVINO"

    def __init__(self, options):
        self.options = options
        self.model = options.openvino_model or options.model
        self.name = named(self.name, options.openvino_model)

    def measure(self, rows):
        what = (["decode", str(rows[0].size), ",".join(str(row.batch) for row in rows)]
                if rows[0].batch else ["prefill", ",".join(str(row.size) for row in rows)])
        command = [self.options.openvino, os.path.join(HERE, "openvino_rates.py"),
                   self.model, str(self.options.threads), *what]
        lines = run_program(command).splitlines() or [""]
        return [(rate, None) for rate in parsed(command, lines[-1])]


# An engine, and the flags without which it is skipped.
PEERS = [(LlamaCpp, ("llama_bench", "llama_batched_bench")), (OpenVino, ("openvino",))]


def measure(engines, groups, runs, say):
    """{row: {engine's name: [(tokens/s, share)]}}, a value a run."""
    values = {}
    for rows in groups:
        for run in range(runs):
            for engine in engines if run % 2 == 0 else reversed(engines):
                results = engine.measure(rows)
                if len(results) != len(rows):
                    raise BenchError(f"{engine.name}: {len(results)} results for {len(rows)} rows")
                for row, result in zip(rows, results):
                    values.setdefault(row, {}).setdefault(engine.name, []).append(result)
                    say(f"run {run + 1}/{runs}  {row.name()}  {engine.name}  {result[0]:.1f}")
    return values


def spread(samples):
    return {"median": statistics.median(samples), "min": min(samples), "max": max(samples),
            "samples": samples}


def summary(values):
    rows = []
    for row, engines in values.items():
        own = engines[Baton.name]
        one = {"row": row.name(), "tokens": row.size, "batch": row.batch, "level": row.level or None,
               "baton": spread([rate for rate, _ in own]),
               "roofline_share": spread([share for _, share in own]),
               "peers": {}, "target": row.target}
        for name, results in engines.items():
            if name != Baton.name:
                ratios = [mine[0] / theirs[0] for mine, theirs in zip(own, results)]
                one["peers"][name] = {"rate": spread([rate for rate, _ in results]),
                                      "ratio": spread(ratios)}
        rows.append(one)
    return rows


def text(of, digits=0):
    return f"{of['median']:,.{digits}f} ({of['min']:,.{digits}f}-{of['max']:,.{digits}f})"


def table(result):
    peers = sorted({name for row in result["rows"] for name in row["peers"]})
    heads = ["tokens/s", "Baton", "of the roofline"]
    heads += [head for peer in peers for head in (peer, f"Baton / {peer}")] + ["target"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in result["rows"]:
        cells = [row["row"], text(row["baton"]), f"{100 * row['roofline_share']['median']:.0f} %"]
        for peer in peers:
            cells += [text(row["peers"][peer]["rate"]), text(row["peers"][peer]["ratio"], 2) + " ×"]
        cells.append(f"{row['target']:g} ×")
        lines.append("| " + " | ".join(cells) + " |")
    probe = result["probe"]
    lines.append(
        f"\n{result['cpu']}, {result['threads']} threads, `{result['isa']}`, {result['runs']} runs; "
        f"load average {result['load_average'][0]:.1f} before, {result['load_average'][1]:.1f} after")
    lines.append(
        f"probed: {text(probe['gflops'])} GFLOP/s, {text(probe['read_gb_per_s'], 1)} GB/s; "
        f"{probe['unsteady']} of {probe['starts']} starts not steady (more than 15 % between two "
        "probes): their shares mean little, ratios are within a run")
    return "\n".join(lines)


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return f"{len(names)} × {names[0]}" if names else "unknown"


def arguments(argv):
    parser = argparse.ArgumentParser(
        prog="./dev bench cpu", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baton", default=os.path.join(ROOT, "build/release/bin/baton"))
    parser.add_argument("--model",
                        default=os.path.join(ROOT, "models/smollm2-135m-instruct-q4_1.gguf"))
    parser.add_argument("--llama-bench", metavar="PATH", help="llama.cpp's llama-bench")
    parser.add_argument("--llama-batched-bench", metavar="PATH", help="and its llama-batched-bench")
    parser.add_argument("--llama-model", metavar="FILE",
                        help="what it reads in place of --model: another type may be faster there")
    parser.add_argument("--openvino", metavar="PYTHON", help="a Python that has openvino-genai")
    parser.add_argument("--openvino-model", metavar="FILE",
                        help="what it reads in place of --model: its Q4_1 is not the file's, Q8_0 is")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of every engine")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--level", default="", metavar="NAME,NAME",
                        help="only rows with Baton's instructions lowered to these: avx512, avx2; "
                        "llama.cpp with --repack 0, no other engine")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    options = parser.parse_args(argv)
    if options.runs < 1 or options.threads < 1:
        parser.error("--runs and --threads are at least 1")
    options.level = [level for level in options.level.split(",") if level]
    for level in options.level:
        if level not in ("avx512", "avx2"):
            parser.error(f"--level {level}: avx512 or avx2")
    for flag in ("baton", *(flag for _, flags in PEERS for flag in flags)):
        path = getattr(options, flag)
        if path and not os.access(path, os.X_OK):
            parser.error(f"--{flag.replace('_', '-')}: {path} is no program")
    return options


def main(argv):
    options = arguments(argv)

    def say(line):
        print(line, file=sys.stderr, flush=True)

    engines = [Baton(options)]
    for peer, flags in PEERS:
        missing = ["--" + flag.replace("_", "-") for flag in flags if not getattr(options, flag)]
        if missing:
            say(f"{peer.name} is skipped: {' and '.join(missing)} not given")
        elif options.level and peer is not LlamaCpp:
            say(f"{peer.name} is skipped: its instructions cannot be lowered")
        else:
            engines.append(peer(options))
    groups = ([group for level in options.level for group in level_groups(level)]
              if options.level else GROUPS)
    before = os.getloadavg()[0]
    try:
        values = measure(engines, groups, options.runs, say)
    except BenchError as error:
        say(f"bench cpu: {error}")
        return 1
    baton = engines[0]
    result = {
        "cpu": cpu_name(), "threads": options.threads, "isa": baton.isa, "runs": options.runs,
        "model": options.model, "load_average": [before, os.getloadavg()[0]],
        "rows": summary(values),
        "probe": {"gflops": spread([probe["flops"] / 1e9 for probe in baton.probes]),
                  "read_gb_per_s": spread([probe["read_bytes_per_s"] / 1e9
                                           for probe in baton.probes]),
                  "unsteady": baton.unsteady, "starts": len(baton.probes) // 2}}
    print(json.dumps(result) if options.json else table(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
