//! An answer whose tokens and nonces are cut out, so that it can be compared with that of another visitor. It decides nothing of whether
//! the page is kept.

use super::{
    made::{Made, Refusal, Refusals},
    Answer, Watch, MAX_BODY,
};
use crate::{
    holes::{Template, Visitor},
    keys::{Name, Source},
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
