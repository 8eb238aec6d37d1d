"""The values of a credential from its request: complete for its type, within limits. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping

from fairpool.api import credentials as wire
from fairpool.api.limits import SECRET_MAX_BYTES
from fairpool.api.problems import ProblemItem
from fairpool.model.secret import KEYS, SHOWN, CredentialKind

FIELDS: Mapping[str, str] = {
    "user": "user",
    "password": "password",
    "url": "url",
    "accessKeyId": "access_key_id",
    "secretAccessKey": "secret_access_key",
    "ngcApiKey": "ngc_api_key",
}
"""Keys of the types, and the fields of the request that they come from."""
GIT_USER = "git"


def secret_values(kind: CredentialKind, spec: wire.CredentialSpec) -> dict[str, bytes] | list[ProblemItem]:
    """What is to be encrypted, or everything that is wrong with it; no problem contains a value."""
    problems = list(_problems(kind, spec))
    data: dict[str, bytes] = {}
    if kind is CredentialKind.GENERIC:
        data = {key: value.encode("utf-8", "surrogatepass") for key, value in (spec.data or {}).items()}
        for key, text in (spec.binary_data or {}).items():
            try:
                data[key] = base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                what = f"the value of {key} is not base64"
                problems.append(_problem("credential.base64", what, "encode it: base64 -w0 FILE", "spec.binaryData"))
    else:
        given = {key: getattr(spec, FIELDS[key]) for key in KEYS[kind]}
        if kind is CredentialKind.GIT and given["user"] is None:
            given["user"] = GIT_USER
        data = {key: value.encode("utf-8", "surrogatepass") for key, value in given.items() if value is not None}
    size = sum(map(len, data.values()))
    if size > SECRET_MAX_BYTES:
        what = f"the values have {size} bytes; a credential has at most {SECRET_MAX_BYTES}"
        problems.append(_problem("credential.too_large", what, "put large files in a volume", "spec"))
    return problems or data


def _problems(kind: CredentialKind, spec: wire.CredentialSpec) -> Iterator[ProblemItem]:
    if spec.existing_secret_name is not None:
        what = "existingSecretName refers to a secret of a Kubernetes cluster, and this is none"
        yield _problem("credential.existing", what, "set the values themselves", "spec.existingSecretName")
        return
    wanted = set(KEYS[kind])
    for key, name in FIELDS.items():
        value, place = getattr(spec, name), f"spec.{key}"
        if value is not None and key not in wanted:
            what = f"a credential of type {kind.value} has no {key}"
            yield _problem("credential.field", what, "remove it, or use another type", place)
        elif not value and key in wanted and (kind, key) != (CredentialKind.GIT, "user"):
            yield _problem("credential.incomplete", f"a credential of type {kind.value} needs {key}", "set it", place)
    if kind is CredentialKind.GENERIC:
        if not spec.data and not spec.binary_data:
            yield _problem("credential.incomplete", "a generic secret needs at least one key", "set data", "spec.data")
        for key in sorted(set(spec.data or ()) & set(spec.binary_data or ())):
            yield _problem("credential.key_twice", f"the key {key} is given twice", "remove one", "spec.binaryData")
    elif spec.data or spec.binary_data:
        what = f"a credential of type {kind.value} has no data of its own"
        yield _problem("credential.field", what, "remove it, or use the type generic-secret", "spec.data")


def shown_values(kind: CredentialKind, data: Mapping[str, bytes]) -> dict[str, str]:
    """What is not secret in it."""
    return {key: data[key].decode(errors="replace") for key in KEYS[kind] if key in SHOWN and key in data}


def key_sizes(data: Mapping[str, bytes]) -> dict[str, int]:
    """The size of each value, below zero if it is not text that a variable can have."""
    return {key: len(value) if _is_text(value) else -1 - len(value) for key, value in sorted(data.items())}


def _is_text(value: bytes) -> bool:
    try:
        return "\0" not in value.decode()
    except UnicodeDecodeError:
        return False


def _problem(code: str, what: str, fix: str, field: str) -> ProblemItem:
    return ProblemItem(code=code, what=what, fix=fix, field=field)
