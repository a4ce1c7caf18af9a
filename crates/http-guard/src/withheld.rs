//! Which fields of a client's request no application gets: neither as a Rack environment nor, as another HTTP server,
//! in a head. It never removes them itself.

use http::{header, HeaderName};

/// Fields that the server says itself, and that would deceive an application (behind an upstream too) if a client said
/// them.
pub fn is_withheld(name: &HeaderName) -> bool {
    const OURS: [HeaderName; 5] = [
        header::HOST,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        HeaderName::from_static("x-request-id"),
        HeaderName::from_static("x-request-start"),
    ];
    OURS.contains(name)
        // Instructions of a proxy to Rack::Sendfile: whoever sets them chooses files.
        || name == "x-sendfile-type"
        || name == "x-accel-mapping"
        // An outbound HTTP client would take it for the environment variable (httpoxy, CVE-2016-5385).
        || name == "proxy"
        // HTTP_VERSION is CGI's other name of SERVER_PROTOCOL (Rack SPEC).
        || name == "version"
        // `X_Forwarded_For` would be the same variable as `X-Forwarded-For` (CGI, WSGI, Rack).
        || name.as_str().contains('_')
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
