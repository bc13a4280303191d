#!/usr/bin/env python3
"""link_graph.py TARGETS.dot [BIN_FOLDER]: targets link what their sources include, no more, no less.

TARGETS.dot comes from `cmake --graphviz`. With BIN_FOLDER: programs hold nothing of
the fault plan, unless they were built with it. Also: each library of common/ is linked into at least two
of the four programs, and the router's program (if BIN_FOLDER has it) needs no UCX, CUDA or NCCL.
"""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from source_tree import Findings, layer_of, layers, sources

EDGE = re.compile(r"// ([\w-]+) -> ([\w-]+)\s*$", re.M)
FAULT_SYMBOL = re.compile(r"9FaultPlan\d\w+|10FaultyPath\d\w+")
NOT_IN_ROUTER = re.compile(r"lib(ucp|uct|ucs|cuda|cudart|cublas|nccl)\b", re.I)


def read_links(path: str) -> dict[str, set[str]]:
    links: dict[str, set[str]] = defaultdict(set)
    for source, target in EDGE.findall(Path(path).read_text(encoding="utf-8")):
        links[source].add(target)
    return links


def linked_layers(target: str, links: dict[str, set[str]], table: dict) -> set[str]:
    return {
        name[len("baton_") :]
        for name in links.get(target, ())
        if name.startswith("baton_") and name[len("baton_") :] in table["layers"]
    }


def included_layers(table: dict) -> dict[str, set[str]]:
    used: dict[str, set[str]] = defaultdict(set)
    for source in sources():
        own = layer_of(source.path, table)
        if own is None or source.is_test:
            continue
        for _, name in source.includes:
            target = layer_of(name, table)
            if target is not None and target != own:
                used[own].add(target)
    return used


def compare(links: dict, table: dict, findings: Findings) -> None:
    included = included_layers(table)
    programs = {layer: program for program, layer in table["programs"].items()}
    for layer, entry in table["layers"].items():
        own_folder = entry["folder"] + "/CMakeLists.txt"
        targets = {f"baton_{layer}", programs.get(layer, "")}
        if not targets & set(links):
            continue
        linked = set().union(*(linked_layers(t, links, table) for t in targets)) - {layer}
        for name in sorted(linked - set(entry["uses"])):
            findings.add(own_folder, f"links {name}; layers.json does not allow {layer} -> {name}")
        for name in sorted(linked - included[layer]):
            findings.add(own_folder, f"links {name}, but no source of {layer} includes it")
        for name in sorted(included[layer] - linked):
            findings.add(own_folder, f"sources of {layer} include {name}, but it is not linked")


def everything_below(target: str, links: dict) -> set[str]:
    seen = {target}
    waiting = [target]
    while waiting:
        for name in links.get(waiting.pop(), ()):
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return seen


def check_admission(links: dict, table: dict, findings: Findings) -> None:
    programs = table["programs"]
    below = {p: everything_below(p, links) for p in programs if p in links}
    if len(below) < len(programs):
        return  # a program is not built yet
    for layer, entry in table["layers"].items():
        target = f"baton_{layer}"
        if not entry["folder"].startswith("common/") or target not in links:
            continue
        users = sorted(p for p in below if target in below[p])
        if len(users) < 2:
            only = users[0] if users else "no program"
            findings.add(entry["folder"], f"in common/, but linked into {only} alone")


def check_router(folder: Path, findings: Findings) -> None:
    router = folder / "baton-router"
    if not router.exists():
        return
    needed = subprocess.run(
        ["readelf", "--dynamic", str(router)], capture_output=True, text=True, check=True
    ).stdout
    for line in needed.splitlines():
        if "NEEDED" in line and NOT_IN_ROUTER.search(line):
            findings.add("router", f"baton-router needs {line.split('[')[-1].rstrip(']')}")


def check_faults(folder: Path, findings: Findings) -> None:
    """No program holds a fault point, unless it says so."""
    for program in ("baton", "baton-router", "baton-prefill", "baton-decode"):
        path = folder / program
        if not path.exists():
            continue
        version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
        names = subprocess.run(["nm", str(path)], capture_output=True, text=True, check=True).stdout
        held = sorted(set(FAULT_SYMBOL.findall(names)))
        if held and "faults" not in version.stdout:
            findings.add(program, f"holds {', '.join(held)} of the fault plan")
        if not held and "faults" in version.stdout and program != "baton":
            findings.add(program, "was built with faults and has no fault point")


def main() -> int:
    table = layers()
    links = read_links(sys.argv[1])
    graph = Findings("link graph")
    compare(links, table, graph)
    admission = Findings("admission to common")
    check_admission(links, table, admission)
    binaries = Findings("router's libraries")
    if len(sys.argv) > 2:
        check_router(Path(sys.argv[2]), binaries)
    faults = Findings("fault points")
    if len(sys.argv) > 2:
        check_faults(Path(sys.argv[2]), faults)
    return graph.finish() | admission.finish() | binaries.finish() | faults.finish()


if __name__ == "__main__":
    sys.exit(main())
