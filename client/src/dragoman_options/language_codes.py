"""Language codes of three letters and former ones: maps them to the codes in use.

Source: https://iso639-3.sil.org/code_tables/639/data
"""

from __future__ import annotations

_PAIRS = """
aar:aa abk:ab afr:af aka:ak amh:am ara:ar arb:ar arg:an asm:as ava:av ave:ae aym:ay aze:az
bak:ba bam:bm bel:be ben:bn bis:bi bod:bo bos:bs bre:br bul:bg cat:ca ces:cs cha:ch che:ce
chu:cu chv:cv cmn:zh cor:kw cos:co cre:cr cym:cy dan:da deu:de div:dv dzo:dz ell:el eng:en
epo:eo est:et eus:eu ewe:ee fao:fo fas:fa fij:fj fin:fi fra:fr fry:fy ful:ff gla:gd gle:ga
glg:gl glv:gv grn:gn guj:gu hat:ht hau:ha hbs:sh heb:he her:hz hin:hi hmo:ho hrv:hr hun:hu
hye:hy ibo:ig ido:io iii:ii iku:iu ile:ie ina:ia ind:id ipk:ik isl:is ita:it jav:jv jpn:ja
kal:kl kan:kn kas:ks kat:ka kau:kr kaz:kk khm:km kik:ki kin:rw kir:ky kom:kv kon:kg kor:ko
kua:kj kur:ku lao:lo lat:la lav:lv lim:li lin:ln lit:lt ltz:lb lub:lu lug:lg mah:mh mal:ml
mar:mr mkd:mk mlg:mg mlt:mt mon:mn mri:mi msa:ms mya:my nau:na nav:nv nbl:nr nde:nd ndo:ng
nep:ne nld:nl nno:nn nob:nb nor:no nya:ny oci:oc oji:oj ori:or orm:om oss:os pan:pa pes:fa
pli:pi pol:pl por:pt pus:ps que:qu roh:rm ron:ro run:rn rus:ru sag:sg san:sa sin:si slk:sk
slv:sl sme:se smo:sm sna:sn snd:sd som:so sot:st spa:es sqi:sq srd:sc srp:sr ssw:ss sun:su
swa:sw swe:sv swh:sw tah:ty tam:ta tat:tt tel:te tgk:tg tgl:tl tha:th tir:ti ton:to tsn:tn
tso:ts tuk:tk tur:tr twi:tw uig:ug ukr:uk urd:ur uzb:uz ven:ve vie:vi vol:vo wln:wa wol:wo
xho:xh yid:yi yor:yo zha:za zho:zh zul:zu
"""
_FORMER = """
alb:sq arm:hy baq:eu bur:my chi:zh cze:cs dut:nl fre:fr geo:ka ger:de gre:el ice:is mac:mk mao:mi
may:ms per:fa rum:ro slo:sk tib:bo wel:cy in:id iw:he ji:yi mo:ro mol:ro
"""
"""Bibliographic codes of ISO 639-2, and codes that ISO 639-1 has replaced."""
_INDIVIDUAL = """
als:sq azj:az ekk:et fil:tl khk:mn kmr:ku lvs:lv nb:no nob:no npi:ne ory:or plt:mg uzn:uz ydd:yi
zsm:ms
"""
"""The usual languages of macrolanguages, whose codes models and requests use for each other."""
_TWO_LETTERS = dict(pair.split(":") for pair in _PAIRS.split())

_CURRENT = {**_TWO_LETTERS, **dict(pair.split(":") for pair in (_FORMER + _INDIVIDUAL).split())}
_OF_ISO_639_1 = frozenset(_TWO_LETTERS.values())


def is_language(code: str) -> bool:
    """Whether a code, without script and region, is one of ISO 639-1 or one that it replaces."""
    return code in _CURRENT or code in _OF_ISO_639_1


def short_code(code: str) -> str:
    """The two-letter code of a language, or `code` itself if there is none, as for `cmn_Hans`."""
    return _TWO_LETTERS.get(code, code)


def current_code(code: str) -> str:
    """As `short_code`, also for other codes of a language: `de` for `ger`, `he` for `iw`."""
    return _CURRENT.get(code, code)
