//! Clients that think between an answer and the next request, while the server under them is restarted. Half of them
//! keep their connection; one that the server closes meanwhile is opened again, which HTTP allows and is counted apart.
//! Never decides what belongs to a restart.
//!
//! The first line on standard input is `PORT CLIENTS THINK_MS`. Lines on standard output: `began S` at once, S seconds
//! after it has; `version N` each time another version answers than before, and in the end, when standard input ends
//! and all is answered, one of JSON: `closed_idle`, and `requests`: when each began and ended (seconds since
//! the program began), whether its connection was kept, and the version that answered or what went wrong.

use std::{
    cell::{Cell, RefCell},
    io,
    rc::Rc,
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    sync::watch,
    task::JoinSet,
    time::{sleep_until, timeout},
};

use super::client::Client;

/// In which an answer must come.
const LIMIT: Duration = Duration::from_secs(10);

struct Steady {
    began: Instant,
    think: Duration,
    requests: RefCell<Vec<serde_json::Value>>,
    closed_idle: Cell<usize>,
    version: Cell<Option<u64>>,
}

/// Until standard input ends.
pub async fn run() -> io::Result<()> {
    let mut input = BufReader::new(tokio::io::stdin()).lines();
    let line = input.next_line().await?.unwrap_or_default();
    let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [port, count, think] = numbers[..] else { return Err(io::Error::other("expected: PORT CLIENTS THINK_MS")) };
    let port = u16::try_from(port).map_err(io::Error::other)?;
    let steady = Rc::new(Steady {
        began: Instant::now(),
        think: Duration::from_millis(think),
        requests: RefCell::default(),
        closed_idle: Cell::default(),
        version: Cell::default(),
    });
    let (stop, stopped) = watch::channel(false);
    println!("began {}", steady.began.elapsed().as_secs_f64());
    let mut clients = JoinSet::new();
    for number in 0..count {
        let client = Client::new(port, number % 2 == 0);
        let first = steady.began + steady.think.mul_f64(number as f64 / count as f64);
        clients.spawn_local(visit(steady.clone(), client, number % 2 == 0, first, stopped.clone()));
    }
    while input.next_line().await?.is_some() {}
    let _ = stop.send(true);
    while clients.join_next().await.is_some() {}
    println!(
        "{}",
        serde_json::json!({ "requests": *steady.requests.borrow(), "closed_idle": steady.closed_idle.get() })
    );
    Ok(())
}

async fn visit(
    steady: Rc<Steady>,
    mut client: Client,
    kept: bool,
    mut due: Instant,
    mut stopped: watch::Receiver<bool>,
) {
    let close = if kept { "" } else { "Connection: close\r\n" };
    let request =
        format!("GET / HTTP/1.1\r\nHost: bench.test\r\nUser-Agent: paceline-bench\r\nAccept: */*\r\n{close}\r\n");
    loop {
        let rested = sleep_until(due.into());
        tokio::pin!(rested);
        loop {
            tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => return,
                () = client.closed() => steady.closed_idle.set(steady.closed_idle.get() + 1),
                () = &mut rested => break,
            }
        }
        let began = Instant::now();
        let answered = match timeout(LIMIT, client.ask(request.as_bytes())).await {
            Ok(Ok(answer)) if answer.status == 200 => version(answer.body).ok_or_else(|| "other content".to_owned()),
            Ok(Ok(answer)) => Err(format!("status {}", answer.status)),
            Ok(Err(why)) => Err(why.to_string()),
            Err(_) => {
                client.close();
                Err(format!("no answer for {} s", LIMIT.as_secs()))
            }
        };
        steady.note(began, kept, answered.as_ref().ok().copied(), answered.err());
        due = Instant::now() + steady.think;
    }
}

impl Steady {
    /// A request has ended, with the version that answered it or with what went wrong.
    fn note(&self, began: Instant, kept: bool, version: Option<u64>, failure: Option<String>) {
        let at = |time: Instant| (time - self.began).as_secs_f64();
        self.requests.borrow_mut().push(serde_json::json!([at(began), at(Instant::now()), kept, version, failure]));
        if let Some(version) = version {
            if self.version.replace(Some(version)) != Some(version) {
                println!("version {version}");
            }
        }
    }
}

/// The number in an answer "v12\n".
fn version(body: &[u8]) -> Option<u64> {
    std::str::from_utf8(body).ok()?.strip_prefix('v')?.strip_suffix('\n')?.parse().ok()
}
