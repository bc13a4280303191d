"""Small templates, one feature or trap each. A tuple adds what the template is given."""
M = [{"role": "system", "content": " s "}, {"role": "user", "content": "Hi <b>", "n": 1},
     {"role": "assistant", "content": None, "n": 2.5, "tags": ["x", "y"]}, {"role": "user", "content": "bye", "n": 3}]
D = {"a": 1, "b": {"c": [1, 2, {"d": "é\u2028\"'"}]}, "z": None, "items": "shadow", "e": [], "f": {}, "t": True}
G = {"messages": M, "d": D, "s": "Hello, Wörld 🌍!", "l": [3, 1, 2], "neg": -7, "big": 12345678901234567, "flo": 0.1}

WITH_G = r"""
{{ messages|length }} {{ messages[0].role }} {{ messages[-1]['content'] }} {{ messages[9] }}|{{ messages[0].nope }}
{{ messages[0].nope.deeper }}
{{ nope }}|{{ nope.deeper }}
{{ nope['x'] }}
{{ nope() }}
{{ nope + 1 }}
{{ 'a' + nope }}
{{ messages[9].role }}
{{ none.x }}|{{ (1).x }}|{{ 'abc'.x }}|{{ l.x }}
{{ none.x.y }}
{{ d.items }}
{{ d['items'] }}|{{ d.get('items') }}|{{ d.get('nope') }}|{{ d.get('nope', 3) }}
{{ d['keys'] is callable }} {{ d['nope'] is defined }}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}
{% for k, v in d|items %}{{ k }}={{ v|tojson }};{% endfor %}
{% for k in d %}{{ k }}{{ loop.index }}{% endfor %}|{% for v in d.values() %}{{ v }}{% endfor %}
{{ d.keys()|list }} {{ d.values()|list|length }}
{{ d }}
{{ d|tojson }}
{{ d|tojson(indent=2) }}
{{ d|tojson(indent=4) }}
{{ d|tojson(indent=0) }}
{{ d|tojson(separators=(',', ':')) }} {{ d|tojson(ensure_ascii=true) }} {{ d|tojson(sort_keys=true) }}
{{ d|tojson(true, 1) }}
{{ d.b.c[2].d }} {{ d.b['c'][-1]['d'] }} {{ d.b.c.0 }}
{{ [1, 'a', "it's", 'say "x"', 'both \' and "', none, true, 1.0, (1,), (), [], {}, {'k': [1]}] }}
{{ {1: 2, 1.0: 3, true: 4, 'x': 5} }} {{ {'a': 1}['a'] }} {{ {1: 'one'}|tojson }} {{ {none: 1, 1.5: 2, true: 3}|tojson }}
{{ {[1]: 2} }}
{{ {nope: 1, nope2: 2, 'a': 3} }}
{{ nope|tojson }}
{{ [nope]|tojson }} 
{{ [nope] }} {{ {'a': nope} }}
{{ 'tab\t nl\n cr\r bs\\ q\' dq" nul\x00 é \u00e9 \u2028 \U0001F30D \101 \d' }}
{{ ['tab\t nl\n cr\r bs\\ q\' dq" \x00 \x7f é \u00ad \u200b \U0001F30D \u3000'] }}
{{ 'a' 'b' "c" }} {{ 'a' ~ 1 ~ none ~ 2.50 ~ nope ~ true ~ [1] }}
{{ 1 + 2 * 3 ** 2 - 4 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 2 ** -1 }} {{ 2 ** 0.5 }}
{{ 1 / 0 }}
{{ 1 % 0 }}
{{ 1e300 * 1e10 }} {{ 1.0 }} {{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ 1.5e-7 }} {{ 123456789.123456789 }} {{ -0.0 }} {{ flo }} {{ flo + 0.2 }} {{ big }} {{ 1_000 }} {{ 0x1f }} {{ 0b101 }} {{ 0o17 }}
{{ true + 1 }} {{ true and 0 }} {{ '' or 'x' }} {{ none or false }} {{ not '' }} {{ not not 1 }} {{ 1 and 2 and 3 }} {{ 0 or '' or [] }}
{{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ - 3 }} {{ +3 }} {{ -neg|abs }} {{ neg|abs }} {{ (-neg)|string + '!' }}
{{ 'a' < 'b' }} {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ '1' == 1 }} {{ [1,2] == [1,2] }} {{ (1,2) == [1,2] }} {{ {'a':1,'b':2} == {'b':2,'a':1} }} {{ none == false }} {{ nope == nope2 }} {{ [1,2] < [1,3] }}
{{ 1 < 'a' }}
{{ none < 1 }}
{{ nope < 1 }}
{{ 'ell' in s }} {{ 'x' not in s }} {{ 3 in l }} {{ 'a' in d }} {{ 'b' in nope }} {{ nope in l }} {{ '' in '' }} {{ not 3 in l }}
{{ 1 in 'abc' }}
{{ 1 in none }}
{{ [1] in d }}
{{ s[0] }} {{ s[-1] }} {{ s[7:12] }} {{ s[::-1] }} {{ s[-3:] }} {{ s[::2] }} {{ s[10:2:-2] }} {{ s[100:] }} {{ s[:-100] }}| {{ s[99] }}| {{ l[::-1] }} {{ l[1:] }} {{ l[:1] }} {{ l[-2:] }} {{ l[5:] }} {{ (1,2,3)[1:] }} {{ l[none:2] }} {{ l[true] }}
{{ l[::0] }}
{{ l['a':] }}
{{ messages[2].content[1:] }}
{{ nope[1:] }}
{{ d[1:] }}
{{ s|length }} {{ l|length }} {{ d|length }} {{ nope|length }} {{ ''|count }}
{{ none|length }}
{{ 1|length }}
{{ s|upper }} {{ s|lower }} {{ 'ß ŉ ǆ İ ΑΣ'|upper }} {{ 'ÀÉ ǅ'|lower }} {{ s|title }} {{ "foo-bar (baz) it's"|title }} {{ 'hELLO wORLD'|capitalize }} {{ 'ǆabc'|capitalize }} {{ none|upper }} {{ nope|upper }} {{ 1.5|string + 'x' }}
{{ '  x '|trim }}| {{ 'xxaxx'|trim('x') }}| {{ '\u00a0\u3000a\u2003'|trim }}| {{ none|trim }} {{ nope|trim }}| {{ 'ab'|trim(none) }}
{{ 'aXbXc'|replace('X', '-') }} {{ 'aXbXc'|replace('X', '-', 1) }} {{ 'abc'|replace('', '-') }} {{ 'abc'|replace('', '-', 2) }} {{ 12321|replace(2, 'x') }} {{ 'é'|replace('', '.') }}
{{ l|join }} {{ l|join(', ') }} {{ l|join(0) }} {{ messages|join('; ', attribute='role') }} {{ 'abc'|join('-') }} {{ nope|join(',') }} {{ d|join(',') }} {{ [none, nope, 1.0]|join('|') }}
{{ none|join }}
{{ l|first }} {{ l|last }} {{ []|first }}| {{ 'abc'|first }}{{ 'abc'|last }} {{ d|first }} {{ d|last }} {{ nope|first }}| {{ nope|last }}|
{{ ([]|first).x }}
{{ none|first }}
{{ l|sort }} {{ l|sort(reverse=true) }} {{ ['b','A','c']|sort }} {{ ['b','A','c']|sort(case_sensitive=true) }} {{ messages|selectattr('n', 'defined')|sort(attribute='n', reverse=true)|map(attribute='n')|list }}
{{ [1, 'a']|sort }}
{{ l|reverse|list }} {{ 'añb'|reverse }} {{ l|list }} {{ 'añb'|list }} {{ d|list }} {{ nope|list }} {{ (1,2)|list }}
{{ 3|list }}
{{ l|sum }} {{ l|min }} {{ l|max }} {{ messages|sum(attribute='n', start=1) }} {{ ['b','A']|min }} {{ []|max }}| {{ l|sum(start=0.5) }}
{{ messages|selectattr('n', 'defined')|sum(attribute='n') }}
{{ [1,1,2,'a','A',1.0,true]|unique|list }} {{ ['a','A']|unique(true)|list }} {{ {'b':1,'A':2,'c':0}|dictsort }} {{ {'b':1,'A':2}|dictsort(true) }} {{ {'b':1,'A':2}|dictsort(by='value', reverse=true) }}
{{ range(7)|batch(3)|list }} {{ range(7)|batch(3, 'x')|list }} {{ range(3)|list }} {{ range(2, 9, 3)|list }} {{ range(5, 0, -2)|list }} {{ range(0)|list }}
{{ range(100001)|list }}
{{ range(0, 5, 0)|list }}
{{ messages|map(attribute='role')|list }} {{ messages|map(attribute='zzz')|list }} {{ messages|map(attribute='zzz', default='q')|list }} {{ l|map('string')|join('+') }} {{ ['a ', ' b']|map('trim')|list }} {{ messages|map(attribute='tags.1')|list }} {{ l|map('default', 3)|list }} {{ [[1,2],[3]]|map('first')|list }} {{ [[1,2],[3]]|map(attribute=0)|list }}
{{ [nope]|map(attribute='a')|list }}
{{ messages|selectattr('role', 'equalto', 'user')|list|length }} {{ messages|rejectattr('role', 'eq', 'user')|map(attribute='role')|join(' ') }} {{ messages|selectattr('content')|list|length }} {{ l|select('odd')|list }} {{ l|reject('equalto', 1)|list }} {{ [0,1,'',2]|select|list }} {{ l|select('gt', 1)|list }} {{ l|select('>', 1)|list }} {{ l|reject('in', [1,2])|list }} {{ none|select|list }}
{{ messages|selectattr }}
{% if messages|selectattr('role', 'eq', 'nobody') %}truthy{% endif %}
{{ (messages|map(attribute='role'))|length }}
{{ (messages|map(attribute='role'))[0] }}|{{ messages|map(attribute='role')|first }}|{{ messages|map(attribute='role')|last }}
{% set g = l|map('string') %}{{ g|list }}{{ g|list }}{{ 'x' in g }}{% set h = l|map('string') %}{{ '1' in h }}{{ h|list }}{% for x in h %}{{ x }}{% endfor %}
{% for x in l|map('string') %}{{ loop.length }}{{ loop.last }}{{ x }}{% endfor %}
{{ l|reverse }}{# an iterator prints its address #}{% if false %}{% endif %}
{{ nope|default('dflt') }} {{ ''|default('x') }}| {{ ''|default('x', true) }} {{ none|default('x') }} {{ none|d('x', boolean=true) }} {{ d.q|d }}| {{ d.q.r|default('x') }}
{{ '42'|int }} {{ '4x'|int }} {{ '4x'|int(7) }} {{ '42.9'|int }} {{ 3.99|int }} {{ -3.99|int }} {{ true|int }} {{ none|int(5) }} {{ 'ff'|int(base=16) }} {{ ' 12 '|int }} {{ '1.5'|float }} {{ 'x'|float }} {{ 'x'|float(2.5) }} {{ 3|float }} {{ '1e3'|float }}
{{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 42.55|round(1, 'floor') }} {{ 42.41|round(1, 'ceil') }} {{ 42|round }} {{ 1e20|round(2) }} {{ -0.5|round }}
{{ 'a\nb\n\nc'|indent }}| {{ 'a\nb\n\nc'|indent(2, true) }}| {{ 'a\nb\n\nc'|indent('> ', blank=true) }}| {{ ''|indent }}| {{ 'a\n'|indent }}|
{{ 'abc'|center(9) }}| {{ 'abcd'|center(9) }}| {{ '<a href="x">&\'</a>'|escape }} {{ '<b>'|safe }} {{ '<'|e }} 
{{ s.startswith('Hello') }} {{ s.endswith('!') }} {{ s.startswith(('x', 'H')) }} {{ s.upper() }} {{ s.lower() }} {{ s.title() }} {{ "they're bill's".title() }} {{ s.capitalize() }} {{ s.find('W') }} {{ s.find('zz') }} {{ s.count('l') }} {{ s.count('') }} {{ s.index('W') }} {{ s.rfind('l') }} {{ s.replace('l', 'L', 1) }} {{ '-'.join(['a','b']) }} {{ s.removeprefix('Hello') }} {{ s.removesuffix('!') }}
{{ 'a,b,,c'.split(',') }} {{ ' a  b\tc '.split() }} {{ 'a b c d'.split(' ', 2) }} {{ ' a  b  c '.split(none, 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b  c '.rsplit(none, 1) }} {{ 'abc'.split('x') }} {{ ''.split() }} {{ ''.split(',') }} {{ 'a\nb\r\nc\x0bd\u2028e'.splitlines() }} {{ 'a\nb\n'.splitlines(true) }} {{ 'a,b,c'.split(',', maxsplit=1) }}
{{ 'abc'.split('') }}
{{ '  x '.strip() }}| {{ '  x '.lstrip() }}| {{ '  x '.rstrip() }}| {{ 'xyaxy'.strip('xy') }} {{ 'xyaxy'.lstrip('yx') }} {{ '\n\nx\n'.lstrip('\n') }}| {{ 'éaé'.strip('é') }}
{{ 'abc'.isalpha() }} {{ '12'.isdigit() }} {{ ''.isdigit() }} {{ 'a1'.isalnum() }} {{ ' \t'.isspace() }} {{ 'abc'.islower() }} {{ 'ABC1'.isupper() }} {{ 'Éa'.islower() }} {{ '1'.islower() }}
{{ l.index(1) }} {{ l.count(3) }} {{ (1,2).index(2) }}
{{ l.index(99) }}
{{ l.append(4) }}
{{ d.update({'x': 1}) }}
{{ d.pop('a') }}
{{ s.nope() }}
{{ l() }}
{{ s() }}
{{ ''.__class__ }}|{{ d.__class__ }}|{{ l['__len__'] }}
{{ ''.__class__.__mro__ }}
{{ s is string }} {{ 1 is number }} {{ 1.5 is number }} {{ true is number }} {{ 1 is integer }} {{ true is integer }} {{ 1.0 is float }} {{ d is mapping }} {{ l is mapping }} {{ l is sequence }} {{ s is sequence }} {{ d is sequence }} {{ l is iterable }} {{ 1 is iterable }} {{ s is iterable }} {{ nope is iterable }} {{ none is none }} {{ nope is none }} {{ nope is undefined }} {{ d.a is defined }} {{ d.q is not defined }} {{ true is boolean }} {{ true is true }} {{ 1 is true }} {{ false is false }}
{{ 3 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(4) }} {{ 1 is eq 1 }} {{ 1 is equalto(2) }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 2 is ge 2 }} {{ 2 is greaterthan 1 }} {{ 1 is in [1] }} {{ 1 is in([2]) }} {{ none is sameas none }} {{ 1 is sameas true }} {{ 'abc' is lower }} {{ 'ABC' is upper }} {{ raise_exception is callable }} {{ s is callable }} {{ 'upper' is filter }} {{ 'odd' is test }}
{{ not s is string }} {{ s is not string }} {{ s is string and l is sequence }} {{ s is string or nope.x }} {{ s is defined is string }}
{{ 1 if true else 2 }} {{ 1 if false else 2 }} {{ 1 if false }}| {{ 1 if false else 2 if false else 3 }} {{ ('a' if d.a else 'b') ~ 'c' }} {{ nope.x if false else 'lazy' }}
{{ (1 if false) + 1 }}
{% if nope %}a{% elif d.a == 2 %}b{% elif d.a == 1 %}c{% else %}d{% endif %}
{% if [] %}x{% elif {} %}y{% else %}z{% endif %}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.depth }}{{ loop.depth0 }}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }};{% endfor %}
{% for x in [] %}a{% else %}empty{% endfor %}{% for x in nope %}a{% else %}undef{% endfor %}{% for x in l %}a{% else %}b{% endfor %}
{% for x in l %}{{ x }}{% break %}{% else %}else{% endfor %}{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{% else %}else{% endfor %}{% for x in l %}{% continue %}{% else %}else{% endfor %}
{% for x in none %}a{% endfor %}
{% filter length %}abc{% endfilter %}
{% for x in 3 %}a{% endfor %}
{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}={{ x }} {% endfor %}
{% for x in l if x > 9 %}a{% else %}none{% endfor %}
{% for a, b in [(1, 2), [3, 4], 'xy'] %}{{ a }}{{ b }};{% endfor %}{% for (a, (b, c)) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}
{% for a, b in [1] %}{{ a }}{% endfor %}
{% for c in 'añ🌍' %}[{{ c }}]{% endfor %}
{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in l %}{% for y in l %}{% if y == x %}{% break %}{% endif %}{{ x }}{{ y }}{{ loop.index }} {% endfor %}{{ loop.index }}|{% endfor %}
{% set x = 1 %}{% for i in l %}{{ x }}{% set x = x + i %}{{ x }};{% endfor %}{{ x }}
{% set ns = namespace(n=0, s='') %}{% for i in l %}{% set ns.n = ns.n + i %}{% set ns.s = ns.s ~ i %}{% endfor %}{{ ns.n }}{{ ns.s }}{{ ns.q }}|{{ ns['n'] }}
{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{% set ns.c = ns.a %}{{ ns.c }}
{% set ns = namespace() %}{% set ns.x %}block {{ s }}{% endset %}{{ ns.x }}
{% set d.a = 2 %}{{ d.a }}
{% set nope.a = 2 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set t = 1, 2 %}{{ t }}{% set (p, q) = 'xy' %}{{ p }}{{ q }}{% set u = 1, %}{{ u }}
{% set x %}a{{ 1 }}b{% endset %}[{{ x }}]{% set y | upper | replace('A', 'Z') %}a{{ 1 }}b{% endset %}[{{ y }}]
{% if true %}{% set inner = 1 %}{% endif %}{{ inner }}{% for i in [1] %}{% set inner = 2 %}{% endfor %}{{ inner }}{% with %}{% set inner = 3 %}{% endwith %}{{ inner }}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}|{% set a = 5 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}
{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c=4) }}{{ m() }}{{ m(b=9, a=8) }}{{ m(*[1, 2]) }}{{ m(**{'a': 5}) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(x=2) }}
{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k=4) }}{{ m() }}
{% macro w(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call w('b') %}in {{ s }}{% endcall %}
{% macro w() %}{{ caller(1, 2) }}{{ caller(3, b=4) }}{% endmacro %}{% call(a, b) w() %}[{{ a }}-{{ b }}]{% endcall %}
{% macro w() %}x{% endmacro %}{% call w() %}y{% endcall %}
{% macro w() %}{{ caller is defined }}{% endmacro %}{{ w() }}
{% set x = 1 %}{% macro m() %}{{ x }}{% set x = 5 %}{% endmacro %}{% set x = 2 %}{{ m() }}{{ x }}{{ m()|length }}
{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}
{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}late{% endmacro %}{{ a() }}
{% for i in l %}{% macro q() %}{{ i }}{% endmacro %}{{ q() }}{% endfor %}
{% filter upper %}abc {{ s }}{% endfilter %}{% filter replace('a', 'b')|title %}a cat{% endfilter %}
{% generation %}gen {{ s }}{% set v = 1 %}{% endgeneration %}{{ v }}|
{% raw %}{{ not }} {% evaluated %}{# at all #}{% endraw %}
a {%- raw -%} x {{ y }} {%- endraw -%} b
{{ raise_exception('stop: ' ~ s) }}
{{ raise_exception() }}
{% if false %}{{ raise_exception('no') }}{% endif %}fine
{{ strftime_now('%d %b %Y') }} {{ strftime_now('%Y-%m-%d %H:%M:%S %A %a %B %j %y %p %I %%') }} {{ strftime_now("%-d") }}
{{ dict(a=1, b=2) }} {{ dict({'x': 1}, y=2) }} {{ dict() }}
{{ (1, 2) + (3,) }} {{ [1] + [2] }} {{ 'ab' * 3 }} {{ [1] * 2 }} {{ 2 * 'x' }} {{ [1] * -1 }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ [1] + (2,) }}
{{ none + 1 }}
{{ -s }}
{{ messages[0]['content'] | trim + '|' + messages[1]['content'] }}
{{ d.a + d['a'] * 2 ~ 'x' }} {{ 1 ~ 2 + 3 }} {{ (1 ~ 2) + '3' }} {{ 1 ~ 2 * 3 }}
{{ messages[0].content.strip().upper()[0] }} {{ (s|upper)[0] }} {{ s|upper|first }} {{ s[0]|upper }}
{{ loop }}
{{ messages[loop.index0] }}
{% for m in messages %}{% if not loop.first and loop.previtem.role != m.role %}change {% endif %}{{ m.role }} {% endfor %}
{% for m in messages -%}   {{ m.role }}   {%- endfor %}
{%- for m in messages +%} {{ m.role }} {%+ endfor -%}   tail
{{- 'x' -}}   y   {{- 'z' }}
{# comment #}a{#- b -#}  c  {# d +#}
{{ "a" if s else "b" if l else "c" }}{{ [x for x in l] }}
{{ l | sort | first | string | length }}
{{ (messages | selectattr('role', 'equalto', 'user') | list)[-1].content }}
{{ messages|selectattr('role','equalto','user')|map(attribute='content')|join(' / ')|upper }}
{{ foo.bar is defined }}
{{ d.foo.bar is defined }}
{{ s.split(' ')[-1].lstrip('W').rstrip('!') }} {{ s.split('o')|length }} {{ s.split(', ')[1][0] }}
{{ 1.0 == 1 }}{{ 1 != 1.0 }}{{ 0.1 + 0.2 == 0.3 }}{{ 10 // 3 * 3 + 10 % 3 }}{{ 1 - -1 }}{{ 5 - 3 - 1 }}{{ 8 / 4 / 2 }}
{{ 'é' > 'z' }} {{ 'Z' < 'a' }} {{ [] < [1] }} {{ (1, 'a') < (1, 'b') }} {{ true > false }} {{ 'a' <= 'a' }} {{ 2 >= 3 }}
"""

WHITESPACE = [
    "a\n  {% if true %}  \n  b\n  {% endif %}\nc\n", "{% if true %}\n\nx\n{% endif %}\n\n", "  {{ 1 }}  \n  {# c #}  \nx",
    "a\r\nb\rc\n{% if 1 %}\r\nx{% endif %}\r\n", "x {% if 1 %} y {% endif %} z", "\t{% if 1 %}\n\t\tA\n\t{% endif %}",
    "  {%+ if true %}x{% endif %}", "{% if true +%}\nx{% endif %}", "{%- if true -%}\n\n x \n\n{%- endif -%}\n\n y",
    "a\n\n   {%- if true %} b{% endif %}", "{{ 'x' }}\n{{ 'y' }}\n", "{{ 'x' -}}\n\n  {{- 'y' }}", "\n\n\n", "", " ", "\n", "a\n\n",
    "   {% raw %}   {{ x }}   {% endraw %}   \n z", "x\n   {% raw %}\n  y  \n  {% endraw %}\nz", "{#\n multi\n line\n#}\nx", "  {#- c -#}  x",
    "{% set x = 1 %}  \n{{ x }}", "{% set x %}\n  a\n{% endset %}{{ x }}|", "a {#- b #} c", "a\u00a0{%- if 1 -%}\u2003b{% endif %}",
    "line1\n    {%- set a = 1 %}\n    line2\n", "{% for i in [1,2] %}\n  {{ i }}\n{% endfor %}\n", "{{ '{{' }} {{ '%}' }} {{ \"}}\" }} {{ {'a': {'b': 1}} }}",
    "{%if true%}a{%endif%}{{1}}{#c#}", "{% if true %}{% endif %}\n\n", "{ { } % {%% ", "{{ 1 }", "#} %} }}",
]

BROKEN = [
    "{% if x %}", "{{ x", "{% endif %}", "{{ }}", "{% for x %}{% endfor %}", "{% for x in %}{% endfor %}", "{{ 1 + }}", "{{ (1 }}", "{{ 1) }}",
    "{{ [1, 2 }}", "{{ {1: } }}", "{{ 'abc }}", "{{ x| }}", "{{ x is }}", "{{ a b }}", "{{ a.1b }}", "{% set 1 = 2 %}", "{% set none = 2 %}",
    "{# unclosed", "{% raw %}unclosed", "{% unknown %}", "{% break %}", "{{ f(a=1, 2) }}", "{{ f(**a, *b) }}", "{% macro m(a=1, b) %}{% endmacro %}",
    "{{ x|nofilter }}", "{{ x is notest }}", "{{ 1 ? 2 }}", "{{ a ! b }}", "{% if %}{% endif %}", "{% else %}", "{% set x = %}", "{{ x[ }}", "{{ x[1:2 }}",
    "{% call x %}{% endcall %}", "{{ '\\x4' }}", "{{ 010 }}", "{% for a.b in [1] %}{% endfor %}", "{{ (1, 2 }}", "{{ a = 1 }}", "{% endfor %}",
    "{{ not }}", "{{ 1 if }}", "{{ x is divisibleby }}", "{% if 1 %}{% else %}{% elif 2 %}{% endif %}", "{{ $ }}", "{{ a..b }}", "{{ .a }}", "{% %}",
]

SNIPPETS = [(line, G) for line in WITH_G.strip("\n").split("\n")] + WHITESPACE + BROKEN
