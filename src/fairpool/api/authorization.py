"""Roles, permissions and permitted scopes, as requests and answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, StrictBool, StringConstraints

from fairpool.api.roles import ResourceGroup, ResourceType, Verb
from fairpool.api.wire import Answer, LongText, Moment, Request, ShortText

RoleTitle = Annotated[
    str, StringConstraints(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]*[^\s\d][^\x00-\x1f\x7f]*$")
]
"""Not only digits, which would be an id."""


class RolePermission(Request):
    """What a role may do with a type of resource."""

    resource_type: ResourceType
    actions: Annotated[list[Verb], Field(min_length=1, max_length=4)]


class RoleRequest(Request):
    """A custom role. It cannot permit more than its creator may do."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "Template editor",
                    "description": "Changes templates",
                    "permissions": [{"resourceType": "templates", "actions": ["read", "update"]}],
                }
            ]
        }
    )
    name: RoleTitle
    description: LongText = ""
    enabled: StrictBool = True
    """A disabled role permits nothing."""
    permissions: Annotated[list[RolePermission], Field(min_length=1, max_length=len(ResourceType))]


class RoleUpdate(Request):
    """Fields that are left out stay as they are; `permissions` is replaced as a whole."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"description": "Changes templates of the department"}]})
    name: RoleTitle | None = None
    description: LongText | None = None
    enabled: StrictBool | None = None
    permissions: Annotated[list[RolePermission], Field(min_length=1, max_length=len(ResourceType))] | None = None


class GridRow(Answer):
    """A row of the permission grid: what is permitted with a type of resource."""

    resource_type: ResourceType
    display_name: str
    group_id: ResourceGroup
    actions: list[Verb]


class Role(Answer):
    """A role and its permissions."""

    id: int
    key: str
    """As commands call it."""
    name: str
    description: str
    enabled: bool
    effective_enabled: bool
    custom: bool
    permissions: list[GridRow]
    created_at: Moment
    created_by: str
    updated_at: Moment


class ScopesRequest(Request):
    """The permission to look up: by name, or as a type of resource of the permission grid."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"resourceType": "project", "action": "read"}]})
    permission: Annotated[ShortText | None, Field(examples=["workload.submit"])] = None
    resource_type: ResourceType | None = None
    action: Verb | None = None


class Scopes(Answer):
    """The scopes where the caller has the permission of this name."""

    permission: str
    tenant: Annotated[bool, Field(description="In all scopes")]
    clusters: list[str] = Field(default_factory=list)
    departments: list[str]
    projects: list[str]


class PermittedScopes(Answer):
    """Scopes where one action is permitted."""

    system: bool = False
    tenants: list[str] = Field(default_factory=list)
    clusters: list[str] = Field(default_factory=list)
    departments: list[str] = Field(default_factory=list)
    projects: list[str] = Field(default_factory=list)


class PermittedActions(Answer):
    """Scopes where each action on a type of resource is permitted."""

    create: PermittedScopes
    read: PermittedScopes
    update: PermittedScopes
    delete: PermittedScopes
