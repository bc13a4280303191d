"""Generated requests: a slice of tests/requests, which sends as many as asked."""

import os
import random
import re
import sys
import unittest

from cluster import BIN
from prompts import ROOT

sys.path.insert(0, os.path.join(ROOT, "tests", "requests"))
import answers  # noqa: E402
import fields  # noqa: E402
import run  # noqa: E402

COUNT = 4000
ROW = re.compile(r"^\| `(\w+)` \| (C|X|both) \|", re.M)
PATHS = {"C": (fields.C,), "X": (fields.X,), "both": (fields.C, fields.X)}


class Generated(unittest.TestCase):
    def test_slice(self):
        seed = int(os.environ.get("BATON_REQUESTS_SEED", random.randrange(1 << 31)))
        self.assertTrue(run.generated(seed, COUNT))

    def test_own_clients_bear_any_answer(self):
        seed = random.randrange(1 << 31)
        self.assertEqual(answers.try_clients(os.path.join(BIN, "baton"), seed, 200, 6), [])

    def test_every_documented_field_is_generated(self):
        with open(os.path.join(ROOT, "docs", "api.md"), encoding="utf-8") as file:
            table = file.read().split("<!-- fields -->")[1].split("<!-- end -->")[0]
        documented = {(name, path) for name, paths in ROW.findall(table) for path in PATHS[paths]}
        known = {(name, path) for path in (fields.C, fields.X) for name in fields.fields_of(path)}
        self.assertEqual(documented, known)
