//! An answer whose tokens and nonces are cut out, so that it can be compared with that of another visitor. It decides nothing of whether
//! the page is kept.

use super::{
    made::{Made, Refusal},
    Answer,
};
use crate::holes::{Template, Visitor};

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
        let visitor = Visitor { secret: made.secret.as_ref(), forms: &made.forms, nonce };
        let cut = |text| Template::cut(text, &visitor);
        let (head, body) = (cut(answer.head), cut(answer.body));
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
}
