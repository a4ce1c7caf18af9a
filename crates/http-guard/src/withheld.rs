//! Which fields of a client's request no application gets: neither as a Rack environment nor, as another HTTP server,
//! in a head. It never removes them itself.

use http::HeaderName;

/// Fields that the server says itself, and that would deceive an application (behind an upstream too) if a client said
/// them.
pub fn is_withheld(name: &HeaderName) -> bool {
    match name.as_str() {
        "host" | "content-length" | "transfer-encoding" | "x-request-id" | "x-request-start" => true,
        // Instructions of a proxy to Rack::Sendfile: whoever sets them chooses files.
        "x-sendfile-type" | "x-accel-mapping" => true,
        // An outbound HTTP client would take it for the environment variable (httpoxy, CVE-2016-5385).
        "proxy" => true,
        // HTTP_VERSION is CGI's other name of SERVER_PROTOCOL (Rack SPEC).
        "version" => true,
        // `X_Forwarded_For` would be the same variable as `X-Forwarded-For` (CGI, WSGI, Rack).
        name => name.contains('_'),
    }
}

/// Fields, and whether they are withheld: for the tests of each way to an application.
pub const EXAMPLES: &[(&str, bool)] = &[
    ("content-length", true),
    ("transfer-encoding", true),
    ("x-request-id", true),
    ("x-request-start", true),
    ("x-sendfile-type", true),
    ("x-accel-mapping", true),
    ("proxy", true),
    ("version", true),
    ("x_forwarded_for", true),
    ("content_type", true),
    ("cookie", false),
    ("x-proxy", false),
    ("accept-version", false),
    ("content-type", false),
];
