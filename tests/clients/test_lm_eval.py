"""lm-eval with its local-completions and local-chat-completions, on the tasks of tasks/.

The tokenizer is the server's own, over /tokenize and /tokenizer_info.
"""

import json
import math
import pathlib

from scenario import MODEL, Scenario

TASKS = pathlib.Path(__file__).resolve().parent / "tasks"


class LmEvalTest(Scenario):
    def evaluate(self, model, path, tasks, *arguments):
        """(results, samples by task) of a run."""
        out = pathlib.Path(self.folder, model)
        self.run_program(
            "lm_eval", "run", "--model", model, "--model_args",
            f"base_url={self.base_url}{path},model={MODEL}", "--include_path", TASKS, "--tasks",
            *tasks, "--output_path", out, "--log_samples", *arguments, cwd=TASKS,
            HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")
        results = json.loads(next(out.rglob("results_*.json")).read_text())["results"]
        samples = {}
        for task in tasks:
            file = next(out.rglob(f"samples_{task}_*.jsonl"))
            samples[task] = [json.loads(line) for line in file.read_text().splitlines()]
        return results, samples

    def tokens(self, text):
        return self.ask("/tokenize", {"prompt": text})["tokens"]

    def likelihood(self, context, continuation):
        """(sum of log-probabilities, whether it is the greedy text) by prompt_logprobs."""
        begin = len(self.tokens(context))
        whole = self.tokens(context + continuation)
        answer = self.ask("/v1/completions", {"model": MODEL, "prompt": whole, "max_tokens": 1,
                                              "prompt_logprobs": 1, "temperature": 0})
        total, greedy = 0.0, True
        for token, entries in zip(whole[begin:], answer["choices"][0]["prompt_logprobs"][begin:]):
            entry = entries[str(token)]
            total += entry["logprob"]
            greedy = greedy and entry["rank"] == 1
        return total, greedy

    def test_completions(self):
        results, samples = self.evaluate("local-completions", "/completions",
                                         ["baton_choices", "baton_answers"])
        right = 0
        for sample in samples["baton_choices"]:
            own = []
            for argument, response in zip(sample["arguments"].values(), sample["resps"]):
                total, greedy = self.likelihood(argument["arg_0"], argument["arg_1"])
                own.append(total)
                self.assertTrue(math.isclose(float(response[0][0]), total, abs_tol=1e-5),
                                f"{argument}: {response} is not {total}")
                self.assertEqual(response[0][1], str(greedy))
            right += own.index(max(own)) == sample["doc"]["answer"]
        self.assertEqual(results["baton_choices"]["acc,none"], right / 4)
        # A model that only guesses would have one of four right.
        self.assertGreaterEqual(right, 3)
        for sample in samples["baton_answers"]:
            answer = self.ask("/v1/completions", {
                "model": MODEL, "prompt": sample["doc"]["question"], "max_tokens": 12,
                "temperature": 0, "stop": ["\n", "."]})
            self.assertEqual(sample["resps"][0][0], answer["choices"][0]["text"])

    def test_chat(self):
        _, samples = self.evaluate("local-chat-completions", "/chat/completions",
                                   ["baton_answers"], "--apply_chat_template")
        for sample in samples["baton_answers"]:
            answer = self.ask("/v1/chat/completions", {
                "model": MODEL, "messages": [{"role": "user", "content": sample["doc"]["question"]}],
                "max_tokens": 12, "temperature": 0, "stop": ["\n", "."]})
            self.assertEqual(sample["resps"][0][0], answer["choices"][0]["message"]["content"])
