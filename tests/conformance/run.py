#!/usr/bin/env python3
"""Runs a suite of black-box cases for OpenAI endpoints against clusters of this tree.

The suite is not part of the repository. It has a run.py that takes --base-url, --api-key and --json
and writes one outcome per case; its packages are in its requirements.txt.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from cluster import Cluster  # noqa: E402

API = ROOT / "docs" / "api.md"
KEY = "sk-conformance"
# (title, local_prefill, with a key)
RUNS = (
    ("without a key, prompts on prefill workers", "never", False),
    ("without a key, prompts where they are fastest", "auto", False),
    ("with a key", "auto", True),
)


def interpreter(suite):
    """A Python that has the suite's packages."""
    folder = ROOT / "build" / "conformance_venv"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r",
                    suite / "requirements.txt"], check=True)
    return python


def run(suite, python, place, with_key, folder):
    """The outcomes of one run: a list of {"id", "verdict", ...}."""
    sets = ["model.max_context=2048", f"router.local_prefill={place}"]
    arguments = []
    if with_key:
        keys = folder / "keys"
        keys.write_text(KEY + "\n", encoding="utf-8")
        keys.chmod(0o600)
        sets.append(f"router.api_keys_file={keys}")
        arguments = ["--api-key", KEY]
    outcomes = folder / "outcomes.json"
    with Cluster(sets=sets) as cluster:
        subprocess.run([python, suite / "run.py", "--base-url", cluster.url, "--json", outcomes,
                        *arguments], check=False)
    return json.loads(outcomes.read_text(encoding="utf-8"))["cases"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", type=pathlib.Path, required=True, help="folder of the suite")
    parser.add_argument("--python", type=pathlib.Path,
                        help="an interpreter that has the suite's packages; else one is made")
    options = parser.parse_args()
    suite = options.suite.resolve()
    if not (suite / "run.py").exists():
        parser.error(f"no run.py in {suite}")
    python = options.python or interpreter(suite)
    os.environ.setdefault("BATON_BIN", str(ROOT / "build" / "release" / "bin"))
    document = API.read_text(encoding="utf-8")
    lines, bad = [], False
    for title, place, with_key in RUNS:
        print(f"conformance: {title}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            outcomes = run(suite, python, place, with_key, pathlib.Path(folder))
        of = {kind: [case["id"] for case in outcomes if case["verdict"] == kind]
              for kind in ("PASS", "FAIL", "SKIP")}
        unnamed = [case for case in of["SKIP"] if f"`{case}`" not in document]
        lines.append(f"{len(of['PASS'])} passed, {len(of['FAIL'])} failed, "
                     f"{len(of['SKIP'])} skipped: {title}")
        lines += [f"  FAILED {case}" for case in of["FAIL"]]
        lines += [f"  docs/api.md does not name the skipped {case}" for case in unnamed]
        bad = bad or bool(of["FAIL"] or unnamed or not outcomes)
    print("\n".join(f"conformance: {line}" for line in lines))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
