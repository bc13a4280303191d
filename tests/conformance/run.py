#!/usr/bin/env python3
"""Runs the black-box cases of suite/ against two clusters of this tree.

One without a key whose prompts all go to prefill workers, and one with a key that places prompts where
they are fastest. A failed case fails, and so does a skipped one that docs/api.md does not name.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from cluster import Cluster  # noqa: E402

SUITE = HERE / "suite"
API = ROOT / "docs" / "api.md"
KEY = "sk-conformance"
MOST_AGAIN = 3
# (title, router.local_prefill, with a key)
RUNS = (
    ("without a key, prompts on prefill workers", "never", False),
    ("with a key, prompts where they are fastest", "auto", True),
)


def interpreter():
    """A Python that has the suite's packages."""
    folder = ROOT / "build" / "conformance_venv"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r",
                    SUITE / "requirements.txt"], check=True)
    return python


def run(python, cases, place, with_key, folder):
    """The outcomes of one run: a list of {"id", "verdict", ...}."""
    sets = ["model.max_context=2048", f"router.local_prefill={place}"]
    arguments = []
    if with_key:
        keys = folder / "keys"
        keys.write_text(KEY + "\n", encoding="utf-8")
        keys.chmod(0o600)
        sets.append(f"router.api_keys_file={keys}")
        arguments = ["--api-key", KEY]
    with Cluster(sets=sets) as cluster:
        def ask(selected):
            outcomes = folder / "outcomes.json"
            subprocess.run([python, SUITE / "run.py", "--base-url", cluster.url, "--json", outcomes,
                            *arguments, *(word for case in selected for word in ("--case", case))],
                           check=False)
            return json.loads(outcomes.read_text(encoding="utf-8"))["cases"]
        found = ask(cases)
        failed = [case["id"] for case in found if case["verdict"] == "FAIL"]
        # Some cases measure times or need a machine to themselves: those are asked once more.
        again = {case["id"]: case for case in ask(failed)} if 0 < len(failed) <= MOST_AGAIN else {}
        for case in again.values():
            print(f"conformance: {case['id']} failed; asked again: {case['verdict']} "
                  f"{case['reason']}", flush=True)
        return [again.get(case["id"], case) for case in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", nargs="*", help="only these cases; * matches")
    parser.add_argument("--python", type=pathlib.Path,
                        help="an interpreter that has the suite's packages; else one is made")
    options = parser.parse_args()
    python = options.python or interpreter()
    os.environ.setdefault("BATON_BIN", str(ROOT / "build" / "release" / "bin"))
    document = API.read_text(encoding="utf-8")
    lines, bad = [], False
    for title, place, with_key in RUNS:
        print(f"run {title}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            outcomes = run(python, options.case, place, with_key, pathlib.Path(folder))
        failed = [f"{case['id']}: {case['reason']}" for case in outcomes if case["verdict"] == "FAIL"]
        of = {kind: [case["id"] for case in outcomes if case["verdict"] == kind]
              for kind in ("PASS", "FAIL", "SKIP")}
        unnamed = [case for case in of["SKIP"] if f"`{case}`" not in document]
        lines.append(f"{len(of['PASS'])} passed, {len(of['FAIL'])} failed, "
                     f"{len(of['SKIP'])} skipped: {title}")
        lines += [f"  FAILED {case}" for case in failed]
        lines += [f"  docs/api.md does not name the skipped {case}" for case in unnamed]
        bad = bad or bool(of["FAIL"] or unnamed or not outcomes)
    print("\n".join(f"conformance: {line}" for line in lines))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
