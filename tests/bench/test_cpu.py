"""cpu.py, with programs that print what the real ones printed."""
import json
import os
import pathlib
import stat
import tempfile
import unittest

import cpu
from printed import printed

# A Baton whose prefill makes 10 tokens/s a prompt token, and whose decode 100 a sequence; with
# `fast` twice as much, and with a long context half. A step reads 2 bytes, or 8 with a long context.
BATON = """
import json, sys
flag = dict(zip(sys.argv[3:], sys.argv[4:]))
assert sys.argv[1:3] == ["bench", "engine"]
probe = {"flops": 5e11, "read_bytes_per_s": 5e10}
by = {"invariant": 1, "fast": 2}[flag["--numerics"]]
print(json.dumps({
    "prefill": [{"prompt": int(n), "tokens_per_s": 10.0 * by * int(n), "peak_share": 0.5 * by,
                 "attention_peak_share": 0.25 * by, "attention_time_share": 0.125}
                for n in flag["--prompt"].split(",")],
    "decode": [{"batch": int(n), "context": int(c), "bandwidth_share": 0.25 * by,
                "tokens_per_s": 100.0 * by * int(n) / (2 if int(c) > 4000 else 1),
                "step_bytes": 8 if int(c) > 4000 else 2}
               for c in flag["--context"].split(",") for n in flag["--decode-batch"].split(",")],
    "probe": {"start": probe, "end": probe, "steady": "--isa" not in flag},
    "isa": flag.get("--isa", "amx"), "threads": int(flag["--threads"])}))
"""
# Half as fast; with --repack 0 a tenth.
LLAMA_BENCH = """
import json, sys
flag = dict(zip(sys.argv[1:], sys.argv[2:]))
part = 0.1 if "--repack" in flag else 0.5
if flag["-n"] == "0":
    print(json.dumps([{"n_prompt": int(n), "samples_ts": [10 * part * int(n)] * 3}
                      for n in flag["-p"].split(",")]))
else:
    assert flag["-p"] == "0" and flag["-d"] in ("16", "1008")
    print(json.dumps([{"n_gen": 32, "samples_ts": [90 * part, 100 * part, 120 * part]}]))
"""
LLAMA_BATCHED_BENCH = """
import json, sys
flag = dict(zip(sys.argv[1:], sys.argv[2:]))
print("a line before")
part = 0.1 if "--no-repack" in sys.argv else 0.5
for n in flag["-npl"].split(","):
    print(json.dumps({"pl": int(n), "speed_tg": 100 * part * int(n)}))
"""
# In place of a Python with OpenVINO: as fast as Baton.
PYTHON = """
import os, sys
assert os.path.basename(sys.argv[1]) == "openvino_rates.py" and sys.argv[2:4] == ["other.gguf", "2"]
print("a warning")
print([10.0 * int(n) for n in sys.argv[5].split(",")] if sys.argv[4] == "prefill"
      else [100.0 * int(n) for n in sys.argv[6].split(",")])
"""
# The same for vLLM, which starts once.
VLLM = """
import os, sys
assert os.path.basename(sys.argv[1]) == "vllm_rates.py" and sys.argv[3:] == ["2"]
open(__file__ + ".starts", "a").write("x")
for line in sys.stdin:
    what, *words = line.split()
    print([10.0 * int(n) for n in words[0].split(",")] if what == "prefill"
          else [100.0 * int(n) for n in words[1].split(",")], flush=True)
"""
BROKEN = """
import sys
print("one\\ncannot open the model", file=sys.stderr)
sys.exit(3)
"""


class BenchCpu(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, name, source):
        path = self.folder / name
        path.write_text("#!/usr/bin/env python3\n" + source)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def run_bench(self, *flags, baton=BATON, llama=LLAMA_BENCH):
        command = ["--baton", self.program("baton", baton), "--model", "m.gguf", "--threads", "2"]
        if llama:
            command += ["--llama-bench", self.program("llama-bench", llama), "--llama-batched-bench",
                        self.program("llama-batched-bench", LLAMA_BATCHED_BENCH)]
        return printed(cpu.main, [*command, *flags])

    def test_every_row_has_both_and_their_ratio(self):
        status, out, err = self.run_bench("--runs", "2", "--json")
        self.assertEqual(status, 0, err)
        result = json.loads(out)
        self.assertEqual([row["row"] for row in result["rows"]], [
            "prefill 512", "prefill 2048", "decode, batch 1, context 32",
            "decode, batch 1, context 1024", "decode, batch 8, context 256",
            "decode, batch 16, context 256", "decode, batch 32, context 256"])
        for row in result["rows"]:
            self.assertEqual(row["peers"]["llama.cpp"]["ratio"]["samples"], [2, 2])
        self.assertEqual(result["rows"][0]["baton"]["median"], 5120)
        self.assertEqual(result["rows"][0]["roofline_share"]["median"], 0.5)
        self.assertEqual(result["rows"][4]["roofline_share"]["median"], 0.25)
        self.assertEqual(result["probe"]["starts"], 8)
        self.assertEqual(result["probe"]["unsteady"], 0)

    def test_the_first_of_a_run_alternates(self):
        _, _, err = self.run_bench("--runs", "2")
        order = [line.split("  ")[2] for line in err.splitlines() if "context 32" in line][:4]
        self.assertEqual(order, ["Baton", "llama.cpp", "llama.cpp", "Baton"])

    def test_the_table_has_medians_and_spread(self):
        _, out, _ = self.run_bench("--runs", "1")
        self.assertIn("| decode, batch 8, context 256 | 800 (800-800) | 25 % | 400 (400-400) | "
                      "2.00 (2.00-2.00) × | 2.5 × |", out)
        self.assertIn("0 of 4 starts not steady", out)

    def test_levels_lower_both(self):
        status, out, err = self.run_bench("--runs", "1", "--level", "avx512,avx2", "--json")
        self.assertEqual(status, 0, err)
        result = json.loads(out)
        self.assertEqual([row["level"] for row in result["rows"]], ["avx512"] * 3 + ["avx2"] * 3)
        self.assertEqual(result["rows"][5]["peers"]["llama.cpp"]["ratio"]["samples"], [10])
        self.assertEqual(result["probe"]["unsteady"], 6)

    def test_a_second_peer_has_columns_of_its_own(self):
        flags = ["--openvino", self.program("python", PYTHON), "--openvino-model", "other.gguf"]
        status, out, err = self.run_bench("--runs", "1", *flags)
        self.assertEqual(status, 0, err)
        self.assertIn("| prefill 2048 | 20,480 (20,480-20,480) | 50 % | 20,480 (20,480-20,480) | "
                      "1.00 (1.00-1.00) × | 10,240 (10,240-10,240) | 2.00 (2.00-2.00) × | 3 × |", out)
        self.assertIn("| OpenVINO, other.gguf |", out)
        status, out, err = self.run_bench("--runs", "1", "--level", "avx2", *flags)
        self.assertEqual(status, 0, err)
        self.assertIn("OpenVINO is skipped: its instructions cannot be lowered", err)

    def test_a_peer_may_read_a_file_of_its_own(self):
        llama = LLAMA_BENCH.replace("part =", 'assert flag["-m"] == "fast.gguf"\npart =')
        status, out, err = self.run_bench("--runs", "1", "--llama-model", "fast.gguf", llama=llama)
        self.assertEqual(status, 0, err)
        self.assertIn("| Baton / llama.cpp, fast.gguf |", out)

    def test_both_numerics_stand_beside_the_same_peer(self):
        status, out, err = self.run_bench("--runs", "2", "--numerics", "both", "--json")
        self.assertEqual(status, 0, err)
        rows = json.loads(out)["rows"]
        self.assertEqual([(row["row"], row["numerics"], row["target"]) for row in rows[:6]], [
            ("prefill 512", "invariant", 3), ("prefill 512, `fast`", "fast", 4),
            ("prefill 2048", "invariant", 3), ("prefill 2048, `fast`", "fast", 4),
            ("decode, batch 1, context 32", "invariant", 1),
            ("decode, batch 1, context 32, `fast`", "fast", 1.3)])
        self.assertEqual(rows[0]["peers"]["llama.cpp"]["ratio"]["samples"], [2, 2])
        self.assertEqual(rows[1]["peers"]["llama.cpp"]["ratio"]["samples"], [4, 4])
        order = [line.split("  ")[2] for line in err.splitlines() if "context 32" in line]
        self.assertEqual(order, ["Baton", "Baton, fast", "llama.cpp",
                                 "llama.cpp", "Baton, fast", "Baton"])
        _, out, _ = self.run_bench("--runs", "1", "--numerics", "fast")
        self.assertIn("| decode, batch 8, context 256, `fast` | 1,600 (1,600-1,600) | 50 % | 400 ", out)

    def test_a_large_model_has_rows_of_its_own(self):
        flags = ["--runs", "1", "--rows", "large", "--numerics", "both",
                 "--openvino", self.program("python", PYTHON), "--openvino-model", "other.gguf"]
        status, out, err = self.run_bench(*flags)
        self.assertEqual(status, 0, err)
        for line in [
                "| prefill 512, `fast` | 10,240 (10,240-10,240) | 100 % | 5,120 (5,120-5,120) | "
                "2.00 (2.00-2.00) × | 2,560 (2,560-2,560) | 4.00 (4.00-4.00) × | "
                "3 ×; OpenVINO 1.3 × |",
                "| Baton alone | `invariant` | `fast` | target |",
                "| prefill 512, of the peak | 50 % (50 % to 50 %) | 100 % (100 % to 100 %) | ≥ 45 % |",
                "| decode, 16 rows against 1, time | 1.00 × (1.00 × to 1.00 ×) |",
                "| decode, batch 16, context 8000 | 800.0 (800.0 to 800.0) |",
                "growth of the time by that of the bytes | 0.50 × (0.50 × to 0.50 ×) |",
                "| prefill 8000, attention, of the peak | 25 % (25 % to 25 %) | 50 % (50 % to 50 %) |",
                "0 of 6 starts not steady"]:
            self.assertIn(line, out)
        self.assertEqual(err.count("llama.cpp"), 1)
        _, out, _ = self.run_bench("--runs", "2", "--rows", "large", "--json")
        self.assertEqual(json.loads(out)["figures"][0]["baton"]["invariant"]["samples"], [0.5, 0.5])

    def test_vllm_starts_once(self):
        program = self.program("vllm", VLLM)
        flags = ["--vllm-python", program, "--vllm-model", "models/some-hf/"]
        status, out, err = self.run_bench("--runs", "2", *flags, "--json", llama=None)
        self.assertEqual(status, 0, err)
        self.assertEqual(pathlib.Path(program + ".starts").read_text(), "x")
        ratios = [row["peers"]["vLLM, some-hf"]["ratio"]["samples"] for row in json.loads(out)["rows"]]
        self.assertEqual(ratios, [[1, 1]] * 7)
        status, _, err = self.run_bench("--vllm-python", program, llama=None)
        self.assertIn("vLLM is skipped: --vllm-model not given", err)
        flags[1] = self.program("broken", BROKEN)
        status, out, err = self.run_bench("--runs", "1", *flags, llama=None)
        self.assertEqual((status, out), (1, ""))
        self.assertIn("broken exited with 3: cannot open the model", err)

    def test_without_a_peer_it_says_so(self):
        status, out, err = self.run_bench("--runs", "1", llama=None)
        self.assertEqual(status, 0, err)
        self.assertIn("llama.cpp is skipped: --llama-bench and --llama-batched-bench not given", err)
        self.assertNotIn("llama.cpp", out)

    def test_a_program_that_fails_is_named_with_its_last_words(self):
        status, out, err = self.run_bench("--runs", "1", llama=BROKEN)
        self.assertEqual((status, out), (1, ""))
        self.assertIn("llama-bench exited with 3: cannot open the model", err)

    def test_a_program_that_prints_something_else_fails(self):
        status, _, err = self.run_bench("--runs", "1", baton="print('hello')")
        self.assertEqual(status, 1)
        self.assertIn("baton printed no JSON: 'hello", err)

    def test_flags_that_mean_nothing_are_refused(self):
        for flags, words in [(["--level", "amx"], "--level amx: avx512 or avx2"),
                             (["--level", "avx2", "--rows", "large"],
                              "--level has rows of its own"),
                             (["--runs", "0"], "--runs and --threads are at least 1"),
                             (["--llama-bench", os.devnull], "--llama-bench: /dev/null is no program")]:
            status, _, err = self.run_bench(*flags)
            self.assertEqual(status, 2)
            self.assertIn(words, err)


if __name__ == "__main__":
    unittest.main()
