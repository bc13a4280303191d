"""The first start leaves packed weights in files; later ones map them and answer the same."""

import os
import tempfile
import unittest

import prompts
from cluster import Cluster, generate

TOKENS = 24


class PackedWeights(unittest.TestCase):
    def serve(self, folder, file="deploy/local-2p2d.yaml"):
        """The ids of an answer, the log, and which workers map which file."""
        item = next(i for i in prompts.reference_items() if len(i["prompt_ids"]) > 200)
        sets = [f"model.packed_cache={folder}", "router.local_prefill=never",
                "prefill.*.kv_cache=64blocks", "decode.*.kv_cache=64blocks"]
        with Cluster(file, sets=sets, pool=False) as cluster:
            answer = cluster.client().completion(item["prompt_ids"], max_tokens=TOKENS)
            self.assertTrue(answer.ok, answer.why())
            self.assertEqual(answer.ids, generate(item["prompt_ids"], TOKENS)["tokens"])
            mapped = {}
            for process in cluster.processes():
                with open(f"/proc/{process['pid']}/maps") as maps:
                    names = {os.path.basename(line.split()[-1]) for line in maps
                             if line.rstrip().endswith(".packed")}
                mapped[process["name"]] = names
            return cluster.log_text(), mapped

    def test_the_second_start_maps_what_the_first_has_packed(self):
        with tempfile.TemporaryDirectory() as folder:
            log, mapped = self.serve(folder)
            files = sorted(os.listdir(folder))
            self.assertEqual(len(files), 2, files)
            decode, prefill = files
            self.assertTrue(decode.endswith(".decode-t1s1.packed"), decode)
            self.assertTrue(prefill.endswith(".prefill-t1s1.packed"), prefill)
            # Two workers of a role start together: one packs.
            self.assertEqual(log.count("packing weights"), 2)
            wanted = {"router": set(), "p0": {prefill}, "p1": {prefill},
                      "d0": {decode}, "d1": {decode}}
            self.assertEqual(mapped, wanted)
            log, mapped = self.serve(folder)
            self.assertNotIn("packing weights", log)
            self.assertEqual(mapped, wanted)
            with open(os.path.join(folder, prefill), "r+b") as file:
                file.seek(50_000_000)
                file.write(b"damaged")
            log, mapped = self.serve(folder)
            self.assertIn("its content is damaged", log)
            self.assertEqual(log.count("packing weights"), 1)
            self.assertEqual(mapped, wanted)
            print("two files, mapped by two workers each; a damaged one made anew")

    def test_a_folder_that_cannot_be_written_costs_a_line(self):
        log, mapped = self.serve("/proc/none", file="deploy/local.yaml")
        self.assertEqual(log.count("packed weights are not kept"), 2)
        self.assertEqual(set().union(*mapped.values()), set())
        print("packed in memory, the same answer")


if __name__ == "__main__":
    unittest.main()
