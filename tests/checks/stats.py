#!/usr/bin/env python3
"""Figures of the source tree, to notice a drift: sizes of files and functions, parameters, shares
of comments and tests. No check: nothing fails here, and no figure is a goal to write towards."""

import json
from collections import defaultdict

from functions import functions_of
from source_tree import CHECKS, NOISE, layer_of, layers, sources


def percentile(values: list, share: float):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0


def median(values: list):
    return percentile(values, 0.5)


def comment_lines(source) -> int:
    """Lines that hold a comment, alone or behind code."""
    lines = set()
    for match in NOISE.finditer(source.text):
        if match.group(0).startswith("/"):
            first = source.line_of(match.start())
            lines.update(range(first, first + match.group(0).count("\n") + 1))
    return len(lines)


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def main() -> None:
    everything = sources()
    product = [s for s in everything if not s.is_test]
    tests = [s for s in everything if s.is_test]
    headers = [s for s in product if s.is_header]
    bodies = [s for s in product if not s.is_header]
    functions = [f for s in product for f in functions_of(s)]
    lengths = [f.lines for f in functions]
    print("what                       now              models reach")
    rows = [
        ("headers, sources, tests", f"{len(headers)}, {len(bodies)}, {len(tests)} files", ""),
        ("lines of headers, median", median([s.lines for s in headers]), "<= 90"),
        ("lines of sources, median", median([s.lines for s in bodies]), "100-180"),
        ("lines of functions", f"median {median(lengths)}, p90 {percentile(lengths, 0.9)}, "
         f"p99 {percentile(lengths, 0.99)}", "5-8, <= 30, <= 80"),
        ("functions with > 4 param.", share(sum(f.parameters > 4 for f in functions),
                                            len(functions)), "few"),
        ("comments in headers", share(sum(map(comment_lines, headers)),
                                      sum(s.lines for s in headers)), "25-35 %"),
        ("comments in sources", share(sum(map(comment_lines, bodies)),
                                      sum(s.lines for s in bodies)), "8-15 %"),
        ("test lines : source lines", f"{sum(s.lines for s in tests) / sum(s.lines for s in product):.2f}",
         "0.8-1.0"),
    ]
    for name, now, models in rows:
        print(f"{name:<26} {now!s:<32} {models}")

    table = layers()
    by_layer: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for source in everything:
        layer = layer_of(source.path, table) or "tests, checks"
        by_layer[layer][source.is_test] += source.lines
    print("\nlayer             lines  test lines")
    for layer, (lines, test_lines) in sorted(by_layer.items(), key=lambda item: -item[1][0]):
        print(f"{layer:<16} {lines:>6}  {test_lines:>6}")

    used = defaultdict(set)
    for source in product:
        own = layer_of(source.path, table)
        for _, name in source.includes:
            target = layer_of(name, table)
            if own and target:
                used[own].add(target)
    unused = [
        f"{layer} -> {target}"
        for layer, entry in table["layers"].items()
        for target in entry["uses"]
        if layer in used and target not in used[layer]
    ]
    print("\nallowed edges that nobody uses yet:", ", ".join(unused) or "none")

    long_files = [s for s in product if s.lines > (250 if s.is_header else 400)]
    print("\nfiles above the warning line (250 a header, 400 a source):")
    for source in sorted(long_files, key=lambda s: -s.lines):
        print(f"  {source.lines:>4} {source.path}")
    excused = json.loads((CHECKS / "exceptions.json").read_text(encoding="utf-8"))["checks"]
    print(f"\nexceptions: {sum(len(paths) for paths in excused.values())}")


if __name__ == "__main__":
    main()
