//! The setting of live reload, in the words of `options`. It never reads a value.

use super::{
    groups::APP,
    option::{Opt, Preset::Unset, Scope::Site},
    value::Kind,
};

#[rustfmt::skip]
pub static LIVE_RELOAD_OPTIONS: &[Opt] = &[
    Opt::new(Site, APP, "live_reload", Kind::Bool,
        "Show changes in the browser by themselves: the server watches the site's files, tells the pages that are open what has changed, and restarts the application \
        where its new code needs that. Pages get a script for it (docs/live-reload.md). In production it is always off, and a `true` is ignored with a notice.")
        .preset(Unset("true in development, otherwise false")).env(&["PACELINE_LIVE_RELOAD"]).flag("live-reload")
        .risk("A change that does not start is shown in place of the code that still runs."),
];
