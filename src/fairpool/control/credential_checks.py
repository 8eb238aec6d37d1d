"""Credentials that a submit refers to: they exist in the project's scope, and fit their use. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fairpool.api import pod_spec
from fairpool.api import workload_spec as wire
from fairpool.api.pod_spec import ENVIRONMENT_VALUE_MAX
from fairpool.api.problems import ProblemList
from fairpool.control.storage_request import pods_of
from fairpool.model.secret import CredentialKind
from fairpool.model.spelling import did_you_mean

LOGINS = (CredentialKind.PASSWORD, CredentialKind.GIT)
REGISTRIES = (CredentialKind.REGISTRY, CredentialKind.PASSWORD, CredentialKind.NGC)


@dataclass(frozen=True, slots=True)
class KnownCredential:
    """What a submit is checked against: everything but the values."""

    kind: CredentialKind
    keys: Mapping[str, int]
    """The size of each value; negative: it is not text."""
    is_readable: bool = True
    """False: its value was encrypted with a key that this control plane does not have."""


@dataclass(frozen=True, slots=True)
class CredentialUse:
    """One place of a submit that refers to a credential."""

    place: str
    name: str
    key: str = ""
    """Of a variable: the key that is its value."""
    kinds: tuple[CredentialKind, ...] = ()
    """Only these will do; empty: any."""


def credential_uses(submit: wire.SubmitAny) -> list[CredentialUse]:
    """Every place of a submit that refers to a credential."""
    return list(_uses(submit))


def _uses(submit: wire.SubmitAny) -> Iterator[CredentialUse]:
    spec, storage = submit.spec, submit.spec.storage
    for place, pod in pods_of(spec).items():
        yield from _of_pod(pod, place)
    yield from (CredentialUse("spec.storage.secretVolume.name", each.name) for each in storage.secret_volume)
    for git in storage.git:
        if git.credential is not None:
            yield CredentialUse("spec.storage.git.credential", git.credential, kinds=LOGINS)
    for bucket in storage.s3:
        if bucket.credential is not None:
            yield CredentialUse("spec.storage.s3.credential", bucket.credential, kinds=(CredentialKind.ACCESS_KEY,))


def _of_pod(pod: pod_spec.PodSpecWire, place: str) -> Iterator[CredentialUse]:
    for each in pod.environment_variables:
        if each.credential is not None:
            yield CredentialUse(f"{place}.environmentVariables", each.credential.name, key=each.credential.key)
    if pod.image_pull_secret is not None:
        yield CredentialUse(f"{place}.imagePullSecret", pod.image_pull_secret, kinds=REGISTRIES)


def check_credentials(
    submit: wire.SubmitAny, known: Mapping[str, KnownCredential], project: str, problems: ProblemList
) -> None:
    """Add what is wrong with the credentials that a submit refers to; `known` are those of these names in scope."""
    for place, pod in pods_of(submit.spec).items():
        for variable in pod.environment_variables:
            if variable.credential is not None and (variable.value or variable.config_map is not None):
                other = "a value" if variable.value else "a config map"
                what = f"the variable {variable.name} has {other} and a credential"
                problems.add("variable.two_values", what, "remove one of them", f"{place}.environmentVariables")
    for use in credential_uses(submit):
        found = known.get(use.name)
        if found is None:
            what = f"project {project} has no credential {use.name}"
            fix = "see them with `runai list credentials`; to create one: "
            fix += f"runai-adm credential create {use.name} -p {project} --from-file KEY=FILE"
            problems.add("credential.unknown", what, fix, use.place)
        elif not found.is_readable:
            what = f"the value of credential {use.name} is lost: it was encrypted with another key"
            problems.add(
                "credential.unreadable", what, f"set it again: runai-adm credential update {use.name}", use.place
            )
        elif use.kinds and found.kind not in use.kinds:
            what = f"credential {use.name} is of type {found.kind.value}"
            fix = f"use one of type {' or '.join(kind.value for kind in use.kinds)}"
            problems.add("credential.kind", what, fix, use.place)
        elif use.key:
            _check_key(use, found, problems)


def _check_key(use: CredentialUse, found: KnownCredential, problems: ProblemList) -> None:
    size = found.keys.get(use.key)
    as_file = f"mount it as a file: --secret-volume name={use.name},path=/secrets/{use.name}"
    if size is None:
        what = f"credential {use.name} has no key {use.key}"
        known = f"it has: {', '.join(sorted(found.keys))}"
        problems.add("credential.key", what, did_you_mean(use.key, sorted(found.keys), known), use.place)
    elif size < 0:
        what = f"the value of {use.key} of credential {use.name} is binary, which no variable can have"
        problems.add("credential.binary", what, as_file, use.place)
    elif size >= ENVIRONMENT_VALUE_MAX:
        what = f"the value of {use.key} of credential {use.name} has {size} bytes; a variable has fewer than "
        problems.add("credential.too_long", f"{what}{ENVIRONMENT_VALUE_MAX}", as_file, use.place)
