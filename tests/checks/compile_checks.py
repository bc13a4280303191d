#!/usr/bin/env python3
"""compile_checks.py BUILD threads|headers|tidy [PATH...]: checks that need a compiler.

threads   clang-19 -Wthread-safety -Werror over the folders where threads meet, syntax only
headers   every header compiles by itself, with g++ and the flags of the release build
tidy      clang-tidy's function-size, exact and slow

BUILD is a configured build folder (its compile_commands.json is read; nothing is built in it but
the protobuf header). PATH limits the check to files that begin with it.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from source_tree import ROOT, Findings, sources

THREAD_FOLDERS = (
    "common/base/", "common/device/", "common/http/", "common/worker/", "common/metrics/",
    "common/engine/", "kv_transfer/", "router/", "prefill_worker/", "decode_worker/",
)
CLANG_FLAGS = [
    "-fsyntax-only", "-Wthread-safety", "-Werror", "-Wno-unknown-warning-option",
    "-Wno-unused-command-line-argument",
]
LEVEL_FLAGS = {
    "avx2": ["-mavx2", "-mfma", "-mf16c"],
    "avx512": ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx2", "-mfma", "-mf16c"],
    "tile": ["-mamx-tile", "-mamx-bf16", "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl",
             "-mavx2", "-mfma", "-mf16c"],
}
TIDY = (
    "{Checks: '-*,readability-function-size', CheckOptions: "
    "{readability-function-size.LineThreshold: 80, readability-function-size.ParameterThreshold: 6,"
    " readability-function-size.NestingThreshold: 4,"
    " readability-function-size.StatementThreshold: 9999,"
    " readability-function-size.BranchThreshold: 9999}}"
)


def commands(build: Path) -> dict[str, list[str]]:
    """Path of a source -> include and definition flags of its compile command."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        path = os.path.relpath(entry["file"], ROOT)
        words = entry["command"].split()
        keep, take_next = [], False
        for word in words[1:]:
            if take_next or word.startswith(("-I", "-D", "-m", "-std", "-isystem", "-f", "-O")):
                keep.append(word.replace('\\"', '"'))
                take_next = word in ("-isystem", "-I")
        found[path] = keep
    return found


def make_protobuf_header(build: Path) -> None:
    out = build / "common" / "wire"
    if not (out / "baton.pb.h").exists():
        out.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["protoc", f"--cpp_out={out}", f"--proto_path={ROOT}/common/wire", "baton.proto"],
            check=True,
        )


def run_all(findings: Findings, jobs: list[tuple[str, list[str]]]) -> int:
    def run(job):
        done = subprocess.run(job[1], capture_output=True, text=True, cwd=ROOT)
        return job[0], done.returncode, done.stdout + done.stderr

    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        for path, status, output in pool.map(run, jobs):
            if status != 0:
                lines = [line for line in output.splitlines() if "error" in line or "warning:" in line]
                findings.add(path, "; ".join(lines[:3]) or output[-300:])
    print(f"{len(jobs)} files", end=", ")
    return findings.finish()


def thread_jobs(build: Path, wanted) -> list[tuple[str, list[str]]]:
    tests = {source.path for source in sources() if source.is_test}
    return [
        (path, ["clang++-19", *flags, *CLANG_FLAGS, path])
        for path, flags in commands(build).items()
        if path.startswith(THREAD_FOLDERS) and wanted(path) and path not in tests
    ]


def header_flags(path: str) -> list[str]:
    if "avx512" in path:
        return LEVEL_FLAGS["avx512"]
    if "avx2" in path:
        return LEVEL_FLAGS["avx2"]
    return LEVEL_FLAGS["tile"] if "tile" in path and "emulated" not in path else []


def header_jobs(build: Path, wanted) -> list[tuple[str, list[str]]]:
    return [
        (source.path, ["g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
                       "-I.", f"-I{build}/common/wire", *header_flags(source.path),
                       "-include", source.path, "-x", "c++", "/dev/null"])
        for source in sources()
        if source.path.endswith(".h") and wanted(source.path)
    ]


def tidy_jobs(build: Path, wanted) -> list[tuple[str, list[str]]]:
    return [
        (path, ["clang-tidy-19", "--quiet", f"--config={TIDY}", "--warnings-as-errors=*", path,
                "--", *flags, "-Wno-everything"])
        for path, flags in commands(build).items()
        if not path.startswith(("common/kernels/", "build/")) and wanted(path)
    ]


def main() -> int:
    build = Path(sys.argv[1]).resolve()
    kind = sys.argv[2]
    prefixes = tuple(sys.argv[3:])
    make_protobuf_header(build)
    name, jobs = {
        "threads": ("lock discipline", thread_jobs),
        "headers": ("self-contained headers", header_jobs),
        "tidy": ("clang-tidy function size", tidy_jobs),
    }[kind]
    return run_all(
        Findings(name), jobs(build, lambda path: not prefixes or path.startswith(prefixes))
    )


if __name__ == "__main__":
    sys.exit(main())
