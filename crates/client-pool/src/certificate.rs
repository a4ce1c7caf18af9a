//! A certificate (RFC 5280) as OpenSSL judges it: what webpki does not look at, and whether webpki understands it at
//! all. It checks no signature and builds no chain.

use rustls_pki_types::UnixTime;
use x509_parser::{
    certificate::X509Certificate,
    extensions::{GeneralName, ParsedExtension},
    oid_registry::{
        Oid, OID_EC_P256, OID_NIST_EC_P384, OID_PKCS1_RSASSAPSS, OID_PKCS1_SHA256WITHRSA, OID_PKCS1_SHA384WITHRSA,
        OID_PKCS1_SHA512WITHRSA, OID_SIG_ECDSA_WITH_SHA256, OID_SIG_ECDSA_WITH_SHA384, OID_SIG_ED25519,
        OID_X509_COMMON_NAME, OID_X509_EXT_AUTHORITY_KEY_IDENTIFIER, OID_X509_EXT_SUBJECT_KEY_IDENTIFIER,
    },
    prelude::FromDer,
    public_key::PublicKey,
    time::ASN1Time,
    x509::{X509Name, X509Version},
};

/// Netscape's and Microsoft's server gated crypto, which OpenSSL takes for server authentication.
const SERVER_GATED: [&str; 2] = ["2.16.840.1.113730.4.1", "1.3.6.1.4.1.311.10.3.3"];

/// One certificate, read.
pub struct Certificate<'a>(X509Certificate<'a>);

/// The names by which a server may be verified.
pub enum Names<'a> {
    /// The dNSName and iPAddress entries of subjectAltName.
    Alternative(Vec<&'a str>, Vec<&'a [u8]>),
    /// There is no such entry: the subject's common names count.
    Common(Vec<&'a str>),
}

impl<'a> Certificate<'a> {
    /// None: it is not DER, or not X.509.
    pub fn parse(der: &'a [u8]) -> Option<Certificate<'a>> {
        X509Certificate::from_der(der).ok().filter(|(rest, _)| rest.is_empty()).map(|(_, parsed)| Certificate(parsed))
    }

    /// Whether OpenSSL ends a chain with it (`EXFLAG_SS`): it names itself as its issuer, and its key as the issuer's.
    pub fn is_self_signed(&self) -> bool {
        self.is_self_issued() && self.names_key_of(self)
    }

    /// Whether its subject is its issuer.
    pub fn is_self_issued(&self) -> bool {
        self.0.subject().as_raw() == self.0.issuer().as_raw()
    }

    /// Whether its authorityKeyIdentifier, if there is one, is that of this issuer (RFC 5280 section 4.2.1.1).
    pub fn names_key_of(&self, issuer: &Certificate<'_>) -> bool {
        let Ok(named) = self.0.get_extension_unique(&OID_X509_EXT_AUTHORITY_KEY_IDENTIFIER) else { return false };
        let Some(ParsedExtension::AuthorityKeyIdentifier(named)) = named.map(|one| one.parsed_extension()) else {
            return named.is_none();
        };
        let Ok(own) = issuer.0.get_extension_unique(&OID_X509_EXT_SUBJECT_KEY_IDENTIFIER) else { return false };
        let same_key = match (&named.key_identifier, own.map(|one| one.parsed_extension())) {
            (Some(named), Some(ParsedExtension::SubjectKeyIdentifier(own))) => named.0 == own.0,
            _ => true,
        };
        same_key && named.authority_cert_serial.is_none_or(|serial| serial == issuer.0.raw_serial())
    }

    /// Fails outside its time.
    pub fn check_time(&self, now: UnixTime) -> Result<(), webpki::Error> {
        let seconds = |time: &ASN1Time| u64::try_from(time.timestamp()).unwrap_or_default();
        let unix = |seconds: u64| UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        let (not_before, not_after) = (seconds(&self.0.validity().not_before), seconds(&self.0.validity().not_after));
        match now.as_secs() {
            time if time < not_before => {
                Err(webpki::Error::CertNotValidYet { time: now, not_before: unix(not_before) })
            }
            time if time > not_after => Err(webpki::Error::CertExpired { time: now, not_after: unix(not_after) }),
            _ => Ok(()),
        }
    }

    /// Whether it may issue a server's certificate with `below` authorities between them (OpenSSL's `check_chain`).
    pub fn may_issue(&self, below: usize) -> bool {
        let (Ok(usage), Ok(constraints)) = (self.0.key_usage(), self.0.basic_constraints()) else { return false };
        let may_sign = usage.as_ref().is_none_or(|usage| usage.value.key_cert_sign());
        let is_authority = match &constraints {
            Some(constraints) => constraints.value.ca,
            // From before there were such constraints.
            None => usage.is_some() || (self.0.version() == X509Version::V1 && self.is_self_issued()),
        };
        let longest = constraints.as_ref().and_then(|constraints| constraints.value.path_len_constraint);
        let short_enough = longest.is_none_or(|longest| below <= longest as usize);
        may_sign && is_authority && short_enough && self.is_for_servers() && self.is_understood()
    }

    /// Whether it may be a server's own.
    pub fn may_serve(&self) -> bool {
        let Ok(usage) = self.0.key_usage() else { return false };
        let may_shake_hands = usage.is_none_or(|usage| {
            usage.value.digital_signature() || usage.value.key_encipherment() || usage.value.key_agreement()
        });
        let netscape = self.0.extensions().iter().find_map(|one| match one.parsed_extension() {
            ParsedExtension::NSCertType(kinds) => Some(kinds.ssl_server()),
            _ => None,
        });
        may_shake_hands && netscape.unwrap_or(true) && self.is_for_servers() && self.is_understood()
    }

    fn is_for_servers(&self) -> bool {
        let Ok(purposes) = self.0.extended_key_usage() else { return false };
        purposes.is_none_or(|purposes| {
            let gated = |oid: &Oid<'_>| SERVER_GATED.contains(&oid.to_id_string().as_str());
            purposes.value.server_auth || purposes.value.other.iter().any(gated)
        })
    }

    /// Whether nothing in it that must not be ignored is unknown.
    fn is_understood(&self) -> bool {
        let unknown = |one: &ParsedExtension<'_>| one.unsupported() || one.error().is_some();
        !self.0.extensions().iter().any(|one| one.critical && unknown(one.parsed_extension()))
    }

    /// Whether it limits names of those below it.
    pub fn limits_names(&self) -> bool {
        self.0.name_constraints().map_or(true, |limits| limits.is_some())
    }

    /// Whether webpki and ring know its version, its key, how it was signed and its critical extensions.
    pub fn is_plain(&self) -> bool {
        let known = [
            OID_PKCS1_SHA256WITHRSA,
            OID_PKCS1_SHA384WITHRSA,
            OID_PKCS1_SHA512WITHRSA,
            OID_PKCS1_RSASSAPSS,
            OID_SIG_ECDSA_WITH_SHA256,
            OID_SIG_ECDSA_WITH_SHA384,
            OID_SIG_ED25519,
        ];
        let is_third = self.0.version() == X509Version::V3;
        is_third
            && known.contains(&self.0.signature_algorithm.algorithm)
            && self.has_plain_key()
            && self.is_understood()
    }

    /// Whether ring can verify what its key has signed.
    pub fn has_plain_key(&self) -> bool {
        let key = self.0.public_key();
        match key.parsed() {
            Ok(PublicKey::RSA(key)) => (2048..=8192).contains(&key.key_size()),
            Ok(PublicKey::EC(_)) => {
                let curve = key.algorithm.parameters.as_ref().and_then(|curve| curve.as_oid().ok());
                curve.is_some_and(|curve| curve == OID_EC_P256 || curve == OID_NIST_EC_P384)
            }
            _ => key.algorithm.algorithm == OID_SIG_ED25519,
        }
    }

    /// Whether OpenSSL finds this issuer by its name, and webpki does not: it compares bytes, OpenSSL without regard to
    /// case, spaces and the kind of string (`X509_NAME_cmp`).
    pub fn is_issued_by_other_spelling(&self, issuer: &Certificate<'_>) -> bool {
        let (wanted, found) = (self.0.issuer(), issuer.0.subject());
        wanted.as_raw() != found.as_raw() && canonical(wanted) == canonical(found)
    }

    /// Whether the issuer's subject is what this one says of its issuer.
    pub fn names_as_issuer(&self, issuer: &Certificate<'_>) -> bool {
        self.0.issuer().as_raw() == issuer.0.subject().as_raw()
    }

    /// None: they can't be read.
    pub fn names(&self) -> Option<Names<'_>> {
        let (mut hosts, mut addresses) = (Vec::new(), Vec::new());
        for name in self.0.subject_alternative_name().ok()?.iter().flat_map(|names| &names.value.general_names) {
            match name {
                GeneralName::DNSName(host) => hosts.push(*host),
                GeneralName::IPAddress(address) => addresses.push(*address),
                GeneralName::Invalid(..) => return None,
                _ => {}
            }
        }
        if !(hosts.is_empty() && addresses.is_empty()) {
            return Some(Names::Alternative(hosts, addresses));
        }
        let common = self.0.subject().iter_by_oid(&OID_X509_COMMON_NAME);
        common.map(|name| name.as_str().ok()).collect::<Option<_>>().map(Names::Common)
    }
}

/// A name's attributes without what OpenSSL doesn't look at.
fn canonical(name: &X509Name<'_>) -> Vec<Vec<(String, Vec<u8>)>> {
    let spelt = |bytes: &[u8]| {
        let words = bytes.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join(&b' ').to_ascii_lowercase()
    };
    let parts = name.iter().map(|part| {
        let mut all: Vec<_> = part.iter().map(|one| (one.attr_type().to_id_string(), spelt(one.as_slice()))).collect();
        all.sort_unstable();
        all
    });
    parts.collect()
}

/// Whether a certificate's name stands for this host, as Ruby's `OpenSSL::SSL.verify_certificate_identity` has it: one
/// `*` in its first label (RFC 6125 section 6.4.3).
pub fn stands_for(name: &str, host: &str) -> bool {
    if !(name.is_ascii() && host.is_ascii()) {
        return false;
    }
    if !name.contains('.') {
        return name == host;
    }
    let (name, host) = (name.to_ascii_lowercase(), host.to_ascii_lowercase());
    let (Some((pattern, name)), Some((label, host))) = (name.split_once('.'), host.split_once('.')) else {
        return false;
    };
    let fits = match pattern.split_once('*') {
        None => pattern == label,
        Some((_, after)) if after.contains('*') => false,
        Some((before, after)) => {
            !(label.starts_with("xn--") && pattern != "*")
                && before.len() + after.len() < label.len()
                && label.starts_with(before)
                && label.ends_with(after)
        }
    };
    fits && name == host
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_hosts_as_in_ruby() {
        for (name, host) in [
            ("api.example", "API.example"),
            ("*.example", "api.example"),
            ("a*i.example", "api.example"),
            ("localhost", "localhost"),
            ("127.0.0.1", "127.0.0.1"),
        ] {
            assert!(stands_for(name, host), "{name} {host}");
        }
        for (name, host) in [
            ("LOCALHOST", "localhost"),
            ("*", "localhost"),
            ("*.example", "example"),
            ("*.example", "a.b.example"),
            ("api.*", "api.example"),
            ("*a*.example", "bab.example"),
            ("x*.example", "xn--a.example"),
            ("api.example", "other.example"),
            ("\u{e4}.example", "\u{e4}.example"),
        ] {
            assert!(!stands_for(name, host), "{name} {host}");
        }
    }

    #[test]
    fn what_is_no_certificate_is_none() {
        for bytes in [&b""[..], b"x", &[0x30, 0], &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]] {
            assert!(Certificate::parse(bytes).is_none());
        }
    }
}
