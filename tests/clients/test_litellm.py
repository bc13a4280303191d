"""litellm's provider for OpenAI endpoints."""

import asyncio
import json
import os

# Prices come with the package instead of from the network.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm  # noqa: E402

from scenario import BOB, CONTEXT, HELLO, MODEL, Scenario  # noqa: E402

OSLO = [{"role": "user", "content": "What is the weather in Oslo?"}]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
        "additionalProperties": False}
TOOLS = [{"type": "function",
          "function": {"name": "weather", "description": "The weather.", "parameters": CITY}}]
PERSON = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
          "required": ["name", "age"], "additionalProperties": False}


class LiteLlmTest(Scenario):
    def fields(self, **fields):
        return {"model": "openai/" + MODEL, "api_base": self.base_url, "api_key": "unused",
                "temperature": 0, "max_tokens": 60, "num_retries": 0, **fields}

    def complete(self, messages=HELLO, **fields):
        return litellm.completion(messages=messages, **self.fields(**fields))

    def test_a_stream_is_the_whole_answer_in_pieces(self):
        whole = self.complete()
        chunks = list(self.complete(stream=True, stream_options={"include_usage": True}))
        built = litellm.stream_chunk_builder(chunks, messages=HELLO)
        self.assertEqual(built.choices[0].message.content, whole.choices[0].message.content)
        self.assertEqual(built.choices[0].finish_reason, "stop")
        self.assertEqual((built.usage.prompt_tokens, built.usage.completion_tokens),
                         (whole.usage.prompt_tokens, whole.usage.completion_tokens))
        answer = asyncio.run(litellm.acompletion(messages=HELLO, **self.fields()))
        self.assertEqual(answer.choices[0].message.content, whole.choices[0].message.content)

    def test_a_tool_is_called(self):
        fields = {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False}
        called = self.complete(OSLO, **fields).choices[0]
        self.assertEqual(called.finish_reason, "tool_calls")
        call = called.message.tool_calls[0].function
        self.assertEqual(call.name, "weather")
        self.assertEqual(list(json.loads(call.arguments)), ["city"])
        built = litellm.stream_chunk_builder(list(self.complete(OSLO, stream=True, **fields)))
        self.assertEqual(built.choices[0].message.tool_calls[0].function.arguments, call.arguments)
        history = [*OSLO, called.message.model_dump(exclude_none=True),
                   {"role": "tool", "tool_call_id": called.message.tool_calls[0].id,
                    "content": "rain"}]
        self.assertTrue(self.complete(history, tools=TOOLS).choices[0].message.content)

    def test_structured_output(self):
        form = {"type": "json_schema",
                "json_schema": {"name": "person", "strict": True, "schema": PERSON}}
        answer = self.complete(BOB, response_format=form)
        self.assertEqual(json.loads(answer.choices[0].message.content), {"name": "Bob", "age": 7})

    def test_text_completions(self):
        answer = litellm.text_completion(prompt="The capital of France is", **self.fields(
            model="text-completion-openai/" + MODEL, max_tokens=4))
        self.assertIn("Paris", answer.choices[0].text)

    def test_errors_are_of_the_clients_types(self):
        too_long = [{"role": "user", "content": "word " * CONTEXT}]
        cases = [({"max_tokens": -1}, litellm.BadRequestError),
                 ({"model": "openai/another"}, litellm.NotFoundError),
                 ({"messages": too_long}, litellm.ContextWindowExceededError)]
        for fields, kind in cases:
            with self.subTest(kind=kind.__name__), self.assertRaises(kind):
                self.complete(**fields)
