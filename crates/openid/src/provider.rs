//! What the issuer says of itself (OpenID Connect Discovery 1.0) and its keys: asked for when it is first needed, kept,
//! asked for again from time to time, and once more when a token has an unknown key. While the issuer is away what is
//! kept serves on. It never begins or completes a login.

use std::sync::Arc;

use openidconnect::{
    core::{
        CoreAuthDisplay, CoreClaimName, CoreClaimType, CoreClient, CoreClientAuthMethod, CoreGrantType, CoreJsonWebKey,
        CoreJweContentEncryptionAlgorithm, CoreJweKeyManagementAlgorithm, CoreJwsSigningAlgorithm, CoreResponseMode,
        CoreResponseType, CoreSubjectIdentifierType,
    },
    AdditionalProviderMetadata, AuthType, ClientId, ClientSecret, DiscoveryError, EndSessionUrl, EndpointMaybeSet,
    EndpointNotSet, EndpointSet, IssuerUrl, ProviderMetadata,
};
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use sign_in::UnixMillis;

use crate::{
    client::{ClientError, HttpClient},
    error::plain,
    settings::may_be_asked,
    Error, Settings,
};

/// For so long what the issuer says is used without asking again.
const FRESH: u64 = 3_600_000;
/// For so long it is used if the issuer can't be asked: keys that it has withdrawn must not count for ever.
const USABLE: u64 = 24 * 3_600_000;
/// After a failure the issuer is left alone for so long.
const PAUSE: u64 = 2_000;
/// A token with an unknown key makes us ask for the keys, but no more often than this: anybody can send such a token.
const KEYS_PAUSE: u64 = 60_000;

/// What openidconnect does not read.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct MoreMetadata {
    /// RP-Initiated Logout 1.0.
    pub end_session_endpoint: Option<EndSessionUrl>,
    /// Back-Channel Logout 1.0.
    #[serde(default)]
    pub backchannel_logout_supported: Option<bool>,
    /// RFC 9207.
    #[serde(default)]
    pub authorization_response_iss_parameter_supported: Option<bool>,
    /// RFC 8414.
    #[serde(default)]
    pub code_challenge_methods_supported: Option<Vec<String>>,
}

impl AdditionalProviderMetadata for MoreMetadata {}

pub type Metadata = ProviderMetadata<
    MoreMetadata,
    CoreAuthDisplay,
    CoreClientAuthMethod,
    CoreClaimName,
    CoreClaimType,
    CoreGrantType,
    CoreJweContentEncryptionAlgorithm,
    CoreJweKeyManagementAlgorithm,
    CoreJsonWebKey,
    CoreResponseMode,
    CoreResponseType,
    CoreSubjectIdentifierType,
>;

pub type Client =
    CoreClient<EndpointSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointMaybeSet, EndpointMaybeSet>;

/// Signatures that are believed: those with a public key. With HS256 the secret of the client would be the key, or, if
/// somebody takes the one for the other, a public key that everybody has; `none` is no signature.
pub const ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// What the issuer has said, and when.
pub struct Discovery {
    pub metadata: Metadata,
    at: UnixMillis,
}

/// An identity provider, with us as its client.
pub struct Provider {
    settings: Settings,
    pub(crate) http: HttpClient,
    known: RwLock<Option<Arc<Discovery>>>,
    asking: tokio::sync::Mutex<Attempts>,
}

/// When the issuer was asked.
#[derive(Default)]
struct Attempts {
    /// The last one that failed.
    failed: Option<(UnixMillis, Error)>,
    /// The last one for a token with an unknown key.
    keys: Option<UnixMillis>,
}

impl Provider {
    /// Does not ask the issuer: a server starts while it is away.
    ///
    /// # Errors
    /// A setting makes no sense.
    pub fn new(settings: Settings) -> Result<Provider, Error> {
        settings.check()?;
        let http = HttpClient::new(settings.ca_file.clone());
        Ok(Provider { settings, http, known: RwLock::default(), asking: tokio::sync::Mutex::default() })
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What sessions are found by when the provider ends them.
    pub fn identity(&self) -> sign_in::Provider {
        sign_in::Provider { issuer: self.settings.issuer.clone(), client_id: self.settings.client_id.clone() }
    }

    /// Asks the issuer what it says of itself, unless that is known. Calls at the same time ask once. What is known is
    /// used for an hour, and for a day if the issuer can't be asked.
    ///
    /// # Errors
    /// The issuer does not answer, or is another one.
    pub async fn discover(&self, now: UnixMillis) -> Result<(), Error> {
        self.discovery(now).await.map(drop)
    }

    pub(crate) async fn discovery(&self, now: UnixMillis) -> Result<Arc<Discovery>, Error> {
        let known = self.known().filter(|known| now.saturating_sub(known.at) < USABLE);
        if let Some(fresh) = known.clone().filter(|known| now.saturating_sub(known.at) < FRESH) {
            return Ok(fresh);
        }
        let mut attempts = match &known {
            // One refreshes it; the others use what is known.
            Some(known) => match self.asking.try_lock() {
                Ok(attempts) => attempts,
                Err(_) => return Ok(known.clone()),
            },
            None => self.asking.lock().await,
        };
        // Another call may have asked while this one waited.
        if let Some(fresh) = self.known().filter(|known| now.saturating_sub(known.at) < FRESH) {
            return Ok(fresh);
        }
        if let Some((_, error)) = attempts.failed.clone().filter(|(at, _)| now.saturating_sub(*at) < PAUSE) {
            return known.ok_or(error);
        }
        match self.ask(now).await {
            Ok(found) => {
                attempts.failed = None;
                Ok(found)
            }
            Err(error) => {
                attempts.failed = Some((now, error.clone()));
                known.ok_or(error)
            }
        }
    }

    /// Asks for the keys once more, because a token has one that is not among `seen`. None: they were asked for a moment
    /// ago.
    ///
    /// # Errors
    /// The issuer does not answer: the key may be one of its own.
    pub(crate) async fn newer_keys(
        &self,
        seen: &Arc<Discovery>,
        now: UnixMillis,
    ) -> Result<Option<Arc<Discovery>>, Error> {
        let mut attempts = self.asking.lock().await;
        if let Some(known) = self.known().filter(|known| !Arc::ptr_eq(known, seen)) {
            return Ok(Some(known));
        }
        if attempts.keys.is_some_and(|at| now.saturating_sub(at) < KEYS_PAUSE) {
            return Ok(None);
        }
        attempts.keys = Some(now);
        self.ask(now).await.map(Some)
    }

    async fn ask(&self, now: UnixMillis) -> Result<Arc<Discovery>, Error> {
        let issuer = IssuerUrl::new(self.settings.issuer.clone())
            .map_err(|error| Error::Setting(format!("issuer is no address: {error}")))?;
        let metadata =
            Metadata::discover_async(issuer, &self.http).await.map_err(|error| self.discovery_error(error))?;
        let endpoints = [
            Some(metadata.authorization_endpoint().url()),
            metadata.token_endpoint().map(|endpoint| endpoint.url()),
            metadata.additional_metadata().end_session_endpoint.as_ref().map(|endpoint| endpoint.url()),
        ];
        // The browser is sent to two of them.
        if let Some(other) = endpoints.into_iter().flatten().find(|url| !may_be_asked(url)) {
            return Err(self.unavailable(&format!("its configuration names an address without TLS: {other}")));
        }
        let found = Arc::new(Discovery { metadata, at: now });
        *self.known.write() = Some(found.clone());
        Ok(found)
    }

    fn known(&self) -> Option<Arc<Discovery>> {
        self.known.read().clone()
    }

    fn discovery_error(&self, error: DiscoveryError<ClientError>) -> Error {
        match error {
            // The library compares the issuers here, and nothing else.
            DiscoveryError::Validation(why) => Error::Issuer { issuer: self.settings.issuer.clone(), why: plain(&why) },
            DiscoveryError::Request(error) => self.unavailable(&error.0),
            DiscoveryError::Response(status, ..) if !status.is_success() => {
                self.unavailable(&format!("it answers {status} to the request for its configuration"))
            }
            DiscoveryError::Parse(error) => self.unavailable(&format!("its configuration can't be read: {error}")),
            other => self.unavailable(&other.to_string()),
        }
    }

    pub(crate) fn unavailable(&self, why: &str) -> Error {
        Error::Unavailable { issuer: self.settings.issuer.clone(), why: plain(why) }
    }

    pub(crate) fn client_id(&self) -> ClientId {
        ClientId::new(self.settings.client_id.clone())
    }

    pub(crate) fn client(&self, discovery: &Discovery) -> Client {
        let secret = self.settings.client_secret.as_ref().map(|secret| ClientSecret::new(secret.expose().to_owned()));
        let client = Client::from_provider_metadata(discovery.metadata.clone(), self.client_id(), secret);
        // Basic is what a provider has to take if it does not say otherwise (Discovery section 3).
        let methods = discovery.metadata.token_endpoint_auth_methods_supported();
        let takes = |method| methods.is_none_or(|methods| methods.contains(&method));
        if !takes(CoreClientAuthMethod::ClientSecretBasic) && takes(CoreClientAuthMethod::ClientSecretPost) {
            client.set_auth_type(AuthType::RequestBody)
        } else {
            client
        }
    }
}
