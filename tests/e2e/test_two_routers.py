"""Two routers over the same workers: each may come and go at any time."""

import threading
import time
import unittest

import prompts
from client import Background
from cluster import wait_until
from daemons import Daemons
from steady_load import Refused, SteadyLoad, ask, distinct_requests

FREED_S = 2.0  # all that a dead router's requests held is free again
OTHER_TOKENS = 150  # of a stream that the other router has, after a prompt of 60
OTHER_BLOCKS = 7


class Stream:
    """One long stream in the background."""

    def __init__(self, client, seed, tokens=1500):
        self._begun = threading.Event()

        def on_token(answer):
            if len(answer.ids) == 4:
                self._begun.set()
        body = {"prompt": prompts.ids(60, seed=seed), "max_tokens": tokens, "temperature": 0,
                "ignore_eos": True, "stream": True, "return_token_ids": True, "baton_trace": True}
        self._call = Background(lambda: client.send("/v1/completions", body, on_token))

    def wait_begun(self):
        if not self._begun.wait(30):
            raise AssertionError("the stream did not begin")
        return self

    def running(self):
        return self._call.running()

    def result(self):
        return self._call.result(60)


def held(daemons):
    return sum(sum(blocks.values()) for blocks in daemons.held_blocks().values())


def computed(daemons):
    """What the workers have computed in all: steps, and prompt tokens."""
    scrapes = [daemons.scrape(name) for name in daemons.workers]
    return (sum(s.sum("baton_engine_step_seconds_count") for s in scrapes),
            sum(s.sum("baton_prompt_tokens_computed_total") for s in scrapes))


class TwoRouters(unittest.TestCase):
    def test_the_death_of_one_frees_what_it_had(self):
        with Daemons(workers=("p0", "d0", "d1"), routers=("r0", "r1")) as daemons:
            for router in daemons.routers:
                daemons.wait_workers(router)
            mine = [Stream(daemons.client("r0"), seed).wait_begun() for seed in range(4)]
            other = Stream(daemons.client("r1"), 9, tokens=OTHER_TOKENS).wait_begun()
            # One that computes its prompt, too.
            prompt = Background(lambda: daemons.client("r0").completion(prompts.ids(2000, 5), 8))
            wait_until(lambda: daemons.scrape("p0").sum("vllm:num_requests_running") > 0, "a prompt")
            daemons.kill("r0")
            at = time.monotonic()
            wait_until(lambda: held(daemons) <= OTHER_BLOCKS, "the blocks of r0's requests free",
                       FREED_S)
            freed = time.monotonic() - at
            answer = other.result()
            self.assertTrue(answer.ok, answer.why())
            self.assertEqual(answer.usage["completion_tokens"], OTHER_TOKENS)
            for stream in mine:
                self.assertFalse(stream.result().done)
            self.assertFalse(prompt.result().done)
            daemons.wait_blocks_free(timeout=FREED_S)
            steps = computed(daemons)
            time.sleep(0.3)
            self.assertEqual(computed(daemons), steps, "nobody reads what is computed here")
            self.serves_again(daemons, "r0")
        print(f"a router killed under 5 requests: all blocks free within {freed:.1f} s")

    def serves_again(self, daemons, router):
        daemons.start(router)
        daemons.wait_ready(router)
        daemons.wait_workers(router)
        self.assertTrue(daemons.client(router).completion(prompts.ids(40, seed=1), 4).ok)

    def test_one_that_stops_finishes_its_streams(self):
        with Daemons(workers=("p0", "d0"), routers=("r0", "r1")) as daemons:
            for router in daemons.routers:
                daemons.wait_workers(router)
            stream = Stream(daemons.client("r0"), 1, tokens=250).wait_begun()
            other = Stream(daemons.client("r1"), 2, tokens=250).wait_begun()
            daemons.terminate("r0")
            wait_until(lambda: not daemons.ready("r0"), "r0 not ready", 5)
            self.assertTrue(stream.running(), "it ended too early to show anything")
            with self.assertRaises(Refused):
                ask(daemons.url("r0"), {"prompt": "x", "max_tokens": 1})
            self.assertTrue(daemons.ready("r1"))
            for running in (stream, other):
                answer = running.result()
                self.assertTrue(answer.ok, answer.why())
                self.assertEqual(answer.usage["completion_tokens"], 250)
            daemons.wait_exit("r0", timeout=5)
            self.assertTrue(daemons.client("r1").completion(prompts.ids(40, seed=1), 4).ok)

    def test_both_are_restarted_under_load(self):
        bodies = distinct_requests(21)
        with Daemons(workers=("p0", "d0"), routers=("r0", "r1")) as daemons:
            for router in daemons.routers:
                daemons.wait_workers(router)
            expected = SteadyLoad.expect(daemons.url("r0"), bodies)
            # A load balancer asks a router while it is ready, and until it notices that it is not.
            rotation = ["r0", "r1"]
            with SteadyLoad(lambda: [daemons.url(name) for name in rotation], bodies,
                            expected) as load:
                for router, other in (("r0", "r1"), ("r1", "r0")):
                    load.wait_more(6)
                    daemons.terminate(router)
                    daemons.wait_exit(router)
                    rotation[:] = [other]
                    daemons.start(router)
                    daemons.wait_ready(router)
                    daemons.wait_workers(router)
                    rotation[:] = [other, router]
                load.wait_more(6)
            daemons.wait_blocks_free()
        self.assertEqual(len(load.answered), 2)
        print(f"two routers restarted under {load.total()} requests: none failed, {load.refused} asked "
              f"the other router")
