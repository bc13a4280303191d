#!/usr/bin/env python3
"""run.py NAME...: runs tests/e2e/test_NAME.py. BATON_BIN names the folder of the programs,
BATON_E2E=full asks for the long form of tests that have one."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def main(names):
    suite = unittest.TestSuite()
    for name in names:
        suite.addTests(unittest.defaultTestLoader.loadTestsFromName("test_" + name))
    sys.stdout.reconfigure(line_buffering=True)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    return 0 if result.wasSuccessful() and result.testsRun > 0 and not result.skipped else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
