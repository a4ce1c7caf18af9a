//! A channel beside a worker that is the other end of a socket pair.

use std::io::Write;

use super::*;
use crate::origins::workers::protocol::frame::{encode, kind};

fn pair() -> (Box<Channel>, StdUnixStream) {
    let (ours, theirs) = StdUnixStream::pair().unwrap();
    let mut channel = Channel::new(ours.into(), 1, &RunAs::Ourselves).unwrap();
    channel.attach().unwrap();
    (channel, theirs)
}

fn chunk(number: RequestNumber) -> Vec<u8> {
    encode(kind::CHUNK, |out| {
        out.put_u64(number);
        out.put_slice(b"piece");
    })
}

async fn next(channel: &mut Channel) -> io::Result<FromWorker> {
    loop {
        if let Progress::Received(frame) = channel.progress().await? {
            return Ok(frame);
        }
    }
}

#[tokio::test]
async fn frames_that_answer_another_request_are_refused() {
    let (mut channel, mut worker) = pair();
    channel.request(7, Bytes::from_static(b"request"), false);
    worker.write_all(&chunk(7)).unwrap();
    assert_eq!(next(&mut channel).await.unwrap(), FromWorker::Chunk(Bytes::from_static(b"piece")));
    for other in [6, 8, 0, 7 << 32] {
        worker.write_all(&chunk(other)).unwrap();
        let error = next(&mut channel).await.unwrap_err();
        let misdirected = error.get_ref().and_then(|inner| inner.downcast_ref::<Misdirected>());
        assert_eq!(misdirected, Some(&Misdirected { number: other, in_hand: 7 }));
    }
}

#[tokio::test]
async fn a_channel_that_is_hung_up_ends_when_what_it_holds_is_read() {
    let (mut channel, mut worker) = pair();
    // As a child of the application holds it.
    let held = worker.try_clone().unwrap();
    channel.request(7, Bytes::from_static(b"request"), false);
    let hang_up = channel.hang_up();
    let waiting = tokio::spawn(async move {
        let first = next(&mut channel).await;
        (first, next(&mut channel).await)
    });
    tokio::task::yield_now().await;
    io::Read::read_exact(&mut worker, &mut [0; b"request".len()]).unwrap();
    worker.write_all(&chunk(7)).unwrap();
    drop(worker);
    hang_up.hang_up();
    let (first, second) = waiting.await.unwrap();
    assert_eq!(first.unwrap(), FromWorker::Chunk(Bytes::from_static(b"piece")));
    assert_eq!(second.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    drop(held);
}

/// A worker that had not taken its request: as the kernel says it where no child holds the other end.
#[tokio::test]
async fn a_channel_that_is_hung_up_tells_whether_its_request_was_read() {
    let (mut channel, worker) = pair();
    let held = worker.try_clone().unwrap();
    channel.request(7, Bytes::from_static(b"request"), false);
    let hang_up = channel.hang_up();
    let waiting = tokio::spawn(async move { next(&mut channel).await });
    tokio::task::yield_now().await;
    drop(worker);
    hang_up.hang_up();
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    drop(held);
}

/// The worker is at the next request before it could be told that the client of this one is gone.
#[tokio::test]
async fn a_cancel_that_comes_too_late_is_not_sent() {
    let (mut channel, mut worker) = pair();
    channel.request(7, Bytes::from_static(b"request"), false);
    worker.write_all(&[&chunk(7)[..], &chunk(7)[..], &chunk(8)[..]].concat()).unwrap();
    next(&mut channel).await.unwrap();
    channel.cancel(7);
    next(&mut channel).await.unwrap();
    channel.forget_cancel();
    assert!(channel.drained());
    channel.await_answer(8);
    assert_eq!(next(&mut channel).await.unwrap(), FromWorker::Chunk(Bytes::from_static(b"piece")));
    channel.cancel(8);
    assert!(matches!(channel.progress().await.unwrap(), Progress::Sent));
    drop(channel);
    let mut received = Vec::new();
    io::Read::read_to_end(&mut worker, &mut received).unwrap();
    let cancel = encode(kind::CANCEL, |out| out.put_u64(8));
    assert_eq!(received, [b"request", &cancel[..]].concat());
}

/// What a forked child of the application wrote after the answer lies there when the next request comes.
#[tokio::test]
async fn what_was_left_of_the_request_before_is_no_answer() {
    let (mut channel, mut worker) = pair();
    channel.request(7, Bytes::from_static(b"request"), false);
    worker.write_all(&[&chunk(7)[..], &chunk(7)[..]].concat()).unwrap();
    next(&mut channel).await.unwrap();
    channel.request(8, Bytes::from_static(b"request"), false);
    assert_eq!(next(&mut channel).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
}

/// The event loop, which does not run meanwhile, knows of nothing to read.
#[tokio::test]
async fn an_answer_that_is_expected_soon_is_read_without_the_event_loop() {
    for soon in [true, false] {
        let (mut channel, mut worker) = pair();
        let _one = spin::WaitingConversation::begin();
        channel.request(7, Bytes::from_static(b"request"), soon);
        let cx = &mut Context::from_waker(std::task::Waker::noop());
        assert!(matches!(channel.poll_progress(cx), Poll::Ready(Ok(Progress::Sent))));
        assert!(channel.poll_progress(cx).is_pending());
        spin::before_park();
        worker.write_all(&chunk(7)).unwrap();
        let received = matches!(channel.poll_progress(cx), Poll::Ready(Ok(Progress::Received(_))));
        assert_eq!(received, soon);
    }
}
