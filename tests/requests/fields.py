"""Every field of the OpenAI endpoints: what is right in it, and what must be refused by its name.

A test holds the names against the table of docs/api.md.
"""

import random
from dataclasses import dataclass, field

C, X = "/v1/completions", "/v1/chat/completions"
TOKENIZE, DETOKENIZE = "/tokenize", "/detokenize"
VOCABULARY = 320  # of the smallest model that these requests are sent to

WORDS = ("hello", "the sun", "один", "Việt", "日本", "🙂", " a", "\n", "x" * 40, "<|im_end|>", "'", '"')
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}},
          "required": ["a"], "additionalProperties": False}
FUNCTION = {"name": "look", "description": "looks", "parameters": SCHEMA}


def text(rng, most=6):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, most)))


def token(rng):
    return rng.randrange(3, VOCABULARY)


def tokens(rng, most=12):
    return [token(rng) for _ in range(rng.randint(1, most))]


def prompt(rng):
    return rng.choice((text, tokens, lambda r: [text(r) for _ in range(r.randint(1, 3))],
                       lambda r: [tokens(r) for _ in range(r.randint(1, 3))]))(rng)


def message(rng, role):
    if role == "assistant" and rng.random() < 0.3:
        call = {"id": "call_1", "type": "function",
                "function": {"name": "look", "arguments": rng.choice(('{"a": 1}', {"a": 1}))}}
        return {"role": role, "content": None, "tool_calls": [call]}
    content = text(rng)
    if rng.random() < 0.3:
        content = [{"type": "text", "text": content}, {"type": "text", "text": text(rng)}]
    return {"role": role, "content": content}


def messages(rng):
    out = [message(rng, "system")] if rng.random() < 0.4 else []
    for turn in range(rng.randint(0, 2)):
        out.append(message(rng, "user"))
        out.append(message(rng, "assistant"))
        if "tool_calls" in out[-1]:
            out.append({"role": "tool", "tool_call_id": "call_1", "content": text(rng)})
    return out + [message(rng, "user")]


def tools(rng):
    named = [{**FUNCTION, "name": f"look{i}"} for i in range(rng.randint(0, 3))]
    return [{"type": "function", "function": function} for function in [FUNCTION, *named]]


def one_of(*values):
    return lambda rng: rng.choice(values)


def whole(low, high):
    return lambda rng: rng.randint(low, high)


def real(low, high):
    return lambda rng: rng.choice((low, high, round(rng.uniform(low, high), 3)))


BOOLEAN = one_of(True, False)
# JSON values of every other type than the one that is meant.
NO_BOOLEAN = ("true", 1, [], {}, [True])
NO_NUMBER = ("1", True, [], {}, [1])
NO_INTEGER = (*NO_NUMBER, 1.5)
NO_TEXT = (5, True, [], {}, ["a"])
NO_OBJECT = ("{}", 1, True, [])
NO_LIST = ("[]", 1, True, {})


@dataclass(frozen=True)
class Field:
    paths: tuple
    good: object  # of random.Random: a value that the server takes
    wrong: tuple = ()  # values that it refuses, naming the field
    beside: dict = field(default_factory=dict)  # fields without which it means nothing
    share: float = 0.08  # how often a body has it


def both(good, wrong=(), **more):
    return Field((C, X), good, wrong, **more)


def only(path, good, wrong=(), **more):
    return Field((path,), good, wrong, **more)


def _bounds(*out):
    return out


FIELDS = {
    "model": both(one_of("smollm2-135m-instruct"), NO_TEXT),
    "prompt": only(C, prompt, (5, True, {}, [], [[]], [1, "a"], [1.5], [True], [[1], "a"], [-1],
                               [10**9], "", [""], [[[1]]]), share=1),
    "messages": only(X, messages, (5, "a", {}, [], [1], [{}], [{"role": 1}], [[]]), share=1),
    "max_tokens": both(whole(1, 8), (*NO_INTEGER, -1, 2**31, 2**63, -2**63, 10**30, 1e300), share=1),
    "max_completion_tokens": only(X, whole(1, 8), (*NO_INTEGER, 0, -1, 2**64)),
    "min_tokens": both(whole(0, 1), (*NO_INTEGER, -1, 2**63)),
    "n": both(whole(1, 4), (*NO_INTEGER, 0, -1, 129, 2**31, 2**32 + 1)),
    "best_of": only(C, whole(4, 6), (*NO_INTEGER, -1, 21, 2**32 + 4)),
    "stream": both(BOOLEAN, NO_BOOLEAN, share=0.3),
    "stream_options": both(one_of({"include_usage": True}, {}, {"include_usage": False,
                                                               "continuous_usage_stats": True}),
                           NO_OBJECT, beside={"stream": True}),
    "temperature": both(real(0, 2), (*NO_NUMBER, -0.1, 2.1, 1e300), share=0.3),
    "top_p": both(real(0, 1), (*NO_NUMBER, -0.1, 1.1)),
    "min_p": both(real(0, 1), (*NO_NUMBER, -0.1, 1.1)),
    "top_k": both(whole(-1, 400), (*NO_INTEGER, -2, 2**40)),
    "repetition_penalty": both(real(0.5, 2), (*NO_NUMBER, 0, -1)),
    "presence_penalty": both(real(-2, 2), (*NO_NUMBER, -2.1, 2.1)),
    "frequency_penalty": both(real(-2, 2), (*NO_NUMBER, -2.1, 2.1)),
    "logit_bias": both(lambda r: {str(token(r)): r.randint(-100, 100) for _ in range(3)},
                       ("{}", 1, True, {"a": 1}, {"-1": 1}, {"999999": 1}, {"5": 101}, {"5": "1"},
                        {"5": None}, {"": 1}, {"99999999999999999999": 1})),
    "allowed_token_ids": both(tokens, (*NO_LIST, [], [-1], ["5"], [10**9], [1.5], [2**63])),
    "bad_words": both(lambda r: [text(r, 2)], ([""], [5], 5, {}, True, ["a" * 300])),
    "seed": both(one_of(0, 1, -1, 2**63 - 1, -2**63), (*NO_INTEGER, 2**63, -2**63 - 1, 1e300)),
    "stop": both(lambda r: r.choice((text(r, 1), [text(r, 1)], [])),
                 (5, True, {}, [5], "", [""], ["a"] * 17, "a" * 1025, [["a"]])),
    "stop_token_ids": both(tokens, (*NO_LIST, ["5"], [-1], [10**9], [2**40])),
    "include_stop_str_in_output": both(BOOLEAN, NO_BOOLEAN),
    "ignore_eos": both(BOOLEAN, NO_BOOLEAN),
    "skip_special_tokens": both(BOOLEAN, NO_BOOLEAN),
    "add_special_tokens": both(BOOLEAN, NO_BOOLEAN),
    "logprobs": only(C, one_of(0, 1, 5, 20, True, False), ("1", [], {}, 1.5, -1, 21, 2**32)),
    "top_logprobs": only(X, whole(0, 20), (*NO_INTEGER, -1, 21), beside={"logprobs": True}),
    "prompt_logprobs": both(whole(0, 20), (*NO_INTEGER, -1, 21), beside={"stream": False}),
    "echo": only(C, BOOLEAN, NO_BOOLEAN),
    "return_token_ids": both(BOOLEAN, NO_BOOLEAN),
    "return_tokens_as_token_ids": both(BOOLEAN, NO_BOOLEAN),
    "truncate_prompt_tokens": both(one_of(-1, 1, 2, 100), (*NO_INTEGER, 0, -2)),
    "cache_salt": both(lambda r: text(r, 2), (*NO_TEXT, "", "a" * 1025)),
    "use_beam_search": both(BOOLEAN, NO_BOOLEAN),
    "length_penalty": both(real(-10, 10), (*NO_NUMBER, -11, 11)),
    "response_format": both(one_of({"type": "text"}, {"type": "json_object"},
                                   {"type": "json_schema",
                                    "json_schema": {"name": "a", "schema": SCHEMA}}),
                            (5, "json", [], {}, {"type": 5}, {"type": "xml"}, {"type": "json_schema"},
                             {"type": "json_schema", "json_schema": {"name": "a", "schema": 5}})),
    "guided_json": both(one_of(SCHEMA, {"type": "integer"}, True),
                        (5, [], {"type": "x"}, {"frob": 1}, {"$ref": "#/no"}, {"not": {}})),
    "guided_regex": both(one_of("a+", "(x|y){2,3}", "[0-9]+"), (5, [], {}, "(", "a{9,1}", "\\b", "a{99999}")),
    "guided_grammar": both(one_of('root ::= "a" | "b"', 'root ::= [a-z]+'),
                           (5, [], {}, "x ::= 1", "root ::= root", "(" * 70000)),
    "guided_choice": both(one_of(["yes", "no"], ["a"]), (5, {}, [], [5], [[]])),
    "structured_outputs": both(one_of({"regex": "a+"}, {"choice": ["a", "b"]}, {"json": SCHEMA}),
                               (5, "a", [], {"regex": "a", "choice": ["a"]}, {"regex": 5})),
    "tools": only(X, tools, (5, "a", {}, [], [5], [{}], [{"type": "x"}], [{"type": "function"}],
                             [{"type": "function", "function": {"name": "bad name"}}])),
    "tool_choice": only(X, one_of("auto", "none", "required",
                                  {"type": "function", "function": {"name": "look"}}),
                        (5, [], {}, "sometimes", {"type": "function", "function": {"name": "no"}}),
                        beside={"tools": [{"type": "function", "function": FUNCTION}]}),
    "parallel_tool_calls": only(X, BOOLEAN, NO_BOOLEAN),
    "functions": only(X, one_of([FUNCTION]), (5, "a", {}, [], [5])),
    "function_call": only(X, one_of("auto", "none", {"name": "look"}), (5, [], "x", {}, {"name": "no"}),
                          beside={"functions": [FUNCTION]}),
    "add_generation_prompt": only(X, BOOLEAN, NO_BOOLEAN),
    "continue_final_message": only(X, BOOLEAN, NO_BOOLEAN, beside={"add_generation_prompt": False}),
    "chat_template_kwargs": only(X, one_of({}, {"a": 1}, {"enable_thinking": True}), NO_OBJECT),
    "enable_thinking": only(X, BOOLEAN, NO_BOOLEAN),
    "reasoning_effort": only(X, one_of("none", "low", "high"), (*NO_TEXT, "", "much")),
    "include_reasoning": only(X, BOOLEAN, NO_BOOLEAN),
    "baton_parse_special": both(BOOLEAN, NO_BOOLEAN),
    "baton_trace": both(BOOLEAN, NO_BOOLEAN),
    "priority": both(whole(-3, 3), (*NO_INTEGER, 2**63, -2**63 - 1)),
    "user": both(text),
    "metadata": both(one_of({}, {"a": "b"})),
    "store": both(BOOLEAN),
    "service_tier": both(one_of("auto")),
    "safety_identifier": both(text),
    "prompt_cache_key": both(text),
    "verbosity": both(one_of("low")),
    "modalities": both(one_of(["text"])),
    "spaces_between_special_tokens": both(BOOLEAN),
    "early_stopping": both(BOOLEAN),
    "suffix": only(C, one_of(None), ("a", 5, [], {}), share=0.02),
}
# `logprobs` of chats is another field than that of completions.
CHAT_LOGPROBS = only(X, BOOLEAN, NO_BOOLEAN)


def fields_of(path):
    """Name -> Field, of an endpoint that completes."""
    out = {name: known for name, known in FIELDS.items() if path in known.paths}
    if path == X:
        out["logprobs"] = CHAT_LOGPROBS
    return out


def good_body(rng: random.Random, path):
    """A body in which every single field is right; two of them may exclude each other."""
    if path == TOKENIZE:
        body = rng.choice(({"prompt": text(rng)}, {"content": text(rng)}, {"messages": messages(rng)}))
        extra = {"add_special_tokens": True, "with_pieces": True, "add_special": True,
                 "parse_special": False, "add_generation_prompt": True}
        return {**body, **{k: v for k, v in extra.items() if rng.random() < 0.2}}
    if path == DETOKENIZE:
        return {"tokens": tokens(rng)}
    body = {}
    for name, known in fields_of(path).items():
        if rng.random() < known.share:
            body.update({**known.beside, name: known.good(rng)})
    return body


def wrong_body(rng: random.Random, path):
    """(body, field): nothing is wrong with the body but the type or range of this field."""
    known = fields_of(path)
    name = rng.choice([name for name, field_ in known.items() if field_.wrong])
    required = "prompt" if path == C else "messages"
    body = {required: known[required].good(rng), "max_tokens": 2, **known[name].beside}
    body[name] = rng.choice(known[name].wrong)
    return body, name
