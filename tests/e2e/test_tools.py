"""Tools and reasoning: the shape of answers, streamed or not, wherever the prompt is computed."""

import json
import unittest

from cluster import Cluster

CITIES = ["Oslo", "Rome"]
MODEL_SAYS = r"<think>\n[a-z ]{1,20}\n</think>\n\n(yes|no)"


def tool(name):
    return {"type": "function", "function": {
        "name": name, "description": f"Calls {name}.",
        "parameters": {"type": "object", "properties": {"city": {"enum": CITIES}},
                       "required": ["city"], "additionalProperties": False}}}


TOOLS = [tool("get_weather"), tool("get_time")]
ASK = [{"role": "user", "content": "What is the weather in Oslo?"}]


class Chat:
    """Answers of one cluster as one shape: (message, finish_reason), streamed or not."""

    def __init__(self, cluster):
        self.client = cluster.client()

    def __call__(self, messages=ASK, stream=False, **fields):
        body = {"messages": messages, "max_tokens": 120, "temperature": 0, "stream": stream, **fields}
        status, _, text = self.client.request("POST", "/v1/chat/completions", body)
        if status != 200:
            raise AssertionError(f"{status}: {text!r}")
        if not stream:
            choice = json.loads(text)["choices"][0]
            return choice["message"], choice["finish_reason"]
        message, finish = {"role": None, "content": ""}, None
        for line in text.decode().split("\n\n"):
            if not line or line == "data: [DONE]":
                continue
            choice = json.loads(line.removeprefix("data: "))["choices"][0]
            delta, finish = choice["delta"], choice["finish_reason"] or finish
            message["role"] = delta.get("role", message["role"])
            for key in ("content", "reasoning_content"):
                if key in delta:
                    message[key] = message.get(key, "") + delta[key]
            for part in delta.get("tool_calls", []):
                calls = message.setdefault("tool_calls", [])
                if part["index"] == len(calls):
                    calls.append({"id": part["id"], "type": part["type"],
                                  "function": dict(part["function"])})
                else:
                    assert "id" not in part and "name" not in part["function"], part
                    calls[-1]["function"]["arguments"] += part["function"]["arguments"]
        return message, finish


def calls_of(message):
    return [(call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls", [])]


class Tools(unittest.TestCase):
    def check_calls(self, message, finish, names=("get_weather", "get_time")):
        self.assertEqual(finish, "tool_calls", message)
        self.assertFalse(message["content"])
        self.assertTrue(message["tool_calls"])
        for call in message["tool_calls"]:
            self.assertEqual(call["type"], "function")
            self.assertIn(call["function"]["name"], names)
            arguments = json.loads(call["function"]["arguments"])
            self.assertEqual(list(arguments), ["city"])
            self.assertIn(arguments["city"], CITIES)
        ids = [call["id"] for call in message["tool_calls"]]
        self.assertEqual(len(set(ids)), len(ids))

    def scenario(self, chat):
        """What an agent does; returns all that must not depend on the workers."""
        seen = []
        named = {"type": "function", "function": {"name": "get_time"}}
        for fields, names in (
                ({"tool_choice": "required"}, ("get_weather", "get_time")),
                ({"tool_choice": "required", "parallel_tool_calls": False},
                 ("get_weather", "get_time")),
                ({"tool_choice": "required", "temperature": 1.2, "seed": 5},
                 ("get_weather", "get_time")),
                ({"tool_choice": named}, ("get_time",))):
            message, finish = chat(tools=TOOLS, **fields)
            self.check_calls(message, finish, names)
            streamed, streamed_finish = chat(tools=TOOLS, stream=True, **fields)
            self.check_calls(streamed, streamed_finish, names)
            self.assertEqual(calls_of(streamed), calls_of(message))
            if names == ("get_time",) or "parallel_tool_calls" in fields:
                self.assertEqual(len(message["tool_calls"]), 1)
            seen.append(calls_of(message))
        # The result goes back, and the model answers in words.
        history = [*ASK, message, {"role": "tool", "content": "rain",
                                   "tool_call_id": message["tool_calls"][0]["id"]}]
        for fields in ({"tool_choice": "none"}, {"tool_choice": "auto"}, {}):
            answers = [chat(history, tools=TOOLS, stream=stream, max_tokens=16, **fields)
                       for stream in (False, True)]
            self.assertEqual(answers[0][0]["content"] or "", answers[1][0]["content"])
            self.assertEqual(answers[0][1], answers[1][1])
            seen.append((answers[0][0]["content"], calls_of(answers[0][0])))
        # The older fields.
        old, finish = chat(functions=[t["function"] for t in TOOLS],
                           function_call={"name": "get_time"})
        self.assertEqual(finish, "function_call")
        self.assertEqual(old["function_call"]["name"], "get_time")
        seen.append(chat([*ASK, old, {"role": "function", "name": "get_time", "content": "noon"}],
                         max_tokens=16)[0])
        # Reasoning, which this model writes only where it must.
        for stream in (False, True):
            message, finish = chat(guided_regex=MODEL_SAYS, stream=stream)
            self.assertEqual(finish, "stop")
            self.assertIn(message["content"], ("yes", "no"))
            self.assertRegex(message["reasoning_content"], r"^[a-z ]+$")
            seen.append((message["content"], message["reasoning_content"]))
        self.assertEqual(seen[-1], seen[-2])
        self.assertNotIn("reasoning_content", chat(guided_regex=MODEL_SAYS, include_reasoning=False)[0])
        # An answer that goes on.
        go_on = [*ASK, {"role": "assistant", "content": "In Oslo it is"}]
        seen.append(chat(go_on, continue_final_message=True, max_tokens=8)[0]["content"])
        self.assertNotIn("In Oslo it is", seen[-1])
        return seen

    def test_the_same_answers_wherever_the_prompt_is_computed(self):
        seen = {}
        for place in ("never", "always"):
            with Cluster(sets=[f"router.local_prefill={place}", "router.reasoning=split"]) as cluster:
                seen[place] = self.scenario(Chat(cluster))
                cluster.wait_blocks_free()
        self.assertEqual(seen["never"], seen["always"])

    def test_every_form_of_calls(self):
        for form in ("llama3", "mistral"):
            with self.subTest(form), Cluster(sets=[f"router.tool_format={form}"]) as cluster:
                chat = Chat(cluster)
                message, finish = chat(tools=TOOLS, tool_choice="required")
                self.check_calls(message, finish)
                streamed, _ = chat(tools=TOOLS, tool_choice="required", stream=True)
                self.assertEqual(calls_of(streamed), calls_of(message))
                if form == "mistral":
                    self.assertRegex(message["tool_calls"][0]["id"], r"^[0-9a-z]{9}$")
