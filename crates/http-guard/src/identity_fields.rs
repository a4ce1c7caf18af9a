//! Which fields of a request say who somebody is. Where the server itself signs people in, no client may say that. It
//! never removes them itself.

use http::HeaderName;

/// Whether an application, or a gateway behind this one, may take the field for the word of a server on whose request
/// it is. `_` and `-` are the same: CGI, WSGI and Rack make one variable of both.
pub fn is_identity(name: &HeaderName) -> bool {
    let name = name.as_str();
    let plain;
    let name = match name.contains('_') {
        true => {
            plain = name.replace('_', "-");
            plain.as_str()
        }
        false => name,
    };
    const NAMES: [&str; 16] = [
        "auth-type",
        "auth-user",
        "cf-access-authenticated-user-email",
        "client-cert",
        "client-verify",
        "http-remote-user",
        "logon-user",
        "paceline-user",
        "ssl-client-s-dn",
        "ssl-client-verify",
        "user",
        "username",
        "x-authenticated-user",
        "x-http-remote-user",
        "x-user",
        "x-username",
    ];
    /// What oauth2-proxy, Authelia, authentik, Pomerium, Tailscale, Grafana's and the clouds' gateways write.
    const BEGINNINGS: [&str; 17] = [
        "remote-",
        "tailscale-user-",
        "x-amzn-oidc-",
        "x-auth-",
        "x-authenticated-",
        "x-authentik-",
        "x-forwarded-access-token",
        "x-forwarded-email",
        "x-forwarded-group",
        "x-forwarded-id-token",
        "x-forwarded-preferred-username",
        "x-forwarded-user",
        "x-goog-authenticated-user-",
        "x-ms-client-principal",
        "x-pomerium-",
        "x-remote-",
        "x-webauth-",
    ];
    NAMES.contains(&name) || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

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
        ] {
            assert!(!is_identity(&HeaderName::from_static(name)), "{name}");
        }
    }
}
