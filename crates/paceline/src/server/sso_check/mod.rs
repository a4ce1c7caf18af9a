//! What an operator asks of `[[sso]]` before people sign in: `paceline sso check`, and of it the part that needs no
//! network, for the start of a server. Each answer says what to do. It never lets anybody in, changes nothing, and sends
//! nobody's password; the only ticket that it uses is the caller's own.
//!
//! Reading order: `line` (an answer), `offline` (files and settings), `hosts`, `account` (as
//! whom the server reads), `online` (KDC, DNS, directory, issuer), `visit` (the site as a browser reaches it).

mod account;
mod hosts;
mod line;
mod offline;
mod online;
mod visit;

use negotiate::check::{browsers, Browser};

pub use self::{
    line::{Level, Line},
    offline::warnings,
    visit::Visit,
};
use crate::config::{parts::sign_on::SignOn, Config, SiteConfig};

/// What is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wish {
    /// The site's names as browsers know them. Empty: what its settings or its keytab say.
    pub hosts: Vec<String>,
    /// Of several sites the one that is meant. None: all of them.
    pub site: Option<String>,
    /// How the site is visited. None: not at all.
    pub visit: Option<Visit>,
    /// The account that the server runs as. None: that of a running server, else our own.
    pub user: Option<String>,
}

/// The answers for one `[[sso]]`.
#[derive(Debug)]
pub struct Area {
    pub site: String,
    pub shown: String,
    pub lines: Vec<Line>,
    /// What browsers have to be told. Empty: nothing.
    pub browsers: Vec<Browser>,
}

/// All of it. `sites`: those of the settings and of the folder of sites. It blocks, on the network too.
pub fn check<'a>(config: &Config, sites: impl Iterator<Item = &'a SiteConfig>, wish: &Wish) -> Vec<Area> {
    let reader = account::reader(config, wish.user.as_deref());
    let is_wanted = |site: &&SiteConfig| wish.site.as_ref().is_none_or(|name| *name == site.name);
    let areas = sites.filter(is_wanted).flat_map(|site| site.parts.sign_on.iter().map(move |sign_on| (site, sign_on)));
    areas.map(|(site, sign_on)| area(config, site, sign_on, wish, &reader)).collect()
}

fn area(config: &Config, site: &SiteConfig, sign_on: &SignOn, wish: &Wish, reader: &account::Reader) -> Area {
    let mut lines = offline::of_settings(config, sign_on);
    lines.extend(reader.files(sign_on));
    let (hosts, doubt) = hosts::of(site, sign_on, &wish.hosts);
    lines.extend(doubt);
    if let Some(kerberos) = &sign_on.kerberos {
        lines.extend(online::kerberos(kerberos, &hosts));
    }
    if let Some(basic) = &sign_on.basic {
        lines.push(online::directory(basic));
    }
    if let Some(oidc) = &sign_on.oidc {
        lines.extend(online::openid(oidc, &hosts, wish.visit.as_ref()));
    }
    if let Some(visit) = &wish.visit {
        lines.extend(hosts.first().into_iter().flat_map(|host| visit::visit(visit, host, sign_on)));
    }
    let mut seen = Vec::new();
    lines.retain(|line| {
        let is_new = !seen.contains(line);
        seen.push(line.clone());
        is_new
    });
    let browsers = if sign_on.kerberos.is_some() && !hosts.is_empty() { browsers(&hosts) } else { Vec::new() };
    Area { site: site.name.clone(), shown: sign_on.shown(), lines, browsers }
}
