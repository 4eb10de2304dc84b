"""The members of language groups, by the names that OPUS-MT's models have for their source.

Only languages that can be detected are members: a group is there to translate any of them.

Source: https://www.loc.gov/standards/iso639-5, and the model cards of
https://huggingface.co/Helsinki-NLP
"""

from __future__ import annotations

_MEMBERS = """
art: eo ia ie io jbo vo
bat: lt lv
ccs: ka xmf
cel: br cy ga gd gv kw
dra: kn ml ta te
fiu: et fi hu kv mhr mrj myv
gmq: da is nn no sv
gmw: af als de en fy lb li nds nl vls yi
grk: el
inc: as bh bn gom gu hi mai mr ne or pa sa sd si ur
ira: ckb fa ku os ps tg
itc: an ast ca es fr gl it la lmo mwl nap oc pms pt rm ro sc scn vec wa
mkh: km vi
phi: bcl ceb ilo pam tl war
sem: am ar arz he mt
trk: az ba cv kk ky sah tk tr tt tyv ug uz
zle: be ru rue uk
zls: bg bs hr mk sh sl sr
zlw: cs dsb hsb pl sk
NORWAY: nn no
INSULAR_CELTIC: cy ga gd gv kw
"""
_UNIONS = """
roa: itc
aav: mkh
urj: fiu
tut: trk
gem: gmq gmw
iir: inc ira
sla: zle zls zlw
afa: sem
ine: bat cel gem grk iir itc sla
ROMANCE: itc
CELTIC: cel
SCANDINAVIA: gmq
NORTH_EU: gmq gmw
"""
_FURTHER = {
    "afa": "so",
    "ine": "hy sq",
    "mul": "ceb eu id ja jv ka ko lo ms my sw th zh",
}


def _members() -> dict[str, tuple[str, ...]]:
    groups = {
        name: languages.split()
        for name, languages in (line.split(": ") for line in _MEMBERS.strip().splitlines())
    }
    for line in _UNIONS.strip().splitlines():
        name, parts = line.split(": ")
        groups[name] = [language for part in parts.split() for language in groups[part]]
    groups["mul"] = [language for members in groups.values() for language in members]
    for name, languages in _FURTHER.items():
        groups[name] += languages.split()
    return {name: tuple(sorted(set(languages))) for name, languages in groups.items()}


MEMBERS = _members()
"""The codes of a group's members, by the group's name."""
