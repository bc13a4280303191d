"""What must hold of every answer, whatever was asked."""

import json

from wire import Wrong

ERROR_FIELDS = {"message", "type", "param", "code"}
FINISHES = {"stop", "length", "tool_calls", "function_call"}
CONTENT = {"text_completion": "text", "chat.completion": "message", "chat.completion.chunk": "delta"}
# What a server may say of input. 501 and 505 are HTTP's words for a transfer coding and a version
# that are not understood; those cases ask for them by name.
OF_INPUT = {400, 401, 404, 405, 408, 413, 414, 415, 417, 431}
OF_CAPACITY = {429, 503}


def strict_json(data):
    def refuse(name):
        raise Wrong(f"{name} in JSON")

    def once(pairs):
        if len({key for key, _ in pairs}) != len(pairs):
            raise Wrong(f"a member comes twice: {[key for key, _ in pairs]}")
        return dict(pairs)
    try:
        return json.loads(data.decode("utf-8"), parse_constant=refuse, object_pairs_hook=once)
    except ValueError as error:
        raise Wrong(f"not JSON ({error}): {data[:300]!r}") from None


def check_error(value):
    if not isinstance(value, dict) or set(value) != {"error"} or not isinstance(value["error"], dict):
        raise Wrong(f"not an error object: {value!r}")
    error = value["error"]
    if set(error) != ERROR_FIELDS:
        raise Wrong(f"an error with other members: {error!r}")
    for name in ("message", "type"):
        if not isinstance(error[name], str) or not error[name]:
            raise Wrong(f"'{name}' of an error: {error!r}")
    for name in ("param", "code"):
        if error[name] is not None and (not isinstance(error[name], str) or not error[name]):
            raise Wrong(f"'{name}' of an error: {error!r}")
    if len(error["message"]) > 1003:
        raise Wrong(f"a message of {len(error['message'])} characters: {error['message'][:200]!r}")
    return error


def _check_choice(choice, kind, last):
    if not isinstance(choice.get("index"), int) or choice["index"] < 0:
        raise Wrong(f"index of a choice: {choice!r}")
    finish = choice["finish_reason"]
    if finish not in FINISHES and (last or finish is not None):
        raise Wrong(f"finish_reason {finish!r}")
    wanted = CONTENT.get(kind)
    if wanted is None or wanted not in choice or "logprobs" not in choice:
        raise Wrong(f"a choice without {wanted} or logprobs: {choice!r}")


def check_completion(value, kind):
    if value.get("object") != kind:
        raise Wrong(f"object {value.get('object')!r} instead of {kind}")
    choices = value["choices"]
    for choice in choices:
        _check_choice(choice, kind, True)
    if [choice["index"] for choice in choices] != list(range(len(choices))) or not choices:
        raise Wrong(f"indexes of choices: {[choice['index'] for choice in choices]}")
    check_usage(value["usage"])


def check_usage(usage):
    if usage["total_tokens"] != usage["prompt_tokens"] + usage["completion_tokens"]:
        raise Wrong(f"usage does not add up: {usage}")


def check_stream(data, kind):
    """Events; every choice ends once; an error may end a stream, but not one of our own making."""
    events = data.split(b"\n\n")
    if events[-1] != b"" or events[-2:-1] != [b"data: [DONE]"]:
        raise Wrong(f"a stream that ends with {data[-200:]!r}")
    ended = set()
    for event in events[:-2]:
        if not event.startswith(b"data: ") or b"\n" in event or b"\r" in event:
            raise Wrong(f"not an event: {event[:300]!r}")
        value = strict_json(event[6:])
        if "error" in value:
            error = check_error(value)
            if error["type"] in ("internal_error", "worker_crashed_error"):
                raise Wrong(f"a stream ended with {error!r}")
            return
        if kind and value["object"] != kind:
            raise Wrong(f"object {value['object']!r} instead of {kind}")
        for choice in value["choices"]:
            _check_choice(choice, value["object"], False)
            if choice["index"] in ended:
                raise Wrong(f"choice {choice['index']} goes on after its end")
            if choice["finish_reason"] is not None:
                ended.add(choice["index"])
        if value.get("usage"):
            check_usage(value["usage"])
    if not ended:
        raise Wrong("a stream without the end of a choice")


def _add_delta(choice, delta):
    for name in ("text", "content", "reasoning_content"):
        choice[name] = choice.get(name, "") + (delta.get(name) or "")
    calls = choice.setdefault("calls", {})
    for call in delta.get("tool_calls") or []:
        known = calls.setdefault(call.get("index", len(calls)), ["", ""])
        known[0] += call["function"].get("name") or ""
        known[1] += call["function"].get("arguments") or ""
    if delta.get("function_call"):
        known = calls.setdefault(0, ["", ""])
        known[0] += delta["function_call"].get("name") or ""
        known[1] += delta["function_call"].get("arguments") or ""
    choice["ids"] = choice.get("ids", []) + (delta.get("token_ids") or [])


def content_of(answer):
    """Index -> what a client has of a choice in the end, streamed or not."""
    if answer.fields.get("content-type", "").startswith("text/event-stream"):
        values = [strict_json(event[6:]) for event in answer.body.split(b"\n\n")[:-2]]
    else:
        values = [strict_json(answer.body)]
    choices = {}
    for value in values:
        if "error" in value:
            return {"error": value["error"]["message"]}
        for part in value["choices"]:
            choice = choices.setdefault(part["index"], {"finish": None})
            _add_delta(choice, {**part, **part.get("message", {}), **part.get("delta", {})})
            choice["finish"] = part["finish_reason"] or choice["finish"]
    return choices


def check_same(whole, streamed):
    """The same request gives the same, at once and in pieces."""
    if whole.status == 400 and streamed.status == 200:
        # A request whose own rules leave no token after some that there were.
        told = strict_json(whole.body)["error"]["message"]
        if content_of(streamed) != {"error": told}:
            raise Wrong(f"at once {told!r}, streamed {content_of(streamed)!r}")
    elif whole.status != streamed.status:
        raise Wrong(f"{whole.status} at once and {streamed.status} streamed")
    elif whole.status == 200 and (a := content_of(whole)) != (b := content_of(streamed)):
        raise Wrong(f"at once {a!r}, streamed {b!r}")


def check_answer(answer, expect):
    """Raises Wrong; returns the error of a refusal, else None."""
    status = answer.status
    if "date" not in answer.fields or "x-request-id" not in answer.fields:
        raise Wrong(f"an answer without Date or x-request-id: {answer.fields}")
    if expect.identity is not None and answer.fields["x-request-id"] != expect.identity:
        raise Wrong(f"x-request-id {answer.fields['x-request-id']!r} instead of {expect.identity!r}")
    allowed = expect.statuses if expect.statuses is not None else {200, 204} | OF_INPUT
    if status not in allowed and status not in OF_CAPACITY:
        raise Wrong(f"status {status} is not one of {sorted(allowed)}: {answer.body[:400]!r}")
    if status in OF_CAPACITY and "retry-after" not in answer.fields:
        raise Wrong(f"{status} without Retry-After")
    if expect.closes and not answer.closes and status >= 400:
        raise Wrong(f"{status}, and the connection is said to go on")
    if expect.method == "HEAD" or status == 204:
        return None
    kind = answer.fields.get("content-type", "")
    if status >= 400:
        if kind != "application/json":
            raise Wrong(f"an error of type {kind!r}")
        error = check_error(strict_json(answer.body))
        # What is wrong inside a field is told as field.member or field[index].
        if expect.param is not None and status not in OF_CAPACITY and not (
                error["param"] or "").startswith(expect.param):
            raise Wrong(f"param {error['param']!r} instead of {expect.param!r}: {error['message']}")
        return error
    if kind.startswith("text/event-stream"):
        check_stream(answer.body, expect.object + (".chunk" if expect.object == "chat.completion" else ""))
    elif kind == "application/json":
        value = strict_json(answer.body)
        if expect.object:
            check_completion(value, expect.object)
    elif not kind.startswith("text/plain"):
        raise Wrong(f"content type {kind!r}")
    return None
