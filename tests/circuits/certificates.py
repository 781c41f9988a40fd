"""Certificates for tests: an authority, and what it signs."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

VALID = timedelta(days=1)


class Authority:
    """Signs certificates, and writes them into files."""

    def __init__(self, folder, name="authority"):
        self._folder, self._name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = _subject(name)
        constraint = x509.BasicConstraints(ca=True, path_length=0)
        own = self._certificate(self._subject, self._key.public_key()).add_extension(constraint, critical=True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(_pem(own.sign(self._key, hashes.SHA256())))

    def issue(self, name, address=None):
        """Files of a new key and its certificate, which is for a name, and for an IP address if one is given."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName(name), *([x509.IPAddress(ip_address(address))] if address else [])]
        made = self._certificate(_subject(name), key.public_key())
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        files = [self._folder / f"{self._name}-{name}.{end}" for end in ("key", "pem")]
        files[0].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        files[1].write_bytes(_pem(made.sign(self._key, hashes.SHA256())))
        return files

    def _certificate(self, subject, public):
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - VALID)
            .not_valid_after(now + VALID)
        )


def _subject(name):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate):
    return certificate.public_bytes(serialization.Encoding.PEM)
