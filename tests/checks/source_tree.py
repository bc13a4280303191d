"""The files of the source tree and what all checks ask about them."""

import json
import os
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

CHECKS = Path(__file__).resolve().parent
ROOT = CHECKS.parent.parent
SKIPPED = {"build", "models", ".git", ".cache", "__pycache__"}
CODE = {".h", ".cc", ".cu", ".cuh"}
HEADERS = {".h", ".cuh"}

# Sources that only tests, benchmarks and fuzzers are built from.
TEST_NAME = re.compile(
    r"(_test|_fuzz|_fixture|_test_support|_for_test)\.(cc|cu|h)$|^(test|emulated|fake)_"
)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)
NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",
    re.S,
)


def _blank(match: re.Match) -> str:
    text = match.group(0)
    inner = re.sub(r"[^\n]", " ", text)
    return inner if text.startswith("/") else '"' + inner[1:-1] + '"'


@dataclass
class Source:
    path: str  # relative to the root, with slashes
    text: str = field(repr=False)

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]

    @property
    def folder(self) -> str:
        return self.path.rsplit("/", 1)[0] if "/" in self.path else ""

    @property
    def is_header(self) -> bool:
        return Path(self.path).suffix in HEADERS

    @property
    def is_test(self) -> bool:
        return (
            bool(TEST_NAME.search(self.name))
            or "#include <benchmark/benchmark.h>" in self.text
            or "/testing/" in self.path
            or self.path.startswith("tests/")
        )

    @cached_property
    def code(self) -> str:
        """The text with comments and strings blanked; lines and columns stay."""
        return NOISE.sub(_blank, self.text)

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @cached_property
    def includes(self) -> list[tuple[int, str]]:
        """(line, what is between the brackets or quotes) of every include."""
        return [
            (self.text.count("\n", 0, m.start()) + 1, m.group(2))
            for m in INCLUDE.finditer(self.text)
        ]

    def line_of(self, offset: int) -> int:
        return self.text.count("\n", 0, offset) + 1


def all_files() -> list[str]:
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(
            f for f in folders if f not in SKIPPED and not os.path.islink(os.path.join(folder, f))
        )
        for name in sorted(files):
            found.append(os.path.relpath(os.path.join(folder, name), ROOT))
    return found


def sources() -> list[Source]:
    return [
        Source(path, (ROOT / path).read_text(encoding="utf-8"))
        for path in all_files()
        if Path(path).suffix in CODE
    ]


def layers() -> dict:
    return json.loads((CHECKS / "layers.json").read_text(encoding="utf-8"))


def layer_of(path: str, table: dict) -> str | None:
    best = None
    for name, layer in table["layers"].items():
        folder = layer["folder"] + "/"
        if path.startswith(folder) and (
            best is None or len(folder) > len(table["layers"][best]["folder"]) + 1
        ):
            best = name
    return best


def reachable(name: str, table: dict) -> set[str]:
    """The layers that `name` may use, directly or through others, and itself."""
    seen = {name}
    waiting = [name]
    while waiting:
        for used in table["layers"][waiting.pop()]["uses"]:
            if used not in seen:
                seen.add(used)
                waiting.append(used)
    return seen


class Findings:
    """Collects what a check finds, less what exceptions.json excuses for it."""

    def __init__(self, check: str):
        self.check = check
        entries = json.loads((CHECKS / "exceptions.json").read_text(encoding="utf-8"))
        self.excused = entries["checks"].get(check, {})
        self.used: set[str] = set()
        self.found: list[str] = []

    def add(self, path: str, message: str, line: int = 0) -> None:
        if path in self.excused:
            self.used.add(path)
            return
        self.found.append(f"{path}:{line}: {message}" if line else f"{path}: {message}")

    def finish(self) -> int:
        """Prints; the exit status. An exception that excuses nothing is itself a finding."""
        for path in sorted(set(self.excused) - self.used):
            self.found.append(f"exceptions.json: {self.check}: {path} needs no exception any more")
        for line in self.found:
            print(line)
        state = f"{len(self.found)} findings" if self.found else "ok"
        excused = f", {len(self.excused)} exceptions" if self.excused else ""
        print(f"{self.check}: {state}{excused}")
        return 1 if self.found else 0
