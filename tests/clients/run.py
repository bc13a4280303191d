#!/usr/bin/env python3
"""run.py [NAME...] [--heavy]: real clients, as they are published, against clusters of this tree.

Each NAME is a client (default: all but the heavy ones). The clients come from the Python package
index, at the versions of requirements.txt, into a folder below build/.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import unittest
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Client -> what pip is asked for.
CLIENTS = {
    "openai": ["openai"],
    "langchain": ["langchain-openai"],
    "litellm": ["litellm"],
    "lm_eval": ["lm-eval[api]"],
    "aiperf": ["aiperf"],
}
HEAVY = {"guidellm": ["guidellm"]}


def interpreter(folder, pins, packages):
    """A Python that has the packages, at the pinned versions."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True, clear=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                    "-c", pins, *packages], check=True)
    return python


def run_here(names):
    """The tests of these clients in this interpreter, which has them."""
    sys.path[:0] = [str(HERE), str(ROOT / "tests" / "e2e")]
    suite = unittest.TestSuite()
    for name in names:
        suite.addTests(unittest.defaultTestLoader.loadTestsFromName("test_" + name))
    sys.stdout.reconfigure(line_buffering=True)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    return 0 if result.wasSuccessful() and result.testsRun > 0 and not result.skipped else 1


def run_in(folder, pins, clients):
    """The tests of these clients in an interpreter below build/."""
    packages = [package for of in clients.values() for package in of]
    print(f"clients: installing {' '.join(packages)} below build/{folder}", flush=True)
    python = interpreter(ROOT / "build" / folder, HERE / pins, packages)
    return subprocess.run([python, __file__, "--installed", *clients], check=False).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CLIENTS))
    parser.add_argument("--heavy", action="store_true",
                        help=f"with {', '.join(HEAVY)}, which brings 6 GB of other packages")
    parser.add_argument("--installed", action="store_true",
                        help="this interpreter has the clients; install nothing")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in CLIENTS | HEAVY]
    if unknown:
        parser.error(f"no client is called {unknown[0]}: {', '.join(CLIENTS | HEAVY)}")
    os.environ.setdefault("BATON_BIN", str(ROOT / "build" / "release" / "bin"))
    names = options.names or [*CLIENTS, *(HEAVY if options.heavy else ())]
    if options.installed:
        return run_here(names)
    status = 0
    for folder, pins, known in (("clients_venv", "requirements.txt", CLIENTS),
                                ("clients_heavy_venv", "requirements_heavy.txt", HEAVY)):
        wanted = {name: known[name] for name in names if name in known}
        if wanted:
            status = max(status, run_in(folder, pins, wanted))
    return status


if __name__ == "__main__":
    sys.exit(main())
