#!/usr/bin/env python3
"""Tokens per second of Baton and of other engines on the CPUs of this machine, in turn.

  ./dev bench cpu --llama-bench PATH --llama-batched-bench PATH
  ./dev bench cpu --openvino PYTHON --openvino-model FILE
  ./dev bench cpu --vllm-python PYTHON --vllm-model FOLDER --numerics both
  ./dev bench cpu --runs 3 --level avx512,avx2 --json ...
  ./dev bench cpu --rows large --model llama1b-q8_0.gguf --llama-bench PATH ...

Every row is measured --runs times, Baton and each peer right after one another, the first of them
changing with every run. A ratio is taken within a run, so that what the machine does to both cancels;
the table has the median and, in brackets, the least and greatest. Beside it stands the share of the
roofline that `baton bench engine` probed in the same process. --rows large is for a model that is
larger than the caches: prefill beside the peers, and what Baton reaches of the machine.
docs/performance.md says how to build a peer, and make_model.py makes such a model.
"""
import argparse
import contextlib
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable

from runs import BenchError, LIMIT_S, cell, cpu_name, parsed, probed, run_program, spread

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
GENERATED = 32  # tokens of a peer's decode measurement, half of them before the context, half after
PEER_SAMPLES = 3  # of one run of a peer; its median counts
END_LIMIT_S = 30  # of a process that is told to end


@dataclasses.dataclass(frozen=True)
class Row:
    """`batch` 0: a prompt of `size` tokens; otherwise that many sequences that hold `size` each."""
    size: int
    batch: int = 0
    level: str = ""
    # The ratio to the best peer that Baton aims at; to peers of their own; of `numerics: fast`.
    target: float = 0
    peer_targets: tuple = ()
    fast_target: float = 0

    def name(self, numerics):
        what = (f"decode, batch {self.batch}, context {self.size}" if self.batch
                else f"prefill {self.size}")
        marks = [mark for mark in (self.level, numerics if numerics == "fast" else "") if mark]
        return ", ".join([what, *(f"`{mark}`" for mark in marks)])

    def target_of(self, numerics):
        return self.fast_target if numerics == "fast" and self.fast_target else self.target


@dataclasses.dataclass(frozen=True)
class Figure:
    """What Baton reaches of the machine or of itself: `of` what `baton bench engine` printed."""
    name: str
    of: Callable[[dict], float]
    unit: str = "tokens/s"  # or % or ×
    target: str = "-"


@dataclasses.dataclass(frozen=True)
class Group:
    """What one start of each program measures."""
    rows: tuple = ()
    figures: tuple = ()
    flags: tuple = ()  # of `baton bench engine`, if they do not follow from the rows


GROUPS = [
    Group((Row(512, target=3, fast_target=4), Row(2048, target=3, fast_target=4))),
    Group((Row(32, 1, target=1, fast_target=1.3),)),
    Group((Row(1024, 1, target=2, fast_target=2.5),)),
    Group((Row(256, 8, target=2.5), Row(256, 16, target=3), Row(256, 32, target=4))),
]


def level_groups(level):
    return [
        Group((Row(512, level=level, target=1.5),)),
        Group((Row(32, 1, level, 0.9),)),
        Group((Row(256, 16, level, 1.5),)),
    ]


LONG = 8000  # tokens


def step(result, batch, context):
    return next(one for one in result["decode"] if (one["batch"], one["context"]) == (batch, context))


def step_seconds(result, batch, context):
    return batch / step(result, batch, context)["tokens_per_s"]


def growth(result):
    """Of the time against that of the bytes, from a short to a long context."""
    time = step_seconds(result, 16, LONG) / step_seconds(result, 16, 256)
    return time / (step(result, 16, LONG)["step_bytes"] / step(result, 16, 256)["step_bytes"])


# `--repeats`: each takes long; there are several runs anyhow.
LARGE_GROUPS = [
    Group(rows=(Row(512, target=3, peer_targets=(("OpenVINO", 1.3),)),),
          figures=(Figure("prefill 512, of the peak", lambda r: r["prefill"][0]["peak_share"],
                          "%", "≥ 45 %"),),
          flags=("--prompt", "512", "--decode-batch", "1", "--context", "16", "--repeats", "3")),
    Group(figures=(
        Figure("decode, batch 1, context 256", lambda r: step(r, 1, 256)["tokens_per_s"]),
        Figure("decode, batch 1, of the read bandwidth",
               lambda r: step(r, 1, 256)["bandwidth_share"], "%",
               "Q8_0 ≥ 75 %, Q4_K ≥ 60 %, `fast` ≥ 90 %"),
        Figure("decode, batch 16, context 256", lambda r: step(r, 16, 256)["tokens_per_s"]),
        Figure("decode, 16 rows against 1, time",
               lambda r: step_seconds(r, 16, 256) / step_seconds(r, 1, 256), "×", "≤ 1.3 ×"),
        Figure(f"decode, batch 16, context {LONG}", lambda r: step(r, 16, LONG)["tokens_per_s"]),
        Figure(f"decode, batch 16, context {LONG} against 256, growth of the time by that of the "
               "bytes", growth, "×", "≤ 1 ×")),
          flags=("--prompt", "16", "--decode-batch", "1,16", "--context", f"256,{LONG}")),
    Group(figures=(
        Figure(f"prefill {LONG}", lambda r: r["prefill"][0]["tokens_per_s"]),
        Figure(f"prefill {LONG}, attention, of the time",
               lambda r: r["prefill"][0]["attention_time_share"], "%"),
        Figure(f"prefill {LONG}, attention, of the peak",
               lambda r: r["prefill"][0]["attention_peak_share"], "%", "≥ 35 %")),
          flags=("--prompt", str(LONG), "--decode-batch", "1", "--context", "16",
                 "--repeats", "1")),
]


def named(engine, model):
    """An engine that reads a file of its own is another one in the table."""
    return f"{engine}, {os.path.basename(model)}" if model else engine


class Baton:
    def __init__(self, options, numerics):
        self.options = options
        self.numerics = numerics
        self.name = "Baton" if numerics == "invariant" else f"Baton, {numerics}"
        self.probes = []
        self.unsteady = 0
        self.isa = ""

    def measure(self, group):
        """What `baton bench engine` printed."""
        command = [
            self.options.baton, "bench", "engine", "--json", "--model", self.options.model,
            "--threads", str(self.options.threads), "--numerics", self.numerics,
            *(group.flags or self._flags(group.rows))]
        result = parsed(command, run_program(command))
        self.probes += [result["probe"]["start"], result["probe"]["end"]]
        self.unsteady += not result["probe"]["steady"]
        self.isa = self.isa or result["isa"]
        return result

    def _flags(self, rows):
        batches = [row.batch for row in rows if row.batch]
        prompts = [row.size for row in rows if not row.batch]
        flags = ["--prompt", ",".join(map(str, prompts or [16])),
                 "--decode-batch", ",".join(map(str, batches or [1])),
                 "--context", str(rows[0].size if batches else 16)]
        return flags + (["--isa", rows[0].level] if rows[0].level else [])

    def rates(self, rows, result):
        """Per row (tokens/s, share of the roofline)."""
        if rows and rows[0].batch:
            return [(one["tokens_per_s"], one["bandwidth_share"]) for one in result["decode"]]
        return [(one["tokens_per_s"], one["peak_share"]) for one in result["prefill"][:len(rows)]]


class Peer:
    """Another engine: measure(rows) gives tokens/s of each."""

    def __init__(self, options):
        self.options = options

    def close(self):
        """Ends what it keeps running."""


class LlamaCpp(Peer):
    """llama-bench for one sequence, llama-batched-bench for several; with flash attention, the
    faster setting. Rows of a level are without weights repacked for the CPU's best instructions."""
    kind = "llama.cpp"

    def __init__(self, options):
        super().__init__(options)
        self.model = options.llama_model or options.model
        self.name = named(self.kind, options.llama_model)

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
        return [statistics.median(test["samples_ts"]) for test in tests]

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
        return [rates[row.batch] for row in rows]


def what_to_measure(rows):
    """The arguments of openvino_rates.py, and a line for vllm_rates.py."""
    if rows[0].batch:
        return ["decode", str(rows[0].size), ",".join(str(row.batch) for row in rows)]
    return ["prefill", ",".join(str(row.size) for row in rows)]


class OpenVino(Peer):
    """openvino_rates.py, by a Python that has openvino-genai."""
    kind = "OpenVINO"

    def __init__(self, options):
        super().__init__(options)
        self.model = options.openvino_model or options.model
        self.name = named(self.kind, options.openvino_model)

    def measure(self, rows):
        command = [self.options.openvino, os.path.join(HERE, "openvino_rates.py"),
                   self.model, str(self.options.threads), *what_to_measure(rows)]
        lines = run_program(command).splitlines() or [""]
        return parsed(command, lines[-1])


class Vllm(Peer):
    """vllm_rates.py, by a Python that has vLLM: one process for all runs, as it starts for minutes.
    It sleeps while others are measured."""
    kind = "vLLM"

    def __init__(self, options):
        super().__init__(options)
        self.name = named(self.kind, options.vllm_model.rstrip("/"))
        self.command = [options.vllm_python, os.path.join(HERE, "vllm_rates.py"),
                        options.vllm_model, str(options.threads)]
        self.process = None
        self.said = tempfile.TemporaryFile("w+", errors="replace")

    def measure(self, rows):
        if self.process is None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=self.said, text=True)
        limit = threading.Timer(LIMIT_S, self.process.kill)
        limit.start()
        try:
            print(*what_to_measure(rows), file=self.process.stdin, flush=True)
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        finally:
            limit.cancel()
        if not answer:
            self.process.wait()
            self.said.seek(0)
            words = self.said.read().strip().splitlines() or [""]
            raise BenchError(f"{self.command[0]} exited with {self.process.returncode}: {words[-1]}")
        return parsed(self.command, answer)

    def close(self):
        if self.process is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()  # it ends then, with the processes that it started
            try:
                self.process.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()
        self.said.close()


# A peer, and its programs and other flags without which it is skipped.
PEERS = [(LlamaCpp, ("llama_bench", "llama_batched_bench"), ()), (OpenVino, ("openvino",), ()),
         (Vllm, ("vllm_python",), ("vllm_model",))]


class Measured:
    """A value a run of every row by every engine, and of every figure by every Baton."""

    def __init__(self, say):
        self.say = say
        self.rows = {}  # {row: {engine's name: [(tokens/s, share or None)]}}
        self.figures = {}  # {figure: {Baton's name: [value]}}

    def measure(self, engine, group, run):
        rows, figures = group.rows, group.figures
        if isinstance(engine, Baton):
            result = engine.measure(group)
            self._add(engine, rows, engine.rates(rows, result), run)
            for figure in figures:
                value = figure.of(result)
                self.figures.setdefault(figure, {}).setdefault(engine.name, []).append(value)
                self.say(f"{run}  {figure.name}  {engine.name}  {shown(value, figure.unit)}")
        elif rows:
            self._add(engine, rows, [(rate, None) for rate in engine.measure(rows)], run)

    def _add(self, engine, rows, results, run):
        if len(results) != len(rows):
            raise BenchError(f"{engine.name}: {len(results)} results for {len(rows)} rows")
        for row, result in zip(rows, results):
            self.rows.setdefault(row, {}).setdefault(engine.name, []).append(result)
            self.say(f"{run}  {row.name('')}  {engine.name}  {result[0]:.1f}")


def measure(engines, groups, runs, say):
    measured = Measured(say)
    for group in groups:
        for run in range(runs):
            for engine in engines if run % 2 == 0 else reversed(engines):
                measured.measure(engine, group, f"run {run + 1}/{runs}")
    return measured


def row_summary(row, baton, engines, peers):
    own = engines[baton.name]
    one = {"row": row.name(baton.numerics), "tokens": row.size, "batch": row.batch,
           "level": row.level or None, "numerics": baton.numerics,
           "baton": spread([rate for rate, _ in own]),
           "roofline_share": spread([share for _, share in own]),
           "peers": {}, "target": row.target_of(baton.numerics),
           "peer_targets": dict(row.peer_targets)}
    for peer in peers:
        ratios = [mine[0] / theirs[0] for mine, theirs in zip(own, engines[peer.name])]
        one["peers"][peer.name] = {"rate": spread([rate for rate, _ in engines[peer.name]]),
                                   "ratio": spread(ratios)}
    return one


def summary(measured, batons, peers):
    return {
        "rows": [row_summary(row, baton, engines, peers)
                 for row, engines in measured.rows.items() for baton in batons],
        "figures": [{"figure": figure.name, "unit": figure.unit, "target": figure.target,
                     "baton": {baton.numerics: spread(values[baton.name]) for baton in batons}}
                    for figure, values in measured.figures.items()]}


def shown(value, unit):
    return {"%": f"{100 * value:.0f} %", "×": f"{value:.2f} ×"}.get(unit, f"{value:,.1f}")


def figure_table(result):
    numerics = list(result["figures"][0]["baton"])
    lines = ["| Baton alone | " + " | ".join(f"`{one}`" for one in numerics) + " | target |",
             "|---" * (len(numerics) + 2) + "|"]
    for one in result["figures"]:
        cells = [one["figure"]]
        for mode in numerics:
            median, least, most = (shown(one["baton"][mode][what], one["unit"])
                                   for what in ("median", "min", "max"))
            cells.append(f"{median} ({least} to {most})")
        lines.append("| " + " | ".join([*cells, one["target"]]) + " |")
    return lines


def target_text(row):
    return "; ".join([f"{row['target']:g} ×",
                      *(f"{peer} {target:g} ×" for peer, target in row["peer_targets"].items())])


def table(result):
    peers = sorted({name for row in result["rows"] for name in row["peers"]})
    heads = ["tokens/s", "Baton", "of the roofline"]
    heads += [head for peer in peers for head in (peer, f"Baton / {peer}")] + ["target"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in result["rows"]:
        cells = [row["row"], cell(row["baton"]), f"{100 * row['roofline_share']['median']:.0f} %"]
        for peer in peers:
            cells += [cell(row["peers"][peer]["rate"]), cell(row["peers"][peer]["ratio"], 2) + " ×"]
        cells.append(target_text(row))
        lines.append("| " + " | ".join(cells) + " |")
    if result["figures"]:
        lines += ["", *figure_table(result)]
    probe = result["probe"]
    lines.append(
        f"\n{result['cpu']}, {result['threads']} threads, `{result['isa']}`, {result['runs']} runs; "
        f"load average {result['load_average'][0]:.1f} before, {result['load_average'][1]:.1f} after")
    lines.append(
        f"probed: {cell(probe['gflops'])} GFLOP/s, {cell(probe['read_gb_per_s'], 1)} GB/s; "
        f"{probe['unsteady']} of {probe['starts']} starts not steady (more than 15 % between two "
        "probes): their shares mean little, ratios are within a run")
    return "\n".join(lines)


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
    parser.add_argument("--vllm-python", metavar="PYTHON", help="a Python that has vLLM for CPUs")
    parser.add_argument("--vllm-model", metavar="FOLDER",
                        help="and what it reads: safetensors, in bf16")
    parser.add_argument("--numerics", choices=("invariant", "fast", "both"), default="invariant",
                        help="Baton's; both: one after the other, beside the same peers")
    parser.add_argument("--rows", choices=("small", "large"), default="small",
                        help="small: rates beside the peers, for a model of a size that caches "
                        "hold; large: see above")
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
    if options.level and options.rows == "large":
        parser.error("--level has rows of its own, not those of --rows large")
    for flag in ("baton", *(flag for _, programs, _ in PEERS for flag in programs)):
        path = getattr(options, flag)
        if path and not os.access(path, os.X_OK):
            parser.error(f"--{flag.replace('_', '-')}: {path} is no program")
    return options


def chosen_peers(options, say):
    peers = []
    for peer, *flags in PEERS:
        missing = ["--" + flag.replace("_", "-")
                   for flag in [*flags[0], *flags[1]] if not getattr(options, flag)]
        if missing:
            say(f"{peer.kind} is skipped: {' and '.join(missing)} not given")
        elif options.level and peer is not LlamaCpp:
            say(f"{peer.kind} is skipped: its instructions cannot be lowered")
        else:
            peers.append(peer(options))
    return peers


def chosen_groups(options):
    if options.level:
        return [group for level in options.level for group in level_groups(level)]
    return LARGE_GROUPS if options.rows == "large" else GROUPS


def main(argv):
    options = arguments(argv)

    def say(line):
        print(line, file=sys.stderr, flush=True)

    modes = ["invariant", "fast"] if options.numerics == "both" else [options.numerics]
    batons = [Baton(options, numerics) for numerics in modes]
    peers = chosen_peers(options, say)
    before = os.getloadavg()[0]
    try:
        with contextlib.ExitStack() as stack:
            for peer in peers:
                stack.callback(peer.close)
            measured = measure([*batons, *peers], chosen_groups(options), options.runs, say)
    except BenchError as error:
        say(f"bench cpu: {error}")
        return 1
    probes = [probe for baton in batons for probe in baton.probes]
    result = {
        "cpu": cpu_name(), "threads": options.threads, "isa": batons[0].isa, "runs": options.runs,
        "model": options.model, "load_average": [before, os.getloadavg()[0]],
        **summary(measured, batons, peers),
        "probe": {**probed(probes), "unsteady": sum(baton.unsteady for baton in batons),
                  "starts": len(probes) // 2}}
    print(json.dumps(result) if options.json else table(result))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
