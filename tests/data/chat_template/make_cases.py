#!/usr/bin/env python3
"""Writes templates/*.jinja and cases.json: what jinja2, set up as transformers does it, makes of them.

usage: make_cases.py [--gguf MODEL] [--tokenizers DIR]
    --gguf        the default model: its tokenizer.chat_template becomes templates/smollm2.jinja
    --tokenizers  a folder with {llama3_1,qwen3,gemma3,deepseek_v3}/tokenizer_config.json
Without them the templates that lie there already are used.

cases.json: {"now": seconds, "cases": [{"name", "template" | "source", "input", "output" | "error"}]}.
"error" is the exact text of raise_exception or of a use of an undefined value, or null where only
failing counts. families.json: the same for more families of models, {"now", "conversations": {name:
input}, "cases": [{"template", "conversation", "output" | "error"}]}.

Templates as their models publish them: smollm2, smollm3, qwen2_5, qwen3, qwen3_coder, mistral_v1,
mistral_v3, mistral_nemo (Apache License 2.0), deepseek_r1, deepseek_v3 (MIT). Those named *_like are
our own, with the means of language that the models of that name use.
"""
import argparse
import json
import pathlib

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.exceptions import UndefinedError
from datetime import datetime, timezone

HERE = pathlib.Path(__file__).parent
NOW = 1732871096  # 2024-11-29 09:04:56 UTC


class RaisedByTemplate(jinja2.exceptions.TemplateError):
    pass


class Generation(jinja2.ext.Extension):
    """As transformers' AssistantTracker: the block is a call block of its own scope."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_run"), [], [], body).set_lineno(line)

    def _run(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise RaisedByTemplate(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda f: datetime.fromtimestamp(NOW, timezone.utc).replace(
        tzinfo=None
    ).strftime(f)
    return env


def run(env, source, given):
    names = {"messages": [], "tools": None, "documents": None, "add_generation_prompt": True,
             "bos_token": "<s>", "eos_token": "</s>"}
    names.update(given)
    try:
        output = env.from_string(source).render(**names)
        # The text of an iterator or method is its address: refused by ours.
        return {"error": None} if " at 0x" in output else {"output": output}
    except (RaisedByTemplate, UndefinedError) as e:
        return {"error": str(e)}
    except Exception:
        return {"error": None}


def m(role, content, **more):
    return dict(role=role, content=content, **more)


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": 'Weather of a "city" <now> & l\'été',
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "e.g. Zürich, 東京, 🌍"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": None},
                "days": {"type": "integer", "minimum": 0, "maximum": 14.5, "strict": True},
            },
            "required": ["city"],
        },
    },
}
CLOCK = {"type": "function",
         "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}


def call(name, arguments, wrapped=True):
    inner = {"name": name, "arguments": arguments}
    return {"id": "call_1", "type": "function", "function": inner} if wrapped else inner


def conversations():
    sys, user, bot = (lambda t: m("system", t)), (lambda t: m("user", t)), (lambda t, **k: m("assistant", t, **k))
    plain = {
        "user": [user("Hello")],
        "system_user": [sys("Be brief."), user("Hello")],
        "three_turns": [user("Hi"), bot("Hello!"), user("How are you?")],
        "system_three_turns": [sys("You are a pirate."), user("Hi"), bot("Arr"), user("Ahoy")],
        "empty_user": [user("")],
        "spaces": [sys("  padded\n"), user("\n\n  text \t"), bot(" x "), user("y\n")],
        "unicode": [user("¿Qué? Здравствуй 你好 مرحبا 👩‍👩‍👧 e\u0301 \u00a0")],
        "markup": [user("<|im_end|><b>&amp;\"quotes\" 'single' {{ x }} {% if %}")],
        "escapes": [user("back\\slash \\n \t tab \r\n crlf \x00 nul \x7f")],
        "assistant_last": [user("Count"), bot("1 2 3")],
        "system_only": [sys("alone")],
        "two_systems": [sys("one"), sys("two"), user("q")],
        "long": [m("user" if i % 2 == 0 else "assistant", f"turn {i} " * 20) for i in range(21)],
        "multiline": [sys("a\nb\n\nc"), user("1\n2\n"), bot("```python\nprint('x')\n```"), user("ok")],
        "no_messages": [],
        "missing_content": [{"role": "user"}],
        "none_content": [user("a"), m("assistant", None), user("b")],
        "parts_content": [m("user", [{"type": "text", "text": "part"}])],
        "unknown_role": [m("narrator", "once")],
        "numbers": [m("user", 42), m("user", 1.5)],
    }
    think = {
        "think_block": [user("q"), bot("<think>\nhmm\n</think>\n\nanswer"), user("more")],
        "think_last": [user("q"), bot("<think>\nhmm\nhm\n</think>\n\nanswer")],
        "think_twice": [user("q"), bot("<think>a</think>b</think>c")],
        "reasoning_content": [user("q"), bot("answer", reasoning_content="because\n"), user("more")],
        "reasoning_last": [user("q"), bot("\nanswer", reasoning_content="\nbecause\n")],
        "reasoning_none": [user("q"), bot("x", reasoning_content=None)],
    }
    tools = {
        "call_object": [user("Weather?"), bot("", tool_calls=[call("get_weather", {"city": "Zürich", "days": 2})]),
                        m("tool", '{"temp": 3}'), bot("3 degrees."), user("Thanks")],
        "call_string": [user("Weather?"), bot("Let me see.", tool_calls=[call("get_weather", '{"city": "東京"}')]),
                        m("tool", "3")],
        "call_bare": [user("Weather?"), bot("", tool_calls=[call("get_weather", {"city": "Bern"}, wrapped=False)]),
                      m("tool", "3"), m("tool", "4"), user("and?")],
        "two_calls": [user("?"), bot("", tool_calls=[call("now", {}), call("get_weather", {"city": "x", "n": [1, 2.0, None, False]})]),
                      m("tool", "a"), m("tool", "b")],
        "tool_response_user": [user("q"), bot("a"), user("<tool_response>\nx\n</tool_response>")],
        "system_and_call": [sys("Use tools."), user("?"), bot("", tool_calls=[call("now", {})]), m("tool", "12:00", name="now")],
    }
    return plain, think, tools


def model_cases(add):
    plain, think, tools = conversations()
    for name in ("smollm2", "llama3_1", "qwen3"):
        for key, messages in {**plain, **think}.items():
            add(f"{name}/{key}", template=name, messages=messages)
        for key in ("user", "three_turns", "assistant_last", "think_last"):
            add(f"{name}/{key}/no_prompt", template=name, messages={**plain, **think}[key],
                add_generation_prompt=False)
    for key, messages in tools.items():
        add(f"qwen3/{key}", template="qwen3", messages=messages, tools=[WEATHER, CLOCK])
        add(f"qwen3/{key}/without_tools", template="qwen3", messages=messages)
        add(f"llama3_1/{key}", template="llama3_1", messages=messages, tools=[WEATHER])
    for key in ("user", "system_user", "three_turns"):
        add(f"qwen3/{key}/tools", template="qwen3", messages=plain[key], tools=[WEATHER, CLOCK])
        add(f"qwen3/{key}/empty_tools", template="qwen3", messages=plain[key], tools=[])
        for thinking in (True, False, None):
            add(f"qwen3/{key}/thinking_{thinking}", template="qwen3", messages=plain[key],
                enable_thinking=thinking)
    for name in ("gemma3", "deepseek_v3"):
        for key, messages in {**plain, **think, **tools}.items():
            add(f"{name}/{key}", template=name, messages=messages)


FAMILIES = ("qwen2_5", "qwen3_coder", "smollm3", "mistral_v1", "mistral_v3", "mistral_nemo",
            "deepseek_r1", "llama2_like", "llama3_tools_like", "gemma2_like", "hermes_like")


def family_inputs():
    """Conversations that are rendered with every template of FAMILIES."""
    plain, think, tools = conversations()
    keys = ("user", "system_user", "three_turns", "system_three_turns", "empty_user", "spaces",
            "unicode", "escapes", "assistant_last", "system_only", "two_systems", "no_messages",
            "missing_content", "none_content", "parts_content", "unknown_role")
    inputs = {key: {"messages": plain[key]} for key in keys}
    for key in ("think_block", "think_last", "reasoning_content"):
        inputs[key] = {"messages": think[key]}
    for key in ("call_object", "call_string", "two_calls", "system_and_call"):
        inputs[key] = {"messages": tools[key], "tools": [CLOCK]}

    def short(name, arguments):
        return dict(call(name, arguments), id="abc123XYZ")
    turns = [m("user", "Weather?"), m("assistant", None, tool_calls=[
        short("get_weather", {"city": "Zürich", "n": [1, 2.5, None, {"a": "<b>"}]})]),
             m("tool", "3", tool_call_id="abc123XYZ", name="get_weather")]
    after = [m("assistant", "3 degrees."), m("user", "Thanks")]
    inputs["short_id"] = {"messages": turns, "tools": [WEATHER]}
    inputs["short_id_after"] = {"messages": [m("system", "S")] + turns + after, "tools": [WEATHER]}
    inputs["short_id_without_tools"] = {"messages": turns + after}
    inputs["tools"] = {"messages": plain["system_user"], "tools": [WEATHER, CLOCK]}
    inputs["tools_in_system"] = {"messages": plain["system_user"], "tools": [CLOCK],
                                 "tools_in_user_message": False, "date_string": "1 May 2025"}
    inputs["no_thinking"] = {"messages": plain["user"], "enable_thinking": False}
    inputs["no_prompt"] = {"messages": plain["three_turns"], "add_generation_prompt": False}
    inputs["two_users"] = {"messages": [m("user", "a"), m("user", "b")]}
    inputs["parts_everywhere"] = {"messages": [
        m(role, [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
        for role in ("system", "user", "assistant", "user")]}
    return inputs


def write_families(env):
    inputs = family_inputs()
    cases = []
    for template in FAMILIES:
        with open(HERE / "templates" / f"{template}.jinja", newline="") as f:
            source = f.read()
        for name, given in inputs.items():
            cases.append({"template": template, "conversation": name, **run(env, source, given)})
    with open(HERE / "families.json", "w") as f:
        f.write('{"now": %d, "conversations": {\n' % NOW)
        f.write(",\n".join(f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}"
                           for k, v in inputs.items()))
        f.write('\n}, "cases": [\n')
        f.write(",\n".join(json.dumps(c, ensure_ascii=False) for c in cases))
        f.write("\n]}\n")
    print(f"{len(cases)} cases of {len(FAMILIES)} more families, {len(inputs)} conversations")


def snippet_cases(add):
    import snippets

    for i, entry in enumerate(snippets.SNIPPETS):
        source, given = entry if isinstance(entry, tuple) else (entry, {})
        add(f"snippet/{i}", source=source, **given)


def extract(args):
    templates = HERE / "templates"
    templates.mkdir(exist_ok=True)
    if args.gguf:
        import gguf

        field = gguf.GGUFReader(args.gguf).fields["tokenizer.chat_template"]
        text = bytes(field.parts[field.data[0]]).decode()
        (templates / "smollm2.jinja").write_text(text, newline="")
    if args.tokenizers:
        for name in ("llama3_1", "qwen3", "gemma3", "deepseek_v3"):
            config = json.loads((pathlib.Path(args.tokenizers) / name / "tokenizer_config.json").read_text())
            (templates / f"{name}.jinja").write_text(config["chat_template"], newline="")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gguf")
    parser.add_argument("--tokenizers")
    extract(parser.parse_args())
    env = environment()
    cases = []

    def add(name, template=None, source=None, **given):
        text = source
        if template:
            with open(HERE / "templates" / f"{template}.jinja", newline="") as f:
                text = f.read()
        case = {"name": name, **({"template": template} if template else {"source": source}),
                "input": given}
        case.update(run(env, text, given))
        cases.append(case)

    model_cases(add)
    snippet_cases(add)
    with open(HERE / "cases.json", "w") as f:
        f.write('{"now": %d, "jinja2": "%s", "cases": [\n' % (NOW, jinja2.__version__))
        f.write(",\n".join(json.dumps(c, ensure_ascii=False) for c in cases))
        f.write("\n]}\n")
    print(f"{len(cases)} cases")
    write_families(env)


main()
