#!/usr/bin/env python3
"""Rules that a pattern can hold: names of files and folders, and what code may not say.

- no file or folder called util, utils, misc, helpers, manager; nothing beside the eight top folders
- the environment is read in common/config only, where its use is one file
- no detach(), no `using namespace` in headers, no `#if` on CUDA in headers, #pragma once
- no function-local static that is not const or constexpr, no global that can be written
- third-party headers in <>, ours root-relative in ""
- no TODO without an issue, no exit() outside main.cc
- macros are those of common/base: three of errors, the thread annotations
"""

import re
import sys

from functions import functions_of
from source_tree import Findings, all_files, layer_of, layers, sources

BAD_NAME = re.compile(r"(^|_)(util|utils|misc|helper|helpers|manager|managers)(_|\.|$)")
ALLOWED_ROOT_FOLDERS = {".ci"}

ENVIRONMENT = re.compile(r"\b(?:secure_)?getenv\s*\(")
DETACH = re.compile(r"[.>]detach\s*\(")
USING = re.compile(r"^[ \t]*using\s+namespace\b", re.M)
CUDA_IF = re.compile(r"^[ \t]*#[ \t]*(?:el)?if(?:n?def)?\b[^\n]*(?:CUDA|NVCC|HAS_GPU)", re.M)
LOCAL_STATIC = re.compile(r"^[ \t]+(?:static|thread_local)[ \t][^;({=]*[ \t&*]\w+[ \t]*(?:[;={]|\()", re.M)
CONSTANT = re.compile(r"\b(?:const|constexpr|constinit const|static_assert)\b")
RELATIVE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"(?!common/|router/|kv_transfer/|prefill_worker/|decode_worker/|deploy/|tests/|baton\.pb\.h)([^"]+)"', re.M)
TODO = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b(?!\(\w+\): [^\n]*\(#\d+\))")
EXIT = re.compile(r"\b(?:std::|(?<!\w)::)(?:_?exit|abort|quick_exit|terminate)\s*\(")


def check_names(table: dict, findings: Findings) -> None:
    top = set(table["top_folders"]) | ALLOWED_ROOT_FOLDERS
    for path in all_files():
        parts = path.split("/")
        if len(parts) > 1 and parts[0] not in top:
            findings.add(path, f"top folder {parts[0]} is not one of {', '.join(sorted(top))}")
        for part in parts:
            if BAD_NAME.search(part.lower()):
                findings.add(path, f"the name {part} says nothing about what is inside")
    for source in sources():
        if source.path.startswith("common/") and layer_of(source.path, table) is None:
            findings.add(source.path, "its folder is not in layers.json")


def inside_function(source, offset: int) -> bool:
    return any(f.body[0] < offset < f.body[1] for f in functions_of(source))


def check_patterns(source, findings: Findings) -> None:
    code = source.code

    def report(pattern, message, skip=lambda m: False):
        for match in pattern.finditer(code):
            if not skip(match):
                start = match.start() + len(match.group(0)) - len(match.group(0).lstrip())
                findings.add(source.path, message, source.line_of(start))

    if not source.path.startswith("common/config/"):
        report(ENVIRONMENT, "the environment is read in common/config only")
    report(DETACH, "a detached thread has no owner; keep and join it")
    if source.is_header:
        report(USING, "using namespace in a header")
        report(CUDA_IF, "#if on CUDA in a header")
        if "#pragma once" not in source.text:
            findings.add(source.path, "no #pragma once")
    report(
        LOCAL_STATIC,
        "a static with state inside a function is a hidden global",
        lambda m: CONSTANT.search(m.group(0)) is not None
        or not inside_function(source, m.end() - 1),
    )
    if not source.is_test and source.name != "main.cc":
        report(EXIT, "ends the process outside main.cc; return a Status")
    for match in RELATIVE.finditer(source.text):
        findings.add(
            source.path,
            f'includes "{match.group(1)}": ours are root-relative, others in <>',
            source.line_of(match.start()),
        )
    for match in TODO.finditer(source.text):
        findings.add(source.path, "write TODO(name): text (#issue)", source.line_of(match.start()))


MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(?!XXH_)(\w+)", re.M)
MACRO_FILES = ("common/base/annotations.h", "common/base/check.h", "common/base/status.h")


def check_macros(source, findings: Findings) -> None:
    if source.path in MACRO_FILES:
        return
    for match in MACRO.finditer(source.code):
        findings.add(
            source.path,
            f"defines the macro {match.group(1)}; write a function or a constant",
            source.line_of(match.start()),
        )


def main() -> int:
    names = Findings("names")
    check_names(layers(), names)
    rules = Findings("code rules")
    macros = Findings("macros")
    for source in sources():
        check_patterns(source, rules)
        check_macros(source, macros)
    return names.finish() | rules.finish() | macros.finish()


if __name__ == "__main__":
    sys.exit(main())
