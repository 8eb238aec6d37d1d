"""How the processes of one control plane know each other: a certificate that follows from the key they share.

Every process with the key of credentials makes the same key pair and certificate from it. Both ends of a connection
show it and take no other, so that no certificates have to be made and handed out, and no secret is sent.
"""

from __future__ import annotations

import ssl
import tempfile
from datetime import UTC, datetime

from fairpool.control.sealing import SealingKey

NAME = "fairpool-control"
PURPOSE = b"fairpool connections between control processes"
_BEGIN, _END = datetime(2020, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


def tls_contexts(key: SealingKey) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """For the end that listens, and for the one that connects."""
    private, certificate = _identity(key)
    made = []
    for protocol in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT):
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # the certificate says which installation it is, not which machine
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=certificate.decode())
        with tempfile.NamedTemporaryFile() as file:  # which only we can read; the library takes no other form
            file.write(private + certificate)
            file.flush()
            context.load_cert_chain(file.name)
        made.append(context)
    return made[0], made[1]


def _identity(key: SealingKey) -> tuple[bytes, bytes]:
    """Private key and certificate, as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    seed = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=PURPOSE).derive(key.content)
    private = Ed25519PrivateKey.from_private_bytes(seed)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(1)
        .not_valid_before(_BEGIN)
        .not_valid_after(_END)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(private, None)
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    return private.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain), certificate.public_bytes(pem)
