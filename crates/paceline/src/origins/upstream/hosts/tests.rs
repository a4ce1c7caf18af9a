//! Balancing, checks and what is said of hosts, without a network.

use super::*;

fn hosts(texts: &[&str]) -> Arc<Hosts> {
    let targets = Targets::parse(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).unwrap();
    Arc::new(Hosts::new(targets, UpstreamTls::default(), Duration::from_millis(10), Some(Tokens::with(b"key"))))
}

fn service() -> Service {
    Service { https: false, name: "app.internal".into(), port: 3000 }
}

fn address(text: &str) -> Address {
    Address::parse(text).unwrap()
}

fn names(hosts: &Hosts) -> Vec<String> {
    hosts.report().iter().map(|(name, report)| format!("{name} {}", report.standing.as_str())).collect()
}

#[tokio::test]
async fn hosts_of_a_name_come_and_go() {
    let hosts = hosts(&["http://10.0.0.9:1", "dns:app.internal:3000"]);
    hosts.settle(1, &service(), &[address("http://10.0.0.1:3000"), address("http://[fd00::1]:3000")]);
    assert_eq!(names(&hosts), ["http://10.0.0.9:1 up", "http://10.0.0.1:3000 up", "http://[fd00::1]:3000 up"]);
    let tried: Vec<_> = hosts.all().iter().map(|host| host.id).filter(|id| *id != hosts.all()[1].id).collect();
    let pending = hosts.choose(&tried, None, false).await.expect("10.0.0.1 is left");
    assert_eq!(&*pending.host.name, "http://10.0.0.1:3000");
    // An address that is found twice is one host. A host that has gone finishes its request; a new one starts with a small share.
    let found = ["http://10.0.0.2:3000", "http://[fd00::1]:3000", "http://10.0.0.2:3000"].map(address);
    hosts.settle(1, &service(), &found);
    let now = names(&hosts);
    assert_eq!(
        now,
        [
            "http://10.0.0.9:1 up",
            "http://10.0.0.1:3000 leaving",
            "http://[fd00::1]:3000 up",
            "http://10.0.0.2:3000 starting"
        ]
    );
    drop(pending);
    // It is forgotten also if nobody looks.
    hosts.settle(1, &service(), &found);
    assert_eq!(hosts.state.lock().leaving.len(), 0);
    assert_eq!(names(&hosts).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_name_without_addresses_is_waited_for() {
    let hosts = hosts(&["dns:app.internal:3000"]);
    assert!(hosts.choose(&[], None, false).await.is_none(), "nobody resolves it");
    let waiting = tokio::spawn({
        let hosts = hosts.clone();
        async move { hosts.choose(&[], None, false).await.map(|pending| pending.host.name.clone()) }
    });
    tokio::task::yield_now().await;
    hosts.settle(0, &service(), &[address("http://10.0.0.1:3000")]);
    assert_eq!(waiting.await.unwrap().as_deref(), Some("http://10.0.0.1:3000"));
}

#[tokio::test]
async fn answers_of_a_gateway_without_a_server_are_failures() {
    let hosts = hosts(&["http://10.0.0.1:1", "http://10.0.0.2:1"]);
    let first = hosts.all()[0].id;
    let other = hosts.all()[1].id;
    for status in [500, 502, 503, 404, 503, 503, 504] {
        let pending = hosts.choose(&[other], None, false).await.unwrap();
        assert_eq!(pending.host.id, first);
        pending.answered(StatusCode::from_u16(status).unwrap(), true);
    }
    assert_eq!(names(&hosts), ["http://10.0.0.1:1 out", "http://10.0.0.2:1 up"]);
    assert_eq!(hosts.report()[0].1.failures, 5);
}

#[tokio::test]
async fn a_visitor_is_known_by_a_token() {
    let hosts = hosts(&["http://10.0.0.1:1", "http://10.0.0.2:1"]);
    let second = hosts.all()[1].clone();
    for _ in 0..20 {
        let pending = hosts.choose(&[], second.token.as_deref(), false).await.unwrap();
        assert_eq!(pending.host.id, second.id);
    }
    assert!(hosts.choose(&[], Some("made-up"), false).await.is_some());
    (0..3).for_each(|_| hosts.failed(&second, clock::now(), "down"));
    let pending = hosts.choose(&[], second.token.as_deref(), false).await.unwrap();
    assert_ne!(pending.host.id, second.id);
}

#[tokio::test]
async fn a_websocket_counts_until_it_ends() {
    let hosts = hosts(&["http://10.0.0.1:1"]);
    let mut pending = hosts.choose(&[], None, true).await.unwrap();
    pending.becomes_tunnel();
    assert_eq!(hosts.report()[0].1.pending, 1);
    drop(pending);
    assert_eq!(hosts.report()[0].1.pending, 0);
}

#[tokio::test]
async fn each_host_is_checked_while_it_is_one() {
    let hosts = hosts(&["http://10.0.0.9:1", "dns:app.internal:3000"]);
    let begun = Arc::new(Mutex::new(Vec::new()));
    let noted = begun.clone();
    hosts.check_each(move |host| {
        let task = tokio::spawn(std::future::pending::<()>());
        noted.lock().push((host.name.to_string(), task.abort_handle()));
        task.abort_handle()
    });
    let running = || async {
        // Aborted tasks end when the event loop gets to them.
        tokio::task::yield_now().await;
        let all = begun.lock();
        all.iter().filter(|(_, task)| !task.is_finished()).map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(running().await, ["http://10.0.0.9:1"]);
    hosts.settle(1, &service(), &["http://10.0.0.1:3000", "http://10.0.0.2:3000"].map(address));
    assert_eq!(running().await.len(), 3);
    let kept: Vec<_> = hosts.all().iter().map(|host| host.id).filter(|id| *id != hosts.all()[1].id).collect();
    let pending = hosts.choose(&kept, None, false).await.expect("10.0.0.1 is left");
    hosts.settle(1, &service(), &["http://10.0.0.2:3000", "http://10.0.0.3:3000"].map(address));
    assert_eq!(running().await, ["http://10.0.0.9:1", "http://10.0.0.2:3000", "http://10.0.0.3:3000"]);
    // A request, such as an open WebSocket, does not keep them.
    let looks_up = tokio::spawn(std::future::pending::<()>()).abort_handle();
    hosts.resolve_by(looks_up.clone());
    hosts.unwatch();
    assert_eq!(running().await.len(), 0);
    assert!(looks_up.is_finished());
    hosts.settle(1, &service(), &["http://10.0.0.4:3000"].map(address));
    assert_eq!(running().await.len(), 0);
    drop(pending);
}

#[tokio::test]
async fn what_this_machine_lacks_is_no_failure_of_a_host() {
    let hosts = hosts(&["http://10.0.0.1:1", "http://10.0.0.2:1"]);
    let pending = hosts.choose(&[hosts.all()[1].id], None, false).await.unwrap();
    let failure = |errno| {
        let failure = client_pool::Failure::Connect { address: None, errno, message: "why".into() };
        Failure::of_opening(&failure, &pending.host.address, Duration::ZERO)
    };
    for errno in [libc::EMFILE, libc::ENFILE, libc::EADDRNOTAVAIL] {
        (0..3).for_each(|_| pending.unreachable(&failure(errno)));
        assert_eq!((names(&hosts)[0].as_str(), hosts.report()[0].1.failures), ("http://10.0.0.1:1 up", 0), "{errno}");
    }
    (0..3).for_each(|_| pending.unreachable(&failure(libc::ECONNREFUSED)));
    assert_eq!(names(&hosts)[0], "http://10.0.0.1:1 out");
}

#[tokio::test]
async fn a_request_never_sees_a_name_between_its_addresses() {
    let hosts = hosts(&["dns:app.internal:3000"]);
    let ends = Arc::new(AtomicBool::new(false));
    let turning = std::thread::spawn({
        let (hosts, ends) = (hosts.clone(), ends.clone());
        move || {
            for number in 0..2000 {
                hosts.settle(0, &service(), &[address(&format!("http://10.0.0.{}:3000", number % 2 + 1))]);
            }
            ends.store(true, Relaxed);
        }
    });
    hosts.settle(0, &service(), &[address("http://10.0.0.1:3000")]);
    while !ends.load(Relaxed) {
        assert!(hosts.choose_now(&[], None, false).is_ok());
    }
    turning.join().unwrap();
}

#[test]
fn events_are_worded_by_how_the_host_stands_then() {
    assert_eq!(and_so(Some(Standing::Starting)), "and gets requests again");
    assert!(and_so(Some(Standing::Failing)).starts_with("but gets no requests"));
    assert!(and_so(Some(Standing::Out)).starts_with("but gets no requests"));
}
