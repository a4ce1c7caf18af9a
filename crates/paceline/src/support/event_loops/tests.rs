//! Connections that go from one loop to another, with threads, loops and sockets as the front has them.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream as StdTcpStream},
    sync::mpsc,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
};

use super::*;

/// A thread that runs the loop of this number, which does not look by itself how busy it is: the tests say when.
fn run(loops: &Arc<EventLoops>, number: usize) -> Handle {
    let (loops, (say, heard)) = (loops.clone(), mpsc::channel());
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        loops.enter(number, runtime.handle());
        here(|here| here.looks = true);
        say.send(runtime.handle().clone()).unwrap();
        runtime.block_on(std::future::pending::<()>())
    });
    heard.recv().unwrap()
}

/// Answers each byte with the number of the loop that answers it.
async fn answer(mut socket: ClientSocket<TcpStream>) {
    let mut byte = [0];
    loop {
        let mut reading = std::pin::pin!(socket.read(&mut byte));
        let read = std::future::poll_fn(|cx| {
            may_move(true);
            reading.as_mut().poll(cx)
        });
        if read.await.ok() != Some(1) {
            return;
        }
        may_move(false);
        let _ = socket.write_all(&[b'0' + number().unwrap() as u8]).await;
    }
}

/// A connection that loop 0 serves, and its client.
fn connection(event_loop: &Handle) -> StdTcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = StdTcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    accepted.set_nonblocking(true).unwrap();
    event_loop.spawn(async { serve(answer(ClientSocket::new(TcpStream::from_std(accepted).unwrap()))) });
    client
}

fn ask(client: &mut StdTcpStream) -> char {
    let mut byte = [0];
    client.write_all(b"?").unwrap();
    client.read_exact(&mut byte).unwrap();
    byte[0].into()
}

/// What loop 0 says of itself from now on.
async fn give_away(to: usize, connections: usize) {
    here(|here| here.departure = Some(Departure { connections, to })).unwrap();
}

/// What a task of another thread's loop comes to.
fn wait<T>(task: JoinHandle<T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(task).unwrap()
}

#[test]
fn a_connection_goes_on_at_another_loop_and_comes_back() {
    let loops = EventLoops::new(2);
    let handles = [run(&loops, 0), run(&loops, 1)];
    let (mut first, mut second) = (connection(&handles[0]), connection(&handles[0]));
    assert_eq!((ask(&mut first), ask(&mut second)), ('0', '0'));
    wait(handles[0].spawn(give_away(1, 1)));
    // The answer in which it leaves is still that of the loop before.
    assert_eq!((ask(&mut first), ask(&mut first)), ('0', '1'));
    assert_eq!((ask(&mut second), ask(&mut second)), ('0', '0'), "as many as were to go");
    let counts =
        || handles.each_ref().map(|event_loop| wait(event_loop.spawn(async { here(|here| here.connections) })));
    assert_eq!(counts(), [Some(1), Some(1)]);
    wait(handles[1].spawn(give_away(0, 1)));
    assert_eq!((ask(&mut first), ask(&mut first)), ('1', '0'));
    drop(first);
    let mut rest = Vec::new();
    second.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(second.read_to_end(&mut rest).unwrap(), 0);
}

#[test]
fn a_loop_opens_when_the_others_are_busy_and_is_waited_for() {
    let loops = EventLoops::new(2);
    let event_loop = run(&loops, 0);
    let (say, opened) = mpsc::channel();
    let waiting = loops.clone();
    event_loop.spawn(async move {
        waiting.opened(1).await;
        say.send(()).unwrap();
        waiting.closed(1).await;
        say.send(()).unwrap();
    });
    let look = |share: f64, wanted: usize| {
        while *loops.open.borrow() != wanted {
            // Looks that follow too fast are one.
            loops.plan.lock().1 -= LOOK;
            loops.look(0, share, 0);
        }
        opened.recv().unwrap();
    };
    assert!(opened.try_recv().is_err());
    look(1.0, 2);
    look(0.1, 1);
}
