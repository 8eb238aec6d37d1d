"""Which responses of a SAML provider are accepted: an honest one, and none that was forged, moved or changed."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives import hashes
from lxml import etree
from minisignxml.config import SigningConfig

from fairpool.control import saml
from fairpool.control.provider_error import ProviderError, UnknownKey
from fairpool.control.xml_signature import DS
from tests.control.saml_provider import (
    ENTITY,
    SIGN_IN_URL,
    Answer,
    encoded,
    metadata_xml,
    signed,
    signed_with_prefix_list,
    signer,
)

NOW_S = 1_800_000_000
HERE = saml.ServiceProvider(entity_id="https://pool.example.com/m", acs_url="https://pool.example.com/acs")
METADATA = saml.SamlMetadata(issuer=ENTITY, sign_in_url=SIGN_IN_URL, certificates=(signer().text,))
EVIL = "evil@example.com"


def answer(**changed: object) -> Answer:
    return replace(Answer(HERE, "_asked", NOW_S), **changed)  # type: ignore[arg-type]


def read(response: bytes | str, metadata: saml.SamlMetadata = METADATA, now_s: int = NOW_S) -> saml.Assertion:
    return saml.read_response(encoded(response), metadata, HERE, now_s)


def tree_of(response: bytes) -> etree._Element:
    return etree.fromstring(response)


# --- what is accepted ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("response", [False, True], ids=["assertion", "response"])
def test_what_the_provider_signed_is_read(response: bool) -> None:
    said = read(answer(attributes={"GROUPS": ["a", "b"], "UID": ["4711"]}).signed(response=response))
    assert (said.subject, said.in_response_to, said.session, said.email) == ("account-1", "_asked", "s1", "")
    assert said.claims == {"email": ["ann@example.com"], "GROUPS": ["a", "b"], "UID": ["4711"]}
    assert (said.expires_at_s, said.session_ends_at_s) == (NOW_S + 300 + saml.SKEW_S, None)
    assert read(answer(session_s=900).signed(response=response)).session_ends_at_s == NOW_S + 900 + saml.SKEW_S


def test_a_response_may_have_both_signatures_and_both_must_be_right() -> None:
    inner = tree_of(answer().signed())
    assert read(signed(inner, signer())).subject == "account-1"
    with pytest.raises(UnknownKey):
        read(signed(inner, signer("other")))
    changed = tree_of(signed(tree_of(answer().signed(signer("other"))), signer()))
    with pytest.raises(UnknownKey):
        read(etree.tostring(changed))


def test_while_the_provider_changes_its_key_both_are_good() -> None:
    metadata = saml.read_metadata(metadata_xml(signer(), signer("next")).encode(), NOW_S)
    assert read(answer().signed(), metadata).subject == "account-1"
    assert read(answer().signed(signer("next")), metadata).subject == "account-1"


def test_clocks_may_differ_a_little() -> None:
    assert read(answer(early_s=saml.SKEW_S - 1).signed()).subject == "account-1"
    assert read(answer().signed(), now_s=NOW_S + 300 + saml.SKEW_S - 1).subject == "account-1"


def test_a_name_that_is_an_address_stands_for_a_missing_attribute() -> None:
    assert read(answer(subject=EVIL, name_format=saml.EMAIL).signed()).email == EVIL


def test_namespaces_in_a_prefix_list_are_part_of_what_was_signed() -> None:
    schema = ' xmlns:xs="http://www.w3.org/2001/XMLSchema"'
    tree = tree_of(answer(prefix_declaration=schema).response().encode())
    response = signed_with_prefix_list(tree.find(f"{saml.A}Assertion"), signer(), "xs")
    assert read(response).subject == "account-1"
    assert response.count(schema.encode()) == 1
    with pytest.raises(ProviderError, match="changed after it was signed"):
        read(response.replace(schema.encode(), b""))


# --- what is not -----------------------------------------------------------------------------------------------------


def test_what_is_not_signed_by_the_provider_is_refused() -> None:
    with pytest.raises(ProviderError, match="not signed"):
        read(answer().response())
    with pytest.raises(UnknownKey, match="not made with a key of the provider"):
        read(answer().signed(signer("other")))  # with its certificate beside it


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"audience": "https://other.example.com"}, "its audience is not"),
        ({"recipient": "https://other.example.com/acs"}, "its Recipient is not"),
        ({"destination": "https://other.example.com/acs"}, "sent to another address"),
        ({"issuer": "https://other.example.com"}, "from another provider"),
        ({"asked": ""}, "has no InResponseTo"),
        ({"early_s": saml.SKEW_S + 1}, "not valid yet"),
        ({"late_s": -saml.SKEW_S}, "has expired"),
        ({"status": "urn:oasis:names:tc:SAML:2.0:status:AuthnFailed"}, r"did not let you in \(AuthnFailed\)"),
        ({"name_format": saml.TRANSIENT}, "transient"),
        ({"conditions": "<saml:Condition/>"}, "a condition that is not known"),
        ({"subject": "<saml:b>x</saml:b>"}, "NameID is not text"),
        ({"identifier": "_response"}, "the same ID"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_signed_response_for_another_place_or_time_is_refused(changed: dict[str, object], why: str) -> None:
    with pytest.raises(ProviderError, match=why):
        read(answer(**changed).signed())


def test_sha1_is_refused() -> None:
    weak = SigningConfig(signature_method=hashes.SHA1(), digest_method=hashes.SHA256())
    with pytest.raises(ProviderError, match="algorithm that is not accepted"):
        read(answer().signed(config=weak))
    weak = SigningConfig(signature_method=hashes.SHA256(), digest_method=hashes.SHA1())
    with pytest.raises(ProviderError, match="digest that is not accepted"):
        read(answer().signed(config=weak))


@pytest.mark.parametrize(
    "algorithm",
    ["http://www.w3.org/2000/09/xmldsig#hmac-sha1", "http://www.w3.org/2001/04/xmldsig-more#hmac-sha256", ""],
)
def test_a_published_key_is_not_taken_for_a_secret(algorithm: str) -> None:
    tree = tree_of(answer().signed())
    next(tree.iter(f"{DS}SignatureMethod")).set("Algorithm", algorithm)
    with pytest.raises(ProviderError, match="algorithm that is not accepted"):
        read(etree.tostring(tree))


def _change(tree: etree._Element) -> None:
    next(tree.iter(f"{saml.A}NameID")).text = EVIL


def _drop_transform(tree: etree._Element) -> None:
    transforms = next(tree.iter(f"{DS}Transforms"))
    transforms.remove(transforms[0])


def _xslt(tree: etree._Element) -> None:
    next(tree.iter(f"{DS}Transform")).set("Algorithm", "http://www.w3.org/TR/1999/REC-xslt-19991116")


def _second_reference(tree: etree._Element) -> None:
    info = next(tree.iter(f"{DS}SignedInfo"))
    info.append(etree.fromstring(etree.tostring(info.find(f"{DS}Reference"))))


def _second_info(tree: etree._Element) -> None:
    signature = next(tree.iter(f"{DS}Signature"))
    signature.insert(0, etree.fromstring(etree.tostring(signature[0])))


def _comment_in_digest(tree: etree._Element) -> None:
    """The digest of the changed document before a comment, the signed one behind it."""
    value = next(tree.iter(f"{DS}DigestValue"))
    signed_value, value.text = value.text, "AAAA"
    value.append(etree.Comment("x"))
    value[0].tail = signed_value
    _change(tree)


@pytest.mark.parametrize(
    "attack", [_change, _drop_transform, _xslt, _second_reference, _second_info, _comment_in_digest]
)
def test_what_was_changed_after_signing_is_refused(attack: Callable[[etree._Element], None]) -> None:
    tree = tree_of(answer().signed())
    attack(tree)
    with pytest.raises(ProviderError):
        read(etree.tostring(tree))


# --- wrapping: the signed assertion is somewhere, and another one where it is read -----------------------------------


def _forged() -> etree._Element:
    return etree.fromstring(answer(subject=EVIL, identifier="_forged").assertion())


def _wrapped_before(tree: etree._Element) -> None:
    tree.insert(2, _forged())


def _wrapped_after(tree: etree._Element) -> None:
    tree.append(_forged())


def _around(tree: etree._Element) -> None:
    """The forged one contains the signed one."""
    real, forged = tree.find(f"{saml.A}Assertion"), _forged()
    tree.replace(real, forged)
    forged.append(real)


def _in_signature(tree: etree._Element) -> None:
    """The signed one in an object of the signature, which is moved to the forged one."""
    real, forged = tree.find(f"{saml.A}Assertion"), _forged()
    signature = real.find(f"{DS}Signature")
    real.remove(signature)
    tree.replace(real, forged)
    forged.insert(1, signature)
    etree.SubElement(signature, f"{DS}Object").append(real)


def _in_extensions(tree: etree._Element) -> None:
    real = tree.find(f"{saml.A}Assertion")
    tree.replace(real, _forged())
    etree.SubElement(tree, f"{saml.P}Extensions").append(real)


def _same_identifier(tree: etree._Element) -> None:
    forged = etree.fromstring(answer(subject=EVIL).assertion())
    tree.insert(2, forged)


def _moved_signature(tree: etree._Element) -> None:
    """The signature of the assertion, on the response."""
    real = tree.find(f"{saml.A}Assertion")
    signature = real.find(f"{DS}Signature")
    real.remove(signature)
    tree.insert(1, signature)


@pytest.mark.parametrize(
    "attack",
    [_wrapped_before, _wrapped_after, _around, _in_signature, _in_extensions, _same_identifier, _moved_signature],
)
def test_a_wrapped_assertion_is_refused(attack: Callable[[etree._Element], None]) -> None:
    tree = tree_of(answer().signed())
    attack(tree)
    with pytest.raises(ProviderError, match="not accepted"):
        read(etree.tostring(tree))


def test_a_signed_response_with_another_response_around_it_is_refused() -> None:
    inner = tree_of(answer().signed(response=True))
    outer = etree.fromstring(answer(subject=EVIL, identifier="_forged").response())
    outer.set("ID", "_outer")
    outer.append(inner)
    with pytest.raises(ProviderError, match="not accepted"):
        read(etree.tostring(outer))


def test_a_comment_ends_no_name() -> None:
    """`admin@example.com<!-- -->.evil.test` is the account of evil.test: signatures do not cover comments."""
    response = answer(subject="admin@example.com.evil.test", name_format=saml.EMAIL).signed()
    changed = response.replace(b"admin@example.com.evil", b"admin@example.com<!-- -->.evil")
    assert changed != response
    assert read(changed).subject == read(changed).email == "admin@example.com.evil.test"


# --- documents -------------------------------------------------------------------------------------------------------

_ENTITIES = '<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
_FILE = '<!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/passwd">]>'


@pytest.mark.parametrize("start", [_ENTITIES, _FILE, '<!DOCTYPE r SYSTEM "http://127.0.0.1:1/x">'])
def test_a_document_type_is_refused(start: str) -> None:
    response = answer().signed().decode()
    with pytest.raises(ProviderError, match="document type"):
        read(start + response)
    with pytest.raises(ProviderError, match="document type"):
        saml.read_metadata((start + metadata_xml(signer())).encode(), NOW_S)


@pytest.mark.parametrize("coding", ["utf-16", "utf-7"])
def test_a_document_type_does_not_hide_in_another_encoding(coding: str) -> None:
    text = f'<?xml version="1.0" encoding="{coding}"?>{_FILE}' + answer(subject="&a;").response()
    with pytest.raises(ProviderError, match="not accepted"):
        read(text.encode(coding))


@pytest.mark.parametrize(
    "response",
    [
        "",
        "<",
        "<a/>",
        "\x00",
        "<a>" * 300,
        f"<r>{'<a/>' * 20_000}</r>",
        "<r " + " ".join(f'xmlns:p{n}="u{n}"' for n in range(100)) + "/>",
        "x" * saml.RESPONSE_MAX,
    ],
    ids=["nothing", "broken", "other", "zero", "deep", "many", "namespaces", "large"],
)
def test_what_is_no_response_is_refused(response: str) -> None:
    with pytest.raises(ProviderError):
        read(response)
    for junk in (response, None, "é", "!!"):
        with pytest.raises(ProviderError):
            saml.read_response(junk, METADATA, HERE, NOW_S)


@pytest.mark.parametrize("place", ["Response", "SignedInfo"])
def test_what_has_no_canonical_form_is_refused(place: str) -> None:
    """The names of namespaces must not be relative."""
    tree = tree_of(answer().signed(response=True))
    next(each for each in tree.iter("*") if each.tag.endswith(f"}}{place}")).append(etree.fromstring('<a xmlns="u"/>'))
    with pytest.raises(ProviderError, match="no canonical form"):
        read(etree.tostring(tree))


@pytest.mark.parametrize("prefixes", ["#default", "a\u00e9b", "x y z", "\ud7ff"])
def test_odd_prefix_lists_are_refused(prefixes: str) -> None:
    tree = tree_of(answer().signed())
    etree.SubElement(
        next(tree.iter(f"{DS}CanonicalizationMethod")),
        "{http://www.w3.org/2001/10/xml-exc-c14n#}InclusiveNamespaces",
        PrefixList=prefixes,
    )
    with pytest.raises(ProviderError):
        read(etree.tostring(tree))


def test_an_encrypted_assertion_is_refused_in_words() -> None:
    response = answer().response(f'<saml:EncryptedAssertion xmlns:saml="{saml.ASSERTION}"/>')
    with pytest.raises(ProviderError, match="encrypted, which is not supported"):
        read(response)


# --- metadata --------------------------------------------------------------------------------------------------------


def test_metadata_says_where_to_go_and_whom_to_believe() -> None:
    found = saml.read_metadata(metadata_xml(signer(), attributes='validUntil="2030-01-01T00:00:00Z"').encode(), NOW_S)
    assert (found.issuer, found.sign_in_url, found.certificates) == (ENTITY, SIGN_IN_URL, (signer().text,))
    with pytest.raises(ProviderError, match="expired"):
        saml.check_validity(found, NOW_S * 2)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (metadata_xml(), "no signing certificates"),
        (metadata_xml(signer("small", 1024)), "2048 bits"),
        (metadata_xml(signer()).replace(signer().text, "AAAA"), "cannot be read"),
        (metadata_xml(signer()).replace(saml.REDIRECT, saml.POST), "HTTP-Redirect"),
        (metadata_xml(signer()).replace(SIGN_IN_URL, "javascript:alert(1)"), "HTTP-Redirect"),
        (metadata_xml(signer(), entity=""), "no entityID"),
        (f"<a>{metadata_xml(signer())}{metadata_xml(signer())}</a>", "2 identity providers"),
        ("<html/>", "no identity provider"),
        (metadata_xml(signer(), attributes='validUntil="2020-01-01T00:00:00Z"'), "expired"),
    ],
    ids=lambda part: part if "<" not in part else "metadata",  # its keys are new in each process
)
def test_metadata_that_cannot_be_used_is_refused_in_words(content: str, why: str) -> None:
    with pytest.raises(ProviderError, match=why):
        saml.read_metadata(content.encode(), NOW_S)


def test_an_odd_address_of_the_provider_is_no_error_of_the_server() -> None:
    found = saml.read_metadata(metadata_xml(signer()).replace(SIGN_IN_URL, "https://[1/a").encode(), NOW_S)
    assert saml.sign_in_url(found, HERE, "_asked", "state", NOW_S).startswith("https://[1/a?SAMLRequest=")


def test_the_way_there_says_who_asks_and_where_to_come_back() -> None:
    there = saml.sign_in_url(replace(METADATA, sign_in_url=f"{SIGN_IN_URL}?a=1"), HERE, "_asked", "state", NOW_S)
    said = parse_qs(urlsplit(there).query)
    assert (said["RelayState"], said["a"]) == (["state"], ["1"])
    request = etree.fromstring(zlib.decompress(base64.b64decode(said["SAMLRequest"][0]), -15))
    assert (request.get("ID"), request.get("AssertionConsumerServiceURL")) == ("_asked", HERE.acs_url)
    assert request.findtext(f"{saml.A}Issuer") == HERE.entity_id
    ours = etree.fromstring(saml.platform_metadata(HERE).encode())
    assert ours.get("entityID") == HERE.entity_id
    assert HERE.acs_url in etree.tostring(ours).decode()
