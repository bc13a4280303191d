"""LangChain's classes for OpenAI endpoints."""

from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI
from pydantic import BaseModel

from scenario import MODEL, Scenario

HELLO = "Say hello."
BOB = "Bob is 7 years old. Answer in JSON."
OSLO = "What is the weather in Oslo?"


class Person(BaseModel):
    """A person."""

    name: str
    age: int


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"It rains in {city}."


class LangChainTest(Scenario):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = ChatOpenAI(base_url=cls.base_url, api_key="unused", model=MODEL, temperature=0,
                               max_tokens=60, stream_usage=True)

    def test_invoke_stream_and_batch_agree(self):
        answer = self.model.invoke(HELLO)
        self.assertEqual(answer.response_metadata["finish_reason"], "stop")
        self.assertEqual(answer.usage_metadata["input_tokens"] + answer.usage_metadata["output_tokens"],
                         answer.usage_metadata["total_tokens"])
        total = None
        for chunk in self.model.stream(HELLO):
            total = chunk if total is None else total + chunk
        self.assertEqual(total.content, answer.content)
        self.assertEqual(total.usage_metadata["output_tokens"],
                         answer.usage_metadata["output_tokens"])
        self.assertEqual([m.content for m in self.model.batch([HELLO, HELLO])], [answer.content] * 2)

    def test_structured_output(self):
        for method in ("json_schema", "function_calling"):
            with self.subTest(method=method):
                made = self.model.with_structured_output(Person, method=method).invoke(BOB)
                self.assertEqual(made, Person(name="Bob", age=7))

    def test_a_tool_is_called_and_its_result_read(self):
        bound = self.model.bind_tools([weather], tool_choice="any", parallel_tool_calls=False)
        called = bound.invoke(OSLO)
        self.assertEqual([call["name"] for call in called.tool_calls], ["weather"])
        self.assertEqual(called.response_metadata["finish_reason"], "tool_calls")
        total = None
        for chunk in bound.stream(OSLO):
            total = chunk if total is None else total + chunk
        self.assertEqual(total.tool_calls[0]["args"], called.tool_calls[0]["args"])
        history = [HumanMessage(OSLO), called,
                   *[weather.invoke(call) for call in called.tool_calls]]
        self.assertTrue(self.model.bind_tools([weather]).invoke(history).content)

    def test_log_probabilities(self):
        answer = self.model.bind(logprobs=True, top_logprobs=2).invoke(HELLO)
        content = answer.response_metadata["logprobs"]["content"]
        # The end token has its own, too.
        self.assertEqual("".join(entry["token"] for entry in content), answer.content + "<|im_end|>")

    def test_text_completions(self):
        model = OpenAI(base_url=self.base_url, api_key="unused", model=MODEL, temperature=0,
                       max_tokens=8)
        whole = model.invoke("The capital of France is")
        self.assertIn("Paris", whole)
        self.assertEqual("".join(model.stream("The capital of France is")), whole)
