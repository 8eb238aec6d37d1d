"""Kinds of assets: their place in the API, their messages, and what must hold before one is stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairpool.api import assets as wire
from fairpool.api.asset_paths import ASSET_PATHS
from fairpool.api.asset_reference import DatasourceKind
from fairpool.api.asset_specs import EnvironmentSpec
from fairpool.api.pod_spec import Compute, Pvc
from fairpool.api.problems import ProblemItem
from fairpool.api.roles import Verb
from fairpool.api.wire import parse_json
from fairpool.control.asset_rows import body_of, spec_of
from fairpool.control.asset_scopes import StoredScope, scope_shown
from fairpool.control.asset_values import COMPUTE, DATASOURCE, ENVIRONMENT, NOUNS, original_words, workload_values
from fairpool.control.moments import iso
from fairpool.control.rbac import ON_ASSET, Action
from fairpool.control.refusal import Refused
from fairpool.control.resource_request import gpu_request
from fairpool.control.store.database import Connection
from fairpool.control.template_values import supported

NO_FINDINGS = wire.AssetFindings()


@dataclass(frozen=True, slots=True)
class AssetKind:
    """A kind of asset: its place in the API, its messages, and what must hold before it is stored."""

    kind: str
    noun: str
    """As people call it: `data source`."""
    request: type[wire.AssetRequest]
    group: str = ""
    """The kind as stored, if several kinds share names and ids; else the same."""
    answer: type[wire.Asset] = wire.Asset
    page: type[Any] = wire.AssetPage

    @property
    def path(self) -> str:
        return ASSET_PATHS[self.kind]

    @property
    def stored_as(self) -> str:
        return self.group or self.kind

    def action(self, verb: Verb) -> Action:
        return ON_ASSET[self.stored_as][verb]

    @property
    def code(self) -> str:
        """The first part of the codes of its problems."""
        return self.stored_as.removeprefix("workload-")

    @property
    def summed_up(self) -> str:
        """In the summary of a route: `a data source (nfs)`."""
        return article(self.noun) + (f" ({self.kind})" if self.group else "")

    @property
    def summed_up_as_list(self) -> str:
        return f"{self.noun}s" + (f" ({self.kind})" if self.group else "")

    def columns(self, connection: Connection, place: StoredScope, body: Any, before: Any) -> dict[str, Any]:
        """Checked values to store; refuses with everything that is wrong. `before`: the row that is replaced."""
        self.check(connection, place, body, before)
        return {"administrative": False, "document": self.document(body)}

    def check(self, connection: Connection, place: StoredScope, body: Any, before: Any) -> None:
        """Refuses what must not be stored."""

    def document(self, body: Any) -> dict[str, Any]:
        return {"kind": self.kind, **body.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)}

    def values(self, body: Any) -> dict[str, Any]:
        """What it says about submits, in fields of a workload."""
        raise NotImplementedError

    def types(self, body: Any) -> wire.SupportedTypes:
        """The kinds of workloads that it is for."""
        return body.meta.workload_supported_types or supported(self.values(body))

    def in_other_words(self, body: Any) -> dict[str, Any]:
        """Fields of `spec` again under the names that the original has for them."""
        return {}

    def changed(self, before: Any, spec: Any) -> Any:
        """The values of an asset that is replaced; None: none were given."""
        return before if spec is None else spec

    def more(self, connection: Connection, body: Any) -> dict[str, Any]:
        """Fields of the answer that only this kind has, or has otherwise."""
        return {}

    def shown(self, connection: Connection, row: Any, found: wire.AssetFindings = NO_FINDINGS) -> Any:
        """`found`: what was asked for beside the asset itself."""
        body = body_of(self.request, row.document)
        written: dict[str, Any] = {
            "created_by": row.created_by,
            "created_at": iso(row.created_at),
            "updated_at": iso(row.updated_at),
        }
        meta = wire.AssetAnswer(
            id=row.id,
            kind=self.kind,
            name=row.name,
            description=body.meta.description or None,
            workload_supported_types=self.types(body),
            updated_by=parse_json(row.document.encode()).get("updatedBy", row.created_by),
            **written,
            **scope_shown(connection, row),
        )
        spec = {**self.in_other_words(body), **spec_of(body)}
        said = {"id": row.id, "kind": self.kind, "meta": meta, "spec": spec, "revision": row.revision}
        asked = {name: getattr(found, name) for name in found.model_fields_set}
        return self.answer(**{**said, **written, **asked, **self.more(connection, body)})


def article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


class Equipment(AssetKind):
    """An asset that a submit or a template names."""

    __slots__ = ()

    def check(self, connection: Connection, place: StoredScope, body: Any, before: Any) -> None:
        """What no submit could have would be refused at each of them."""
        problems: list[ProblemItem] = []
        if isinstance(body.spec, Compute):
            gpu_request(body.spec, problems, "spec")
        if isinstance(body.spec, EnvironmentSpec) and "compute" in body.spec.model_fields_set:
            what, fix = "an environment has no compute", "create a compute resource with it"
            problems.append(ProblemItem(code="environment.compute", what=what, fix=fix, field="spec.compute"))
        if not spec_of(body):
            what = f"the {self.noun} has no values"
            problems.append(ProblemItem(code=f"{self.code}.empty", what=what, fix="set at least one", field="spec"))
        if problems:
            raise Refused(422, problems)

    def values(self, body: Any) -> dict[str, Any]:
        return dict(workload_values(self.kind, spec_of(body)))

    def in_other_words(self, body: Any) -> dict[str, Any]:
        return original_words(self.kind, spec_of(body))

    def changed(self, before: Any, spec: Any) -> Any:
        """Clients of the original change the path of a claim, and do not say the rest again."""
        is_path_alone = isinstance(spec, Pvc) and spec.model_fields_set == {"path"}
        return before.model_copy(update={"path": spec.path}) if is_path_alone else AssetKind.changed(self, before, spec)


def _kind(kind: str, request: type[wire.AssetRequest], group: str = "") -> Equipment:
    return Equipment(kind=kind, noun=NOUNS[group or kind], request=request, group=group)


KINDS = (
    _kind(ENVIRONMENT, wire.EnvironmentRequest),
    _kind(COMPUTE, wire.ComputeRequest),
    _kind(DatasourceKind.PVC.value, wire.PvcRequest, DATASOURCE),
    _kind(DatasourceKind.NFS.value, wire.NfsRequest, DATASOURCE),
    _kind(DatasourceKind.GIT.value, wire.GitRequest, DATASOURCE),
    _kind(DatasourceKind.S3.value, wire.S3Request, DATASOURCE),
    _kind(DatasourceKind.HOST_PATH.value, wire.HostPathRequest, DATASOURCE),
    _kind(DatasourceKind.CONFIG_MAP.value, wire.ConfigMapRequest, DATASOURCE),
    _kind(DatasourceKind.SECRET.value, wire.SecretRequest, DATASOURCE),
)
BY_KIND = {each.kind: each for each in KINDS}
