//! What a failed TLS handshake means: the server is refused, or it is one that rustls can't talk to and OpenSSL might.
//! It never retries.

use std::{error::Error as _, io};

use rustls::{AlertDescription as Alert, CertificateError, Error, InvalidMessage};

use super::{
    failure::{with_causes, Failure},
    verifier::UndecidedChain,
};

/// `Failure::Tls` is for good: OpenSSL would end the same way. After `Failure::Unsupported` the process that asked
/// tries by itself.
pub fn failure(error: &io::Error) -> Failure {
    let Some(refused) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) else {
        // Some servers hang up on who offers nothing that they know.
        return match Failure::of(error, false) {
            Failure::Closed { .. } => Failure::Unsupported("the connection was closed within the handshake".into()),
            Failure::Reset { .. } => Failure::Unsupported("the connection was reset within the handshake".into()),
            other => other,
        };
    };
    if is_final(refused) {
        Failure::Tls(with_causes(error))
    } else {
        Failure::Unsupported(undecided(refused).unwrap_or_else(|| with_causes(error)))
    }
}

fn is_final(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(_) => undecided(error).is_none(),
        // It does not like our certificate, or our name for it.
        Error::AlertReceived(alert) => matches!(
            alert,
            Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::CertificateRevoked
                | Alert::CertificateExpired
                | Alert::CertificateUnknown
                | Alert::CertificateRequired
                | Alert::UnknownCA
                | Alert::AccessDenied
                | Alert::UnrecognisedName
        ),
        // It does not speak TLS.
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => true,
        _ => false,
    }
}

fn undecided(error: &Error) -> Option<String> {
    let Error::InvalidCertificate(CertificateError::Other(other)) = error else { return None };
    other.source().or(Some(&*other.0)).and_then(|inner| inner.downcast_ref::<UndecidedChain>()).map(ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(error: Error) -> Failure {
        failure(&io::Error::new(io::ErrorKind::InvalidData, error))
    }

    #[test]
    fn only_what_openssl_might_judge_otherwise_is_left_to_it() {
        for error in [
            CertificateError::UnknownIssuer.into(),
            CertificateError::BadSignature.into(),
            CertificateError::NotValidForName.into(),
            Error::AlertReceived(Alert::CertificateRequired),
            Error::InvalidMessage(InvalidMessage::InvalidContentType),
        ] {
            assert!(matches!(of(error.clone()), Failure::Tls(_)), "{error:?}");
        }
        for error in [
            Error::AlertReceived(Alert::HandshakeFailure),
            Error::AlertReceived(Alert::ProtocolVersion),
            Error::AlertReceived(Alert::NoApplicationProtocol),
            Error::General("x".into()),
        ] {
            assert!(matches!(of(error.clone()), Failure::Unsupported(_)), "{error:?}");
        }
        let reset = failure(&io::Error::from_raw_os_error(libc::ECONNRESET));
        assert!(matches!(reset, Failure::Unsupported(_)));
    }
}
