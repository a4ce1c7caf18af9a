//! Many clients at once, for the tests of pressure: idle, slow to read, slow to write, and some that measure.
//! Never judges what it sees; the test that drives it does, by one command a line:
//!
//! ```text
//! idle COUNT PATH             asks once, then holds the connection
//! readers COUNT PATH          asks, then takes a byte of the answer every half second
//! writers COUNT PATH          sends a request with a byte of its body every half second
//! measure CLIENTS SECONDS PATH BODY    asks as fast as answers come, and compares them with BODY
//! held                        how many of the idle, readers and writers are still connected
//! quit
//! ```
//!
//! Each command is answered by one line of `name=value`.

use std::{
    io,
    net::SocketAddr,
    sync::{
        atomic::{AtomicUsize, Ordering::Relaxed},
        Arc,
    },
    time::{Duration, Instant},
};

use socket2::SockRef;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpSocket, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::sleep,
};

/// Between two bytes of a slow client.
const PAUSE: Duration = Duration::from_millis(500);
/// Connections that are being opened at one time: a listening socket's queue is not endless.
const OPENING: usize = 256;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Idle,
    Reads,
    Writes,
}

#[derive(Default)]
struct ConnectionCounts {
    idle: AtomicUsize,
    readers: AtomicUsize,
    writers: AtomicUsize,
}

impl ConnectionCounts {
    fn of(&self, manner: Manner) -> &AtomicUsize {
        match manner {
            Manner::Idle => &self.idle,
            Manner::Reads => &self.readers,
            Manner::Writes => &self.writers,
        }
    }
}

/// Plays clients of the server at `address` until the commands end.
pub async fn run(address: &str) -> io::Result<()> {
    let address: SocketAddr = address.parse().map_err(io::Error::other)?;
    let held = Arc::new(ConnectionCounts::default());
    let mut commands = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = commands.next_line().await? {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |text: &str| text.parse::<usize>().map_err(io::Error::other);
        match words[..] {
            ["idle", count, path] => hold(address, Manner::Idle, number(count)?, path, &held).await,
            ["readers", count, path] => hold(address, Manner::Reads, number(count)?, path, &held).await,
            ["writers", count, path] => hold(address, Manner::Writes, number(count)?, path, &held).await,
            ["measure", clients, seconds, path, body] => {
                measure(address, number(clients)?, Duration::from_secs(number(seconds)? as u64), path, body).await;
            }
            ["held"] => println!(
                "idle={} readers={} writers={}",
                held.idle.load(Relaxed),
                held.readers.load(Relaxed),
                held.writers.load(Relaxed)
            ),
            _ => return Ok(()),
        }
    }
    Ok(())
}

/// Opens connections that stay, and says how many there are and how many failed.
async fn hold(address: SocketAddr, manner: Manner, count: usize, path: &str, held: &Arc<ConnectionCounts>) {
    let opening = Arc::new(Semaphore::new(OPENING));
    let mut begun = JoinSet::new();
    for _ in 0..count {
        let (path, held, opening) = (path.to_owned(), held.clone(), opening.clone());
        begun.spawn(async move {
            let _turn = opening.acquire_owned().await;
            let stream = begin(address, manner, &path).await?;
            held.of(manner).fetch_add(1, Relaxed);
            tokio::spawn(async move {
                let _ = stay(stream, manner).await;
                held.of(manner).fetch_sub(1, Relaxed);
            });
            io::Result::Ok(())
        });
    }
    let mut failed = 0;
    while let Some(opened) = begun.join_next().await {
        failed += usize::from(!matches!(opened, Ok(Ok(()))));
    }
    println!("opened={} failed={failed}", count - failed);
}

async fn begin(address: SocketAddr, manner: Manner, path: &str) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if manner == Manner::Reads {
        // Or the kernel would take much of the answer for us.
        SockRef::from(&socket).set_recv_buffer_size(4096)?;
    }
    let mut stream = socket.connect(address).await?;
    let request = match manner {
        Manner::Writes => format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nx"),
        _ => format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"),
    };
    stream.write_all(request.as_bytes()).await?;
    match manner {
        Manner::Idle => drop(answer(&mut stream, &mut Vec::new()).await?),
        Manner::Reads => drop(stream.read_u8().await?),
        Manner::Writes => {}
    }
    Ok(stream)
}

/// Until the server closes, which only then is an end.
async fn stay(mut stream: TcpStream, manner: Manner) -> io::Result<()> {
    let (mut from, mut to) = stream.split();
    match manner {
        Manner::Idle => drop(from.read_u8().await?),
        Manner::Reads => loop {
            from.read_u8().await?;
            sleep(PAUSE).await;
        },
        Manner::Writes => loop {
            tokio::select! {
                answered = from.read_u8() => return answered.map(drop),
                () = sleep(PAUSE) => to.write_all(b"x").await?,
            }
        },
    }
    Ok(())
}

async fn measure(address: SocketAddr, clients: usize, time: Duration, path: &str, body: &str) {
    let until = Instant::now() + time;
    let mut asking = JoinSet::new();
    for _ in 0..clients {
        let (path, body) = (path.to_owned(), body.to_owned());
        asking.spawn(async move { ask_until(until, address, &path, &body).await });
    }
    let (mut took, mut wrong) = (Vec::new(), 0);
    while let Some(client) = asking.join_next().await {
        let (times, mistakes) = client.unwrap_or_default();
        took.extend(times);
        wrong += mistakes;
    }
    took.sort_unstable();
    let at = |share: usize| took.get(took.len() * share / 1000).copied().unwrap_or_default().as_micros();
    println!("answers={} wrong={wrong} p50_us={} p99_us={} worst_us={}", took.len(), at(500), at(990), at(999));
}

/// Times of right answers, and the number of all others.
async fn ask_until(until: Instant, address: SocketAddr, path: &str, body: &str) -> (Vec<Duration>, usize) {
    let (mut times, mut wrong) = (Vec::new(), 0);
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    let (mut stream, mut received) = (None, Vec::new());
    while Instant::now() < until {
        let begun = Instant::now();
        let asked = ask(&mut stream, &mut received, address, &request).await;
        match asked {
            Ok(answer) if answer == body.as_bytes() => times.push(begun.elapsed()),
            Ok(_) => wrong += 1,
            Err(_) => {
                wrong += 1;
                stream = None;
                sleep(Duration::from_millis(10)).await;
            }
        }
    }
    (times, wrong)
}

async fn ask(
    open: &mut Option<TcpStream>,
    received: &mut Vec<u8>,
    address: SocketAddr,
    request: &str,
) -> io::Result<Vec<u8>> {
    let stream = match open {
        Some(stream) => stream,
        None => {
            received.clear();
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            open.insert(stream)
        }
    };
    stream.write_all(request.as_bytes()).await?;
    answer(stream, received).await
}

/// The body of a 200 with a Content-Length; anything else is an error.
async fn answer(stream: &mut TcpStream, received: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    loop {
        if let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&received[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            let Some(length) = length.filter(|_| head.starts_with("http/1.1 200 ")) else {
                return Err(io::Error::other("not 200"));
            };
            if received.len() >= end + 4 + length {
                let body = received[end + 4..end + 4 + length].to_vec();
                received.drain(..end + 4 + length);
                return Ok(body);
            }
        }
        if stream.read_buf(received).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
