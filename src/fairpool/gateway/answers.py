"""Answers of the gateway itself: redirects, and refusals as a page or as JSON."""

from __future__ import annotations

from html import escape
from http import HTTPStatus

from fairpool.api.problems import MEDIA_TYPE, problem_document, problem_item
from fairpool.gateway.aio import Request, Response, web
from fairpool.model.problem import Problem

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
SERVER = {"Server": "fairpool"}


def redirect(url: str, status: int) -> Response:
    return web.Response(status=status, headers={**HEADERS, **SERVER, "Location": url})


def refused(request: Request, status: int, problem: Problem) -> Response:
    """For a browser a page, for a program a problem as the API sends them."""
    headers = {**HEADERS, **SERVER}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if "text/html" in request.headers.get("Accept", ""):
        text = (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Fairpool</title><style>'
            "body{font:16px/1.55 system-ui,sans-serif;margin:3rem auto;max-width:40rem;padding:0 1rem}</style></head>"
            f"<body><h1>{escape(_sentence(problem.what))}</h1><p>{escape(_sentence(problem.fix))}</p></body></html>\n"
        )
        return web.Response(status=status, text=text, content_type="text/html", headers=headers)
    answer = problem_document(status, HTTPStatus(status).phrase, [problem_item(problem)])
    text = answer.model_dump_json(by_alias=True, exclude_none=True)
    return web.Response(status=status, text=text, content_type=MEDIA_TYPE, headers=headers)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
