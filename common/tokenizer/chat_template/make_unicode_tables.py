#!/usr/bin/env python3
"""Writes unicode_tables.cc: case mappings and the ranges that repr() escapes, as this Python has them.

usage: make_unicode_tables.py > unicode_tables.cc
"""
import sys
import unicodedata


def runs(points):
    out = []
    for p in points:
        if out and out[-1][1] + 1 == p:
            out[-1][1] = p
        else:
            out.append([p, p])
    return out


def case_runs(mapping):
    """[(first, last, step, delta)] over code points with the same delta, 1 or 2 apart."""
    out = []
    for p, q in sorted(mapping.items()):
        d = q - p
        if out:
            first, last, step, delta = out[-1]
            gap = p - last
            if delta == d and gap in (1, 2) and (first == last or gap == step):
                out[-1] = (first, p, gap, delta)
                continue
        out.append((p, p, 1, d))
    return out


def emit(name, kind, rows):
    print(f"const {kind} {name}[] = {{")
    line = "   "
    for row in rows:
        item = " {" + ", ".join(row) + "},"
        if len(line) + len(item) > 98:
            print(line)
            line = "   "
        line += item
    print(line)
    print("};")
    print(f"const size_t {name}Size = {len(rows)};")
    print()


def main():
    every = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    lower, upper, special = {}, {}, []
    for c in every:
        s = chr(c)
        if len(s.lower()) == 1 and s.lower() != s:
            lower[c] = ord(s.lower())
        if len(s.upper()) == 1 and s.upper() != s:
            upper[c] = ord(s.upper())
        # Rare: several code points, or a title form of its own (capitalize uses it).
        if len(s.lower()) > 1 or len(s.upper()) > 1 or s.title() != s.upper():
            special.append((c, s.lower(), s.upper(), s.title()))
    print("// clang-format off")
    print("// Made by make_unicode_tables.py, Unicode " + unicodedata.unidata_version + ".")
    print('#include "common/tokenizer/chat_template/unicode_tables.h"')
    print()
    print("namespace baton::chat_template {")
    print()
    emit("kLowerRuns", "CaseRun", [(hex(a), hex(b), str(s), str(d)) for a, b, s, d in case_runs(lower)])
    emit("kUpperRuns", "CaseRun", [(hex(a), hex(b), str(s), str(d)) for a, b, s, d in case_runs(upper)])
    quote = lambda s: '"' + "".join(f"\\x{b:02x}" for b in s.encode()) + '"'
    emit("kSpecialCases", "SpecialCase",
         [(hex(c), quote(l), quote(u), quote(t)) for c, l, u, t in special])
    hidden = [c for c in range(0x110000) if not chr(c).isprintable()]
    emit("kUnprintable", "CodePointRange", [(hex(a), hex(b)) for a, b in runs(hidden)])
    print("}  // namespace baton::chat_template")


main()
