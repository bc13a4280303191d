"""Every worker is restarted, one after the other, under load: no request fails, no token differs."""

import os
import unittest

from cluster import BIN, FULL, wait_until
from daemons import Daemons
from steady_load import SteadyLoad, distinct_requests

SEED = 77
NEXT = os.path.join(BIN, "next")  # the same programs with the next version of the protocol


class RollingRestart(unittest.TestCase):
    def roll(self, daemons, names, between=5, longest=50):
        """One after the other, by what an operator sees: the router has the worker again. Decode
        workers are stopped while they have streams."""
        bodies = distinct_requests(SEED, longest)
        running = lambda name: daemons.scrape(name).sum("vllm:num_requests_running")
        expected = SteadyLoad.expect(daemons.url("r0"), bodies)
        with SteadyLoad(lambda: [daemons.url("r0")], bodies, expected) as load:
            load.wait_more(between)
            for name in names:
                before = daemons.pid(name)
                if name.startswith("d"):
                    wait_until(lambda: running(name) > 1, f"streams on {name}")
                daemons.restart(name)
                daemons.wait_workers()
                self.assertNotEqual(daemons.pid(name), before)
                load.wait_more(between)
        daemons.wait_blocks_free()
        streams = daemons.scrape("r0").sum("baton_streams_moved_total")
        moved = daemons.log("r0").count("run moved")
        print(f"{len(names)} restarts under {load.total()} requests: none failed, {moved} moved, of them "
              f"{streams:.0f} with output, slowest answer {load.slowest:.1f} s")
        return moved

    def test_streams_end_on_the_worker_that_drains(self):
        with Daemons() as daemons:
            moved = self.roll(daemons, daemons.workers if FULL else ["p0", "d0"])
            self.assertEqual(moved, 0, "the drain is longer than every stream")

    def test_streams_that_outlive_the_drain_go_elsewhere(self):
        with Daemons(settings={"workers.drain": "10ms"}) as daemons:
            moved = self.roll(daemons, daemons.workers * (3 if FULL else 1), longest=120)
            self.assertGreater(moved, 0)

    def test_the_only_workers(self):
        # Nobody else can take over: requests wait until the worker is back.
        with Daemons(workers=("p0", "d0")) as daemons:
            self.roll(daemons, daemons.workers, between=4)


class NextVersion(unittest.TestCase):
    """To programs that speak another version of the protocol: processes of two versions refuse each
    other, so the new ones grow beside the old ones, behind a router of their own."""

    def test_rollout(self):
        bodies = distinct_requests(SEED)
        with Daemons(routers=("r0", "r1"), later=("r1",)) as daemons:
            expected = SteadyLoad.expect(daemons.url("r0"), bodies)
            serving = ["r0"]
            with SteadyLoad(lambda: [daemons.url(name) for name in serving], bodies,
                            expected) as load:
                daemons.start("r1", NEXT)
                daemons.wait_live("r1")
                for name in ("p1", "d1"):
                    daemons.restart(name, NEXT)
                daemons.wait_ready("r1")
                daemons.wait_workers("r1", ["p1", "d1"])
                daemons.wait_workers("r0", ["p0", "d0"])
                self.check_refusals(daemons)
                load.wait_more(4)
                serving[:] = ["r1", "r0"]
                load.wait_more(4)
                daemons.terminate("r0")
                daemons.wait_exit("r0")
                serving[:] = ["r1"]
                for name in ("p0", "d0"):
                    daemons.restart(name, NEXT)
                daemons.wait_workers("r1")
                load.wait_more(6)
            daemons.wait_blocks_free()
        self.assertEqual(len(load.answered), 2)
        print(f"a rollout to another protocol version under {load.total()} requests: none failed")

    def check_refusals(self, daemons):
        for worker, router, versions in (("p0", "r1", (2, 1)), ("p1", "r0", (1, 2)),
                                         ("d0", "r1", (2, 1)), ("d1", "r0", (1, 2))):
            line = ("the router speaks protocol version {}, the worker {}".format(*versions))
            wait_until(lambda: line in daemons.log(worker), f"{worker}, refused by {router}: {line}")
