"""An issuer of certificates for two days, and what it issues, as PEM files."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from stack.servers.ports import LOOPBACK

DAY = timedelta(days=1)


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _builder(name: str, issuer: str, key: ec.EllipticCurvePrivateKey, until: datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(until - 3 * DAY)
        .not_valid_after(until)
    )


@dataclass(frozen=True)
class Issuer:
    """``ca`` is the file that clients trust."""

    folder: Path
    name: str
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def make(cls, folder: Path, name: str = "test issuer") -> Issuer:
        folder.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        wanted = _builder(name, name, key, datetime.now(UTC) + DAY)
        wanted = wanted.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        made = wanted.sign(key, hashes.SHA256())
        issuer = cls(folder, name, key, made)
        issuer.ca.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        return issuer

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    def issue(self, name: str, host: str = LOOPBACK, *, expired: bool = False) -> Path:
        """A file with a key (PKCS #8) and its certificate, good for a server at ``host`` and for clients."""
        key = ec.generate_private_key(ec.SECP256R1())
        wanted = _builder(name, self.name, key, datetime.now(UTC) + (-DAY if expired else DAY))
        wanted = wanted.add_extension(x509.SubjectAlternativeName([_host(host)]), critical=False)
        made = wanted.sign(self.key, hashes.SHA256())
        pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        file = self.folder / f"{name}.pem"
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
        file.write_bytes(private + made.public_bytes(pem))
        return file
