//! A request's body that is passed on to the worker as it comes. It never talks to the worker.

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};

use crate::exchange::incoming::Arriving;

/// What comes next of a body.
pub enum Piece {
    Data(Bytes),
    End,
    /// The client went away, or broke the framing.
    CutOff,
}

/// Waits for the next piece; for ever, if there is no body any more. Cancel-safe.
pub async fn next_piece(body: &mut Option<Limited<Arriving>>) -> Piece {
    let Some(open) = body else { return std::future::pending().await };
    loop {
        match open.frame().await {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => return Piece::Data(data),
                Err(_trailers) => continue,
            },
            Some(Err(_)) => {
                *body = None;
                return Piece::CutOff;
            }
            None => {
                *body = None;
                return Piece::End;
            }
        }
    }
}
