//! What is made of the frames that decide an answer. It reads nothing from the worker.

use std::{io, path::Path};

use bytes::Bytes;

use super::Answer;
use crate::{
    origins::workers::{
        dispatch::queue::Lease,
        protocol::frame::{AppError, HeaderPairs},
        rack::response::AnswerBody,
        response_buffer::buffer,
    },
    support::buffer_memory::BODIES,
};

/// Bytes up to which a whole response is left out of the account.
pub(super) const SMALL: usize = 16 << 10;

/// A body that came whole. A small one is not worth counting. Err: too many such bodies are in memory.
pub(super) fn whole(body: Bytes) -> Result<AnswerBody, Bytes> {
    if body.len() <= SMALL {
        Ok(AnswerBody::Whole(body))
    } else {
        BODIES.hold(body).map(AnswerBody::Whole)
    }
}

pub(super) async fn spooled(body: Bytes, memory: usize, spool: u64) -> AnswerBody {
    let length = body.len() as u64;
    let (mut writer, reader) = buffer(memory, spool);
    // The first piece never waits.
    let _ = writer.write(body).await;
    AnswerBody::Spooled { length, body: reader }
}

pub(super) fn hijacked(lease: Lease, head: Option<(u16, HeaderPairs)>) -> Answer {
    let (channel, open) = lease.take();
    match channel.into_raw() {
        Ok((stream, received)) => Answer::Hijacked { head, stream, received, open },
        Err(_) => Answer::Died,
    }
}

pub(super) fn unopened(path: &Path, error: &io::Error) -> AppError {
    let message = format!("the body's file {} can't be opened: {error}", path.display());
    AppError { class: "Paceline::InvalidResponse".into(), message, ..AppError::default() }
}
