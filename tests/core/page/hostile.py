"""Pages made to waste a reader's time, of any size [A15, A16]."""

from __future__ import annotations

from collections.abc import Callable

Pattern = Callable[[int], bytes]


def repeated(piece: str) -> Pattern:
    return lambda chars: (piece * (chars // len(piece))).encode()


def numbered(piece: str, *, before: str = "", after: str = "") -> Pattern:
    """A piece with a number in place of `%`, so that no two are alike."""

    def build(chars: int) -> bytes:
        count = chars // (len(piece) + 5)
        return (before + "".join(piece.replace("%", str(number)) for number in range(count)) + after).encode()

    return build


def halves(first: Pattern, second: Pattern) -> Pattern:
    return lambda chars: first(chars // 2) + second(chars // 2)


def within(before: str, pattern: Pattern, after: str = "") -> Pattern:
    return lambda chars: before.encode() + pattern(chars) + after.encode()


PATTERNS: dict[str, Pattern] = {
    # depth
    "nested div": repeated("<div>"),
    "nested span, ends of others": halves(repeated("<span>"), repeated("</x>")),
    "nested lists": repeated("<ul><li>"),
    "nested definition lists": repeated("<dl><dd>"),
    "nested tables": repeated("<table><tr><td>"),
    "nested foreign elements": within("<svg>", repeated("<g>")),
    "drawings and ways out": repeated("<svg><p>"),
    "formulas": repeated("<math><mi>"),
    "nested templates": repeated("<template>"),
    "options": within("<select><button><selectedcontent></selectedcontent></button>", repeated("<option selected>x")),
    "optgroups": repeated("<optgroup>"),
    "forms that end early": repeated("<form><div></form>"),
    "framesets": repeated("<frameset>"),
    "ruby": repeated("<ruby><rt>"),
    # formatting
    "bold and italic, misnested": repeated("<b><i></b>"),
    "formatting that never ends": numbered("<b id=%>"),
    "formatting in each paragraph": numbered("<p><b id=%>"),
    "fonts, then paragraphs": halves(numbered("<font id=%>"), repeated("<p>x")),
    "one heavy font, then paragraphs": halves(numbered(" a%", before="<p><b", after=">"), repeated("<p>x")),
    "anchors around blocks": repeated("<a href=x><div>"),
    "anchors within anchors": repeated("<a href=x><object>"),
    "nobr": repeated("<nobr><div>"),
    # attributes
    "attributes": numbered(" a%=1", before="<a", after=" href=x>"),
    "attributes without a space": numbered("a%='>'", before="<p ", after=">"),
    "attributes of the body": numbered("<body a%=1>"),
    "one attribute again and again": within("<a", repeated(" a=1"), ">"),
    "one long attribute": within("<a title='", repeated("x"), "' href=x>"),
    "one long name": within("<a", repeated("x"), ">"),
    "tags that never end": repeated("<a "),
    "quotes that never end": repeated("<a href='"),
    "quotes of both kinds": repeated("<a href='x\" b=\"y' "),
    "equals signs": repeated("<a = = "),
    "slashes": within("<a ", repeated("/"), ">"),
    # comments and raw text
    "comments that never end": repeated("<!--"),
    "comments that end at once": repeated("<!-->"),
    "dashes": within("<!--", repeated("-")),
    "dashes and bangs": within("<!--", repeated("--!")),
    "bogus comments": repeated("<!"),
    "doctypes": repeated("<!doctype x>"),
    "processing instructions": repeated("<?"),
    "CDATA": repeated("<![CDATA["),
    "CDATA in a drawing": within("<svg>", repeated("<![CDATA[]]")),
    "scripts in comments in scripts": within("<script>", repeated("<!--<script></script>")),
    "scripts that almost end": within("<script>", repeated("</scrip")),
    "scripts": repeated("<script></script>"),
    "titles that never end": repeated("<title>"),
    "plaintext": repeated("<plaintext>"),
    # text
    "less-than signs": repeated("<"),
    "end tags of nothing": repeated("</"),
    "end tags of paragraphs": repeated("</p>"),
    "end tags of anchors": repeated("</a>"),
    "ampersands": repeated("&"),
    "references without an end": repeated("&notin"),
    "digits": within("<a href='&#", repeated("9"), ";'>"),
    "references in values": within("<a href='", repeated("&amp;&copy=&#x41"), "'>"),
    "NUL": repeated("\0"),
    "NUL in tags": repeated("<\0div>"),
    # links
    "links": numbered("<a href=/%>"),
    "links to one place": repeated("<a href=x>"),
    "links to nowhere": numbered("<a href=javascript:%>"),
    "metas": repeated("<meta name=robots content=noindex>"),
    "refreshes": within("<meta http-equiv=refresh content='", repeated("0"), "'>"),
    "robots words": within("<meta name=robots content='", numbered("no%, "), "'>"),
    "canonicals": repeated("<link rel=canonical href=data:x>"),
    "bases": repeated("<base href=x>"),
    "maps": numbered("<area href=/%>"),
}
