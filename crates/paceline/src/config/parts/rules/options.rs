//! The table of rules by path and host, in the words of `options`. It never reads a value.

use super::Rule;
use crate::config::{
    groups::RULES,
    option::{Opt, Scope::Site},
    value::Kind,
};

#[rustfmt::skip]
pub static OPTIONS: &[Opt] = &[
    Opt::new(Site, RULES, "rule", Kind::table::<Vec<Rule>>(),
        "Tables [[rule]]: what is done with requests for some paths before the application, a file or a kept page answers (docs/from-nginx.md).\n\n\
        | key | meaning |\n| --- | --- |\n\
        | `path` | paths, one or a list; `*` matches anything. Default: `\"/*\"` |\n\
        | `except` | paths of these that the rule is not for, such as `\"/up\"` |\n\
        | `host` | host names, one or a list, also `\"*.shop.example\"`. Default: all of the site |\n\
        | `redirect` | where to go instead: `\"/new\"`, `\"/new/*\"` (the star is what the star at the end of `path` stands for), `\"https://shop.example\"` (with the path \
        and query of the request) or `\"https://shop.example/new\"`. A request that is there already is not redirected |\n\
        | `status` | of the redirect: 301, 302, 307 or 308. Default: 301 for GET and HEAD, 308 for all others |\n\
        | `headers` | of responses: `{ set = { \"X-Frame-Options\" = \"DENY\" }, remove = [\"X-Powered-By\"] }` |\n\
        | `basic_auth` | file of lines `name:hash` (bcrypt: `htpasswd -B`, or argon2), or a table with `file`, `realm` (`\"Restricted\"`) and `pass_user` (the application \
        gets the name as REMOTE_USER; default false) |\n\
        | `allow`, `deny` | addresses and networks, `\"private\"`, `\"loopback\"`, `\"unix\"`. Those of `deny` get 403; with `allow`, so do all that are not in it. The address \
        is the client's if a trusted proxy sends it |\n\
        | `max_body` | in place of the site's `max_body`: a size, or `\"off\"` |\n\n\
        Of `redirect` and `max_body` the first rule that matches counts. Every rule with `basic_auth`, `allow` or `deny` that matches has to let the request in. All \
        `headers` that match are applied, in the order of the file. In a site: [[site.rule]], in place of those at the top.")
        .risk("With `basic_auth` passwords are readable on the way unless the site is reached by https. `allow` and `deny` see the address of a proxy in front that is not \
        in trusted_proxies. If the server runs as root, a settings file that belongs to another account can't have `basic_auth`."),
];
