"""A specification in the form of the original: what its client reads where our own form differs. Pure.

The other direction is in the models themselves (`older_form.py`).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from fairpool.api.pod_spec import ACCESS_MODES

Values = Mapping[str, Any]


def in_original_form(spec: Values) -> dict[str, Any]:
    """The same values; what the original has no word for stays as it is."""
    found = {name: FORMS[name](value) if name in FORMS else value for name, value in spec.items() if value is not None}
    secret = found.pop("imagePullSecret", None)
    return found if secret is None else {**found, "imagePullSecrets": [{"name": secret}]}


def _line(words: Any) -> str:
    return words if isinstance(words, str) else shlex.join(words)


def _pairs(values: Any) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in values.items()] if isinstance(values, Mapping) else values


def _variables(variables: Any) -> list[dict[str, Any]]:
    return [_renamed(each, credential="secret") for each in variables]


def _compute(compute: Values) -> dict[str, Any]:
    found = dict(compute)
    short = found.pop("gpu", None)
    if short is not None:
        amount = float(short)
        is_whole = amount.is_integer()
        found |= {"gpuDevicesRequest": int(amount) if is_whole else 1}
        found |= {} if is_whole else {"gpuRequestType": "portion", "gpuPortionRequest": amount}
    for name in ("gpuPortionRequest", "gpuPortionLimit"):
        if isinstance(found.get(name), str):
            found[name] = float(found[name])
    if "extendedResources" in found:
        found["extendedResources"] = [
            {**each, "quantity": str(each["quantity"])} for each in compute["extendedResources"]
        ]
    return found


def _storage(storage: Values) -> dict[str, Any]:
    return {name: [VOLUMES.get(name, dict)(each) for each in items] for name, items in storage.items()}


def _claim(claim: Values) -> dict[str, Any]:
    info = claim.get("claimInfo")
    said = {"existingPvc": True, **claim}
    if not info:
        return said
    mode = info.get("accessMode", "rwo")
    modes = {name: short == mode for name, short in ACCESS_MODES.items()}
    return {
        **said,
        "claimInfo": {**{key: value for key, value in info.items() if key != "accessMode"}, "accessModes": modes},
    }


def _named(source: str) -> Callable[[Values], dict[str, Any]]:
    return lambda volume: _renamed(volume, name=source, label="name")


def _renamed(values: Values, **names: str) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in values.items()}


FORMS: Mapping[str, Callable[[Any], Any]] = {
    "command": _line,
    "args": _line,
    "labels": _pairs,
    "annotations": _pairs,
    "environmentVariables": _variables,
    "compute": _compute,
    "storage": _storage,
    "masterSpec": in_original_form,
}
VOLUMES: Mapping[str, Callable[[Values], dict[str, Any]]] = {
    "pvc": _claim,
    "git": lambda volume: _renamed(volume, credential="passwordSecret"),
    "s3": lambda volume: _renamed(volume, credential="accessKeySecret"),
    "configMapVolume": _named("configMap"),
    "secretVolume": _named("secret"),
}
