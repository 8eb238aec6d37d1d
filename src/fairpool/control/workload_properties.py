"""HTTP routes for what workloads have in common: categories and types, which are fixed, and priorities."""

from __future__ import annotations

from fairpool.api import workloads as wire
from fairpool.api.workload_spec import Kind
from fairpool.control.admission import KINDS
from fairpool.control.items import CATEGORIES
from fairpool.control.plane import Caller
from fairpool.control.rbac import Action
from fairpool.control.refusal import unknown
from fairpool.control.routes import Routes
from fairpool.model.precedence import KIND_RULES, PRIORITY_CLASSES, class_name

routes = Routes("workloads")

DESCRIPTIONS = {
    "Build": "Interactive work: sessions that keep their GPUs until they are stopped",
    "Train": "Training: runs to its end, and may use idle GPUs of others",
    "Deploy": "Inference: models that serve requests",
}
CATEGORY_LIST = [
    wire.Category(id=name, name=name, description=description) for name, description in DESCRIPTIONS.items()
]


@routes.get(
    "/api/v1/workload-priorities", action=Action.SELF, answer=wire.PriorityClassPage, summary="List priority classes"
)
async def priorities(caller: Caller) -> wire.PriorityClassPage:
    listed = [wire.PriorityClass(id=name, name=name, value=value) for name, value in PRIORITY_CLASSES.items()]
    return wire.PriorityClassPage(priorities=listed, workload_priorities=listed)


@routes.get("/api/v1/workload-categories", action=Action.SELF, answer=wire.CategoryList, summary="List categories")
async def categories(caller: Caller) -> wire.CategoryList:
    return wire.CategoryList(categories=CATEGORY_LIST)


@routes.get(
    "/api/v1/workload-categories/{category_id}", action=Action.SELF, answer=wire.Category, summary="Get a category"
)
async def category(category_id: str, caller: Caller) -> wire.Category:
    found = next((each for each in CATEGORY_LIST if each.id == category_id), None)
    if found is None:
        raise unknown("category", category_id)
    return found


@routes.get(
    "/api/v1/workload-types", action=Action.SELF, answer=wire.WorkloadTypeList, summary="List types of workloads"
)
async def workload_types(caller: Caller) -> wire.WorkloadTypeList:
    return wire.WorkloadTypeList(types=[_type(kind) for kind in Kind])


@routes.get(
    "/api/v1/workload-types/{type_id}", action=Action.SELF, answer=wire.WorkloadType, summary="Get a type of workloads"
)
async def workload_type(type_id: str, caller: Caller) -> wire.WorkloadType:
    found = next((kind for kind in Kind if kind.value == type_id), None)
    if found is None:
        raise unknown("workload type", type_id)
    return _type(found)


def _type(kind: Kind) -> wire.WorkloadType:
    priority = class_name(KIND_RULES[KINDS[kind]].priority)
    return wire.WorkloadType(
        id=kind.value,
        name=kind.value,
        category_id=CATEGORIES[kind],
        category_name=CATEGORIES[kind],
        priority_id=priority,
        priority_name=priority,
    )
