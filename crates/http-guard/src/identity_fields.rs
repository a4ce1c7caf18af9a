//! Which fields of a request say who somebody is. Where the server itself signs people in, no client may say that. It
//! never removes them itself.

use http::HeaderName;

/// Whether an application, or a gateway behind this one, may take the field for the word of a server on whose request
/// it is. `_` and `-` are the same: CGI, WSGI and Rack make one variable of both.
pub fn is_identity(name: &HeaderName) -> bool {
    let name = name.as_str();
    let plain;
    let name = if name.contains('_') {
        plain = name.replace('_', "-");
        plain.as_str()
    } else {
        name
    };
    if NEVER.contains(&name) {
        return false;
    }
    let says_so = |word: &str| WORDS.contains(&word);
    NAMES.contains(&name)
        || BEGINNINGS.iter().chain(&SSL).any(|beginning| name.starts_with(beginning))
        || name.split('-').any(says_so)
}

/// Names that have such a word and say something else.
const NEVER: [&str; 4] = ["user-agent", "x-user-agent", "x-original-user-agent", "x-device-user-agent"];

/// A name that has one of these between its hyphens says who somebody is, whatever stands around it.
const WORDS: [&str; 48] = [
    "claim",
    "claims",
    "clientcert",
    "cn",
    "displayname",
    "dn",
    "edupersonprincipalname",
    "email",
    "entitlement",
    "eppn",
    "fullname",
    "givenname",
    "group",
    "groups",
    "identity",
    "ismemberof",
    "jwt",
    "login",
    "mail",
    "mellon",
    "member",
    "memberof",
    "oidc",
    "preferredusername",
    "principal",
    "principalname",
    "role",
    "roles",
    "samaccountname",
    "saml",
    "shib",
    "shibboleth",
    "sso",
    "subject",
    "surname",
    "uid",
    "upn",
    "user",
    "userdn",
    "userid",
    "userinfo",
    "username",
    "userprincipalname",
    "users",
    "vouch",
    "webauth",
    "whoami",
    "x509",
];

const NAMES: [&str; 10] = [
    "affiliation",
    "auth-type",
    "gap-auth",
    "pairwise-id",
    "persistent-id",
    "subject-id",
    "targeted-id",
    "unique-id",
    "unscoped-affiliation",
    "x-anonymous-consumer",
];

/// What Apache's modules, oauth2-proxy, Authelia, authentik, Pomerium, Tailscale, Grafana's, Envoy's, Traefik's, Kong's and the
/// clouds' gateways write.
const BEGINNINGS: [&str; 35] = [
    "cas-",
    "cf-access-",
    "client-cert",
    "client-verify",
    "eduperson",
    "impersonate-",
    "iv-",
    "ldap-",
    "okta-",
    "remote-",
    "siteminder-",
    "sm-",
    "ssl-client-",
    "tailscale-",
    "x-amzn-mtls-",
    "x-amzn-oidc-",
    "x-arr-clientcert",
    "x-auth-",
    "x-authenticated-",
    "x-authentik-",
    "x-cas-",
    "x-client-cert",
    "x-client-verify",
    "x-consumer-",
    "x-credential-",
    "x-forwarded-access-token",
    "x-forwarded-client-cert",
    "x-forwarded-id-token",
    "x-forwarded-tls-client-cert",
    "x-ldap-",
    "x-ms-token-",
    "x-okta-",
    "x-pomerium-",
    "x-remote-",
    "x-sm-",
];

/// Of certificates that a server before this one has seen.
const SSL: [&str; 3] = ["x-ssl-", "ssl-", "x-tls-client-"];

/// Spellings of names that say who somebody is, as a client may write them: for the tests of each way to an application.
pub const SPELLINGS: &[&str] = &[
    "Remote-User",
    "remote-user",
    "REMOTE-USER",
    "rEmOtE-uSeR",
    "Remote_User",
    "remote_user",
    "REMOTE_USER",
    "Remote-Groups",
    "Remote_Groups",
    "Remote-Name",
    "Remote-Email",
    "Remote_Email",
    "Remote-Ident",
    "Remote-User-Groups",
    "X-Remote-User",
    "x-remote-user",
    "X_Remote_User",
    "X_REMOTE-USER",
    "x-remote_user",
    "X-Remote-Group",
    "X-Remote-Groups",
    "X-Remote-Extra-Scopes",
    "X-Remote-User-Id",
    "X-Forwarded-User",
    "x-forwarded-user",
    "X_Forwarded_User",
    "X-Forwarded_User",
    "x_forwarded-user",
    "X_FORWARDED_USER",
    "X-Forwarded-Groups",
    "X-FORWARDED-GROUPS",
    "X_Forwarded_Groups",
    "X-Forwarded-Group",
    "X-Forwarded-Email",
    "X_Forwarded_Email",
    "X-Forwarded-Preferred-Username",
    "X_Forwarded_Preferred_Username",
    "X-Forwarded-Preferred_Username",
    "X-Forwarded-Access-Token",
    "X-Forwarded-Id-Token",
    "X-Auth-User",
    "X-Auth-Username",
    "X_Auth_User",
    "X-AUTH-USER",
    "X-Auth-Request-User",
    "X-Auth-Request-Email",
    "X-Auth-Request-Groups",
    "X-Auth-Request-Preferred-Username",
    "x_auth_request_user",
    "X-Auth-Request-Access-Token",
    "X-Auth-Token",
    "X-Auth-Roles",
    "X-Authenticated-User",
    "X_Authenticated_User",
    "X-Authenticated-Groups",
    "X-Authentik-Username",
    "x_authentik_groups",
    "X-WebAuth-User",
    "X_WEBAUTH_USER",
    "X-WebAuth-Groups",
    "X-Pomerium-Jwt-Assertion",
    "X-Goog-Authenticated-User-Email",
    "X-Amzn-Oidc-Identity",
    "X-MS-Client-Principal-Name",
    "X-Ms-Client-Principal",
    "Tailscale-User-Login",
    "Cf-Access-Authenticated-User-Email",
    "Auth-Type",
    "auth_type",
    "Auth-User",
    "AUTH_USER",
    "Logon-User",
    "LOGON_USER",
    "Http-Remote-User",
    "HTTP_REMOTE_USER",
    "X-Http-Remote-User",
    "Paceline-User",
    "paceline_user",
    "X-User",
    "X-Username",
    "SSL-Client-S-DN",
    "SSL_CLIENT_S_DN",
    "Ssl-Client-Verify",
    "OIDC-CLAIM-sub",
    "OIDC_CLAIM_email",
    "OIDC-Access-Token",
    "X-Oidc-Sub",
    "X-Vouch-User",
    "X_Vouch_IdP_Claims_Email",
    "Shib-Identity-Provider",
    "SHIB_SESSION_ID",
    "eppn",
    "persistent-id",
    "X-Forwarded-Client-Cert",
    "x_forwarded_client_cert",
    "X-Forwarded-Tls-Client-Cert-Info",
    "X-Forwarded-Roles",
    "Cf-Access-Jwt-Assertion",
    "X-Goog-Iap-Jwt-Assertion",
    "X-Amzn-Mtls-Clientcert-Subject",
    "X-ARR-ClientCert",
    "X-SSL-Client-S-DN",
    "X_SSL_CLIENT_VERIFY",
    "X-Client-Cert",
    "X-Consumer-Custom-Id",
    "X-Credential-Identifier",
    "MELLON_NAME_ID",
    "X-Saml-NameId",
    "SM_USER",
    "iv-user",
    "iv-groups",
    "X-Userinfo",
    "X-User-Id",
    "X-Email",
    "X-Groups",
    "X-Company-Roles",
    "Proxy-User",
    "Tailscale-Name",
    "SM_USERDN",
    "SM-UniversalId",
    "iv-creds",
    "IV_Server_Name",
    "X-MS-Token-AAD-Id-Token",
    "Impersonate-Uid",
    "Impersonate-Extra-Scopes",
    "X-Uid",
    "uid",
    "X-Jwt-Claim-Sub",
    "X-JWT-Payload",
    "X-Claims",
    "X-Client-CN",
    "X-Displayname",
    "displayName",
    "isMemberOf",
    "mail",
    "sAMAccountName",
    "eduPersonPrincipalName",
    "eduPersonAffiliation",
    "subject-id",
    "Pairwise_Id",
    "X-Okta-Login-Name",
    "CAS-Principal-Attributes",
    "X-Ldap-Cn",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_spelling_is_missed() {
        assert!(SPELLINGS.len() >= 60);
        for spelling in SPELLINGS {
            let name = HeaderName::from_bytes(spelling.as_bytes()).unwrap();
            assert!(is_identity(&name), "{spelling}");
        }
    }

    #[test]
    fn fields_that_say_something_else_go_on() {
        for name in [
            "authorization",
            "cookie",
            "host",
            "user-agent",
            "x-forwarded-for",
            "x-forwarded-host",
            "x-forwarded-proto",
            "x-request-id",
            "x-requested-with",
            "x-csrf-token",
            "x-api-key",
            "remote",
            "x-author",
            "from",
            "x-user-agent",
            "sec-ch-ua",
            "origin",
            "x-forwarded-port",
            "forwarded",
            "ssl",
        ] {
            assert!(!is_identity(&HeaderName::from_static(name)), "{name}");
        }
    }
}
