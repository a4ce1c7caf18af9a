//! What an owner should know of a site's cookies and rules, as `paceline check`, `paceline cache stats` and the log say
//! it. It never changes what is answered.

use cache::{
    cookies::{CookieKnowledge, MAX_NAME, MAX_NAMES},
    stubborn::Rule,
};

/// One sentence for each cookie with a form's token that scripts may read (`XSRF-TOKEN`) and each rule, or page for
/// everybody, that shares pages all the same; and one where not all names could be remembered.
pub fn warnings(rules: &[Rule], learned: &CookieKnowledge) -> Vec<String> {
    let mut all = Vec::new();
    for token in learned.tokens.iter().filter(|token| !learned.http_only.contains(&token.name)) {
        let name = &token.name;
        for rule in rules.iter().filter(|rule| !rule.settles(name.as_bytes())) {
            let names: Vec<&String> = rule.cookies.iter().chain([name]).collect();
            let risk = match rule.cookies.is_empty() {
                true => "visitors who have it are not answered by the rule",
                false => "a page with one visitor's token may be given to others",
            };
            all.push(format!(
                "[[cache]] path = {:?} does not name the cookie {name:?}, by which the app gives a form's token to scripts: {risk}. \
                 Set cookies = {names:?} in this rule",
                rule.path
            ));
        }
        if let Some(page) = &token.page {
            all.push(format!(
                "The page {page:?} says that it is everybody's and sets the cookie {name:?}, by which the app gives a form's token to \
                 scripts: all visitors are given the same token. Send Cache-Control: private with such pages, or do not set \
                 the cookie there"
            ));
        }
    }
    if learned.overflowed && !rules.is_empty() {
        all.push(format!(
            "The app sets more cookies that it keeps from scripts than are remembered ({MAX_NAMES} names of up to {MAX_NAME} bytes): \
             visitors with a cookie that a [[cache]] rule does not name are not answered by it. Name those that matter in cookies, \
             the others in ignore_cookies"
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use cache::cookies::Token;

    #[test]
    fn each_says_which_rule_which_cookie_and_what_to_set() {
        let rule = |path: &str, cookies: &[&str], ignored: &[&str]| Rule {
            path: path.into(),
            cookies: cookies.iter().map(|name| name.to_string()).collect(),
            ignore_cookies: ignored.iter().map(|name| name.to_string()).collect(),
            ..Rule::default()
        };
        let rules = [
            rule("/a", &["_session"], &[]),
            rule("/b", &["XSRF-TOKEN"], &[]),
            rule("/c", &[], &[]),
            rule("/d", &[], &["XSRF-*"]),
        ];
        let token = |page: Option<&str>| Token { name: "XSRF-TOKEN".into(), page: page.map(Into::into) };
        let learned = CookieKnowledge { tokens: vec![token(None)], ..CookieKnowledge::default() };
        let told = warnings(&rules, &learned);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("path = \"/a\"") && told[0].contains("may be given to others"), "{told:?}");
        assert!(told[0].ends_with("Set cookies = [\"_session\", \"XSRF-TOKEN\"] in this rule"), "{told:?}");
        assert!(told[1].contains("path = \"/c\"") && told[1].contains("not answered by the rule"), "{told:?}");
        let stored = CookieKnowledge { tokens: vec![token(Some("/beers"))], ..CookieKnowledge::default() };
        assert!(warnings(&[], &stored)[0].starts_with("The page \"/beers\" says that it is everybody's"));
        let overflowed = CookieKnowledge { overflowed: true, ..CookieKnowledge::default() };
        assert!(warnings(&rules, &overflowed)[0].contains("64 names of up to 128 bytes"));
        assert!(warnings(&[], &overflowed).is_empty());
        let kept = CookieKnowledge { http_only: vec!["XSRF-TOKEN".into()], ..stored };
        assert!(warnings(&rules, &kept).is_empty(), "what scripts can't read makes a request somebody's own");
    }
}
