//! What a change made different in an answer: what was there, and what is there instead. All of it is text of the
//! application's: it is shown, never interpreted.

use doctor::{mask::Change, units, verdict::Bytes};
use maud::{html, Markup};

use super::{clipped, more};
use crate::observe::dashboard::html::visible;

/// Places of a page, and headers.
const MAX_PLACES: usize = 8;

/// Nothing, where nothing differs.
pub fn of(bytes: &Bytes) -> Markup {
    let Bytes::Differ { request, difference } = bytes else { return html! {} };
    let (body, headers) = (&difference.body, &difference.headers);
    html! {
        div.difference {
            p.file { code { (visible(&clipped(request))) } " without the change and with it" }
            @if let Some((control, trial)) = difference.status {
                pre tabindex="0" { "status " (removed(&control.to_string())) " " (added(&trial.to_string())) }
            }
            @for header in headers.iter().take(MAX_PLACES) {
                pre tabindex="0" {
                    (visible(&clipped(&header.name))) ": "
                    @if let Some(control) = &header.control { (removed(control)) " " }
                    @match &header.trial {
                        Some(trial) => { (added(trial)) }
                        None => { "(missing)" }
                    }
                }
            }
            (more(headers.len(), MAX_PLACES))
            @for change in body.iter().take(MAX_PLACES) { (place(change)) }
            (more(body.len(), MAX_PLACES))
        }
    }
}

fn place(change: &Change) -> Markup {
    html! {
        p.hint { "byte " (units::grouped(change.offset as u64)) }
        pre tabindex="0" {
            (visible(&clipped(&change.before)))
            (removed(&change.control))
            (added(&change.trial))
            (visible(&clipped(&change.after)))
        }
    }
}

fn removed(text: &str) -> Markup {
    html! { @if !text.is_empty() { del { (marked(text)) } } }
}

fn added(text: &str) -> Markup {
    html! { @if !text.is_empty() { ins { (marked(text)) } } }
}

/// Line ends can be seen, too.
fn marked(text: &str) -> Markup {
    html! { (visible(&clipped(text)).replace('\n', "↵\n")) }
}
