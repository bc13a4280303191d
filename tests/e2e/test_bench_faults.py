"""`baton bench faults`: every fault is noticed, no stream is lost, no token is wrong."""

import json
import unittest

from cluster import MODEL, run_briefly


class BenchFaults(unittest.TestCase):
    def test_kill_and_stop_over_both_transports(self):
        done = run_briefly(["baton", "bench", "faults", "--kill", "8", "--json", "--model", MODEL],
                           timeout=180)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        result = json.loads(done.stdout)
        rows = {(row["transport"], row["kind"]): row for row in result["faults"]}
        self.assertEqual(set(rows), {(transport, kind) for transport in ("ucx-posix", "ucx-tcp")
                                     for kind in ("kill", "stop")})
        for (transport, kind), row in rows.items():
            router, peers = row["detected_by_router_ms"], row["detected_by_peers_ms"]
            self.assertEqual(router["count"], 2)
            self.assertGreater(peers["count"], 0)
            # Generous: a machine that is busy with other things is late.
            limit = 1000 if kind == "kill" else 3000
            self.assertLess(router["max"], limit)
            self.assertLess(peers["max"], limit)
            print(f"{transport} {kind}: router {router['max']:.0f} ms, peers {peers['max']:.0f} ms,"
                  f" gap {row['gap_ms']['max']:.0f} ms at most")
        streams = result["streams"]
        self.assertGreater(streams["moved"], 0)
        self.assertEqual((streams["lost"], streams["wrong"]), (0, 0))


if __name__ == "__main__":
    unittest.main()
