//! A restart of all fronts, one after the other: what a front is told to do, and what it says of that. It never decides
//! which front is next.

use serde_json::{json, Value};

use crate::{status::cut, Millis};

/// Letters of what a front says, at most.
const MAX_TEXT: usize = 400;

/// What one front is told to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestartOrder {
    /// No two orders have the same.
    pub id: String,
    /// This application alone. None: all.
    pub site: Option<String>,
    /// How long the new code is watched, once it serves.
    pub watch: Millis,
}

impl RestartOrder {
    pub fn to_json(&self) -> String {
        json!({ "id": self.id, "site": self.site, "watch": self.watch }).to_string()
    }

    /// None: it can't be read, or asks for something that this version does not know.
    pub fn from_json(text: &str) -> Option<RestartOrder> {
        let Value::Object(said) = serde_json::from_str(text).ok()? else { return None };
        if said.keys().any(|key| !["id", "site", "watch"].contains(&key.as_str())) {
            return None;
        }
        let site = match said.get("site")? {
            Value::Null => None,
            site => Some(site.as_str()?.to_owned()),
        };
        Some(RestartOrder { id: said.get("id")?.as_str()?.to_owned(), site, watch: said.get("watch")?.as_u64()? })
    }
}

/// How far a front is with its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartState {
    /// The new code boots, or is asked whether it is ready.
    Restarting,
    /// It serves, and its answers are counted.
    Watching,
    Serves,
    Failed,
    /// The front has no application of that name.
    Nothing,
}

impl RestartState {
    const ALL: [RestartState; 5] = [
        RestartState::Restarting,
        RestartState::Watching,
        RestartState::Serves,
        RestartState::Failed,
        RestartState::Nothing,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            RestartState::Restarting => "restarting",
            RestartState::Watching => "watching",
            RestartState::Serves => "serves",
            RestartState::Failed => "failed",
            RestartState::Nothing => "nothing",
        }
    }

    pub fn has_ended(self) -> bool {
        !matches!(self, RestartState::Restarting | RestartState::Watching)
    }
}

/// What a front says of the last order that it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestartProgress {
    /// The order's id.
    pub order: String,
    pub state: RestartState,
    /// In words, with why it failed.
    pub text: String,
}

impl RestartProgress {
    pub fn new(order: &str, state: RestartState, text: &str) -> RestartProgress {
        RestartProgress { order: order.into(), state, text: cut(text.trim(), MAX_TEXT) }
    }

    pub fn to_json(&self) -> Value {
        json!({ "order": self.order, "state": self.state.as_str(), "text": self.text })
    }

    /// None: it says nothing that this version knows.
    pub fn from_json(said: &Value) -> Option<RestartProgress> {
        let state = said["state"].as_str()?;
        let state = *RestartState::ALL.iter().find(|known| known.as_str() == state)?;
        Some(RestartProgress::new(said["order"].as_str()?, state, said["text"].as_str().unwrap_or("")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_was_written() {
        for site in [None, Some("shop \"1\"\n".to_owned())] {
            let order = RestartOrder { id: "a-1".into(), site, watch: 5000 };
            assert_eq!(RestartOrder::from_json(&order.to_json()), Some(order));
        }
        for text in
            ["", "{}", r#"{"id": "a", "site": 1, "watch": 1}"#, r#"{"id": "a", "site": null, "watch": 1, "canary": 5}"#]
        {
            assert_eq!(RestartOrder::from_json(text), None, "{text}");
        }
    }

    #[test]
    fn progress_is_read_as_it_was_written_and_has_a_bound() {
        for state in RestartState::ALL {
            let progress = RestartProgress::new("a-1", state, "GET /up was answered 503");
            assert_eq!(RestartProgress::from_json(&progress.to_json()), Some(progress));
        }
        assert_eq!(RestartProgress::new("a", RestartState::Failed, &"x".repeat(10_000)).text.len(), MAX_TEXT);
        for said in [Value::Null, json!({}), json!({ "order": "a", "state": "flying" })] {
            assert_eq!(RestartProgress::from_json(&said), None, "{said}");
        }
    }
}
