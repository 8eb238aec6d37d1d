"""XML as identity providers send it, and its signatures: XML Signature as SAML narrows it (SAML core, section 5.4).

The one module that knows lxml. What a signature covers is returned as it was signed: parsed
again from the canonical bytes, so that nothing is read that was not signed, whatever else the document contains. A
signature counts only for the element that it is a child of, and only if it names that element. Keys and certificates
in the document are not looked at; those of the provider's metadata are tried.

minisaml, which was considered, takes neither two signatures nor prefix lists, which Okta and Shibboleth send.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.x509 import load_der_x509_certificate
from lxml import etree

Element = Any
"""Of lxml, which has no types."""
PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey

DS: Final = "{http://www.w3.org/2000/09/xmldsig#}"
EXCLUSIVE: Final = "http://www.w3.org/2001/10/xml-exc-c14n#"
ENVELOPED: Final = "http://www.w3.org/2000/09/xmldsig#enveloped-signature"
_MORE: Final = "http://www.w3.org/2001/04/xmldsig-more#"
_ENCRYPTION: Final = "http://www.w3.org/2001/04/xmlenc#"
DIGESTS: Final = {
    f"{_ENCRYPTION}sha256": "sha256",
    f"{_MORE}sha384": "sha384",
    f"{_ENCRYPTION}sha512": "sha512",
}
_HASHES: Final = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}
RSA: Final = {f"{_MORE}rsa-sha{size}": each for size, each in _HASHES.items()}
ECDSA: Final = {f"{_MORE}ecdsa-sha{size}": each for size, each in _HASHES.items()}
"""With a private key, all of them: an HMAC would take a published key for a secret. None with SHA-1."""
RSA_BITS_MIN: Final = 2048
ELEMENTS_MAX: Final = 10_000
NAMESPACES_MAX: Final = 64
"""Prefixes that are declared at one place: making it canonical takes time for each of them at each element."""


class NotAccepted(Exception):
    """Why a document or its signature is not accepted."""


class OtherKey(NotAccepted):
    """The signature was made with a key that is not known."""


# --- reading -------------------------------------------------------------------------------------------------------


def parsed(content: bytes) -> Element:
    """The root of a document. No document type, hence no entities; nothing is fetched. Raises `NotAccepted`."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotAccepted("it is not UTF-8") from error
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise NotAccepted("it has a document type definition")
    # The encoding is given: a document that names another one would be read as other than what was looked at above.
    parser = etree.XMLParser(
        encoding="utf-8", resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, collect_ids=False
    )
    try:
        root = etree.fromstring(text.encode(), parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise NotAccepted("it is not well-formed XML") from error
    if root.getroottree().docinfo.internalDTD is not None:
        raise NotAccepted("it has a document type definition")
    _check_size(root)
    return root


def _check_size(root: Element) -> None:
    elements = declared = 0
    for event, _ in etree.iterwalk(root, events=("start", "start-ns", "end-ns")):
        elements += event == "start"
        declared += (event == "start-ns") - (event == "end-ns")
        if elements > ELEMENTS_MAX or declared > NAMESPACES_MAX:
            raise NotAccepted("it has too many elements or namespaces")


def only(parent: Element, name: str) -> Element:
    """The one child with this name. Raises `NotAccepted`."""
    found = parent.findall(name)
    if len(found) != 1:
        raise NotAccepted(f"it has {len(found) or 'no'} {plain_name(name)}" + (" instead of one" if found else ""))
    return found[0]


def text_of(element: Element) -> str:
    """The text of an element. A comment in it ends nothing: `admin<!-- -->.other` is one name."""
    if any(each.tag is not etree.Comment for each in element):
        raise NotAccepted(f"its {plain_name(element.tag)} is not text")
    return (element.text or "") + "".join(each.tail or "" for each in element)


def plain_name(name: str) -> str:
    return name.rpartition("}")[2]


# --- keys ----------------------------------------------------------------------------------------------------------


def public_key(certificate: str) -> PublicKey:
    """The key of a certificate in base64. Its dates are not looked at: the metadata says which ones are in use."""
    try:
        key = load_der_x509_certificate(base64.b64decode(certificate, validate=True)).public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise NotAccepted("one of its certificates cannot be read") from error
    if isinstance(key, rsa.RSAPublicKey) and key.key_size >= RSA_BITS_MIN:
        return key
    if isinstance(key, ec.EllipticCurvePublicKey):
        return key
    raise NotAccepted(f"one of its certificates has no RSA key of {RSA_BITS_MIN} bits or more, and no elliptic curve")


# --- signatures ----------------------------------------------------------------------------------------------------


def is_signed(element: Element) -> bool:
    return element.find(f"{DS}Signature") is not None


def verified(element: Element, keys: Sequence[PublicKey]) -> Element:
    """What the signature of this element covers: the element without its signature. Raises `NotAccepted`."""
    signature = only(element, f"{DS}Signature")
    if {each.tag for each in signature} - {f"{DS}SignedInfo", f"{DS}SignatureValue", f"{DS}KeyInfo"}:
        raise NotAccepted("its signature has parts that are not allowed")
    info = only(signature, f"{DS}SignedInfo")
    signed_bytes = _canonical(info, _prefixes(only(info, f"{DS}CanonicalizationMethod")))
    signed_info = parsed(signed_bytes)  # from here on only what the signature covers
    method = only(signed_info, f"{DS}SignatureMethod").get("Algorithm", "")
    _check_signature(_decoded(only(signature, f"{DS}SignatureValue")), signed_bytes, method, keys)
    reference = only(signed_info, f"{DS}Reference")
    if not element.get("ID") or reference.get("URI") != f"#{element.get('ID')}":
        raise NotAccepted("its signature refers to another element")
    covered = _canonical(_without_signature(element), _transform_prefixes(reference))
    digest = DIGESTS.get(only(reference, f"{DS}DigestMethod").get("Algorithm", ""))
    if digest is None:
        raise NotAccepted("its signature uses a digest that is not accepted")
    if not hmac.compare_digest(hashlib.new(digest, covered).digest(), _decoded(only(reference, f"{DS}DigestValue"))):
        raise NotAccepted("it was changed after it was signed")
    return parsed(covered)


def _check_signature(value: bytes, content: bytes, method: str, keys: Sequence[PublicKey]) -> None:
    if method not in RSA and method not in ECDSA:
        raise NotAccepted("its signature uses an algorithm that is not accepted")
    if not any(_is_by(each, value, content, method) for each in keys):
        raise OtherKey("its signature was not made with a key of the provider")


def _is_by(key: PublicKey, value: bytes, content: bytes, method: str) -> bool:
    try:
        if isinstance(key, rsa.RSAPublicKey) and method in RSA:
            key.verify(value, content, padding.PKCS1v15(), RSA[method])
            return True
        if isinstance(key, ec.EllipticCurvePublicKey) and method in ECDSA:
            half = len(value) // 2
            numbers = (int.from_bytes(value[:half]), int.from_bytes(value[half:]))
            key.verify(encode_dss_signature(*numbers), content, ec.ECDSA(ECDSA[method]))
            return True
    except InvalidSignature:
        pass
    return False


def _transform_prefixes(reference: Element) -> list[str]:
    enveloped, canonical = _exactly_two(only(reference, f"{DS}Transforms"))
    if enveloped.get("Algorithm") != ENVELOPED:
        raise NotAccepted("its signature uses a transform that is not accepted")
    return _prefixes(canonical)


def _exactly_two(transforms: Element) -> tuple[Element, Element]:
    found = list(transforms)
    if len(found) != 2 or any(each.tag != f"{DS}Transform" for each in found):
        raise NotAccepted("its signature uses a transform that is not accepted")
    return found[0], found[1]


def _prefixes(method: Element) -> list[str]:
    """Of namespaces that are part of what was signed although no name uses them."""
    if method.get("Algorithm") != EXCLUSIVE:
        raise NotAccepted("its signature uses a canonical form that is not accepted")
    listed = method.find(f"{{{EXCLUSIVE}}}InclusiveNamespaces")
    return list(listed.get("PrefixList", "").split()) if listed is not None else []


def _canonical(element: Element, prefixes: Sequence[str]) -> bytes:
    named = list(prefixes) or None
    try:
        content: bytes = etree.tostring(
            element, method="c14n", exclusive=True, with_comments=False, inclusive_ns_prefixes=named
        )
    except (etree.LxmlError, ValueError) as error:  # a relative namespace, for one, has no canonical form
        raise NotAccepted("it has no canonical form") from error
    return content


def _without_signature(element: Element) -> Element:
    """In a copy of the document, where names keep the namespaces that are declared around them."""
    root = element.getroottree().getroot()
    copy = deepcopy(root)
    place = copy if element is root else copy[root.index(element)]
    signature = only(place, f"{DS}Signature")
    before, tail = signature.getprevious(), signature.tail or ""
    if before is not None:
        before.tail = (before.tail or "") + tail
    else:
        place.text = (place.text or "") + tail
    place.remove(signature)
    return place


def _decoded(element: Element) -> bytes:
    try:
        return base64.b64decode("".join(text_of(element).split()), validate=True)
    except ValueError as error:
        raise NotAccepted(f"its {plain_name(element.tag)} is not base64") from error
