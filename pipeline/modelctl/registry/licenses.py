"""Licences as model cards name them, and as SPDX does.

The Hub's identifiers are SPDX's in lower case, mostly; those below are such, one for one. What is not here (a licence
of a model's own, a family without a version) is no SPDX identifier and stays a name.
"""

from __future__ import annotations

_SPDX = (
    "0BSD", "AFL-3.0", "AGPL-3.0", "Apache-2.0", "Artistic-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSD-3-Clause-Clear",
    "BSL-1.0", "CC-BY-2.0", "CC-BY-2.5", "CC-BY-3.0", "CC-BY-4.0", "CC-BY-NC-2.0", "CC-BY-NC-3.0", "CC-BY-NC-4.0",
    "CC-BY-NC-ND-3.0", "CC-BY-NC-ND-4.0", "CC-BY-NC-SA-2.0", "CC-BY-NC-SA-3.0", "CC-BY-NC-SA-4.0", "CC-BY-ND-4.0",
    "CC-BY-SA-3.0", "CC-BY-SA-4.0", "CC0-1.0", "CDLA-Permissive-1.0", "CDLA-Permissive-2.0", "CDLA-Sharing-1.0",
    "ECL-2.0", "EPL-1.0", "EPL-2.0", "EUPL-1.1", "EUPL-1.2", "GFDL-1.3", "GPL-2.0", "GPL-3.0", "ISC", "LGPL-2.1",
    "LGPL-3.0", "LPPL-1.3c", "MIT", "MPL-2.0", "MS-PL", "NCSA", "ODbL-1.0", "OFL-1.1", "OSL-3.0", "PDDL-1.0",
    "PostgreSQL", "Unlicense", "WTFPL", "Zlib",
)  # fmt: skip
_BY_NAME = {name.lower(): name for name in _SPDX} | {
    "odbl": "ODbL-1.0", "pddl": "PDDL-1.0", "gfdl": "GFDL-1.3", "lgpl-lr": "LGPLLR",
}  # fmt: skip


def spdx_id(name: str) -> str | None:
    """The SPDX identifier of a licence that a card names; None when it has none."""
    return _BY_NAME.get(name.lower())
