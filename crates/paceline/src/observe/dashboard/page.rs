//! The dashboard's page, and the one that asks for a token.
//! It never shows more than it is handed.

use maud::html;

use super::{
    advice,
    history::Span,
    html::{page, percent, visible},
    view::View,
};

/// The whole dashboard. `has_advice`: `paceline doctor` has looked at one of the sites.
pub fn dashboard(view: &View, has_advice: bool) -> String {
    let parts = view.parts();
    let part = |id: &str| parts.iter().find(|(name, _)| *name == id).map(|(_, part)| part);
    let address = |site: Option<&str>, span: Span| {
        let site = site.map(|site| format!("site={}", percent(site)));
        let span = (span != Span::default()).then(|| format!("span={}", span.as_str()));
        let query: Vec<String> = site.into_iter().chain(span).collect();
        if query.is_empty() {
            "/".to_owned()
        } else {
            format!("/?{}", query.join("&"))
        }
    };
    let link = |to: String, words: &str, current: bool| {
        html! { a href=(to) aria-current=[current.then_some("page")] { (visible(words)) } }
    };
    let figure = |id: &str| html! { figure id=(id) { @if let Some(part) = part(id) { (part) } } };
    let section = |id: &str, title: &str, class: &str| {
        html! { section class=(class) { h2 { (title) } div id=(id) { @if let Some(part) = part(id) { (part) } } } }
    };
    let body = html! {
        header {
            h1 { "Paceline" }
            @if view.sites.len() > 1 {
                nav aria-label="Sites" {
                    (link(address(None, view.span), "all sites", view.site.is_none()))
                    @for site in &view.sites {
                        (link(address(Some(&site.name), view.span), &site.name, view.site == Some(&*site.name)))
                    }
                }
            }
            @if has_advice {
                nav aria-label="Pages" {
                    a href=(view.site.map_or_else(|| "/advice".into(), advice::address)) { "Advice" }
                }
            }
            nav aria-label="Time shown" {
                @for (span, words) in [(Span::TenMinutes, "10 min"), (Span::TwoHours, "2 h")] {
                    (link(address(view.site, span), words, span == view.span))
                }
            }
            p #link role="status" { "live" }
        }
        main {
            div #state { @if let Some(part) = part("state") { (part) } }
            dl #figures { @if let Some(part) = part("figures") { (part) } }
            div.charts { (figure("requests")) (figure("times")) (figure("queue")) (figure("hits")) }
            div.charts { (figure("memory")) }
            @if view.cluster.is_some() { (section("cluster", "Cluster", "wide")) }
            (section("workers", "Processes", "wide"))
            div.pair { (section("live", "Requests in progress", "live")) (section("incidents", "Incidents", "troubles")) }
            div.pair { (section("failed", "Failed requests", "troubles")) (section("reasons", "Reasons for misses", "reasons")) }
        }
    };
    let name = view.site.or_else(|| view.sites.first().filter(|_| view.sites.len() == 1).map(|site| &*site.name));
    let title = name.map_or_else(|| "Paceline".into(), |name| format!("{name} · Paceline"));
    let events = address(view.site, view.span).replacen('/', "/events", 1);
    page(&title, "dashboard", Some(&events), &body)
}

/// Where the token goes, for who has come without.
pub fn door() -> String {
    let body = html! {
        main {
            h1 { "Paceline" }
            p { "This dashboard asks for a token: the server's " code { "control_token" } "." }
            form action="/" method="get" {
                label for="token" { "Token" }
                input #token name="token" type="password" autocomplete="off" required autofocus;
                button { "Open" }
            }
            p.hint {
                "Without one, " code { "paceline dashboard" }
                " in the directory that is served prints a link that opens it once."
            }
        }
    };
    page("Paceline", "door", None, &body)
}
