"""A SAML provider for tests, honest or not: it signs whatever it is asked to."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha512
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from lxml import etree
from minisignxml.config import SigningConfig
from minisignxml.sign import sign

from fairpool.control import saml

ENTITY = "https://id.example.com/saml"
SIGN_IN_URL = "https://id.example.com/sso"


@dataclass(frozen=True)
class Signer:
    """A key with its certificate."""

    key: rsa.RSAPrivateKey
    certificate: x509.Certificate

    @property
    def text(self) -> str:
        return base64.b64encode(self.certificate.public_bytes(Encoding.DER)).decode()


@lru_cache
def signer(name: str = "first", bits: int = 2048) -> Signer:
    key = rsa.generate_private_key(65537, bits)
    about = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    since = datetime(2020, 1, 1, tzinfo=UTC)
    made = x509.CertificateBuilder(about, about, key.public_key(), 1, since, since + timedelta(days=36_500))
    return Signer(key, made.sign(key, hashes.SHA256()))


def metadata_xml(*signers: Signer, entity: str = ENTITY, attributes: str = "", more: str = "") -> str:
    keys = "".join(
        f'<md:KeyDescriptor use="signing"><ds:KeyInfo xmlns:ds="http://www.w3.org/2000/09/xmldsig#"><ds:X509Data>'
        f"<ds:X509Certificate>{each.text}</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>"
        for each in signers
    )
    return (
        f'<md:EntityDescriptor xmlns:md="{saml.METADATA}" entityID="{entity}" {attributes}><md:IDPSSODescriptor '
        f'protocolSupportEnumeration="{saml.PROTOCOL}">{keys}<md:SingleSignOnService Binding="{saml.REDIRECT}" '
        f'Location="{SIGN_IN_URL}"/>{more}</md:IDPSSODescriptor></md:EntityDescriptor>'
    )


@dataclass
class Answer:
    """A response to a sign-in; tests change one thing each."""

    platform: saml.ServiceProvider
    asked: str
    now_s: int
    subject: str = "account-1"
    email: str = "ann@example.com"
    identifier: str = "_assertion"
    issuer: str = ENTITY
    audience: str | None = None
    recipient: str | None = None
    destination: str | None = None
    early_s: int = -10
    late_s: int = 300
    status: str = saml.SUCCESS
    attributes: dict[str, list[str]] = field(default_factory=dict)
    name_format: str = saml.PERSISTENT
    conditions: str = ""
    prefix_declaration: str = ""
    session_s: int | None = None
    """How long the provider's own session lasts."""

    def assertion(self) -> str:
        early, late = _moment(self.now_s + self.early_s), _moment(self.now_s + self.late_s)
        said = {"email": [self.email], **self.attributes}
        values = "".join(
            f'<saml:Attribute Name="{name}">'
            + "".join(f"<saml:AttributeValue>{each}</saml:AttributeValue>" for each in listed)
            + "</saml:Attribute>"
            for name, listed in said.items()
        )
        asked = f' InResponseTo="{self.asked}"' if self.asked else ""
        until = f' SessionNotOnOrAfter="{_moment(self.now_s + self.session_s)}"' if self.session_s is not None else ""
        return (
            f'<saml:Assertion xmlns:saml="{saml.ASSERTION}" ID="{self.identifier}" Version="2.0" '
            f'IssueInstant="{early}"{self.prefix_declaration}><saml:Issuer>{self.issuer}</saml:Issuer><saml:Subject>'
            f'<saml:NameID Format="{self.name_format}">{self.subject}</saml:NameID>'
            f'<saml:SubjectConfirmation Method="{saml.BEARER}"><saml:SubjectConfirmationData NotOnOrAfter="{late}" '
            f'Recipient="{self.recipient or self.platform.acs_url}"{asked}/></saml:SubjectConfirmation></saml:Subject>'
            f'<saml:Conditions NotBefore="{early}" NotOnOrAfter="{late}"><saml:AudienceRestriction><saml:Audience>'
            f"{self.audience or self.platform.entity_id}</saml:Audience></saml:AudienceRestriction>{self.conditions}"
            f'</saml:Conditions><saml:AuthnStatement AuthnInstant="{early}" SessionIndex="s1"{until}/>'
            f"<saml:AttributeStatement>{values}</saml:AttributeStatement></saml:Assertion>"
        )

    def response(self, *assertions: str) -> str:
        return (
            f'<samlp:Response xmlns:samlp="{saml.PROTOCOL}" ID="_response" Version="2.0" InResponseTo="{self.asked}" '
            f'Destination="{self.destination or self.platform.acs_url}"><saml:Issuer xmlns:saml="{saml.ASSERTION}">'
            f'{self.issuer}</saml:Issuer><samlp:Status><samlp:StatusCode Value="{self.status}"/></samlp:Status>'
            f"{''.join(assertions or (self.assertion(),))}</samlp:Response>"
        )

    def signed(self, by: Signer | None = None, *, response: bool = False, config: SigningConfig | None = None) -> bytes:
        """With a signature of the assertion, or of the whole response."""
        tree = etree.fromstring(self.response().encode())
        element = tree if response else tree.find(f"{saml.A}Assertion")
        return signed(element, by or signer(), config)


def signed(element: object, by: Signer, config: SigningConfig | None = None) -> bytes:
    """The document of an element, with a signature behind its issuer."""
    return sign(
        element=element,
        private_key=by.key,
        certificate=by.certificate,
        config=config or SigningConfig.default(),
        index=1,
    )


def signed_with_prefix_list(element: Any, by: Signer, prefix: str) -> bytes:
    """As Okta and Shibboleth do it: the namespace of this prefix is signed, although only values use it."""
    more, exclusive = "http://www.w3.org/2001/04/xmldsig-more#", "http://www.w3.org/2001/10/xml-exc-c14n#"
    canonical = etree.tostring(element, method="c14n", exclusive=True, inclusive_ns_prefixes=[prefix])
    info = (
        f'<ds:SignedInfo xmlns:ds="http://www.w3.org/2000/09/xmldsig#"><ds:CanonicalizationMethod '
        f'Algorithm="{exclusive}"></ds:CanonicalizationMethod><ds:SignatureMethod Algorithm="{more}rsa-sha512">'
        f'</ds:SignatureMethod><ds:Reference URI="#{element.get("ID")}"><ds:Transforms><ds:Transform '
        'Algorithm="http://www.w3.org/2000/09/xmldsig#enveloped-signature"></ds:Transform>'
        f'<ds:Transform Algorithm="{exclusive}"><ec:InclusiveNamespaces xmlns:ec="{exclusive}" PrefixList="{prefix}">'
        "</ec:InclusiveNamespaces></ds:Transform></ds:Transforms><ds:DigestMethod "
        'Algorithm="http://www.w3.org/2001/04/xmlenc#sha512"></ds:DigestMethod><ds:DigestValue>'
        f"{encoded(sha512(canonical).digest())}</ds:DigestValue></ds:Reference></ds:SignedInfo>"
    )
    value = encoded(by.key.sign(info.encode(), padding.PKCS1v15(), hashes.SHA512()))
    signature = (
        f'<ds:Signature xmlns:ds="http://www.w3.org/2000/09/xmldsig#">{info}<ds:SignatureValue>{value}'
        "</ds:SignatureValue></ds:Signature>"
    )
    element.insert(1, etree.fromstring(signature))
    return bytes(etree.tostring(element.getroottree().getroot()))


def encoded(response: bytes | str) -> str:
    """As a form has it."""
    return base64.b64encode(response.encode() if isinstance(response, str) else response).decode()


def _moment(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
