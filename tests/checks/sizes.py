#!/usr/bin/env python3
"""Files and functions stay small: 400 lines a header, 600 a source; 80 lines, 6 parameters,
nesting 3 a function (tests nesting 4; kernels 150 lines, nesting 5).

Nesting counts the blocks inside a body, so that clang-tidy's NestingThreshold is one more.
"""

import sys

from functions import functions_of
from source_tree import Findings, sources

HEADER_LINES, SOURCE_LINES = 400, 600
FUNCTION_LINES, KERNEL_LINES = 80, 150
PARAMETERS = 6
NESTING, TEST_NESTING, KERNEL_NESTING = 3, 4, 5
KERNELS = "common/kernels/"


def main() -> int:
    files = Findings("file sizes")
    functions = Findings("function sizes")
    for source in sources():
        limit = HEADER_LINES if source.is_header else SOURCE_LINES
        if source.lines > limit:
            files.add(source.path, f"{source.lines} lines; at most {limit}")
        kernel = source.path.startswith(KERNELS)
        for function in functions_of(source):
            check_function(source, function, kernel, functions)
    return files.finish() | functions.finish()


def check_function(source, function, kernel: bool, findings: Findings) -> None:
    max_lines = KERNEL_LINES if kernel else FUNCTION_LINES
    max_nesting = KERNEL_NESTING if kernel else TEST_NESTING if source.is_test else NESTING
    at = function.first_line
    name = function.name or "function"
    if function.lines > max_lines:
        findings.add(source.path, f"{name}: {function.lines} lines; at most {max_lines}", at)
    if function.parameters > PARAMETERS:
        findings.add(
            source.path, f"{name}: {function.parameters} parameters; at most {PARAMETERS}", at
        )
    if function.nesting > max_nesting:
        findings.add(source.path, f"{name}: nesting {function.nesting}; at most {max_nesting}", at)


if __name__ == "__main__":
    sys.exit(main())
