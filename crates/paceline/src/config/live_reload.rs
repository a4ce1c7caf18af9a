//! Whether a site has live reload: in development, unless it says otherwise, and never in production.
//! It never watches a file.

use super::{
    layer::{Layer, View},
    paceline_toml::TomlTable,
    sources::Sources,
    value::Value,
};

const KEY: &str = "live_reload";

pub fn is_on(view: &View) -> bool {
    match view.environment() {
        "production" => false,
        environment => view.given(KEY).map_or(environment == "development", |given| *given == Value::Bool(true)),
    }
}

/// Said if a site of production asks for it. A file that is used in development, too, keeps no server from starting.
pub fn notice(sources: &Sources, tables: &[TomlTable]) -> Option<String> {
    let whole = Layer::default();
    let mut layers = tables.iter().map(|table| &table.layer).chain([&whole]);
    let is_ignored = layers.any(|own| {
        let view = sources.site(own);
        view.environment() == "production" && view.given(KEY) == Some(&Value::Bool(true))
    });
    is_ignored
        .then(|| "live_reload is ignored in production: it is for the environments in which code is written".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(environment: &str, given: Option<bool>) -> bool {
        let mut layer = Layer::default();
        layer.set("environment", Value::Text(environment.into()));
        given.into_iter().for_each(|given| layer.set(KEY, Value::Bool(given)));
        is_on(&View::new(vec![&layer], 1))
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
