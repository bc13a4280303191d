"""guidellm: a few requests one after the other."""

import json
import pathlib

import tokenizer_folder
from scenario import MODEL, Scenario

REQUESTS, INPUT, OUTPUT = 4, 32, 8


class GuideLlmTest(Scenario):
    def test_synchronous(self):
        tokenizer = tokenizer_folder.write(pathlib.Path(self.folder, "tokenizer"))
        out = pathlib.Path(self.folder, "out.json")
        before = self.requests()
        self.run_program(
            "guidellm", "run", "--backend", f"kind=openai_http,target={self.cluster.url},model={MODEL}",
            "--profile", "kind=synchronous",
            "--constraint", f"kind=max_requests,count={REQUESTS}",
            "--tokenizer", f"kind=hf_auto,model={tokenizer}",
            "--data", f"kind=synthetic_text,prompt_tokens={INPUT},output_tokens={OUTPUT}",
            "--output", f"kind=json,path={out}", "--disable-console", HF_HUB_OFFLINE="1")
        metrics = json.loads(out.read_text())["benchmarks"][0]["metrics"]
        self.assertEqual(metrics["request_totals"],
                         {"successful": REQUESTS, "errored": 0, "incomplete": 0, "total": REQUESTS})
        self.assertEqual(metrics["output_token_count"]["successful"]["mean"], OUTPUT)
        # It may have a request of its own before it measures.
        self.assertGreaterEqual(self.requests() - before, REQUESTS)
