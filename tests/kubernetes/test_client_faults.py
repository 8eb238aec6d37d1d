"""The client of the Kubernetes API against a server that misbehaves: what is repeated, resumed and listed again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from fairpool.engines.kubernetes import client as client_module
from fairpool.engines.kubernetes import watch as watch_module
from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.credentials import ApiServer, Credentials, Identification
from fairpool.engines.kubernetes.failures import (
    AlreadyExists,
    ApiUnreachable,
    BadAnswer,
    Conflict,
    Gone,
    KubernetesError,
    NotFound,
    Refused,
    TooManyRequests,
)
from fairpool.engines.kubernetes.resources import NODES, PODS, Object
from fairpool.engines.kubernetes.watch import NewestVersions, WatchEvent, changes
from tests.kubernetes.event_loop import within
from tests.kubernetes.faulty_server import (
    FaultyAnswer,
    FaultyServer,
    SeenRequest,
    client_of,
    faulty_server,
    listing,
    thing,
    with_token,
)
from tests.kubernetes.watched_objects import WatchedObjects

LIMIT_S = 20.0


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The delays of repeated calls, a hundredth of what they are."""
    for module in (client_module, watch_module):
        monkeypatch.setattr(module, "FIRST_DELAY_S", 0.001)
        monkeypatch.setattr(module, "LONGEST_DELAY_S", 0.02)


# --- one call ---------------------------------------------------------------------------------------------------------


def in_turn(*answers: Callable[[FaultyAnswer], Coroutine[Any, Any, None]]) -> Any:
    """The first request gets the first answer, and so on; the last answer is repeated."""
    waiting = list(answers)

    async def answer(_request: SeenRequest, to: FaultyAnswer) -> None:
        await (waiting.pop(0) if len(waiting) > 1 else waiting[0])(to)

    return answer


def refuses(status: int, message: str = "no", **headers: str) -> Callable[[FaultyAnswer], Coroutine[Any, Any, None]]:
    return lambda to: to.refuses(status, message, **headers)


def says(content: Any) -> Callable[[FaultyAnswer], Coroutine[Any, Any, None]]:
    return lambda to: to.says(content)


async def cut_off(to: FaultyAnswer) -> None:
    to.is_cut_off()


async def half(to: FaultyAnswer) -> None:
    await to.part(b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"metadata": {"na')
    to.is_cut_off()


async def never(to: FaultyAnswer) -> None:
    await asyncio.sleep(LIMIT_S)


async def get(client: KubernetesClient) -> Object:
    return await client.get(PODS, "a", Object, namespace="test")


async def create(client: KubernetesClient) -> Object:
    return await client.create(PODS, {"metadata": {"name": "a"}}, namespace="test")


async def apply(client: KubernetesClient) -> Object:
    return await client.apply(PODS, "a", {"metadata": {"name": "a"}}, Object, namespace="test")


async def delete_one(client: KubernetesClient) -> None:
    await client.delete(PODS, "a", namespace="test", uid="u", grace_s=3)


async def delete_any(client: KubernetesClient) -> None:
    await client.delete(PODS, "a", namespace="test")


async def evict(client: KubernetesClient) -> None:
    await client.evict("a", namespace="test")


Call = Callable[[KubernetesClient], Coroutine[Any, Any, Any]]


@pytest.mark.parametrize("call", [get, create, apply, delete_one, delete_any])
@within(LIMIT_S)
async def test_a_call_that_is_refused_for_load_is_repeated(call: Call) -> None:
    async with client_of(in_turn(refuses(429), refuses(429, Retry_After="0"), says(thing("a", 5)))) as (
        client,
        server,
    ):
        await call(client)
        assert len(server.requests) == 3
        assert len({request.body for request in server.requests}) == 1


@pytest.mark.slow
@within(LIMIT_S)
async def test_retry_after_is_waited_for() -> None:
    async with client_of(in_turn(refuses(429, Retry_After="1"), says(thing("a", 5)))) as (client, _server):
        began = asyncio.get_running_loop().time()
        await get(client)
        assert 1.0 <= asyncio.get_running_loop().time() - began < 5


@within(LIMIT_S)
async def test_an_eviction_that_a_budget_forbids_is_not_repeated() -> None:
    async with client_of(in_turn(refuses(429, "would violate the budget"))) as (client, server):
        with pytest.raises(TooManyRequests, match="evict pods test/a: would violate the budget") as failure:
            await evict(client)
        assert (failure.value.status, len(server.requests)) == (429, 1)


FAULTS = pytest.mark.parametrize(
    ("fault", "error"),
    [(refuses(500), Refused), (refuses(503), Refused), (cut_off, ApiUnreachable), (half, ApiUnreachable)],
    ids=["500", "503", "no answer", "half an answer"],
)


@FAULTS
@pytest.mark.parametrize("call", [get, apply, delete_one])
@within(LIMIT_S)
async def test_a_call_with_the_same_effect_twice_is_repeated_after_a_fault(call: Call, fault: Any, error: Any) -> None:
    async with client_of(in_turn(fault, fault, says(thing("a", 5)))) as (client, server):
        await call(client)
        assert len(server.requests) == 3
    async with client_of(fault_for_ever(fault), attempts=4) as (client, server):
        with pytest.raises(error):
            await call(client)
        assert len(server.requests) == 4


def fault_for_ever(fault: Any) -> Any:
    return in_turn(fault)


@FAULTS
@pytest.mark.parametrize("call", [create, delete_any, evict])
@within(LIMIT_S)
async def test_a_call_that_may_have_had_its_effect_is_not_repeated(call: Call, fault: Any, error: Any) -> None:
    async with client_of(in_turn(fault, says(thing("a", 5)))) as (client, server):
        with pytest.raises(error) as failure:
            await call(client)
        assert len(server.requests) == 1
        assert not isinstance(failure.value, ApiUnreachable) or failure.value.was_sent


@within(LIMIT_S)
async def test_a_server_that_is_away_is_told_from_one_that_may_have_acted() -> None:
    async with faulty_server(in_turn(never)) as server:
        address = server.address
    async with KubernetesClient(ApiServer(address, with_token("secret")), attempts=2) as client:
        with pytest.raises(ApiUnreachable, match="create pods test/a: the Kubernetes API server does not") as failure:
            await create(client)
        assert not failure.value.was_sent


@pytest.mark.slow
@within(LIMIT_S)
async def test_a_server_that_hangs_is_unreachable_after_two_attempts() -> None:
    async with client_of(in_turn(never), timeout_s=0.2) as (client, server):
        with pytest.raises(ApiUnreachable, match=r"get pods test/a: .*: no answer within 0\.2 s"):
            await get(client)
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("status", "reason", "error"),
    [
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Gone),
        (403, "Forbidden", Refused),
        (422, "Invalid", Refused),
    ],
)
@within(LIMIT_S)
async def test_each_refusal_has_its_class_and_the_servers_words(status: int, reason: str, error: type[Refused]) -> None:
    content = {"kind": "Status", "code": status, "reason": reason, "message": "pods are not what you think"}
    async with client_of(in_turn(lambda to: to.says(content, status))) as (client, server):
        with pytest.raises(error) as failure:
            await create(client)
        assert type(failure.value) is error
        assert str(failure.value) == f"create pods test/a: pods are not what you think ({status} {reason})"
        assert (failure.value.status, failure.value.reason, len(server.requests)) == (status, reason, 1)


@within(LIMIT_S)
async def test_the_text_of_a_proxy_is_shown() -> None:
    async with client_of(in_turn(lambda to: to.says(b"<h1>Bad Gateway</h1>\xff", 502)), attempts=1) as (
        client,
        _server,
    ):
        with pytest.raises(Refused, match=r"get pods test/a: <h1>Bad Gateway</h1>.* \(502\)"):
            await get(client)


@pytest.mark.parametrize(
    "body", [b"<html>", b'{"metadata": {"name": 5}}', b'{"metadata": {"name": "\xff"}}', b"[]", b""]
)
@within(LIMIT_S)
async def test_an_answer_that_is_something_else_is_told(body: bytes) -> None:
    async with client_of(in_turn(says(body))) as (client, _server):
        with pytest.raises(BadAnswer, match="get pods test/a: unexpected answer"):
            await get(client)


@within(LIMIT_S)
async def test_calls_run_at_once_up_to_the_limit() -> None:
    running, most = 0, 0

    async def answer(_request: SeenRequest, to: FaultyAnswer) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        await to.says(thing("a", 1))

    async with client_of(answer, calls_at_once=4) as (client, _server):
        await asyncio.gather(*(get(client) for _ in range(20)))
    assert most == 4


@within(LIMIT_S)
async def test_a_rejected_token_is_read_again_once() -> None:
    tokens = iter(["old", "new", "newer"])

    async def answer(request: SeenRequest, to: FaultyAnswer) -> None:
        if request.headers["authorization"] == "Bearer new":
            await to.says(thing("a", 1))
        else:
            await to.refuses(401, "who are you?")

    async with faulty_server(answer) as server:
        credentials = Credentials(lambda _rejected: Identification(token=next(tokens)))
        async with KubernetesClient(ApiServer(server.address, credentials)) as client:
            await create(client)
            assert [each.headers["authorization"] for each in server.requests] == ["Bearer old", "Bearer new"]
        async with KubernetesClient(ApiServer(server.address, with_token("wrong"))) as client:
            with pytest.raises(Refused, match="who are you") as failure:
                await create(client)
            assert (failure.value.status, len(server.requests)) == (401, 4)


# --- lists ------------------------------------------------------------------------------------------------------------


@within(LIMIT_S)
async def test_a_list_is_read_page_by_page() -> None:
    async def answer(request: SeenRequest, to: FaultyAnswer) -> None:
        page = int(request.query.get("continue", 0))
        assert request.query["limit"] == "2"
        following = str(page + 1) if page < 2 else ""
        await to.says(listing(9, thing(f"p{page}a", 1), thing(f"p{page}b", 1), following=following))

    async with client_of(answer) as (client, _server):
        found = await client.list(PODS, Object, page=2, labels="a=b,c!=d")
        assert [each.metadata.name for each in found.items] == ["p0a", "p0b", "p1a", "p1b", "p2a", "p2b"]
        assert found.resource_version == "9"


@within(LIMIT_S)
async def test_a_list_whose_next_page_has_expired_is_read_again_and_at_last_without_pages() -> None:
    async def answer(request: SeenRequest, to: FaultyAnswer) -> None:
        if "continue" in request.query:
            await to.refuses(410, "The provided continue parameter is too old")
        elif "limit" in request.query:
            await to.says(listing(9, thing("a", 1), following="more"))
        else:
            await to.says(listing(10, thing("a", 1), thing("b", 2)))

    async with client_of(answer) as (client, server):
        found = await client.list(PODS, Object, page=1)
        assert [each.metadata.name for each in found.items] == ["a", "b"]
        assert found.resource_version == "10"
        assert len(server.requests) == 5


@within(LIMIT_S)
async def test_an_empty_list_may_be_null() -> None:
    async with client_of(in_turn(says({"metadata": {}, "items": None}))) as (client, _server):
        assert (await client.list(NODES, Object)).items == []


# --- watches ----------------------------------------------------------------------------------------------------------


class Watched(WatchedObjects[Object]):
    """Pods that are watched, and what was reported."""

    def __init__(self, client: KubernetesClient) -> None:
        super().__init__(client, PODS, Object, silence_s=5.0)

    async def until(self, **versions: str) -> None:
        while self.versions != versions:
            assert not self.task.done(), self.task.exception()
            await asyncio.sleep(0.005)

    @property
    def versions(self) -> dict[str, str]:
        return {name: each.metadata.resource_version for name, each in self.objects.items()}


def watching(
    lists: list[dict[str, Any]],
    *watches: Callable[[FaultyAnswer], Coroutine[Any, Any, None]],
    newest: int = 1000,
) -> Callable[[SeenRequest, FaultyAnswer], Coroutine[Any, Any, None]]:
    """Lists and watches, each in turn; after the last watch, one that stays silent. `newest`: how far it has come."""
    waiting, left = list(watches), list(lists)

    async def answer(request: SeenRequest, to: FaultyAnswer) -> None:
        if asks_how_far(request):
            await to.says(listing(newest))
        elif not request.is_watch:
            await to.says(left.pop(0) if len(left) > 1 else left[0])
        elif waiting:
            await waiting.pop(0)(to)
        else:
            await to.streams()
            await asyncio.sleep(LIMIT_S)

    return answer


def asks_how_far(request: SeenRequest) -> bool:
    """Before a watch is resumed."""
    return not request.is_watch and request.query.get("limit") == "1"


def positions(server: FaultyServer) -> list[str]:
    """Of each request for objects: "list", or the version from which it watches."""
    asked = [each for each in server.requests if not asks_how_far(each)]
    return [each.query["resourceVersion"] if each.is_watch else "list" for each in asked]


async def events_then_cut(to: FaultyAnswer) -> None:
    await to.streams(("ADDED", thing("b", 11)), ("MODIFIED", thing("a", 12)))
    await asyncio.sleep(0.05)
    await to.chunk(b'{"type": "DELETED", "object": {"metadata": {"name": "a", "reso')
    to.is_cut_off()


@within(LIMIT_S)
async def test_a_watch_that_is_cut_off_resumes_after_the_last_whole_event() -> None:
    async def resumed(to: FaultyAnswer) -> None:
        await to.streams(("DELETED", thing("a", 13)))
        await asyncio.sleep(LIMIT_S)

    async with client_of(watching([listing(10, thing("a", 5))], events_then_cut, resumed)) as (client, server):
        watched = Watched(client)
        await watched.until(b="11")
        assert positions(server) == ["list", "10", "12"]
        assert watched.changes[0] == {"a": "5"}
        assert watched.changes[-1] == {"a": None}
        await watched.stop()


@within(LIMIT_S)
async def test_an_event_may_come_in_many_parts() -> None:
    async def in_parts(to: FaultyAnswer) -> None:
        await to.streams()
        text = b'{"type":"ADDED","object":{"metadata":{"name":"b","namespace":"test","resourceVersion":"11"}}}\n' * 2
        for start in range(0, len(text), 7):
            await to.chunk(text[start : start + 7])
            await asyncio.sleep(0.001)
        await asyncio.sleep(LIMIT_S)

    async with client_of(watching([listing(10)], in_parts)) as (client, _server):
        watched = Watched(client)
        await watched.until(b="11")
        assert watched.changes == [{"b": "11"}]
        await watched.stop()


@within(LIMIT_S)
async def test_a_watch_that_ends_regularly_resumes_from_the_bookmark() -> None:
    async def ended(to: FaultyAnswer) -> None:
        bookmark = {"metadata": {"resourceVersion": "40", "creationTimestamp": None}, "spec": {"containers": None}}
        await to.streams(("ADDED", thing("a", 11)), ("BOOKMARK", bookmark))
        await to.ends()

    async with client_of(watching([listing(10)], ended)) as (client, server):
        watched = Watched(client)
        while len(positions(server)) < 3:
            await asyncio.sleep(0.005)
        assert positions(server) == ["list", "10", "40"]
        assert watched.failure is None
        await watched.stop()


@pytest.mark.parametrize(
    "expired",
    [
        pytest.param(lambda to: to.refuses(410, "too old resource version: 10 (500)"), id="answered 410"),
        pytest.param(
            lambda to: to.streams(("ERROR", {"code": 410, "reason": "Expired", "message": "old"})), id="event 410"
        ),
        pytest.param(lambda to: to.streams(("ERROR", {"code": 500, "message": "etcd is away"})), id="event 500"),
        pytest.param(lambda to: to.refuses(500, "no"), id="answered 500"),
        pytest.param(lambda to: to.refuses(504, "Too large resource version: 10, current: 3"), id="answered 504"),
        pytest.param(lambda to: to.streams(("ADDED", {"metadata": {"name": 5}})), id="not an object"),
    ],
)
@within(LIMIT_S)
async def test_an_expired_watch_lists_again_and_finds_what_was_deleted(expired: Any) -> None:
    lists = [listing(10, thing("a", 5), thing("b", 6)), listing(500, thing("b", 6), thing("c", 400))]

    async with client_of(watching(lists, expired)) as (client, server):
        watched = Watched(client)
        await watched.until(b="6", c="400")
        assert watched.changes == [{"a": "5", "b": "6"}, {"a": None, "b": "6", "c": "400"}]
        while len(server.requests) < 4:
            await asyncio.sleep(0.005)
        assert positions(server) == ["list", "10", "list", "500"]
        await watched.stop()


@within(LIMIT_S)
async def test_events_before_an_error_count() -> None:
    async def error_at_the_end(to: FaultyAnswer) -> None:
        await to.streams()
        lines = b'{"type":"ADDED","object":{"metadata":{"name":"b","namespace":"test","resourceVersion":"11"}}}\n'
        await to.chunk(lines + b'{"type":"ERROR","object":{"code":410,"reason":"Expired"}}\n')

    lists = [listing(10), listing(12, thing("b", 11))]
    async with client_of(watching(lists, error_at_the_end)) as (client, _server):
        watched = Watched(client)
        await watched.until(b="11")
        await watched.stop()


@within(LIMIT_S)
async def test_a_silent_watch_is_resumed_without_a_new_list() -> None:
    failures: list[KubernetesError] = []

    async with client_of(watching([listing(10, thing("a", 5))], never_again)) as (client, server):
        async for batch in changes(client, PODS, Object, silence_s=0.05, on_failure=failures.append):
            assert batch.is_complete == (len(server.requests) == 1)
            if len(positions(server)) == 4:
                break
        assert positions(server) == ["list", "10", "10", "10"]
    assert [str(each) for each in failures] == [
        "watch pods: the Kubernetes API server does not respond: no answer within 0.05 s"
    ] * 2


@within(LIMIT_S)
async def test_a_restored_api_server_is_listed_again_and_older_versions_count() -> None:
    """It would accept a watch from the future and stay silent."""

    async def ended(to: FaultyAnswer) -> None:
        await to.streams(("MODIFIED", thing("a", 120)))
        await to.ends()

    batches = []
    lists = [listing(100, thing("a", 90), thing("late", 95)), listing(50, thing("a", 40))]
    async with client_of(watching(lists, ended, newest=50)) as (client, server):
        async for batch in changes(client, PODS, Object):
            batches.append(batch)
            if positions(server) == ["list", "100", "list", "50"]:
                break
    complete = [each for each in batches if each.is_complete]
    assert [each.is_restored for each in complete] == [False, True]
    assert [(each.object.metadata.name, each.object.metadata.resource_version) for each in complete[1].events] == [
        ("a", "40")
    ]


async def never_again(to: FaultyAnswer) -> None:
    await to.streams()
    await asyncio.sleep(LIMIT_S)


@within(LIMIT_S)
async def test_a_watch_without_permission_says_so_and_goes_on_when_it_is_given() -> None:
    permitted = asyncio.Event()

    async def answer(request: SeenRequest, to: FaultyAnswer) -> None:
        if not permitted.is_set():
            await to.refuses(403, "pods is forbidden")
        elif request.is_watch:
            await never_again(to)
        else:
            await to.says(listing(10, thing("a", 5)))

    async with client_of(answer) as (client, _server):
        watched = Watched(client)
        while "pods is forbidden" not in str(watched.failure):
            await asyncio.sleep(0.005)
        permitted.set()
        assert not watched.is_complete.is_set()
        await watched.until(a="5")
        assert str(watched.failure) == "None"
        await watched.stop()


@pytest.mark.slow
@within(LIMIT_S)
async def test_a_server_that_ends_every_watch_at_once_is_not_hammered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "FIRST_DELAY_S", 0.05)
    monkeypatch.setattr(watch_module, "LONGEST_DELAY_S", 0.2)

    async def answer(request: SeenRequest, to: FaultyAnswer) -> None:
        if request.is_watch:
            await to.streams()
            await to.ends()
        else:
            await to.says(listing(10))

    async with client_of(answer) as (client, server):
        watched = Watched(client)
        await asyncio.sleep(1.0)
        assert 3 <= len(server.requests) <= 20
        await watched.stop()


# --- events in the wrong order ----------------------------------------------------------------------------------------


def event(name: str, version: int, uid: str = "", *, is_deleted: bool = False) -> WatchEvent[Object]:
    return WatchEvent(msgspec.convert(thing(name, version, uid), Object), is_deleted)


def deleted(name: str, version: int, uid: str = "") -> WatchEvent[Object]:
    return event(name, version, uid, is_deleted=True)


def listed(version: int, *events: WatchEvent[Object]) -> NewestVersions:
    made = NewestVersions()
    made.listed([each.object for each in events], str(version))
    return made


def test_an_event_that_comes_twice_is_reported_once() -> None:
    versions = listed(10, event("a", 5))
    assert [versions.is_news(each) for each in (event("a", 11), event("a", 11), event("a", 5))] == [True, False, False]


def test_an_older_version_does_not_replace_a_newer_one() -> None:
    versions = listed(10, event("a", 5))
    assert [versions.is_news(each) for each in (event("a", 12), event("a", 11))] == [True, False]


def test_a_late_event_does_not_bring_back_what_was_deleted() -> None:
    versions = listed(10, event("a", 5))
    late = (deleted("a", 12), event("a", 11), event("a", 12), deleted("a", 12))
    assert [versions.is_news(each) for each in late] == [True, False, False, False]
    assert versions.is_news(event("a", 13, "second"))


def test_a_late_deletion_does_not_remove_the_next_object_of_that_name() -> None:
    versions = listed(10, event("a", 5, "first"))
    late = (event("a", 13, "second"), deleted("a", 12, "first"))
    assert [versions.is_news(each) for each in late] == [True, False]


def test_a_deletion_may_carry_the_last_version() -> None:
    assert listed(10, event("a", 5)).is_news(deleted("a", 5))


def test_events_from_before_the_list_are_dropped() -> None:
    versions = listed(10)
    assert [versions.is_news(each) for each in (event("a", 9), deleted("b", 10), event("a", 11))] == [
        False,
        False,
        True,
    ]


def test_a_list_counts_although_its_versions_are_lower() -> None:
    """The cluster was restored from a backup."""
    versions = listed(100, event("a", 90), event("b", 95))
    versions.listed([event("a", 15).object], "20")
    assert [versions.is_news(each) for each in (event("a", 16), event("b", 21), event("c", 22))] == [True, True, True]


def test_versions_that_are_not_numbers_are_reported_as_they_come() -> None:
    versions = listed(10)
    strange = WatchEvent(msgspec.convert({"metadata": {"name": "a", "resourceVersion": "x1"}}, Object))
    assert [versions.is_news(strange), versions.is_news(strange), versions.is_news(strange._replace(is_deleted=True))]


def test_remembered_deletions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "DELETED_MAX", 10)
    versions = listed(10)
    for number in range(11, 111):
        assert versions.is_news(event(f"p{number}", number))
        assert versions.is_news(deleted(f"p{number}", number))
    assert len(versions._deleted) == 10
    assert versions._known == {}


def test_every_error_of_the_package_is_one_of_its_own() -> None:
    for error in (ApiUnreachable, BadAnswer, Refused, Gone, Conflict, AlreadyExists, NotFound, TooManyRequests):
        assert issubclass(error, KubernetesError)
