"""Workers die, stop and begin again under load: a slice of soak.py, which runs for as long as asked."""

import os
import random
import unittest

from cluster import FULL
from soak import soak

SECONDS = 90 if FULL else 30


class Soak(unittest.TestCase):
    def test_slice(self):
        seed = int(os.environ.get("BATON_SOAK_SEED", random.randrange(1 << 31)))
        run = soak(SECONDS, seed)
        self.assertGreater(run.count["kill"] + run.count["terminate"] + run.count["stop"], 0)
