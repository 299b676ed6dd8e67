"""Texts that a tokenizer is tried on, written for this: Chinese first, then the scripts of the world, code, oddities.

Every text is short but those of the last group; together they are small enough for one pass to take a second or two.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

CORPUS_VERSION = 1
"""Raised with every change of a text: measurements name it."""

_CHINESE = (
    "今天的发布已经通过全部七项检查，可以先把百分之五的流量切给新版本。",
    "他说：“模型的词表和嵌入矩阵对不上，线上会直接报错。”——你怎么看？",
    "請把權重檔案放進物件儲存，再於版本庫裡記下每個檔案的雜湊值。",
    "呢個模型答得幾好，不過有時會講多咗嘢，點都唔肯停。",
    "夫器之用，在於有信；信而後可任重，任重而後可致遠。",
    "二〇二六年十一月三十日，气温－3℃，降雪概率约为百分之四十二点五。",
    "请用Python写一个函数，输入list[int]，返回其中的最大值max，时间复杂度O(n)。",
    "生僻字：𠮷𡃁𪚥龘㐂㙟，以及兼容字：豈更車，部首：⺀⼀⽔。",
    "１２３４５六七八九十百千万亿，全角ＡＢＣ与半角ABC混排、（括号）【方括号】《书名号》…",
    "ㄅㄆㄇㄈ，pīnyīn，nǐ hǎo，注音和拼音各来一点。",
)
_EAST_ASIAN = (
    "新しいモデルは、まず少しの利用者だけに配り、問題がなければ全体へ広げます。",
    "カタカナとひらがな、ﾊﾝｶｸも、「鉤括弧」も、ゔゞ々〆ヶも通ること。",
    "새 모델을 배포하기 전에 먼저 해시값과 토큰 수를 확인해 주세요.",
    "옛한글 ᄒᆞᆫ글과 자모 ㄱㄴㄷ, 그리고 조합형 가각간.",
)
_LATIN = (
    "The release was admitted on Monday, and nobody had to stay late for it.",
    "Der Prüfbericht nennt Größe, Herkunft und Maßstab; straße, STRASSE, ẞ.",
    "Où est passé l'œuvre ? Ça, c'est déjà vérifié – « promis ».",
    "El niño preguntó: ¿cuántos años tiene el modelo? ¡Ninguno todavía!",
    "Zażółć gęślą jaźń. Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "Tiếng Việt có nhiều dấu: nghiêng, ngữ, được, những điều thường gặp.",
    "İstanbul'da ılık bir gün; ığdır, İĞDIR, şöyle böyle.",
    "cafe\u0301 and café, A\u030angstro\u0308m and Ångström, ﬁne ligatures, ½ and ²",
)
_OTHER_SCRIPTS: Mapping[str, tuple[str, ...]] = {
    "greek": ("Η νέα έκδοση ελέγχθηκε χθες και τώρα περιμένει έγκριση· ᾧ, ᾽Αθῆναι.",),
    "cyrillic": ("Съешь ещё этих мягких булок: модель уже проверена. Їжак, ґанок, Ђорђе.",),
    "arabic": ("تم فحص النموذج الجديد، وكل الملفات سليمة ١٢٣. العَرَبِيَّةُ بالتشكيل، فارسی: پنج گربه.",),
    "hebrew": ("הגרסה החדשה עברה את כל הבדיקות. שָׁלוֹם עֲלֵיכֶם, 12 ש״ח.",),
    "devanagari": ("नया मॉडल कल जाँच में सफल रहा; क्षत्रिय, ज्ञान, १२३।",),
    "south-asian": (
        "নতুন সংস্করণটি পরীক্ষায় উত্তীর্ণ হয়েছে।",
        "புதிய மாதிரி சோதிக்கப்பட்டது; ஃ, க்ஷ.",
        "కొత్త నమూనా పరీక్షించబడింది. ಹೊಸ ಮಾದರಿ. പുതിയ മാതൃക. අලුත් ආකෘතිය.",
    ),
    "southeast-asian": ("รุ่นใหม่ผ่านการตรวจสอบแล้ว น้ำ ก็ได้", "ម៉ូដែលថ្មី ຮຸ່ນໃໝ່ မော်ဒယ်အသစ်"),
    "other": ("ახალი მოდელი შემოწმდა. Նոր մոդելը ստուգված է։ አዲሱ ሞዴል ተፈትሿል። ᠮᠣᠩᠭᠣᠯ བོད་ཡིག ᏣᎳᎩ ⵜⴰⵎⴰⵣⵉⵖⵜ 𐌲𐌿𐍄 𓀀𓁐",),
}
_EMOJI = (
    "🙂👍🏽👩‍👩‍👧‍👦🏳️‍🌈🇨🇳🇩🇪 ❤️ 1️⃣ 🤷🏿‍♀️",
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f ✨→∑∫√≤≠∞ ♞♪ 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 ⠓⠊",
)
_CODE = (
    'def admit(tree: "Tree") -> bool:\n\tif not tree.files:\n\t\treturn False\n'
    "    # mixed\r\n    return all(f.ok for f in tree.files)\n",
    '#include <stdio.h>\nint main(void) { printf("%d\\n", 0x1F >> 2); return x->y != NULL ? 0 : -1; }\n',
    "SELECT `name`, COUNT(*) FROM releases WHERE version LIKE '1.%' GROUP BY 1 HAVING COUNT(*) >= 2; -- end",
    '{"apiVersion": "v1", "items": [{"a": null, "b": [1.5e-7, true]}], "path": "C:\\\\tmp\\\\x"}',
    "<p class='x'>&amp; &lt;b&gt;</p> https://example.org/a?b=c&d=%20#e  [link](mailto:a@example.org) \\frac{a}{b}",
)
_NUMBERS = ("0 1 12 123 1234 12345 1234567890 3.14159 -42 1,000,000 1e-9 0xFF 2026-11-30T14:26:13Z +49 (0)30 1234567",)
_SPACES = (
    " leading and trailing ",
    "two  three   four    eight        spaces",
    "tab\tand\nline\n\nends\r\nof\rall kinds \u00a0\u2003\u3000\u2028\u2029 spaces",
    "\n\n\n",
    " ",
    "Don't, can't , won't ! a ,b .c ?",
)
_CONTROL = (
    "bidi \u202eabc\u202c \u2066x\u2069 \u200fمرحبا\u200e, joiners \u200d\u200c, mark \ufeff, soft\u00adhyphen",
    "bell \x07 back\x08 escape \x1b[31m delete \x7f form\x0c next\x85 null \x00 end",
    "rare controls \x01\x02\x03\x04\x05\x06\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1c\x1d\x1e\x1f",
    "private \ue000\uf8ff, no characters \ufffe\uffff\U0010ffff, replacement \ufffd",
    "far planes \U00050000\U000a0000\U000f0000",
    "stacked Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319\u0324\u031e\u0349\u035a\u032f\u031e\u0320A",
)
_LOOKALIKES = ("not tokens: < |im_end| > <|im_ end|> <s > [ INST ] <0x41> ▁under Ġletter Ċ ## ##ing </w>",)


def corpus() -> Mapping[str, tuple[str, ...]]:
    """The texts by group. The same for everybody: no randomness, no clock."""
    everyday = (
        *_CHINESE,
        *_EAST_ASIAN,
        *_LATIN,
        *(text for texts in _OTHER_SCRIPTS.values() for text in texts),
        *_CODE,
    )
    return {
        "chinese": _CHINESE,
        "east-asian": _EAST_ASIAN,
        "latin": _LATIN,
        **_OTHER_SCRIPTS,
        "emoji": _EMOJI,
        "code": _CODE,
        "numbers": _NUMBERS,
        "spaces": _SPACES,
        "control": _CONTROL,
        "lookalikes": _LOOKALIKES,
        "long": (
            "\n".join(everyday * 12),
            "長" * 3000,
            "a" * 5000,
            " " * 2000 + "x" + "\n" * 2000,
            "ab" * 1500 + "9" * 3000 + "=" * 1000,
        ),
    }


def more_texts(size_bytes: int) -> tuple[str, ...]:
    """Further texts of together at least `size_bytes` of UTF-8: eight short ones joined in new orders, some kB each.

    The same for everybody: drawn with a fixed seed. Nothing for 0.
    """
    short = [text for group, texts in corpus().items() if group != "long" for text in texts]
    draw = random.Random(CORPUS_VERSION)  # noqa: S311 - an order, not a secret
    made: list[str] = []
    left = size_bytes
    while left > 0:
        made.append(draw.choice(" \n").join(draw.choices(short, k=8)))
        left -= len(made[-1].encode())
    return tuple(made)
