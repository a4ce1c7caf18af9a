//! What each browser has to be told before it sends a ticket: none does so to a server that nobody has named. Pure.

/// One browser's setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Browser {
    pub name: &'static str,
    /// Where it is set.
    pub place: String,
    /// What to set.
    pub value: String,
}

/// For sites of these host names.
pub fn browsers(hosts: &[String]) -> Vec<Browser> {
    let comma = hosts.join(",");
    let urls = hosts.iter().map(|host| format!("https://{host}")).collect::<Vec<_>>().join(",");
    let browser = |name, place: &str, value| Browser { name, place: place.into(), value };
    vec![
        browser(
            "Edge on Windows",
            "a terminal of an administrator, or the policy AuthServerAllowlist by group policy; or Internet Options, Local intranet, Sites",
            format!("reg add HKLM\\SOFTWARE\\Policies\\Microsoft\\Edge /v AuthServerAllowlist /d \"{comma}\" /f"),
        ),
        browser(
            "Chrome on Windows",
            "likewise",
            format!("reg add HKLM\\SOFTWARE\\Policies\\Google\\Chrome /v AuthServerAllowlist /d \"{comma}\" /f"),
        ),
        browser(
            "Chromium on Linux",
            "/etc/chromium/policies/managed/sso.json (Chrome: /etc/opt/chrome/policies/managed/sso.json)",
            format!("{{ \"AuthServerAllowlist\": \"{comma}\" }}"),
        ),
        browser(
            "Chrome on macOS",
            "a terminal, once",
            format!("defaults write com.google.Chrome AuthServerAllowlist \"{comma}\""),
        ),
        browser(
            "Firefox",
            "about:config, network.negotiate-auth.trusted-uris; or the policy Authentication.SPNEGO",
            urls,
        ),
        browser(
            "Safari",
            "nothing: it sends a ticket as soon as the machine has one",
            "kinit NAME@REALM, or Kerberos SSO".into(),
        ),
        browser(
            "curl",
            "the command",
            format!("curl --negotiate -u : https://{}/", hosts.first().map_or("HOST", String::as_str)),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_browser_is_told_the_hosts_in_its_own_way() {
        let told = browsers(&["a.test".into(), "b.test".into()]);
        let value = |name: &str| &told.iter().find(|browser| browser.name == name).unwrap().value;
        assert_eq!(value("Chromium on Linux"), "{ \"AuthServerAllowlist\": \"a.test,b.test\" }");
        assert_eq!(value("Firefox"), "https://a.test,https://b.test");
        assert!(value("curl").ends_with("https://a.test/"));
    }
}
