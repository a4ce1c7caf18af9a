//! One order (RFC 8555 section 7.4): the host is proved, and a certificate for a new key comes back.
//! It never tries twice.

use std::{sync::Arc, time::Duration};

use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Identifier, NewOrder, Order, OrderStatus, RetryPolicy,
};

use super::{tls_alpn_01, trouble::Failure};
use crate::support::certificate_store::{CertificateStore, Proof, ProofGuard};

/// How often the authority is asked how far it is, and for how long.
const ASKING: RetryPolicy =
    RetryPolicy::new().initial_delay(Duration::from_millis(250)).backoff(1.5).timeout(Duration::from_secs(120));

/// The private key and the certificate with its chain, PEM.
pub async fn obtain(
    account: &Account,
    host: &str,
    proof: Proof,
    certificates: &Arc<CertificateStore>,
) -> Result<String, Failure> {
    let identifiers = [Identifier::Dns(host.into())];
    let mut order = account.new_order(&NewOrder::new(&identifiers)).await?;
    // Held until the authority has looked.
    let offered = offer(&mut order, host, proof, certificates).await?;
    let ready = order.poll_ready(&ASKING).await;
    drop(offered);
    if !matches!(ready, Ok(OrderStatus::Ready)) {
        let why = unproved(&mut order, proof).await;
        return Err(why.or_else(|| ready.err().map(Failure::Acme)).unwrap_or(Failure::Unproved(proof, None)));
    }
    let key = order.finalize().await?;
    let chain = order.poll_certificate(&ASKING).await?;
    Ok(format!("{key}{chain}"))
}

/// Puts the proofs on the certificates and asks the authority to look.
async fn offer(
    order: &mut Order,
    host: &str,
    proof: Proof,
    certificates: &Arc<CertificateStore>,
) -> Result<Vec<ProofGuard>, Failure> {
    let mut offered = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        if authorization.status == AuthorizationStatus::Valid {
            // Proved a while ago, and the authority remembers.
            continue;
        }
        let kind = match proof {
            Proof::Http01 => ChallengeType::Http01,
            Proof::TlsAlpn01 => ChallengeType::TlsAlpn01,
        };
        let mut challenge = authorization.challenge(kind).ok_or(Failure::NoWay)?;
        let agreed = challenge.key_authorization();
        offered.push(match proof {
            Proof::Http01 => certificates.offer_http(&challenge.token, agreed.as_str()),
            Proof::TlsAlpn01 => {
                let certificate = tls_alpn_01::certificate(host, agreed.digest().as_ref()).map_err(Failure::NoProof)?;
                certificates.offer_tls(host, certificate)
            }
        });
        challenge.set_ready().await?;
    }
    Ok(offered)
}

/// What the authority has found wrong with the proof.
async fn unproved(order: &mut Order, proof: Proof) -> Option<Failure> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization.ok()?;
        let found = authorization.refresh().await.ok()?;
        if let Some(problem) = found.challenges.iter().find_map(|challenge| challenge.error.clone()) {
            return Some(Failure::Unproved(proof, Some(problem)));
        }
    }
    None
}
