"""What a pattern of the API asks for, in words with an example: refusals show these instead of the pattern."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fairpool.api.access import EMAIL
from fairpool.api.limits import NAME_PATTERN, SECRET_KEY_PATTERN, TEMPLATE_NAME_PATTERN
from fairpool.api.pod_spec import QUANTITY_PATTERN

_ONE_OF = re.compile(r"(?:\(\?i\))?\^\(([\w|-]+)\)\??\$")
_NO_CONTROL_CHARACTERS = "remove line breaks and other control characters"

WORDS: Mapping[str, str] = {
    NAME_PATTERN: "use lower case letters, digits and -, start with a letter, and do not end with -",
    TEMPLATE_NAME_PATTERN: "use up to 63 letters, digits, _, . and -, and start with a letter or digit: batch_ops",
    SECRET_KEY_PATTERN: "use letters, digits, _, . and -: token, .netrc",
    QUANTITY_PATTERN: "use a number with a unit: 500M, 4Gi, 1.5G",
    EMAIL: "use an email address: ann@example.com",
    r"^/[^\x00-\x1f]*$": "use an absolute path without control characters: /data",
    r"^[^\x00]*$": "remove the zero byte",
    r"^[^\x00-\x1f]*$": _NO_CONTROL_CHARACTERS,
    r"^[^\x00-\x1f\x7f]*$": _NO_CONTROL_CHARACTERS,
    r"^[^\x00-\x1f\x7f]{1,317}$": "use up to 317 characters without control characters: example.com/team",
    r"^[^=\x00-\x1f\x7f]{1,1024}$": "use a name without = and control characters: EPOCHS",
    r"^[A-Za-z_][A-Za-z0-9_]{0,63}$": "use up to 64 letters, digits and _, and do not start with a digit: lr",
    r"^\.?[A-Za-z0-9_-][A-Za-z0-9._-]{0,251}$": "use the name of a file, without /: train.yaml",
    r"^[A-Za-z0-9]+(\.[A-Za-z0-9]+)?$": "use the name of a field: compute.gpu",
    r"^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?(:any)?$": "use the name of a job: prep, or prep:any if it may also fail",
    r"^[A-Za-z0-9]([A-Za-z0-9.:-]{0,251}[A-Za-z0-9])?$": "use a host name or an IP address: mail.example.com",
    r"^[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?$": "use up to 63 lower case letters, digits, _ and -: nightly-sweep",
    r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$": "use up to 63 lower case letters, digits and -: ci-hook",
    r"^[^\x00-\x1f\x7f]*[^\s\d][^\x00-\x1f\x7f]*$": "use a name with at least one letter: Night operator",
    r"^[A-Za-z0-9][A-Za-z0-9_.:@-]{0,127}$": "use up to 128 letters, digits, _, ., :, @ and -: WorkloadFailed",
    r"^[^\x00-\x20\x7f]*$": "use a URL without blanks and control characters: https://login.example.com",
    r"^[\x21\x23-\x5b\x5d-\x7e]+$": "use a scope of OAuth, without blanks, quotation marks and backslashes: openid",
    r"^[A-Za-z0-9_-]{0,128}$": "use up to 128 letters, digits, _ and -",
    r"^[0-9]{1,9}(\.[0-9]{1,6})?$": "use a number with at most six decimals: 2.50",
    r"^[A-Za-z0-9-]+$": "use letters, digits and -",
    r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$": "use the id of an upload: 0123abcd-0123-0123-0123-0123456789ab",
    r"^https?://[^\s]+$": "use a URL without blanks: https://10.0.0.7:8888",
    r"^(https?://[^/?#@\s]+)?$": "use the address of a server, without a path: https://fairpool.example.com",
    r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$": "use lower case letters, digits, . and -: fast-disks",
    r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$": "use lower case letters, digits, . and -: registry-login",
    r"^([A-Za-z0-9.-]+(:[0-9]+)?(/[a-z0-9._/-]+)?)?$": "use a host, with a port if needed: registry.example.com:5000",
}
"""Patterns that are not a choice of words."""


def pattern_words(pattern: str) -> str:
    """What to do about a value that does not match."""
    choices = _ONE_OF.fullmatch(pattern)
    if choices is not None:
        return f"use one of {', '.join(choices[1].split('|'))}"
    return WORDS.get(pattern, "correct it; see /api/openapi.json")
