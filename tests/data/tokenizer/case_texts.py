"""The texts of the oracle cases: fixed lists and seeded random ones."""

import itertools
import random

# After the test strings of llama.cpp's vocabularies (models/ggml-vocab-*.gguf.inp), extended.
CLASSIC = [
    "", " ", "  ", "   ", "    ", "\t", "\n", "\n\n", "\n\n\n", "\t\n", "\r\n", "\r\n\r\n", "\r",
    "ied 4 ½ months", "Äpfel", "Hello world", " Hello world", "Hello World", " Hello World",
    " Hello World!", "Hello, world!", " Hello, world!", " this is 🦙.cpp", "w048 7tuijk dsdfhu",
    "нещо на Български",
    "កាន់តែពិសេសអាចខលចេញ",
    "🚀 (normal) 😶‍🌫️ (multiple emojis concatenated) ✅ (only emoji that has its own token)",
    "Hello", " Hello", "  Hello", "   Hello", "    Hello", "    Hello\n    Hello", " (", "\n =",
    "' era", "Hello, y'all! How are you 😁 ?我想在apple工作1314151天～", "!!!!!!", "3", "33", "333",
    "3333", "33333", "333333", "3333333", "33333333", "333333333", "Cửa Việt", " Việt", " discards",
    "\n \n\n \n\n\n \t \t\t \t\n  \n   \n    \n     \n🚀 (normal) 😶‍🌫️ (multiple emojis concatenated)"
    " ✅ 🦙🦙 3 33 333 3333 33333 333333 3333333 33333333 3.3 3..3 3...3 កាន់តែពិសេសអាច😁 ?我想在"
    "apple工作1314151天～ ------======= нещо на Български ''''''```````\"\"\"\"......!!!!!!?????? "
    "I've been 'told he's there, 'RE you sure? 'M not sure I'll make it, 'D you like some tea? "
    "We'Ve a'lL",
]

# The first article of the Universal Declaration of Human Rights and everyday sentences.
LANGUAGES = [
    "All human beings are born free and equal in dignity and rights.",
    "Tous les êtres humains naissent libres et égaux en dignité et en droits.",
    "Alle Menschen sind frei und gleich an Würde und Rechten geboren; Straße, Fußgänger.",
    "Todos los seres humanos nacen libres e iguales en dignidad y derechos. ¿Qué? ¡Sí!",
    "Todos os seres humanos nascem livres e iguais em dignidade e em direitos. Coração.",
    "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw.",
    "Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a práv. Příliš žluťoučký kůň.",
    "Minden emberi lény szabadon születik és egyenlő méltósága és joga van. Árvíztűrő tükörfúrógép.",
    "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. İIıi ŞşĞğ.",
    "Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền lợi.",
    "Все люди рождаются свободными и равными в своем достоинстве и правах. Ёлка.",
    "Всі люди народжуються вільними і рівними у своїй гідності та правах. Їжак.",
    "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
    "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. שָׁלוֹם",
    "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق. السَّلَامُ عَلَيْكُمْ ١٢٣٤٥",
    "تمام افراد بشر آزاد زاده می‌شوند و از لحاظ حیثیت و کرامت و حقوق با هم برابرند. ۱۲۳",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। १२३",
    "সমস্ত মানুষ স্বাধীনভাবে সমান মর্যাদা এবং অধিকার নিয়ে জন্মগ্রহণ করে। ১২৩",
    "மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்.",
    "ప్రతిపత్తిస్వత్వముల విషయమున మానవులెల్లరును జన్మతః స్వతంత్రులును సమానులును నగుదురు.",
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ๑๒๓",
    "ມະນຸດເກີດມາມີສິດເສລີພາບ ແລະສະເໝີໜ້າກັນ",
    "မြန်မာဘာသာ လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့် ၁၂၃",
    "ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით.",
    "Բոլոր մարդիկ ծնվում են ազատ ու հավասար իրենց արժանապատվությամբ ու իրավունքներով։",
    "ሰው ሁሉ ነጻና እኩል ክብርና መብት ያለው ሆኖ ይወለዳል። ፩፪፫",
    "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心。一二三〇",
    "人人生而自由,在尊嚴和權利上一律平等。㈠㊀①⑳",
    "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。カタカナ",
    "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 한글 자모",
    "Бүх хүн төрөлхөөсөө эрх чөлөөтэй. ᠮᠣᠩᠭᠣᠯ",
    "བོད་ཡིག འགྲོ་བ་མི་རིགས་ ༡༢༣",
    "ᏣᎳᎩ ꮳꮃꭹ ᐃᓄᒃᑎᑐᑦ ⵜⵉⴼⵉⵏⴰⵖ ߒߞߏ ߁߂߃ 𐍈𐌿𐍄 𝒜𝓁𝑔𝑒𝒷𝓇𝒶 𝟏𝟐𝟑 𐐀𐐨",
]

CODE = [
    "def f(x):\n    return x ** 2  # square\n",
    "for (int i = 0; i < n; ++i) {\n\tsum += a[i]*b[i];\n}\n\n",
    "#include <vector>\r\n\r\nint main() { return 0; }\r\n",
    "SELECT * FROM t WHERE a='b''c' AND d<>1e-3;",
    '{"key": [1, 2.5, null, true], "s": "\\u00e9\\n"}',
    "if x:\n        y()\n\n\n    else:\n\tz()\n",
    "https://example.com/path?q=1&r=%20#frag user@example.org 192.168.0.1 2001:db8::1",
    "\\begin{equation} E = mc^2 \\end{equation}",
    "a_b-c.d/e\\f|g~h`i@j#k$l%m^n&o*p(q)r+s=t{u}v[w]x:y;z\"A'B<C>D,E?F!",
    "   \n\t  x = 0x1F;   \n  \n",
    "<div class=\"a\">&nbsp;</div><!-- c -->",
    "1,234,567.89 12:34:56 2024-02-29 +49(30)123-456 3.14159265358979 1e10 0b1010 ½¾ ²³ Ⅳ",
]

EMOJI = [
    "👩‍👩‍👧‍👦", "👨🏽‍💻", "🏳️‍🌈", "🇩🇪🇫🇷", "❤️‍🔥", "1️⃣2️⃣", "🧑🏿‍🤝‍🧑🏻", "☺️☺", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "😀😀😀", "🫠🫡",
    "👍🏻👍🏼👍🏽👍🏾👍🏿", "\u200d", "\ufe0f", "a\u200db", "💩!", " 💩 ", "💩1", "💩a",
]

MARKS = [
    "e\u0301", "cafe\u0301 ", "n\u0303o", "a\u0308\u0304", "\u0301", " \u0301", "1\u0301", "\u0301a",
    "Z\u0351\u036b\u0343a\u0363\u0368l\u0348\u0353g\u0352o\u0320", "\u1112\u1161\u11ab\u1100\u1173\u11af",
    "\u0915\u094d\u0937", "\u0e01\u0e33", "ﬁ ﬀ ſt ﬆ", "K Å Ω µ", "ǅ ǆ", "\u0130\u0131", "ß ẞ",
    "\ufb1d\u05b4", "\u212b\u00c5A\u030a", "\u00bd\u2153\u215f",
]

SPECIAL_PIECES = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "<|im_end", "|>", "<|", "<", ">",
    "<|begin_of_text|>", "<|eot_id|>", "<think>", "</think>", "user\n", "hello", " ", "\n", "é", "1",
    "<|im_start|><|im_end|>", "<jupyter_text>", "<|im_<|im_end|>",
]


def runs():
    for unit in ["a", " ", "\n", "\t", "\r", "1", "é", "'", "!", "\u00a0", "\u3000", "🙂", "一", "\r\n", " \n", "\n "]:
        for length in (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 33, 47, 48, 49, 50, 64, 97):
            yield unit * length
            if length in (2, 5, 49):
                yield "x" + unit * length
                yield unit * length + "x"
                yield unit * length + "7 "


def contractions():
    for tail in ("s", "t", "re", "ve", "m", "ll", "d", "S", "T", "RE", "Ve", "M", "lL", "D", "ſ", "r", "v", "l", "x"):
        for apostrophe in ("'", "’", "''"):
            yield f"it{apostrophe}{tail}"
            yield f"{apostrophe}{tail}er"
            yield f" {apostrophe}{tail} 1{apostrophe}{tail}2"


def class_strings(rng):
    """Every short combination of representatives of the character classes."""
    alphabet = ["a", "1", " ", "\n", "'", "!", "é", "\t"]
    for length in (2, 3):
        for parts in itertools.product(alphabet, repeat=length):
            yield "".join(parts)
    wide = alphabet + ["s", "S", "\r", "²", "\u00a0", "\u0301", "字", "🙂", "Ⅷ", "٣", "\u2028", "\u0085", "\x1c", "ſ", "\U00011de1", "_"]
    for _ in range(900):
        yield "".join(rng.choice(wide) for _ in range(rng.randint(4, 14)))


def code_point_strings(rng):
    for c in list(range(0x20)) + list(range(0x7F, 0xA1)):
        yield chr(c)
        yield f"a{chr(c)}b {chr(c)}{chr(c)}!"
    for c in (0x200B, 0x200C, 0x200E, 0x2028, 0x2029, 0x2060, 0xFEFF, 0xFFFD, 0xFFFE, 0xFFFF, 0xE000, 0x10FFFF, 0x1FFFE, 0x180E):
        yield chr(c)
        yield f"x{chr(c)} {chr(c)}1"
    for _ in range(200):
        yield "".join(chr(rng.choice((rng.randrange(0x20, 0x250), rng.randrange(0x250, 0xD800), rng.randrange(0xE000, 0x110000)))) for _ in range(rng.randint(1, 8)))
    for block in range(0, 0x3400, 0x80):
        yield " ".join("".join(chr(block + rng.randrange(0x80)) for _ in range(rng.randint(1, 6))) for _ in range(4))
    for block in (0xA000, 0xA480, 0xA640, 0xA720, 0xAB00, 0xAC00, 0xF900, 0xFB00, 0xFE30, 0xFF00, 0x10000, 0x10300, 0x11000, 0x12000, 0x13000, 0x16800, 0x1D400, 0x1D7C0, 0x1E900, 0x1EE00, 0x1F100, 0x1F300, 0x1F600, 0x1F900, 0x20000, 0x2F800, 0x30000, 0xE0000):
        for _ in range(2):
            yield "".join(chr(block + rng.randrange(0x80)) for _ in range(8))


def mixed(rng):
    words = " ".join(LANGUAGES[:30]).split(" ")
    for _ in range(300):
        parts = []
        for _ in range(rng.randint(2, 9)):
            parts.append(rng.choice(words))
            parts.append(rng.choice([" ", "  ", "\n", ", ", "", " 12", "'s ", "... ", "\n\n  ", "\t", " – "]))
        yield "".join(parts)
    for _ in range(150):
        yield "".join(rng.choice("0123456789 .,-x") for _ in range(rng.randint(3, 20)))
    for _ in range(150):  # long words without a space
        yield "".join(rng.choice("etaoinshrdlucmfwypvbgk") for _ in range(rng.randint(20, 120)))


def plain_texts():
    rng = random.Random(20)
    for source in (CLASSIC, LANGUAGES, CODE, EMOJI, MARKS, SPECIAL_PIECES):
        yield from source
    yield "\n".join(LANGUAGES[:8])
    yield "".join(CODE)
    for source in (runs(), contractions(), class_strings(rng), code_point_strings(rng), mixed(rng)):
        yield from source


def special_texts():
    rng = random.Random(21)
    yield from SPECIAL_PIECES
    yield "<|im_start|>system\nYou are a helpful AI assistant.<|im_end|>\n<|im_start|>user\nHi 'there'<|im_end|>\n<|im_start|>assistant\n"
    for _ in range(250):
        yield "".join(rng.choice(SPECIAL_PIECES) for _ in range(rng.randint(2, 8)))


def mark_texts():
    """Composed, decomposed and wrongly ordered characters of several scripts."""
    rng = random.Random(22)
    parts = [chr(c) for c in (
        *range(0x300, 0x316), 0x31B, 0x323, 0x327, 0x328, 0x330, 0x331, 0x334, 0x338, 0x340, 0x344, 0x345, 0x35C,
        0xC5, 0xE9, 0xDC, 0x1D5, 0x1EC7, 0x1E69, 0x3B1, 0x3AC, 0x1F71, 0x1F00, 0x1FBE, 0x2126, 0x212B, 0xFB1F, 0xFB2C,
        0x5D0, 0x5B7, 0x5C1, 0x5BC, 0x627, 0x653, 0x654, 0x64B, 0x651, 0x915, 0x93C, 0x958, 0x94D, 0x9C7, 0x9BE, 0x9D7,
        0xBC6, 0xBBE, 0xDD9, 0xDCF, 0xDCA, 0xE38, 0xE48, 0xF71, 0xF72, 0xF80, 0xF73, 0x1025, 0x102E, 0x1100, 0x1161,
        0x11A8, 0xAC00, 0xAC01, 0x3042, 0x304B, 0x3099, 0xF900, 0x2F800, 0x11099, 0x110BA, 0x1D15E, 0x1D165, 0x4E00)]
    parts += list("aeouAsS q")
    for _ in range(700):
        yield "".join(rng.choice(parts) for _ in range(rng.randint(2, 9)))
