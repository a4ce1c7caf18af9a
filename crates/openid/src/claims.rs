//! Who it is: the claims of a verified token, or of the userinfo endpoint, as an identity. It never verifies a token.

use serde_json::{Map, Value};
use sign_in::Identity;

use crate::{error::plain, Error, Settings};

/// The longest name of a person, and of a group, in bytes.
const MAX_NAME: usize = 256;
/// Groups of one person.
const MAX_GROUPS: usize = 2_000;

/// Claims as the provider wrote them.
pub type Claims = Map<String, Value>;

/// Whether the userinfo endpoint has to be asked: the token lacks a claim that is wanted, and does not say that it was
/// left out.
pub fn lacks(claims: &Claims, settings: &Settings) -> bool {
    let lacks = |name: &str| find(claims, name).is_none();
    lacks(&settings.name_claim) || settings.groups_claim.as_deref().is_some_and(lacks)
}

/// The identity that these claims describe.
///
/// # Errors
/// What is missing, or can't be passed on.
pub fn identity(claims: &Claims, settings: &Settings) -> Result<Identity, Error> {
    let text = |name: &str| find(claims, name).and_then(Value::as_str);
    let subject = text("sub").ok_or_else(|| Error::Claim("the claim sub is missing".into()))?;
    let name = text(&settings.name_claim).ok_or_else(|| {
        let name = &settings.name_claim;
        Error::Claim(format!(
            "the claim {name} is missing: add the scope that has it, or set name_claim (sub is always there)"
        ))
    })?;
    if settings.name_claim == "email" && !is_true(claims.get("email_verified")) {
        return Err(Error::Claim("its email is not verified: anybody could have written it".into()));
    }
    if !is_name(name) || !is_name(subject) {
        return Err(Error::Claim("its name is empty, has control characters or is longer than 256 bytes".into()));
    }
    Ok(Identity {
        name: name.to_owned(),
        groups: settings.groups_claim.as_deref().map_or(Ok(Vec::new()), |claim| groups(claims, claim))?,
        subject: Some(subject.to_owned()),
        sid: text("sid").filter(|sid| is_name(sid)).map(str::to_owned),
    })
}

/// The groups: a list of texts, or one text. A provider that has too many of them for a token writes where they could be
/// fetched (Core section 5.6.2); a person without groups is somebody else, so that is said.
fn groups(claims: &Claims, claim: &str) -> Result<Vec<String>, Error> {
    let found = match find(claims, claim) {
        None if claims.get("_claim_names").is_some_and(|names| names.get(claim).is_some()) => {
            let why = format!("{claim} was left out, because there are too many: have the provider send fewer of them");
            return Err(Error::Claim(why));
        }
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::String(one)) => vec![one.as_str()],
        Some(Value::Array(all)) => all.iter().map(Value::as_str).collect::<Option<_>>().unwrap_or_default(),
        Some(_) => Vec::new(),
    };
    let has_any = !matches!(find(claims, claim), Some(Value::Array(all)) if all.is_empty());
    if has_any && found.is_empty() {
        return Err(Error::Claim(format!("{claim} is no list of names")));
    }
    if found.len() > MAX_GROUPS {
        return Err(Error::Claim(format!("{claim} has {} groups, more than {MAX_GROUPS}", found.len())));
    }
    match found.iter().find(|group| !is_name(group)) {
        Some(group) => Err(Error::Claim(format!("the group {:?} can't be passed on", plain(group)))),
        None => Ok(found.into_iter().map(str::to_owned).collect()),
    }
}

/// A claim by its name (which may have dots, as `https://example.com/groups` has), else by the path into objects.
fn find<'a>(claims: &'a Claims, name: &str) -> Option<&'a Value> {
    if let Some(found) = claims.get(name) {
        return Some(found);
    }
    let mut parts = name.split('.');
    let first = claims.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.get(part))
}

/// Some providers write booleans as text.
fn is_true(value: Option<&Value>) -> bool {
    value.is_some_and(|value| value == &Value::Bool(true) || value == "true")
}

/// Whether it can be in a field of a request, and in a log.
fn is_name(text: &str) -> bool {
    (1..=MAX_NAME).contains(&text.len()) && sign_in::is_visible(text) && text.trim() == text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn settings(name: &str, groups: Option<&str>) -> Settings {
        Settings {
            issuer: "https://id.example".into(),
            client_id: "shop".into(),
            client_secret: None,
            scopes: Vec::new(),
            name_claim: name.into(),
            groups_claim: groups.map(str::to_owned),
            ca_file: None,
        }
    }

    fn claims(value: Value) -> Claims {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn the_name_is_the_claim_that_was_chosen_and_no_other() {
        let all = claims(json!({ "sub": "1", "preferred_username": "alice", "email": "a@example.com", "sid": "s" }));
        let found = identity(&all, &settings("preferred_username", None)).unwrap();
        assert_eq!(
            (found.name.as_str(), found.subject.as_deref(), found.sid.as_deref()),
            ("alice", Some("1"), Some("s"))
        );
        assert_eq!(identity(&all, &settings("sub", None)).unwrap().name, "1");
        assert!(identity(&all, &settings("email", None)).unwrap_err().to_string().contains("not verified"));
        assert!(identity(&all, &settings("upn", None)).unwrap_err().to_string().contains("name_claim"));
        for verified in [json!(true), json!("true")] {
            let mut all = all.clone();
            all.insert("email_verified".into(), verified);
            assert_eq!(identity(&all, &settings("email", None)).unwrap().name, "a@example.com");
        }
    }

    #[test]
    fn a_name_that_would_forge_a_field_is_refused() {
        for name in ["", "a\r\nX-Evil: 1", "a\0", " a", "a ", "a\u{202e}b", &"a".repeat(257)] {
            let all = claims(json!({ "sub": "1", "preferred_username": name }));
            assert!(identity(&all, &settings("preferred_username", None)).is_err(), "{name:?}");
        }
        let all = claims(json!({ "sub": "1", "preferred_username": "Zoë Müller" }));
        assert_eq!(identity(&all, &settings("preferred_username", None)).unwrap().name, "Zoë Müller");
    }

    #[test]
    fn groups_are_a_list_a_text_or_below_a_path() {
        for (value, claim, groups) in [
            (json!({ "groups": ["staff", "admins"] }), "groups", &["staff", "admins"][..]),
            (json!({ "groups": "staff" }), "groups", &["staff"]),
            (json!({ "groups": [] }), "groups", &[]),
            (json!({}), "groups", &[]),
            (json!({ "realm_access": { "roles": ["a"] } }), "realm_access.roles", &["a"]),
            (json!({ "https://example.com/groups": ["a"] }), "https://example.com/groups", &["a"]),
        ] {
            let mut all = claims(value.clone());
            all.insert("sub".into(), "1".into());
            assert_eq!(identity(&all, &settings("sub", Some(claim))).unwrap().groups, groups, "{value}");
        }
        let odd = [json!({ "groups": ["a\nb"] }), json!({ "groups": ["a\u{202e}b"] })];
        for value in [json!({ "groups": { "a": 1 } }), json!({ "groups": [1] })].into_iter().chain(odd) {
            let mut all = claims(value.clone());
            all.insert("sub".into(), "1".into());
            assert!(identity(&all, &settings("sub", Some("groups"))).is_err(), "{value}");
        }
    }

    #[test]
    fn groups_that_were_left_out_are_not_taken_for_none() {
        let all = claims(json!({ "sub": "1", "_claim_names": { "groups": "src1" }, "_claim_sources": { "src1": {} } }));
        let error = identity(&all, &settings("sub", Some("groups"))).unwrap_err().to_string();
        assert!(error.contains("too many"), "{error}");
        assert_eq!(identity(&all, &settings("sub", None)).unwrap().groups, Vec::<String>::new());
    }

    #[test]
    fn many_groups_are_no_problem() {
        let many: Vec<String> = (0..500).map(|number| format!("00000000-0000-0000-0000-{number:012}")).collect();
        let all = claims(json!({ "sub": "1", "groups": many }));
        assert_eq!(identity(&all, &settings("sub", Some("groups"))).unwrap().groups, many);
    }
}
