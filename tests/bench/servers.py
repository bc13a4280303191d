#!/usr/bin/env python3
"""Baton and other servers of the OpenAI endpoints, through HTTP, on the CPUs of this machine, in turn.

  ./dev bench servers --llama-server PATH --llama-model FILE
  ./dev bench servers --peer 'vLLM=start.sh {port}' --deadline 400 --measure stream,gaps
  ./dev bench servers --measure goodput --rounds 1 --workload 300/64,755/200 --json goodput.json ...

Every round starts each server, measures, and stops it; the order turns with the rounds. Measurements:
  stream   one stream alone: tokens/s after the first token, time to the first of 500 tokens
  prefix   time to the first token of a prompt whose first 1,500 of 1,516 tokens are cached
  start    from the start of the program to its first token; before the rounds each server is started
           once for nothing, so that its files are cached
  gaps     of running streams, alone and while prompts of 2,000 tokens arrive one after the other
  goodput  the highest rate at which 90 % of the requests meet both limits (baton bench serve --search)
Prompts are unique token ids of SmolLM2's vocabulary: all servers need a model with that. Tables have
the median over the rounds, in brackets the least and greatest, and for Baton the ratio to the best of
the others within a round. docs/performance.md says how to build a peer.
"""
import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shlex
import signal
import statistics
import sys
import tempfile
import time

import streams
from runs import BenchError, cell, cpu_name, parsed, probed, run_program, spread
from server_process import ROOT, Baton, Peer, running, wait_idle

OWN = {  # name: file, settings
    "local": ("deploy/local.yaml", []),
    "local-fast": ("deploy/local.yaml", ["numerics=fast"]),
    "colocated": ("deploy/colocated.yaml", []),
    "colocated-fast": ("deploy/colocated.yaml", ["numerics=fast"]),
}
MEASUREMENTS = ("stream", "prefix", "start", "gaps", "goodput")
LLAMA_FLAGS = "-np 16 -c 36864 -cb -fa on"
PAUSE_S = 5  # between two servers: memory goes back, clocks settle
SEARCH_LIMIT_S = 2400  # several times what one takes unless the machine is busy when it begins


@dataclasses.dataclass(frozen=True)
class Figure:
    """A column: `of` a round's results."""
    title: str
    of: tuple
    digits: int = 0
    higher: bool = False  # is better
    target: str = ""
    versus: bool = True  # is compared with the best of the others

    def value(self, results):
        """The median where a round has several; None where it has none."""
        for key in self.of:
            if key not in results:
                return None
            results = results[key]
        return statistics.median(results) if isinstance(results, list) else results


FIGURES = {
    "stream": [
        Figure("tokens/s", ("stream", "tokens_per_s"), 1, True, "≥ 1.0 ×"),
        Figure("TTFT of 500 tokens, ms", ("stream", "ttft_ms"), 0, target="≤ 0.5 ×")],
    "prefix": [
        Figure("TTFT, 1,500 of 1,516 cached, ms", ("prefix", "warm_ttft_ms"), 0, target="≤ 0.5 ×"),
        Figure("nothing cached, ms", ("prefix", "cold_ttft_ms"))],
    "start": [Figure("exec to first token, s", ("start", "first_token_s"), 2, target="≤ 1.0 ×")],
    "gaps": [
        Figure("slowest gap, ms", ("gaps", "loaded", "gap_max_ms"), 1),
        Figure("alone, ms", ("gaps", "alone", "gap_max_ms"), 1, versus=False),
        Figure("slowest / alone", ("gaps", "ratio"), 2, target="≤ 1.5", versus=False),
        Figure("p99, ms", ("gaps", "loaded", "gap_p99_ms"), 1, versus=False),
        Figure("alone, p99, ms", ("gaps", "alone", "gap_p99_ms"), 1, versus=False),
        Figure("mean, ms", ("gaps", "loaded", "gap_mean_ms"), 1, versus=False),
        Figure("TTFT of 2,000 tokens, ms", ("gaps", "loaded", "long_ttft_ms"))],
}


@dataclasses.dataclass(frozen=True)
class Load:
    """A workload and its limits, as the flags of `baton bench serve` say them."""
    name: str
    flags: tuple


def figures(measurement, loads):
    if measurement != "goodput":
        return FIGURES[measurement]
    return [Figure(load.name, ("goodput", load.name, "best_rps"), 2, True, "≥ 3 ×")
            for load in loads]


def probe(options):
    """The machine's roofline, for a moment in which no server runs."""
    command = [options.baton, "bench", "engine", "--json", "--model", options.model, "--threads",
               str(options.threads), "--prompt", "16", "--decode-batch", "1", "--context", "16"]
    found = parsed(command, run_program(command))["probe"]
    return [found["start"], found["end"]]


def measure_stream(server, options, seeds):
    found = streams.one_stream(server.endpoint, seeds, options.requests)
    return {**found, "tokens_per_s": [1e3 / value for value in found["tpot_ms"]]}


def measure_prefix(server, options, seeds):
    return streams.cached_prefix(server.endpoint, seeds, options.requests)


def measure_start(server, _options, _seeds):
    return {"first_token_s": server.first_token_s}


def measure_gaps(server, options, seeds):
    alone, loaded = (streams.beside(server.endpoint, seeds, options.streams, options.seconds, long)
                     for long in (False, True))
    return {"alone": alone, "loaded": loaded, "ratio": loaded["gap_max_ms"] / alone["gap_max_ms"]}


def measure_goodput(server, options, _seeds):
    out = {}
    for load in options.loads:
        command = [options.baton, "bench", "serve", "--url", server.url, "--search", "--json",
                   "--duration", str(options.duration), *load.flags]
        try:
            found = parsed(command, run_program(command, SEARCH_LIMIT_S))
            out[load.name] = {**found["search"], "client_late": found["client_late"]}
        except BenchError as error:  # another load may go
            out[load.name] = {"error": str(error)}
    return out


MEASURE = {"stream": measure_stream, "prefix": measure_prefix, "start": measure_start,
           "gaps": measure_gaps, "goodput": measure_goodput}


class Bench:
    def __init__(self, options, programs, folder, say):
        self._options, self._programs, self._folder, self._say = options, programs, folder, say
        self._seeds, self._started = streams.Seeds(), 0
        self.result = {
            "cpu": cpu_name(), "threads": options.threads, "rounds": options.rounds,
            "model": options.model, "version": run_program([options.baton, "--version"]).strip(),
            "load_average": [os.getloadavg()[0]], "probes": [],
            "servers": {one.name: {"command": one.shown(), "own": one.own, "rounds": []}
                        for one in programs}}

    @contextlib.contextmanager
    def _server(self, program):
        time.sleep(PAUSE_S if self._started else 0)
        self._started += 1
        folder = self._folder / f"{self._started:02}-{re.sub('[^A-Za-z0-9.]+', '-', program.name)}"
        folder.mkdir()
        with running(program, folder, self._options.deadline, self._seeds) as server:
            yield server

    def _one(self, program):
        """A round of a server. What it could not do is told in `error`; the rest counts."""
        results = {}
        try:
            with self._server(program) as server:
                self._say(f"  {program.name}  first token after {server.first_token_s:.2f} s")
                if set(self._options.measure) - {"start"}:
                    wait_idle(server.pid)
                    streams.one_stream(server.endpoint, self._seeds, 2)
                for name in self._options.measure:
                    results[name] = MEASURE[name](server, self._options, self._seeds)
                    self._say(f"  {program.name}  " + ", ".join(
                        f"{figure.title} {value:.2f}" for figure in figures(name, self._options.loads)
                        if (value := figure.value(results)) is not None))
        except (BenchError, AssertionError) as error:
            results["error"] = str(error)
            self._say(f"  {program.name}  failed: {error}")
        return results

    def run(self, done):
        """`done` is called with the results so far after every round."""
        if "start" in self._options.measure:
            self._say("a start of each for nothing")
            for program in self._programs:
                with contextlib.suppress(BenchError), self._server(program):
                    pass
        for number in range(self._options.rounds):
            self._say(f"round {number + 1} of {self._options.rounds}")
            self.result["probes"] += probe(self._options)
            turn = number % len(self._programs)
            for program in self._programs[turn:] + self._programs[:turn]:
                found = self._one(program)
                self.result["servers"][program.name]["rounds"].append(found)
            self.result["load_average"][1:] = [os.getloadavg()[0]]
            done(self.result)

def errors(result):
    """A line each."""
    out = []
    for name, server in result["servers"].items():
        for number, found in enumerate(server["rounds"]):
            told = {"": found, **found.get("goodput", {})}
            out += [f"{name}, round {number + 1}{load and ', '}{load}: {one['error']}"
                    for load, one in told.items() if "error" in one]
    return out


def samples(server, figure):
    """{round: value}"""
    values = {number: figure.value(found) for number, found in enumerate(server["rounds"])}
    return {number: value for number, value in values.items() if value is not None}


def best_peer(servers, figure):
    """Name and samples of the best of the others by its median; None where there is none."""
    medians = {name: statistics.median(values.values()) for name, server in servers.items()
               if not server["own"] and (values := samples(server, figure))}
    if not medians or not figure.versus:
        return None, {}
    name = (max if figure.higher else min)(medians, key=medians.get)
    return name, samples(servers[name], figure)


def table(measurement, result, loads):
    columns, servers = figures(measurement, loads), result["servers"]
    best = [best_peer(servers, figure) for figure in columns]
    lines = [f"| {measurement} | " + " | ".join(figure.title for figure in columns) + " |",
             "|---" * (len(columns) + 1) + "|"]
    for name, server in servers.items():
        cells = []
        for figure, (_, theirs) in zip(columns, best):
            values = samples(server, figure)
            cells.append(cell(spread(list(values.values())), figure.digits) if values else "-")
            ratios = [value / theirs[number] for number, value in values.items()
                      if theirs.get(number)] if server["own"] else []
            if ratios:
                cells[-1] += f"; {cell(spread(ratios), 2)} ×"
        lines.append(f"| {'Baton, ' if server['own'] else ''}{name} | " + " | ".join(cells) + " |")
    if any(name for name, _ in best):
        lines.append("| × of | " + " | ".join(name or "" for name, _ in best) + " |")
    if any(figure.target for figure in columns):
        lines.append("| target | " + " | ".join(figure.target for figure in columns) + " |")
    return "\n".join(lines)


def report(result, options):
    parts = [table(measurement, result, options.loads) for measurement in options.measure]
    found = probed(result["probes"])
    parts.append(
        f"{result['version'].splitlines()[0]}; {result['cpu']}, {result['rounds']} rounds; load average "
        f"{result['load_average'][0]:.1f} before, {result['load_average'][-1]:.1f} after\n"
        f"probed before each round: {cell(found['gflops'])} GFLOP/s, "
        f"{cell(found['read_gb_per_s'], 1)} GB/s")
    parts += errors(result)
    return "\n\n".join(parts)


def whole(text, least, most):
    parts = text.split("/")
    if not least <= len(parts) <= most:
        raise ValueError
    return parts


def loads_of(options):
    """Every workload at every pair of limits."""
    out, works = [], []
    for text in options.workload.split(","):
        tokens_in, tokens_out, *varies = whole(text, 2, 3)
        flags = ["--input", str(int(tokens_in)), "--output", str(int(tokens_out))]
        for share in varies:
            flags += ["--input-spread", str(float(share)), "--output-spread", str(float(share))]
        works.append((text, [*flags, "--rate", str(options.first or 1)]))
    if options.trace:
        flags = ["--trace", options.trace, "--trace-scale", str(options.first or 0.25),
                 "--max-input", str(options.max_input), "--max-output", str(options.max_output)]
        works = [(os.path.basename(options.trace), flags)]
    for text in options.limits.split(","):
        ttft, tpot = (float(part) for part in whole(text, 2, 2))
        out += [Load(f"{name} within {ttft:g}/{tpot:g} ms",
                     (*flags, "--slo-ttft-ms", str(ttft), "--slo-tpot-ms", str(tpot)))
                for name, flags in works]
    return out


def programs_of(options, fail):
    out = []
    for name in filter(None, options.own.split(",")):
        if name not in OWN:
            fail(f"--own {name}: there are " + ", ".join(OWN))
        file, settings = OWN[name]
        out.append(Baton(name, options.baton, options.model, file, [*settings, *options.set]))
    if options.llama_server:
        for model in options.llama_model or [options.model]:
            words = [options.llama_server, "-m", model, "--host", "127.0.0.1", "--port", "{port}",
                     "-t", str(options.threads), *shlex.split(options.llama_flags)]
            out.append(Peer(f"llama-server, {os.path.basename(model)}", words))
    for text in options.peer:
        name, _, command = text.partition("=")
        if "{port}" not in command:
            fail(f"--peer {text}: NAME=COMMAND with {{port}} in it")
        out.append(Peer(name, shlex.split(command)))
    if not out:
        fail("no server is given")
    if len({one.name for one in out}) < len(out):
        fail("two servers have one name")
    return out


def arguments(argv):
    parser = argparse.ArgumentParser(
        prog="./dev bench servers", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baton", default=str(ROOT / "build/release/bin/baton"))
    parser.add_argument("--model", default=str(ROOT / "models/smollm2-135m-instruct-q4_1.gguf"))
    parser.add_argument("--own", default=",".join(OWN), metavar="NAME,NAME",
                        help="which settings of Baton, of " + ", ".join(OWN) + "; '' for none")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="as of baton up, in all of them")
    parser.add_argument("--llama-server", metavar="PATH", help="llama.cpp's llama-server")
    parser.add_argument("--llama-model", metavar="FILE", action="append",
                        help="what it reads in place of --model; given again: another server")
    parser.add_argument("--llama-flags", default=LLAMA_FLAGS, help=f"default: {LLAMA_FLAGS}")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of llama-server")
    parser.add_argument("--peer", metavar="NAME=COMMAND", action="append", default=[],
                        help="any other server, by the command that starts it on 127.0.0.1:{port}")
    parser.add_argument("--measure", default="stream,prefix,start,gaps", metavar="NAME,NAME",
                        help="of " + ", ".join(MEASUREMENTS) + "; default: all but goodput")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--deadline", type=float, default=300, help="s from start to first token")
    parser.add_argument("--requests", type=int, default=8, help="of stream and prefix, a round")
    parser.add_argument("--streams", type=int, default=8, help="of gaps")
    parser.add_argument("--seconds", type=float, default=8, help="of gaps, alone and beside prompts")
    goodput = parser.add_argument_group("goodput")
    goodput.add_argument("--workload", default="300/64", metavar="IN/OUT[/SPREAD],...",
                         help="tokens of prompts and answers, and the share by which both vary")
    goodput.add_argument("--limits", default="1000/100", metavar="TTFT/TPOT,...", help="ms")
    goodput.add_argument("--duration", type=float, default=60, help="s of a probe")
    goodput.add_argument("--first", type=float, metavar="X",
                         help="load of the first probe: requests/s (1), or speed of the trace (0.25)")
    goodput.add_argument("--trace", metavar="FILE", help="in place of --workload")
    goodput.add_argument("--max-input", type=int, default=2000, help="of a trace")
    goodput.add_argument("--max-output", type=int, default=256, help="of a trace")
    parser.add_argument("--json", metavar="FILE", help="all values, written after every round")
    parser.add_argument("--logs", metavar="FOLDER", help="keeps what the servers print")
    options = parser.parse_args(argv)
    if min(options.rounds, options.threads, options.requests, options.streams) < 1:
        parser.error("--rounds, --threads, --requests and --streams are at least 1")
    options.measure = options.measure.split(",")
    for name in options.measure:
        if name not in MEASUREMENTS:
            parser.error(f"--measure {name}: there are " + ", ".join(MEASUREMENTS))
    for flag in ("baton", "llama_server"):
        path = getattr(options, flag)
        if path and not os.access(path, os.X_OK):
            parser.error(f"--{flag.replace('_', '-')}: {path} is no program")
    try:
        options.loads = loads_of(options)
    except ValueError:
        parser.error("--workload is IN/OUT or IN/OUT/SPREAD, --limits TTFT/TPOT, all of them numbers")
    options.programs = programs_of(options, parser.error)
    return options


def write(path, result):
    """In one step, so that a run that is ended leaves the rounds before."""
    part = pathlib.Path(f"{path}.part")
    part.write_text(json.dumps(result), encoding="utf-8")
    part.replace(path)


def main(argv):
    options = arguments(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # servers are stopped on the way out

    def say(line):
        print(line, file=sys.stderr, flush=True)

    with contextlib.ExitStack() as stack:
        if options.logs:
            folder = pathlib.Path(options.logs)
            folder.mkdir(parents=True, exist_ok=True)
        else:
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        try:
            bench = Bench(options, options.programs, folder, say)
            bench.run(lambda result: options.json and write(options.json, result))
        except (BenchError, OSError) as error:
            say(f"bench servers: {error}")
            return 1
        except KeyboardInterrupt:
            return 130
    print(report(bench.result, options))
    return 1 if errors(bench.result) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
