//! Whether a site has live reload: in development, unless it says otherwise, and never in production.
//! It never watches a file.

use crate::config::{
    groups::APP,
    layer::View,
    option::{Opt, Preset::Unset, Scope::Site},
    value::{Kind, Value},
};

#[rustfmt::skip]
pub static OPTIONS: &[Opt] = &[
    Opt::new(Site, APP, "live_reload", Kind::Bool,
        "Show changes in the browser by themselves: the server watches the site's files, tells the pages that are open what has changed, and restarts the application \
        where its new code needs that. Pages get a script for it (docs/live-reload.md). In production it is always off, and a `true` is ignored with a notice.")
        .preset(Unset("true in development, otherwise false")).env(&["PACELINE_LIVE_RELOAD"]).flag("live-reload")
        .risk("A change that does not start is shown in place of the code that still runs."),
];

const KEY: &str = "live_reload";

pub fn is_on(view: &View) -> bool {
    match view.environment() {
        "production" => false,
        environment => view.given(KEY).map_or(environment == "development", |given| *given == Value::Bool(true)),
    }
}

/// Said if a site of production asks for it. A file that is used in development, too, keeps no server from starting.
pub fn notice<'a>(mut sites: impl Iterator<Item = View<'a>>) -> Option<String> {
    let is_ignored =
        sites.any(|view| view.environment() == "production" && view.given(KEY) == Some(&Value::Bool(true)));
    is_ignored
        .then(|| "live_reload is ignored in production: it is for the environments in which code is written".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{options, Layer};

    fn on(environment: &str, given: Option<bool>) -> bool {
        let mut layer = Layer::default();
        layer.set("environment", Value::Text(environment.into()));
        given.into_iter().for_each(|given| layer.set(KEY, Value::Bool(given)));
        is_on(&options::view(vec![&layer], 1))
    }

    #[test]
    fn on_in_development_and_never_in_production() {
        for (environment, given, expected) in [
            ("development", None, true),
            ("development", Some(false), false),
            ("test", None, false),
            ("test", Some(true), true),
            ("staging", None, false),
            ("staging", Some(true), true),
            ("production", None, false),
            ("production", Some(true), false),
        ] {
            assert_eq!(on(environment, given), expected, "{environment} {given:?}");
        }
    }
}
