#!/usr/bin/env python3
"""The table of faults in docs/testing.md: each row names tests that ctest lists, or says why the
fault cannot occur.

A test of a folder's program is `FOLDER/Suite.Name` (every instance of a TEST_P), an end-to-end test
`e2e/NAME`. Both are looked up in the sources, so that nothing need be built.
"""

import re
import sys

from source_tree import ROOT, Findings, all_files

DOCUMENT = "docs/testing.md"
HEADING = "Faults of a hand-over, and their tests"
TARGET = re.compile(r"baton_library_test\(\s*NAME\s+(\w+)\s+SOURCES\s+([^)]*)\)")
TEST = re.compile(r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST)\(\s*(\w+),\s*(\w+)\s*\)", re.M)
E2E = re.compile(r"foreach\(name IN ITEMS([^)]*)\)")
NAME = re.compile(r"`([^`]+)`")
IMPOSSIBLE = re.compile(r"^cannot occur: .{20,}")


def unit_tests() -> set[str]:
    found = set()
    for path in all_files():
        if not path.endswith("/CMakeLists.txt"):
            continue
        folder = (ROOT / path).parent
        for name, arguments in TARGET.findall((ROOT / path).read_text(encoding="utf-8")):
            for source in re.findall(r"[\w./]+\.cc\b", arguments):
                text = (folder / source).read_text(encoding="utf-8")
                found.update(f"{name}/{suite}.{test}" for suite, test in TEST.findall(text))
    return found


def end_to_end_tests() -> set[str]:
    text = (ROOT / "tests/e2e/CMakeLists.txt").read_text(encoding="utf-8")
    return {f"e2e/{name}" for names in E2E.findall(text) for name in names.split()}


def rows() -> list[tuple[str, str, str]]:
    """(fault, reports, tests) of each row."""
    text = (ROOT / DOCUMENT).read_text(encoding="utf-8")
    match = re.search(rf"^## {HEADING}$(.*?)(?=^## |\Z)", text, re.M | re.S)
    lines = [line for line in (match.group(1) if match else "").splitlines() if line[:1] == "|"]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [tuple(row) for row in cells if len(row) == 3 and row[0] != "fault" and row[0][:3] != "---"]


def main() -> int:
    findings = Findings("fault table")
    known = unit_tests() | end_to_end_tests()
    table = rows()
    if len(table) < 40:
        findings.add(DOCUMENT, f"\"{HEADING}\" has {len(table)} rows only")
    for fault, _, tests in table:
        names = NAME.findall(tests)
        if not names and not IMPOSSIBLE.match(tests):
            findings.add(DOCUMENT, f"\"{fault}\" has neither a test nor the reason why it cannot occur")
        for name in names:
            if not IMPOSSIBLE.match(tests) and name not in known:
                findings.add(DOCUMENT, f"\"{fault}\": there is no test {name}")
    for fault in sorted({row[0] for row in table if sum(row[0] == other[0] for other in table) > 1}):
        findings.add(DOCUMENT, f"\"{fault}\" is there twice")
    return findings.finish()


if __name__ == "__main__":
    sys.exit(main())
