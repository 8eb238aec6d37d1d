"""Calls the original's client: a line of JSON for each call on standard input, a line with the outcome on the other.

Runs in the environment of that client, and imports nothing of Fairpool. A call names an operation
(`ProjectsApi.get_project`), its arguments as plain JSON and the model that the answer must satisfy. Arguments are given
to the client as its own request models, so that its defaults are sent too; the answer is checked by its own models, as
it came: what a model requires must be there, null or not.
"""

from __future__ import annotations

import datetime
import enum
import inspect
import json
import re
import sys
import typing
from typing import Any

import pydantic
from runai import api, models
from runai.api_client import ApiClient
from runai.configuration import Configuration
from runai.exceptions import ApiException


class _Project(models.ProjectCreationRequest):
    """A project as it is answered: the client sends it in these fields, but its answer has lost its model to a
    metric of the same name."""

    id: pydantic.StrictStr
    created_at: datetime.datetime = pydantic.Field(alias="createdAt")
    updated_at: datetime.datetime = pydantic.Field(alias="updatedAt")
    created_by: pydantic.StrictStr | None = pydantic.Field(alias="createdBy", default=None)
    parent_id: pydantic.StrictStr = pydantic.Field(alias="parentId")
    enforce_runai_scheduler: pydantic.StrictBool = pydantic.Field(alias="enforceRunaiScheduler")
    parent: models.DepartmentProjectParent
    effective: models.ProjectEffective
    status: models.ProjectStatus
    total_resources: models.TotalResources = pydantic.Field(alias="totalResources")


class _Projects(pydantic.BaseModel):
    projects: list[_Project]
    next: pydantic.StrictInt | None = None


class _RulePage(pydantic.BaseModel):
    total_records: pydantic.StrictInt = pydantic.Field(alias="totalRecords")
    display_records: pydantic.StrictInt = pydantic.Field(alias="displayRecords")
    access_rules: list[models.MeAccessRule] = pydantic.Field(alias="accessRules")


class _MyAccessRules(pydantic.BaseModel):
    access_rules: _RulePage = pydantic.Field(alias="accessRules")


OWN: dict[str, Any] = {"Project": _Project, "Projects": _Projects, "MyAccessRules": _MyAccessRules}
"""Answers whose model the client lacks, see there."""
MODELS = "models."
"""Before a name that is also one of these: the client's own is meant."""


def main() -> None:
    start = json.loads(sys.stdin.readline())
    configuration = Configuration(
        client_id=start["client_id"],
        client_secret=start["client_secret"],
        runai_base_url=start["address"],
        retry_enabled=False,
    )
    client = ApiClient(configuration)  # signs in
    _say({"operations": _operations()})
    for line in sys.stdin:
        asked = json.loads(line)
        client.set_default_header("authorization", f"Bearer {asked['token'] or start['token']}")
        _say(_outcome(client, asked["operation"], asked["arguments"], asked["answer"]))


def _say(value: Any) -> None:
    print(json.dumps(value), flush=True)


def _operations() -> list[list[str]]:
    """Every operation with its method and path."""
    found = []
    for name, kind in vars(api).items():
        if not (isinstance(kind, type) and name.endswith("Api")):
            continue
        for method, function in vars(kind).items():
            if method.startswith("_") or not callable(function):
                continue
            source = inspect.getsource(_undecorated(function))
            path = re.search(r'resource_path = \(?\s*f?"([^"]*)"', source)
            verb = re.search(r'\bmethod = "(\w+)"', source)
            assert path, (name, method)
            assert verb, (name, method)
            found.append([f"{name}.{method}", verb[1], re.sub(r"_(?![^{]*})", "-", path[1])])
    return sorted(found)


def _undecorated(function: Any) -> Any:
    for cell in function.__closure__ or ():
        if inspect.isfunction(cell.cell_contents):
            return cell.cell_contents
    return function


def _outcome(client: ApiClient, operation: str, arguments: dict[str, Any], answer: str) -> dict[str, Any]:
    kind, _, method = operation.partition(".")
    function = getattr(getattr(api, kind)(client), method)
    takes = typing.get_type_hints(_undecorated(getattr(getattr(api, kind), method)))
    try:
        given = {name: _given(takes[name], value, name) for name, value in arguments.items()}
        response = function(**given)
    except ApiException as error:
        return {"status": error.status, "data": error.data, "trouble": f"{error.status}: {error.body}"}
    except Exception as error:
        return {"status": 0, "data": None, "trouble": f"the client failed: {type(error).__name__}: {error}"}
    return {"status": response.status_code, "data": response.data, "trouble": _misfit(answer, response.data)}


def _given(kind: Any, value: Any, place: str) -> Any:
    """An argument as the client's own types have it."""
    if typing.get_origin(kind) is typing.Union:
        kind = next(each for each in typing.get_args(kind) if each is not type(None))
    if typing.get_origin(kind) is list:
        return [_given(typing.get_args(kind)[0], each, place) for each in value]
    if kind is datetime.datetime:
        return datetime.datetime.fromisoformat(value)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value).value
    if hasattr(kind, "from_dict"):
        made = kind.from_dict(value)
        _check_sent(value, client_json(made.to_dict()), place)
        return made
    return value


def client_json(value: Any) -> Any:
    """As the client sends it."""
    return json.loads(json.dumps(value, default=lambda each: getattr(each, "value", None) or each.isoformat()))


def _check_sent(wanted: Any, sent: Any, place: str) -> None:
    """The client drops what its models do not know: such a case would try nothing."""
    if isinstance(wanted, dict):
        for name, value in wanted.items():
            assert name in sent, f"the client does not send {place}.{name}"
            _check_sent(value, sent[name], f"{place}.{name}")
    elif isinstance(wanted, list):
        assert len(sent) == len(wanted), f"the client does not send {place}"
        for at, (before, after) in enumerate(zip(wanted, sent, strict=True)):
            _check_sent(before, after, f"{place}[{at}]")


def _misfit(answer: str, data: Any) -> str:
    """How the answer differs from the model; empty: it satisfies it."""
    match answer:
        case "anything":
            return ""
        case "nothing":
            return "" if data is None else f"an empty answer is expected, not {data!r}"
        case "text":
            return "" if isinstance(data, str) else f"a text is expected, not {type(data).__name__}"
    if answer.startswith("["):
        if not isinstance(data, list):
            return f"a bare list of {answer[1:-1]} is expected, not {type(data).__name__}"
        return next((said for each in data if (said := _misfit(answer[1:-1], each))), "")
    if "&" in answer:
        return next((said for each in answer.split(" & ") if (said := _misfit(each, data))), "")
    kind = OWN.get(answer) or getattr(models, answer.removeprefix(MODELS))
    try:
        if answer in OWN:
            kind.model_validate(data, by_alias=True, by_name=False)
        elif issubclass(kind, enum.Enum):
            kind(data)
        else:
            _check_there(kind.from_dict(data), data, answer)
    except Exception as error:
        return f"{answer}: {type(error).__name__}: {error}"
    return ""


def _check_there(made: Any, data: Any, place: str) -> None:
    """The client's own reading takes an absent field for null; its models require some of them to be there."""
    if isinstance(made, list):
        for at, each in enumerate(made):
            _check_there(each, data[at], f"{place}[{at}]")
    if hasattr(made, "actual_instance"):
        _check_there(made.actual_instance, data, place)
        return
    if not isinstance(made, pydantic.BaseModel):
        return
    for name, info in type(made).model_fields.items():
        key = info.alias or name
        if info.is_required() and key not in data:
            raise ValueError(f"{place}.{key} is missing")
        if key in data:
            _check_there(getattr(made, name), data[key], f"{place}.{key}")


if __name__ == "__main__":
    main()
