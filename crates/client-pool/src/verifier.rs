//! Whether a server's certificate is good. What is accepted OpenSSL would accept, too. A refusal is final if OpenSSL
//! would refuse as well; otherwise it is `Undecided`, and the process that asked judges by itself. It reads no files.

use std::{fmt, net::IpAddr, ptr, sync::Arc};

use rustls::{
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::CryptoProvider,
    CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, KeyUsage, VerifiedPath};

use super::certificate::{stands_for, Certificate, Names};

/// A refusal that OpenSSL might not share.
#[derive(Debug)]
pub struct UndecidedChain(String);

impl fmt::Display for UndecidedChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UndecidedChain {}

fn undecided(why: impl fmt::Debug) -> Error {
    let why = UndecidedChain(format!("invalid peer certificate: {why:?}"));
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(why))))
}

/// The certificates that are trusted.
#[derive(Default)]
pub struct Roots {
    /// Those that end a chain, and the certificates that they are of, in the same order.
    anchors: Vec<TrustAnchor<'static>>,
    roots: Vec<CertificateDer<'static>>,
    /// Authorities in between: OpenSSL takes them as links to a root, but not for one.
    links: Vec<CertificateDer<'static>>,
    /// There was one that can't be read.
    is_incomplete: bool,
}

impl Roots {
    /// Bytes of all of them.
    pub fn bytes(&self) -> usize {
        self.roots.iter().chain(&self.links).map(|one| one.len()).sum()
    }

    pub fn new(certificates: Vec<CertificateDer<'static>>) -> Roots {
        let mut roots = Roots::default();
        for certificate in certificates {
            let Some(is_root) = Certificate::parse(&certificate).map(|parsed| parsed.is_self_signed()) else {
                roots.is_incomplete = true;
                continue;
            };
            if !is_root {
                roots.links.push(certificate);
                continue;
            }
            match webpki::anchor_from_trusted_cert(&certificate).map(|anchor| anchor.to_owned()) {
                Ok(anchor) => {
                    roots.anchors.push(anchor);
                    roots.roots.push(certificate);
                }
                Err(_) => roots.is_incomplete = true,
            }
        }
        roots
    }

    /// Whether webpki understands every certificate that OpenSSL might make a chain of.
    fn are_plain_with(&self, presented: &[&CertificateDer<'_>]) -> bool {
        let parse =
            |certificate: &'_ CertificateDer<'_>| Certificate::parse(certificate).is_some_and(|one| one.is_plain());
        if self.is_incomplete || !presented.iter().all(|one| parse(one)) || !self.links.iter().all(parse) {
            return false;
        }
        let below = presented.iter().copied().chain(&self.links);
        let issuers: Vec<_> = below.clone().filter_map(|one| Certificate::parse(one)).collect();
        let roots: Vec<_> = self.roots.iter().filter_map(|one| Certificate::parse(one)).collect();
        issuers.iter().all(|one| {
            !issuers.iter().chain(&roots).any(|issuer| one.is_issued_by_other_spelling(issuer))
                && roots.iter().all(|root| !one.names_as_issuer(root) || root.has_plain_key())
        })
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} roots, {} links", self.roots.len(), self.links.len())
    }
}

/// Verifies as Net::HTTP does: OpenSSL the chain, Ruby the name.
#[derive(Debug)]
pub struct Verifier {
    /// None: any certificate will do (VERIFY_NONE), of somebody who has its key.
    pub roots: Option<Arc<Roots>>,
    pub any_name: bool,
    pub provider: Arc<CryptoProvider>,
}

impl Verifier {
    /// `presented`: the server's own first.
    fn verify(
        &self,
        roots: &Roots,
        presented: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Error> {
        let Some((own, sent)) = presented.split_first() else { return Err(undecided("none")) };
        let all: Vec<_> = presented.iter().collect();
        let refused = |error: webpki::Error| if roots.are_plain_with(&all) { refusal(error) } else { undecided(error) };
        let parsed = Certificate::parse(own).ok_or_else(|| undecided(webpki::Error::BadDer))?;
        let end_entity = EndEntityCert::try_from(own).map_err(undecided)?;
        let mut limits_names = false;
        if parsed.is_self_signed() {
            // Nobody has issued it: it is good if it is itself among those trusted.
            if !roots.roots.contains(own) {
                return Err(refused(webpki::Error::UnknownIssuer));
            }
            parsed.check_time(now).map_err(refused)?;
            if !parsed.may_serve() {
                return Err(undecided("it is not a server's"));
            }
        } else {
            let links: Vec<_> = sent.iter().chain(&roots.links).cloned().collect();
            let algorithms = self.provider.signature_verification_algorithms.all;
            let usage = KeyUsage::server_auth();
            let check = |path: &VerifiedPath<'_>| roots.check_path(path, now);
            let path = end_entity
                .verify_for_usage(algorithms, &roots.anchors, &links, now, usage, None, Some(&check))
                .map_err(refused)?;
            limits_names = roots.limit_names(&path);
        }
        if self.any_name {
            Ok(())
        } else {
            check_name(&parsed, &end_entity, name, limits_names)
        }
    }
}

impl Roots {
    fn root_of(&self, path: &VerifiedPath<'_>) -> Option<Certificate<'_>> {
        let index = self
            .anchors
            .iter()
            .position(|one| ptr::eq(ptr::from_ref(one).cast::<()>(), ptr::from_ref(path.anchor()).cast()))?;
        Certificate::parse(self.roots.get(index)?)
    }

    /// What OpenSSL looks at beyond webpki: the root's own time and constraints, and what each certificate's key may be
    /// used for.
    fn check_path(&self, path: &VerifiedPath<'_>, now: UnixTime) -> Result<(), webpki::Error> {
        let own = path.end_entity().der();
        let mut below = Certificate::parse(&own).ok_or(webpki::Error::BadDer)?;
        if !below.may_serve() {
            #[allow(deprecated)]
            return Err(webpki::Error::RequiredEkuNotFound);
        }
        let links: Vec<_> = path.intermediate_certificates().map(|one| one.der()).collect();
        let mut count = 0;
        let issuers = links.iter().map(|link| Certificate::parse(link)).chain([self.root_of(path)]);
        for issuer in issuers {
            let issuer = issuer.ok_or(webpki::Error::BadDer)?;
            issuer.check_time(now)?;
            if !below.names_key_of(&issuer) {
                return Err(webpki::Error::UnknownIssuer);
            }
            if !issuer.may_issue(count) {
                return Err(webpki::Error::EndEntityUsedAsCa);
            }
            if !issuer.is_self_issued() {
                count += 1;
            }
            below = issuer;
        }
        Ok(())
    }

    fn limit_names(&self, path: &VerifiedPath<'_>) -> bool {
        let limits = |one: Option<Certificate<'_>>| one.is_none_or(|one| one.limits_names());
        path.intermediate_certificates().any(|one| limits(Certificate::parse(&one.der()))) || limits(self.root_of(path))
    }
}

/// As Ruby does it: by the alternative names, or if there are none by the common name.
fn check_name(
    parsed: &Certificate<'_>,
    end_entity: &EndEntityCert<'_>,
    name: &ServerName<'_>,
    limits_names: bool,
) -> Result<(), Error> {
    let error = match end_entity.verify_is_valid_for_subject_name(name) {
        Ok(()) => return Ok(()),
        Err(error @ webpki::Error::CertNotValidForName(_)) => error,
        Err(error) => return Err(undecided(error)),
    };
    let (host, address) = match name {
        ServerName::DnsName(host) => (host.as_ref().to_owned(), None),
        ServerName::IpAddress(address) => {
            let address = IpAddr::from(*address);
            (address.to_string(), Some(address))
        }
        _ => return Err(undecided(error)),
    };
    let octets = |address: IpAddr| match address {
        IpAddr::V4(four) => four.octets().to_vec(),
        IpAddr::V6(six) => six.octets().to_vec(),
    };
    match parsed.names() {
        None => Err(undecided(error)),
        Some(Names::Alternative(hosts, addresses)) => {
            let same_address = address.is_some_and(|address| addresses.contains(&octets(address).as_slice()));
            if same_address || hosts.iter().any(|one| stands_for(one, &host)) {
                Err(undecided(error))
            } else {
                Err(refusal(error))
            }
        }
        Some(Names::Common(names)) => match names.iter().find(|one| stands_for(one, &host)) {
            // OpenSSL holds it to the limits, webpki does not.
            Some(one) if one.contains('*') || limits_names => Err(undecided(error)),
            Some(_) => Ok(()),
            None => Err(refusal(error)),
        },
    }
}

/// In the words of rustls, if OpenSSL refuses the same.
fn refusal(error: webpki::Error) -> Error {
    use webpki::Error as Why;
    let known = match error {
        Why::CertExpired { time, not_after } => CertificateError::ExpiredContext { time, not_after },
        Why::CertNotValidYet { time, not_before } => CertificateError::NotValidYetContext { time, not_before },
        Why::UnknownIssuer => CertificateError::UnknownIssuer,
        Why::InvalidSignatureForPublicKey => CertificateError::BadSignature,
        Why::CertNotValidForName(webpki::InvalidNameContext { expected, presented }) => {
            CertificateError::NotValidForNameContext { expected, presented }
        }
        Why::PathLenConstraintViolated => CertificateError::Other(OtherError(Arc::new(error))),
        Why::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
        #[allow(deprecated)]
        Why::RequiredEkuNotFound => CertificateError::InvalidPurpose,
        _ => return undecided(error),
    };
    known.into()
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(roots) = &self.roots {
            let presented: Vec<_> = [end_entity].into_iter().chain(intermediates).cloned().collect();
            self.verify(roots, &presented, server_name, now)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms).map_err(undecided)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms).map_err(undecided)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
