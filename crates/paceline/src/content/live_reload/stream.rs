//! The event stream of one open page: what has changed since it was asked for, then each change as it comes (server-sent
//! events). Changes that come while a client is slow are sent as one. It never holds more than one event.

use std::{
    io,
    pin::Pin,
    sync::{
        atomic::{AtomicUsize, Ordering::SeqCst},
        Arc,
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::{
    sync::{mpsc, watch},
    time::sleep,
};

use super::{Change, Changes, Known};
use crate::content::body::ResponseBody;

/// Milliseconds after which a browser connects again, once the stream has ended.
const RETRY: &str = "retry: 500\n";
/// A comment this often, so that nothing between takes the stream for dead.
const PULSE: Duration = Duration::from_secs(20);

/// One of the streams that there may be at once.
pub struct Place(Arc<AtomicUsize>);

impl Place {
    pub fn take(taken: &Arc<AtomicUsize>, most: usize) -> Option<Place> {
        let place = Place(taken.clone());
        // One too many gives its place back as every other does.
        (taken.fetch_add(1, SeqCst) < most).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// The body of a stream. It must be called within an event loop, where it runs until the client has left.
pub fn begin(id: Arc<str>, changes: watch::Receiver<Changes>, known: Known, place: Place) -> ResponseBody {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(run(id, changes, known, sender, place));
    ResponseBody::stream(Events(receiver))
}

async fn run(
    id: Arc<str>,
    mut changes: watch::Receiver<Changes>,
    known: Known,
    sender: mpsc::Sender<Bytes>,
    _place: Place,
) {
    let (mut seen, mut next) = {
        let changes = changes.borrow_and_update();
        // All have ended already, and nothing is told any more.
        if changes.closed {
            return;
        }
        let news = match known {
            Known::UpTo(number) => changes.news(|changed, _| changed > number),
            Known::Since(then) => changes.news(|_, at| at > then),
            Known::Nothing => vec![Change::Scripts],
        };
        (changes.number, format!("{RETRY}{}", event(&id, changes.number, &news)))
    };
    loop {
        if sender.send(next.into()).await.is_err() {
            return;
        }
        next = tokio::select! {
            biased;
            () = sender.closed() => return,
            changed = changes.changed() => {
                let changes = changes.borrow_and_update();
                if changed.is_err() || changes.closed {
                    return;
                }
                let news = changes.news(|number, _| number > seen);
                seen = changes.number;
                event(&id, seen, &news)
            }
            () = sleep(PULSE) => ":\n\n".to_owned(),
        };
    }
}

/// The words say what has changed; without any, the client learns only where it is.
fn event(id: &str, number: u64, news: &[Change]) -> String {
    let words: Vec<&str> = news.iter().map(|change| change.as_str()).collect();
    let words = if words.is_empty() { "nothing".to_owned() } else { words.join(" ") };
    format!("id: {id}-{number}\ndata: {words}\n\n")
}

/// What the stream's task sends. Dropped, it ends the task.
struct Events(mpsc::Receiver<Bytes>);

impl Body for Events {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(cx).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}
