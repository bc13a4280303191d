#!/usr/bin/env python3
"""Every source has a test of its name beside it, or tests_beside.json names the test that covers it;
every folder with a target has a README.md.

Sources of one instruction-set level (x_avx2.cc) belong to the test of x. tests_beside.json may name
several sources by a pattern.
"""

import fnmatch
import json
import re
import sys
from pathlib import Path

from source_tree import CHECKS, ROOT, Findings, all_files, sources


LEVEL = re.compile(r"(_(scalar|avx2|avx512_bf16|avx512|amx))?\.(cc|cu)$")


def check_tests(findings: Findings) -> None:
    listed = json.loads((CHECKS / "tests_beside.json").read_text(encoding="utf-8"))["covered_by"]
    here = "tests/checks/tests_beside.json"
    files = set(all_files())
    used = set()
    for source in sources():
        if source.is_test or source.is_header or source.name == "main.cc":
            continue
        if LEVEL.sub("_test.cc", source.path) in files:
            continue
        patterns = [p for p in listed if fnmatch.fnmatchcase(source.path, p)]
        used.update(patterns)
        if not patterns:
            findings.add(
                source.path,
                f"has no _test.cc beside it; name the test that covers it in {here}",
            )
    for pattern, test in listed.items():
        if pattern not in used:
            findings.add(here, f"{pattern} needs no line any more")
        if test not in files:
            findings.add(here, f"{pattern}: {test} is not there")


def check_readmes(findings: Findings) -> None:
    for path in all_files():
        if path.endswith("/CMakeLists.txt"):
            readme = ROOT / path.replace("CMakeLists.txt", "README.md")
            if not readme.is_file() or len(readme.read_text(encoding="utf-8").strip()) < 40:
                findings.add(path, "a folder with a target needs a README.md")


def main() -> int:
    tests = Findings("tests beside sources")
    check_tests(tests)
    readmes = Findings("readmes")
    check_readmes(readmes)
    return tests.finish() | readmes.finish()


if __name__ == "__main__":
    sys.exit(main())
