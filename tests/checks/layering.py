#!/usr/bin/env python3
"""Includes follow layers.json, the table has no cycle, third-party headers stay behind their gates.

A test may in addition use what its layer reaches through others, and testing/ folders.
"""

import re
import sys

from source_tree import Findings, layer_of, layers, reachable, sources


def cycles(table: dict) -> list[str]:
    state: dict[str, int] = {}
    found = []

    def visit(name: str, trail: list[str]) -> None:
        if state.get(name) == 1:
            found.append(" -> ".join(trail[trail.index(name) :] + [name]))
            return
        if state.get(name) == 2:
            return
        state[name] = 1
        for used in table["layers"][name]["uses"]:
            visit(used, trail + [name])
        state[name] = 2

    for name in table["layers"]:
        visit(name, [])
    return found


def allowed_at_gate(path: str, only: list[str]) -> bool:
    return any(
        path.startswith(place) if place.endswith("/") else path.endswith(place) for place in only
    )


def check_gates(source, table: dict, findings: Findings) -> None:
    for line, name in source.includes:
        for gate in table["gates"]:
            if re.search(gate["includes"], name) and not allowed_at_gate(
                source.path, gate["only"]
            ):
                findings.add(
                    source.path,
                    f"includes {name}: {gate['what']} is seen only by {', '.join(gate['only'])}",
                    line,
                )


def check_layers(source, table: dict, known: set[str], findings: Findings) -> None:
    own = layer_of(source.path, table)
    if own is None:
        if not source.path.startswith(("tests/", "deploy/")):
            findings.add(source.path, "belongs to no layer of layers.json")
        return
    uses = set(table["layers"][own]["uses"]) | {own}
    if source.is_test:
        uses = reachable(own, table)
    for line, name in source.includes:
        target = layer_of(name, table)
        if target is None:
            continue
        if name not in known:
            findings.add(source.path, f"includes {name}, which is not there", line)
        if target not in uses:
            findings.add(source.path, f"{own} may not use {target} ({name})", line)
        if not source.is_test and "/testing/" in name:
            findings.add(source.path, f"includes {name}: testing/ is for tests", line)


def main() -> int:
    table = layers()
    findings = Findings("layering")
    for cycle in cycles(table):
        findings.add("tests/checks/layers.json", f"cycle {cycle}")
    files = sources()
    known = {source.path for source in files}
    for source in files:
        check_layers(source, table, known, findings)
        check_gates(source, table, findings)
    return findings.finish()


if __name__ == "__main__":
    sys.exit(main())
