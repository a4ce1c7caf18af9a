//! The list of sites, for an unknown host in development with --sites.
//! In production it must never be sent: it names every site.

use super::{
    accept::{form, Form},
    Page,
};
use startup_report::html::{document, escape};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteLink {
    pub name: String,
    /// `http://shop.localhost:3000/`
    pub url: String,
    /// A word about it: `rails`, `files`, `does not start`.
    pub note: String,
}

/// The list in the form the client accepts.
pub fn sites(host: &str, list: &[SiteLink], accept: Option<&str>) -> Page {
    let form = form(accept);
    let body = match form {
        Form::Html => sites_page(host, list),
        Form::Text => {
            let rows: String = list.iter().map(|site| format!("  {}  {}\n", site.name, site.url)).collect();
            format!("No site is named {host}. Available sites:\n{rows}")
        }
        Form::Json => {
            let rows: Vec<_> =
                list.iter().map(|site| serde_json::json!({"name": site.name, "url": site.url})).collect();
            format!(
                "{}\n",
                serde_json::json!({"status": 404, "error": format!("No site is named {host}"), "sites": rows})
            )
        }
    };
    (form.content_type(), body.into())
}

pub fn sites_page(host: &str, list: &[SiteLink]) -> String {
    let row = |site: &SiteLink| {
        // Only links a browser follows to a site, whatever a folder is called.
        let url = if site.url.starts_with("http://") || site.url.starts_with("https://") || site.url.starts_with('/') {
            &site.url
        } else {
            "#"
        };
        format!("<li><a href=\"{}\">{}<span>{}</span></a></li>", escape(url), escape(&site.name), escape(&site.note))
    };
    let rows: String = list.iter().map(row).collect();
    let rows = if list.is_empty() {
        "<p>There are no sites yet. Put an application's folder into the directory of the sites and reload.</p>"
            .to_string()
    } else {
        format!("<section><ul class=sites>{rows}</ul></section>")
    };
    let main = format!(
        "<p class=code>404</p><h1>No site is named {}</h1><p class=said>Available sites:</p>{rows}",
        escape(host)
    );
    let main = if list.is_empty() { main.replace("<p class=said>Available sites:</p>", "") } else { main };
    document("Sites", "narrow", &main)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_links_and_escaped() {
        let site = |name: &str, url: &str| SiteLink { name: name.into(), url: url.into(), note: "rails".into() };
        let page = sites_page(
            "<x>",
            &[site("shop", "http://shop.localhost:3000/"), site("<b>", "javascript:alert(1)"), site("q", "/\"q")],
        );
        assert!(page.contains("<a href=\"http://shop.localhost:3000/\">shop<span>rails</span></a>"));
        assert!(
            page.contains("<a href=\"#\">&lt;b&gt;")
                && page.contains("href=\"/&quot;q\"")
                && page.contains("named &lt;x&gt;")
        );
        assert!(sites_page("x", &[]).contains("no sites yet"));
        assert_eq!(sites("x", &[site("a", "/a")], None).1, "No site is named x. Available sites:\n  a  /a\n");
    }
}
