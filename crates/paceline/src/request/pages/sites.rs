//! The list of sites, for an unknown host in development with --sites.
//! In production it must never be sent: it names every site.

use super::{
    accept::{form, Form},
    Page,
};
use maud::html;
use startup_report::html::{document, visible};

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
    // Only links a browser follows to a site, whatever a folder is called.
    let safe = |url: &&str| ["http://", "https://", "/"].iter().any(|start| url.starts_with(start));
    let main = html! {
        p.code { "404" }
        h1 { "No site is named " (visible(host)) }
        @if list.is_empty() {
            p { "There are no sites yet. Put an application's folder into the directory of the sites and reload." }
        } @else {
            p.said { "Available sites:" }
            section {
                ul.sites {
                    @for site in list {
                        li {
                            a href=(Some(&*site.url).filter(safe).unwrap_or("#")) {
                                (visible(&site.name)) span { (visible(&site.note)) }
                            }
                        }
                    }
                }
            }
        }
    };
    document("Sites", "narrow", &main).into_string()
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
