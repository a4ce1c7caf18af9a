//! The dashboard's page, and the one that asks for a token.
//! It never shows more than it is handed.

use super::{
    history::Span,
    html::{escape, page},
    view::View,
};

/// The whole dashboard.
pub fn dashboard(view: &View) -> String {
    let parts = view.parts();
    let part = |id: &str| parts.iter().find(|(name, _)| *name == id).map_or("", |(_, html)| html.as_str());
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
        let current = if current { " aria-current=page" } else { "" };
        format!("<a href=\"{}\"{current}>{}</a>", escape(&to), escape(words))
    };
    let sites = match view.sites.len() {
        0 | 1 => String::new(),
        _ => {
            let each = view
                .sites
                .iter()
                .map(|site| link(address(Some(&site.name), view.span), &site.name, view.site == Some(&*site.name)));
            let all = link(address(None, view.span), "all sites", view.site.is_none());
            format!("<nav aria-label=Sites>{all}{}</nav>", each.collect::<String>())
        }
    };
    let spans = [(Span::TenMinutes, "10 min"), (Span::TwoHours, "2 h")];
    let spans: String = spans.map(|(span, words)| link(address(view.site, span), words, span == view.span)).concat();
    let events = address(view.site, view.span).replacen('/', "/events", 1);
    let figure = |id: &str| format!("<figure id={id}>{}</figure>", part(id));
    let section = |id: &str, title: &str, class: &str| {
        format!("<section class={class}><h2>{title}</h2><div id={id}>{}</div></section>", part(id))
    };
    let body = format!(
        "<header><h1>Paceline</h1>{sites}<nav aria-label=\"Time shown\">{spans}</nav><p id=link role=status>live</p></header>\n\
         <main>\n<div id=state>{}</div>\n<dl id=figures>{}</dl>\n<div class=charts>{}{}{}{}</div>\n<div class=charts>{}</div>\n{}\n<div class=pair>{}{}</div>\n{}\n</main>",
        part("state"),
        part("figures"),
        figure("requests"),
        figure("times"),
        figure("queue"),
        figure("hits"),
        figure("memory"),
        section("workers", "Processes", "wide"),
        section("live", "Requests in progress", "live"),
        section("troubles", "Incidents", "troubles"),
        section("reasons", "Reasons for misses", "reasons"),
    );
    let name = view.site.or_else(|| view.sites.first().filter(|_| view.sites.len() == 1).map(|site| &*site.name));
    let title = name.map_or_else(|| "Paceline".into(), |name| format!("{name} · Paceline"));
    page(&title, "dashboard", &format!(" data-events=\"{}\"", escape(&events)), &body)
}

/// Where the token goes, for who has come without.
pub fn door() -> String {
    page(
        "Paceline",
        "door",
        "",
        "<main><h1>Paceline</h1><p>This dashboard asks for a token: the server's <code>control_token</code>.</p>\
         <form action=\"/\" method=get><label for=token>Token</label><input id=token name=token type=password autocomplete=off required autofocus><button>Open</button></form>\
         <p class=hint>Without one, <code>paceline dashboard</code> in the directory that is served prints a link that opens it once.</p></main>",
    )
}

fn percent(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}
