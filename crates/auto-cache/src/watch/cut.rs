//! An answer whose tokens, nonces and random texts are cut out, so that it can be compared with that of another visitor. It decides nothing of whether
//! the page is kept.

use std::ops::Range;

use super::{
    made::{Made, Refusal, Refusals},
    Answer, Watch, MAX_BODY,
};
use crate::{
    holes::{Template, Visitor},
    keys::{Name, Source},
    random_text::{places, Place, RandomText, Unknown},
    wire,
};

/// An answer without what differs for each visitor.
pub struct Cut {
    pub(super) made: Made,
    pub(super) head: Template,
    pub(super) body: Template,
}

impl Cut {
    /// It looks through all of the body: no lock need be held.
    pub fn of(answer: &Answer, made: Made) -> Result<Cut, Refusal> {
        let nonce = answer.nonce.filter(|_| made.makes_nonce);
        if made.makes_nonce && nonce.is_none() {
            return Err(Refusal::new("makes a nonce that is not in its Content-Security-Policy"));
        }
        let texts = random_texts(answer, &made)?;
        let of_head = Visitor { secret: made.secret.as_ref(), forms: &made.forms, nonce, texts: &[] };
        let of_body = Visitor { texts: &texts, ..of_head };
        let (head, body) = (Template::cut(answer.head, &of_head), Template::cut(answer.body, &of_body));
        if body.texts() != texts.len() {
            return Err(Refusal::new("its random texts overlap its tokens"));
        }
        let (minted, found) = (made.tokens, head.tokens() + body.tokens());
        if minted != found {
            return Err(Refusal::new(format!("{minted} CSRF tokens were made for it, and {found} are found in it")));
        }
        Ok(Cut { made, head, body })
    }

    pub fn tokens(&self) -> usize {
        self.head.tokens() + self.body.tokens()
    }

    pub fn nonces(&self) -> usize {
        self.head.nonces() + self.body.nonces()
    }

    pub fn texts(&self) -> usize {
        self.body.texts()
    }
}

/// Where its random texts are, of which each visitor gets his own. Nothing but the names of its elements may have them: what comes back from a browser the application may
/// have remembered.
fn random_texts(answer: &Answer, made: &Made) -> Result<Vec<(Range<usize>, Place)>, Refusal> {
    if made.texts.is_empty() {
        return Ok(Vec::new());
    }
    let refused = |nth: usize, why: &str| Refusal::at(format!("a random text {why}"), &made.texts[nth].1);
    let entries = answer.record.and_then(|record| wire::record(record).ok()).unwrap_or_default();
    if let Some(nth) = made.texts.iter().position(|(text, _)| entries.iter().any(|entry| entry.what.has(text))) {
        return Err(refused(nth, "decides what else is read"));
    }
    if !answer.head.split(|byte| *byte == b'\n').any(is_html) {
        return Err(refused(0, "is in a page that is not HTML"));
    }
    let cookies = answer.cookies.iter().flat_map(|cookie| [cookie.name.as_bytes(), cookie.value]);
    let sent: Vec<&[u8]> = cookies.chain([answer.head, answer.etag.unwrap_or_default().as_bytes()]).collect();
    if let Some(nth) = made.texts.iter().position(|(text, _)| sent.iter().any(|part| text.is_in(part))) {
        return Err(refused(nth, "is in the head"));
    }
    let texts: Vec<RandomText> = made.texts.iter().map(|(text, _)| text.clone()).collect();
    places(answer.body, &texts).map_err(|unknown| match unknown {
        Unknown::Missing(nth) => refused(nth, "is not in the page as it was made"),
        Unknown::Elsewhere(nth) => refused(nth, "is more than the name of an element"),
    })
}

fn is_html(line: &[u8]) -> bool {
    let line = line.to_ascii_lowercase();
    line.strip_prefix(b"content-type: text/html")
        .is_some_and(|rest| rest.first().is_none_or(|next| b"; ".contains(next)))
}

impl Watch {
    /// What it was made of; or why it can't be kept.
    pub fn understand(&mut self, answer: &Answer) -> Result<Made, Refusals> {
        if let Some(why) = answer.refused {
            return Err(Refusal::new(why).into());
        }
        let record = answer.record.ok_or_else(|| Refusal::new("the application has not said what it read"))?;
        let mut made = Made::of(record, &mut self.statements)?;
        // Of Accept, Rails reads less than all of it.
        let is_known = |name: &Name| name.source == Source::Header && name.name == "accept" && made.reads_format();
        let more: Vec<Name> = answer.vary.iter().filter(|name| !is_known(name)).cloned().collect();
        made.names.extend(more);
        if let Some(cookie) = answer.cookies.iter().find(|cookie| !made.is_of_session(cookie.name)) {
            return Err(Refusal::new(format!("sets the cookie {}", cookie.name)).into());
        }
        if answer.body.len() > MAX_BODY {
            return Err(Refusal::new("the page is larger than 1 MB").into());
        }
        Ok(made)
    }
}
