"""Finds function bodies by counting braces: their lengths, parameters and nesting.

A compiler's tree is exact and takes minutes for this source tree; this takes seconds. It may miss a
function behind a macro, and `./dev check --tidy` asks clang-tidy.
"""

import re
from dataclasses import dataclass

TOKEN = re.compile(r"[A-Za-z_]\w*|->|::|[{}()\[\];:,=<>&]|[^\s\w]|\d[\w.']*")
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.M)
TYPE_WORDS = {"class", "struct", "union", "enum", "concept"}
BLOCK_BEFORE = {")", "else", "do", "try", ";", "{", "}", ":", "]", "mutable", "noexcept", "const"}


@dataclass
class Function:
    name: str
    first_line: int
    last_line: int
    parameters: int
    nesting: int
    body: tuple[int, int]  # offsets of its braces

    @property
    def lines(self) -> int:
        return self.last_line - self.first_line + 1


@dataclass
class _Open:
    kind: str  # namespace, type, function, block, value
    start: int  # index of the first token of its statement
    brace: int
    depth: int = 0  # deepest block below a function


def _statement_kind(words: list[str]) -> str:
    """What a brace opens at namespace or class level, from the words since the last statement."""
    if not words:
        return "namespace"
    if words[-1] in ("=", "return", ","):
        return "value"
    if "namespace" in words or (words[0] == "extern" and len(words) == 2):
        return "namespace"
    if "(" not in words or "operator" in words and "(" not in words[words.index("operator") + 2 :]:
        if any(w in TYPE_WORDS for w in words) and "=" not in words:
            return "type"
        return "value"
    first_paren = words.index("(")
    if any(w in TYPE_WORDS for w in words[:first_paren]) and words[-1] != ")" and (
        "alignas" in words or "requires" in words or "__attribute__" in words
    ):
        return "type"
    if "=" in words[:first_paren] and "operator" not in words[:first_paren]:
        return "block" if words[-1] in BLOCK_BEFORE else "value"
    # In a constructor's list of initialisers `member_{...}` is a value.
    if re.search(r"\) (?:noexcept )?: ", " ".join(words) + " ") and (
        re.match(r"\w|>", words[-1]) and words[-1] not in ("const", "noexcept", "override", "try")
    ):
        return "value"
    return "function"


def _count_parameters(words: list[str]) -> tuple[str, int]:
    start = None
    for i, word in enumerate(words):
        if word == "(" and i and re.match(r"\w", words[i - 1]) and words[i - 1] not in (
            "requires", "alignas", "decltype", "noexcept", "BATON_GUARDED_BY"
        ):
            start = i
            break
        if word == "(" and i and "operator" in words[max(0, i - 3) : i]:
            if words[i + 1 : i + 2] == [")"] and words[i + 2 : i + 3] == ["("]:
                continue
            start = i
            break
    if start is None:
        return ("", 0)
    depth = 0
    angles = 0
    commas = 0
    some = False
    for word in words[start:]:
        if word in "([{":
            depth += 1
        elif word in ")]}":
            depth -= 1
            if depth == 0:
                break
        elif depth == 1:
            some = some or word != "void"
            if word == "<":
                angles += 1
            elif word == ">":
                angles -= 1
            elif word == "," and angles <= 0:
                commas += 1
    return (words[start - 1], commas + 1 if some else 0)


def functions_of(source) -> list[Function]:
    text = DIRECTIVE.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), source.code)
    tokens = [(m.group(0), m.start()) for m in TOKEN.finditer(text)]
    found: list[Function] = []
    stack: list[_Open] = []
    begin = 0
    parens = 0
    for i, (token, _) in enumerate(tokens):
        inside = stack[-1].kind if stack else "namespace"
        if token == "{":
            if parens and inside in ("namespace", "type"):
                kind = "value"
            elif inside in ("namespace", "type"):
                kind = _statement_kind([t for t, _ in tokens[begin:i]])
            elif inside == "value":
                before = tokens[i - 1][0]
                kind = "block" if before in (")", "]", "mutable") else "value"
            else:
                before = tokens[i - 1][0]
                kind = "block" if before in BLOCK_BEFORE else "value"
                if kind == "value" and "->" in [t for t, _ in tokens[max(0, i - 8) : i]]:
                    window = [t for t, _ in tokens[max(0, i - 8) : i]]
                    tail = window[len(window) - window[::-1].index("->") :]
                    if all(re.match(r"\w|::|[<>&*,]", t) for t in tail):
                        kind = "block"  # a lambda with a trailing return type
            opened = _Open(kind, begin, i)
            stack.append(opened)
            if kind == "block":
                _note_depth(stack)
            if kind in ("namespace", "type", "function", "block"):
                begin = i + 1
        elif token == "}":
            if not stack:
                continue
            closed = stack.pop()
            if closed.kind == "function":
                words = [t for t, _ in tokens[closed.start : closed.brace]]
                name, parameters = _count_parameters(words)
                found.append(
                    Function(
                        name,
                        source.line_of(tokens[closed.start][1]),
                        source.line_of(tokens[i][1]),
                        parameters,
                        closed.depth,
                        (tokens[closed.brace][1], tokens[i][1]),
                    )
                )
            if closed.kind in ("namespace", "function", "block", "type"):
                begin = i + 1
        elif token == "(":
            parens += 1
        elif token == ")":
            parens -= 1
        elif token == ";" and parens <= 0:
            begin = i + 1
            parens = 0
        elif token == ":" and i and tokens[i - 1][0] in ("public", "private", "protected"):
            begin = i + 1
    return found


def _note_depth(stack: list[_Open]) -> None:
    for i in range(len(stack) - 1, -1, -1):
        if stack[i].kind == "function":
            blocks = sum(1 for opened in stack[i + 1 :] if opened.kind == "block")
            stack[i].depth = max(stack[i].depth, blocks)
            return
