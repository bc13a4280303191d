"""The official openai client."""

import asyncio
import json
import os
import pathlib
import signal
import tempfile

import openai
from pydantic import BaseModel

from client import Background
from cluster import wait_until
from scenario import BOB, CONTEXT, HELLO, MODEL, Scenario


class Person(BaseModel):
    name: str
    age: int


class Weather(BaseModel):
    """The weather of a city."""

    city: str
    days: int


TOOL = openai.pydantic_function_tool(Weather)
ASK_WEATHER = [{"role": "user", "content": "What is the weather in Oslo?"}]


class OpenAiTest(Scenario):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = openai.OpenAI(base_url=cls.base_url, api_key="unused", max_retries=0)
        cls.addClassCleanup(cls.client.close)

    def chat(self, messages=HELLO, **fields):
        return self.client.chat.completions.create(
            **{"model": MODEL, "messages": messages, "temperature": 0, "max_tokens": 20, **fields})

    def test_models(self):
        models = self.client.models.list().data
        self.assertEqual([model.id for model in models], [MODEL])
        self.assertEqual(self.client.models.retrieve(MODEL).id, MODEL)

    def test_a_stream_is_the_whole_answer_in_pieces(self):
        whole = self.chat()
        text, usage, ends = "", None, []
        for chunk in self.chat(stream=True, stream_options={"include_usage": True}):
            usage = chunk.usage or usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                ends += [choice.finish_reason] if choice.finish_reason else []
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(ends, ["length"])
        self.assertEqual((usage.prompt_tokens, usage.completion_tokens),
                         (whole.usage.prompt_tokens, 20))

    def test_many_streams_at_once(self):
        whole = self.chat().choices[0].message.content

        async def one(client):
            stream = await client.chat.completions.create(
                model=MODEL, messages=HELLO, temperature=0, max_tokens=20, stream=True)
            return "".join([c.choices[0].delta.content or "" async for c in stream])

        async def all_of_them():
            async with openai.AsyncOpenAI(base_url=self.base_url, api_key="unused") as client:
                return await asyncio.gather(*[one(client) for _ in range(8)])

        self.assertEqual(asyncio.run(all_of_them()), [whole] * 8)

    def test_a_stream_that_is_closed_ends_its_work(self):
        stream = self.chat(stream=True, max_tokens=1500, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        self.cluster.wait_blocks_free()

    def test_log_probabilities_of_a_chat(self):
        choice = self.chat(logprobs=True, top_logprobs=3).choices[0]
        content = choice.logprobs.content
        self.assertEqual(b"".join(bytes(entry.bytes) for entry in content).decode(),
                         choice.message.content)
        for entry in content:
            self.assertEqual(len(entry.top_logprobs), 3)
            self.assertEqual((entry.token, entry.logprob),
                             (entry.top_logprobs[0].token, entry.top_logprobs[0].logprob))
            self.assertLessEqual(entry.logprob, 0)

    def test_log_probabilities_of_an_echoed_prompt(self):
        prompts = ["The capital of France is", "One two three"]
        answer = self.client.completions.create(model=MODEL, prompt=prompts, max_tokens=4, logprobs=2,
                                                echo=True, temperature=0)
        self.assertEqual([choice.index for choice in answer.choices], [0, 1])
        for prompt, choice in zip(prompts, answer.choices):
            self.assertTrue(choice.text.startswith(prompt))
            self.assertEqual("".join(choice.logprobs.tokens), choice.text)
            self.assertIsNone(choice.logprobs.token_logprobs[0])
            self.assertTrue(all(value <= 0 for value in choice.logprobs.token_logprobs[1:]))
            self.assertEqual(choice.logprobs.text_offset[:2], [0, len(choice.logprobs.tokens[0])])

    def test_parse_into_a_type(self):
        for chat in (self.client.chat, self.client.beta.chat):
            answer = chat.completions.parse(model=MODEL, messages=BOB, response_format=Person,
                                            temperature=0, max_tokens=60)
            self.assertEqual(answer.choices[0].message.parsed, Person(name="Bob", age=7))

    def test_parse_a_stream_into_a_type(self):
        with self.client.chat.completions.stream(model=MODEL, messages=BOB, response_format=Person,
                                                 temperature=0, max_tokens=60) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_completion()
        self.assertEqual(kinds, {"chunk", "content.delta", "content.done"})
        self.assertEqual(final.choices[0].message.parsed, Person(name="Bob", age=7))

    def test_an_answer_that_is_cut_cannot_be_parsed(self):
        with self.assertRaises(openai.LengthFinishReasonError):
            self.client.chat.completions.parse(model=MODEL, messages=BOB, response_format=Person,
                                               temperature=0, max_tokens=3)

    def test_a_tool_is_called_and_its_result_read(self):
        fields = {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False,
                  "temperature": 0, "max_tokens": 80, "model": MODEL}
        answer = self.client.chat.completions.parse(messages=ASK_WEATHER, **fields)
        message = answer.choices[0].message
        self.assertEqual(answer.choices[0].finish_reason, "tool_calls")
        self.assertEqual(len(message.tool_calls), 1)
        call = message.tool_calls[0]
        self.assertIsInstance(call.function.parsed_arguments, Weather)

        with self.client.chat.completions.stream(messages=ASK_WEATHER, **fields) as stream:
            deltas = [event.arguments_delta for event in stream
                      if event.type == "tool_calls.function.arguments.delta"]
            final = stream.get_final_completion().choices[0].message.tool_calls[0]
        self.assertEqual("".join(deltas), call.function.arguments)
        self.assertEqual(final.function.parsed_arguments, call.function.parsed_arguments)

        history = [*ASK_WEATHER, message.model_dump(exclude_none=True),
                   {"role": "tool", "tool_call_id": call.id, "content": json.dumps({"sky": "rain"})}]
        self.assertTrue(self.chat(history, tools=[TOOL]).choices[0].message.content)

    def test_errors_are_of_the_clients_types(self):
        cases = [
            ({"max_tokens": -1}, openai.BadRequestError, None, "max_tokens"),
            ({"temperature": 3}, openai.BadRequestError, None, "temperature"),
            ({"model": "another"}, openai.NotFoundError, "model_not_found", "model"),
            ({"messages": [{"role": "user", "content": "word " * CONTEXT}]}, openai.BadRequestError,
             "context_length_exceeded", "messages"),
        ]
        for fields, kind, code, parameter in cases:
            for stream in (False, True):
                with self.subTest(parameter=parameter, stream=stream):
                    with self.assertRaises(kind) as raised:
                        self.chat(stream=stream, **fields)
                    self.assertEqual((raised.exception.code, raised.exception.param),
                                     (code, parameter))
                    self.assertTrue(raised.exception.request_id)


class OpenAiKeyTest(Scenario):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="baton-clients-"))
        keys = pathlib.Path(folder, "keys")
        keys.write_text("sk-right\n", encoding="utf-8")
        keys.chmod(0o600)
        cls.sets = (f"router.api_keys_file={keys}",)
        super().setUpClass()

    def test_a_key_is_needed(self):
        with openai.OpenAI(base_url=self.base_url, api_key="wrong", max_retries=0) as client, \
                self.assertRaises(openai.AuthenticationError) as raised:
            client.models.list()
        self.assertEqual(raised.exception.code, "invalid_api_key")
        with openai.OpenAI(base_url=self.base_url, api_key="sk-right", max_retries=0) as client:
            self.assertEqual([model.id for model in client.models.list()], [MODEL])


class OpenAiRetryTest(Scenario):
    # Requests that find no worker are refused at once.
    sets = ("router.worker_wait=0s",)

    def test_a_request_is_tried_again_until_the_worker_is_back(self):
        worker = self.cluster.process("d0")["pid"]
        ask = {"model": MODEL, "messages": HELLO, "temperature": 0, "max_tokens": 5}
        with openai.OpenAI(base_url=self.base_url, api_key="unused") as client:
            text = client.chat.completions.create(**ask).choices[0].message.content
            os.kill(worker, signal.SIGSTOP)
            try:
                wait_until(lambda: self.ready_decode_workers() == 0, "the stopped worker is lost")
                with self.assertRaises(openai.InternalServerError) as raised:
                    client.with_options(max_retries=0).chat.completions.create(**ask)
                self.assertEqual(raised.exception.status_code, 503)
                self.assertGreaterEqual(int(raised.exception.response.headers["retry-after"]), 1)
                refused = self.errors("unavailable")
                patient = client.with_options(max_retries=10)
                later = Background(lambda: patient.chat.completions.create(**ask))
                wait_until(lambda: self.errors("unavailable") > refused, "a first try is refused")
            finally:
                os.kill(worker, signal.SIGCONT)
            self.assertEqual(later.result().choices[0].message.content, text)

    def ready_decode_workers(self):
        return self.cluster.scrape(role="router").sum("baton_workers", pool="decode", state="ready")
