#!/usr/bin/env python3
"""Links and mentions of documents lead somewhere, docs/protocol.md has the states and messages of
the code, docs/operations.md every flag of the programs.

Keys and metrics of docs/operations.md are compared by reference_tables_test.cc, which sees defaults.
"""

import re
import sys

from source_tree import ROOT, Findings, all_files, sources

LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
TRANSITION = re.compile(
    r"(Sender|Receiver)Transition\{\s*\w+State::k(\w+),\s*\w+Event::k(\w+),\s*\w+State::k(\w+)\s*\}"
)
MESSAGE = re.compile(r"^struct (\w+) \{", re.M)
ROW = re.compile(r"^\| `?(\w+)`? \| `?(\w+)`? \| `?(\w+)`? \|", re.M)
MENTION = re.compile(r"(?<![\w/.-])(docs/[\w/-]+\.md)")
FLAG = re.compile(r'add_(?:option|flag)(?:_function<[^(]*>)?\(\s*"(?:-\w,)?(--[a-z-]+)"')
FIRST_ERROR = re.compile(r"^\| ([^|`]+) \| .*\|$", re.M)
PROTOCOL = "docs/protocol.md"
OPERATIONS = "docs/operations.md"
PARSERS = ("common/config/program_options.cc", "deploy/baton/command_line.cc")


def check_links(findings: Findings) -> None:
    for path in all_files():
        if not path.endswith(".md"):
            continue
        text = FENCE.sub("", (ROOT / path).read_text(encoding="utf-8"))
        for target in LINK.findall(text):
            if re.match(r"[a-z]+:|#", target):
                continue
            if not ((ROOT / path).parent / target.split("#")[0]).exists():
                findings.add(path, f"links to {target}, which is not there")


def section(text: str, heading: str) -> str:
    match = re.search(rf"^#+ {re.escape(heading)}$(.*?)(?=^#+ |\Z)", text, re.M | re.S)
    return match.group(1) if match else ""


def check_states(findings: Findings) -> None:
    protocol = (ROOT / PROTOCOL).read_text(encoding="utf-8")
    for side in ("Sender", "Receiver"):
        header = f"kv_transfer/{side.lower()}_states.h"
        code = (ROOT / header).read_text(encoding="utf-8")
        in_code = {m[1:] for m in TRANSITION.findall(code) if m[0] == side}
        in_text = {
            row for row in ROW.findall(section(protocol, f"Transitions of the {side.lower()}"))
            if row[0] != "State"
        }
        if not in_code:
            findings.add(header, "no transition was found in it")
        for row in sorted(in_code - in_text):
            findings.add(PROTOCOL, f"{side.lower()}: lacks | {' | '.join(row)} |")
        for row in sorted(in_text - in_code):
            findings.add(PROTOCOL, f"{side.lower()}: the code has no | {' | '.join(row)} |")


def check_messages(findings: Findings) -> None:
    protocol = (ROOT / PROTOCOL).read_text(encoding="utf-8")
    header = "common/wire/messages.h"
    for name in MESSAGE.findall((ROOT / header).read_text(encoding="utf-8")):
        if f"`{name}`" not in protocol:
            findings.add(PROTOCOL, f"does not name `{name}` of {header}")


def check_mentions(findings: Findings) -> None:
    """A document that a comment or another document names is there."""
    texts = [(source.path, source.text) for source in sources()]
    texts += [
        (path, (ROOT / path).read_text(encoding="utf-8"))
        for path in all_files()
        if path.endswith(".md")
    ]
    for path, text in texts:
        for name in sorted(set(MENTION.findall(text))):
            if not (ROOT / name).exists():
                findings.add(path, f"names {name}, which is not there")


def check_flags(findings: Findings) -> None:
    text = (ROOT / OPERATIONS).read_text(encoding="utf-8")
    flags = set()
    for parser in PARSERS:
        flags.update(FLAG.findall((ROOT / parser).read_text(encoding="utf-8")))
    for flag in sorted(flags):
        if not re.search(rf"`{flag}\b", text):
            findings.add(OPERATIONS, f"does not list {flag}")
    for flag in sorted(set(re.findall(r"`(--[a-z-]+)\b", text)) - flags - {"--help", "--shm-size"}):
        findings.add(OPERATIONS, f"lists {flag}, which no program has")


def check_first_errors(findings: Findings) -> None:
    """Each situation of docs/first_errors.md is one that its test names."""
    document = "docs/first_errors.md"
    test = (ROOT / "tests/e2e/test_first_errors.py").read_text(encoding="utf-8")
    rows = FIRST_ERROR.findall((ROOT / document).read_text(encoding="utf-8"))
    if not rows:
        findings.add(document, "no row was found in it")
    for situation in rows:
        if situation != "situation" and f'"{situation}"' not in test:
            findings.add(document, f"\"{situation}\" has no test in tests/e2e/test_first_errors.py")


def main() -> int:
    findings = Findings("documents")
    check_links(findings)
    check_mentions(findings)
    check_states(findings)
    check_messages(findings)
    check_flags(findings)
    check_first_errors(findings)
    return findings.finish()


if __name__ == "__main__":
    sys.exit(main())
