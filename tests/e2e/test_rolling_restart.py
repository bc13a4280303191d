"""Every worker is restarted, one after the other, under load: no request fails, no token differs."""

import unittest

from cluster import FULL
from daemons import Daemons
from steady_load import SteadyLoad, distinct_requests

SEED = 77


class RollingRestart(unittest.TestCase):
    def roll(self, daemons, names, between=5):
        """One after the other, by what an operator sees: the router has the worker again."""
        bodies = distinct_requests(SEED)
        expected = SteadyLoad.expect(daemons.url("r0"), bodies)
        with SteadyLoad(lambda: [daemons.url("r0")], bodies, expected) as load:
            load.wait_more(between)
            for name in names:
                before = daemons.pid(name)
                daemons.restart(name)
                daemons.wait_workers()
                self.assertNotEqual(daemons.pid(name), before)
                load.wait_more(between)
        daemons.wait_blocks_free()
        moved = daemons.scrape("r0").sum("baton_streams_moved_total")
        print(f"{len(names)} restarts under {load.total()} requests: none failed, {moved:.0f} streams "
              f"moved, slowest answer {load.slowest:.1f} s")
        return moved

    def test_streams_end_on_the_worker_that_drains(self):
        with Daemons() as daemons:
            moved = self.roll(daemons, daemons.workers)
            self.assertEqual(moved, 0, "the drain is longer than every stream")

    def test_streams_that_outlive_the_drain_go_elsewhere(self):
        with Daemons(settings={"workers.drain": "10ms"}) as daemons:
            moved = self.roll(daemons, daemons.workers * (3 if FULL else 1))
            self.assertGreater(moved, 0)

    def test_the_only_workers(self):
        # Nobody else can take over: requests wait until the worker is back.
        with Daemons(workers=("p0", "d0")) as daemons:
            self.roll(daemons, daemons.workers, between=4)
