//! The settings of self-tuning, in the words of `options`. It never reads a value.

use std::time::Duration;

use super::{
    groups::RUBY,
    option::{Opt, Preset::Unset, Scope::SiteByAdmin},
    tuned_settings,
    value::Kind,
};

const MONTH: Duration = Duration::from_secs(30 * 86_400);

#[rustfmt::skip]
pub static TUNING_OPTIONS: &[Opt] = &[
    Opt::new(SiteByAdmin, RUBY, "tune", Kind::Enum(&["off", "auto"]),
        "Let the server try settings by itself (`tune_kinds`) at quiet times, as `paceline doctor` does, and start the application with what is proven. It is \
        compared with before, and taken back if requests become slower (docs/doctor.md). What you set yourself, in the configuration or the environment, is never \
        changed. Nothing is tried in development and test, or without a control socket.")
        .fixed("off").flag("tune")
        .risk("A trial starts the application twice more, with the lowest priority: that takes its memory, and time of the processor. The application is restarted \
        when something is tuned or taken back."),
    Opt::new(SiteByAdmin, RUBY, "tune_kinds", Kind::List { check: tuned_settings::check },
        "With `tune`: what is tried. \"yjit\": Ruby's compiler. \"gc\": the garbage collector's variables. \"threads\": more `threads`, when requests wait for one; \
        never more than the pool in config/database.yml, `worker_memory` and `site_memory` have room for. \"allocator\": jemalloc, if it is installed. Numbers of workers \
        are not tried.")
        .preset(Unset("yjit and gc")).flag("tune-kinds")
        .risk("With \"threads\", more requests run side by side in a worker: the application's own code must be safe for that, and other limits than the database's \
        pool (a pool for Redis, for example) are not known. With \"allocator\", jemalloc is loaded into the programs that the application starts, too."),
    Opt::new(SiteByAdmin, RUBY, "tune_every", Kind::Duration { min: Duration::from_secs(1), max: MONTH, off: false },
        "With `tune`: a trial at most once in this time, the first this long after the start. When a trial has found nothing, there is no other until the code or \
        Ruby changes. The two occasions, a quiet machine and requests that wait for a thread, have their times apart.")
        .fixed("1h").flag("tune-every"),
    Opt::new(SiteByAdmin, RUBY, "tune_watch", Kind::Duration { min: Duration::from_secs(2), max: MONTH, off: false },
        "With `tune`: how long a change is compared with before. It is looked at 24 times, with the default once an hour.")
        .fixed("1d").flag("tune-watch"),
];
