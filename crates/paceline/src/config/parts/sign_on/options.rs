//! The settings of single sign-on, in the words of `options`. It never reads a value.

use super::SignOn;
use crate::config::{
    groups::SIGN_ON,
    option::{Opt, Scope::Site},
    value::Kind,
};

#[rustfmt::skip]
pub static OPTIONS: &[Opt] = &[
    Opt::new(Site, SIGN_ON, "sso", Kind::table::<Vec<SignOn>>(),
        "Tables [[sso]]: which paths need somebody who has signed in, and how people sign in (docs/single-sign-on.md). The application gets the name as REMOTE_USER. \
        The first table that matches a path counts.\n\n\
        | key | meaning |\n| --- | --- |\n\
        | `path` | paths that are protected, one or a list; `*` matches anything. Default: `\"/*\"` |\n\
        | `except` | paths that are not, such as `[\"/up\", \"/assets/*\"]` |\n\
        | `kerberos` | `keytab` (file), `realms` (default: those of the keytab), `service` (`\"HTTP@any\"`, or names like `\"HTTP/web.example.com\"`), `bindings` \
        (channel bindings: `\"off\"`, `\"allow\"`, `\"require\"`; default `\"allow\"`), `ntlm` (default false; needs gss-ntlmssp), `groups` (`\"ticket\"`, `\"ldap\"` or \
        `\"none\"`; default: `\"ldap\"` if `basic` has an account, otherwise `\"ticket\"`) |\n\
        | `basic` | name and password, checked by an LDAP directory: `ldap` (URL or list), `base`, `account` and `password_file`, or `bind_as` (default: \
        `\"{name}@example.com\"` for a `base` of `dc=example,dc=com`), `group_base`, `person_filter`, `name_attribute`, `group_attribute`, `starttls`, `ca_file`, `timeout` (`\"5s\"`), `cache` (`\"60s\"`), \
        `prompt` |\n\
        | `oidc` | OpenID Connect: `issuer`, `client_id`, `client_secret_file`, `scopes` (`[\"profile\", \"email\"]`), `name_claim` (`\"preferred_username\"`), \
        `groups_claim`, `ca_file`, `after_logout` (a path; without it a page says that one is signed out) |\n\
        | `otherwise` | what a visitor gets who has proved nothing: `\"app\"` (the application, without a user), `\"oidc\"`, `\"basic\"` or `\"refuse\"`. Default: `\"oidc\"` \
        if it is set, else `\"basic\"` if that is set, else `\"refuse\"` |\n\
        | `allow` | who may come in: `\"group:NAME\"`, `\"user:NAME\"`, `\"realm:NAME\"`; one of them is enough. Default: everybody who has signed in |\n\
        | `local` | `\"strip-realm\"` (default): REMOTE_USER is `alice` for `alice@EXAMPLE.COM`, if that is the first realm; `\"keep\"`: with the realm |\n\
        | `intranet` | networks that are offered Negotiate, such as `[\"10.0.0.0/8\"]`. Default: all |\n\
        | `lifetime`, `idle` | a session ends so long after it began (`\"12h\"`), and after its last use (`\"2h\"`, or `\"off\"`) |\n\
        | `store` | where sessions are kept: a file (default: `sso/sessions` in the state directory), or `redis://HOST:PORT/DB` with `store_password_file` and \
        `store_ca_file` |\n\nIn a site: [[site.sso]], in place of those at the top. An empty list, `sso = []`, turns it off for a site.")
        .risk("A path that no table names is open to everybody. With `otherwise = \"app\"` the application has to check REMOTE_USER by itself. Behind a proxy that ends \
        TLS, add its address to `trusted_proxies`. If the server runs as root, a settings file that belongs to another account can't have [[sso]].").roots_own(),
];
