//! The dashboard's page with plain data.

use super::{
    history::{Counts, History, Mark, MarkKind, Memories, Span, Who},
    *,
};

const EVIL: &str = "<img src=x onerror=alert(1)>";

fn history() -> History {
    let mut history = History::default();
    for second in 0..120_u64 {
        let counts = Counts {
            requests: second * 12,
            asked: second * 12,
            hits: second * 9,
            waiting: 2,
            busy: 3,
            ..Counts::default()
        };
        history.look(1000.0 + second as f64, &counts);
    }
    history.mark(Mark { at: 1060.0, kind: MarkKind::Generation, label: "g2".into(), what: EVIL.into() });
    history
}

fn view<'a>(history: &'a History, memories: &'a Memories, site: Option<&'a str>) -> View<'a> {
    let state = |name: &str| SiteState {
        name: name.into(),
        standing: "ready",
        failure: Some(EVIL.into()),
        incident: Some("1a2b3c4d".into()),
        versions: EVIL.into(),
        generation: 2,
        boots: true,
        notes: vec!["Crawlers: 25.0 % of requests · 2 waiting · 7 answered with a stale page".into()],
    };
    View {
        now: 1120.0,
        span: Span::TenMinutes,
        site,
        sites: vec![state("shop"), state(EVIL)],
        history,
        memories,
        workers: vec![Worker {
            site: "shop".into(),
            generation: 2,
            index: 1,
            pid: 4711,
            state: "ready",
            memory: Some(81 << 20),
            busy: 1,
            answered: 1234,
            age: 61.0,
        }],
        front: Front { version: "0.1.0", pid: 1, up: 3600.0, memory: Some(9 << 20) },
        cache: CacheState { hits: 9, asked: 12, reasons: vec![("private".into(), EVIL.into(), 3)] },
        live: vec![Live {
            number: 1,
            site: "shop".into(),
            method: "GET".into(),
            path: EVIL.into(),
            step: "app",
            age_ms: 6000,
            worker: Some((1, 2)),
        }],
        live_count: 3,
        incidents: vec![Trouble {
            href: "/incidents/1a2b3c4d".into(),
            at: 1100.0,
            kind: "worker-died".into(),
            site: "shop".into(),
            what: EVIL.into(),
            times: 2,
        }],
        failed: vec![Trouble { href: "/errors/5e6f7a8b".into(), kind: "500".into(), ..Trouble::default() }],
        cluster: Some(ClusterState { name: EVIL.into(), server: EVIL.into(), ..ClusterState::default() }),
    }
}

#[test]
fn the_page_says_what_there_is_and_lets_nothing_through() {
    let (history, mut memories) = (history(), Memories::default());
    memories.look(1100.0, [(Who { site: EVIL.into(), generation: 2, index: 1, pid: 4711 }, 81 << 20)]);
    let page = dashboard(&view(&history, &memories, None), true);
    assert!(!page.contains("<img"), "{page}");
    for part in [
        "12<small>/s</small>",
        "75 %",
        "81.0 MB",
        "worker 1, thread 2",
        "and 2 more",
        "href=\"/incidents/1a2b3c4d\"",
        "href=\"/errors/5e6f7a8b\"",
        "the next one is booting",
        "Crawlers: 25.0 % of requests · 2 waiting · 7 answered with a stale page<",
        "data-events=\"/events\"",
        "12 a second, at most 12 in the last 10 minutes",
        "2 waiting, 3 with a worker",
        "75.0 % of 12 requests answered from the page cache",
        "<nav aria-label=\"Pages\"><a href=\"/advice\">Advice</a></nav>",
        "<a href=\"/advice?site=shop\">Advice</a>",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
}

#[test]
fn links_keep_the_site_and_the_span() {
    let (history, memories) = (history(), Memories::default());
    let view = View { span: Span::TwoHours, ..view(&history, &memories, Some("shop")) };
    let page = dashboard(&view, true);
    for part in [
        "href=\"/?site=shop&amp;span=2h\" aria-current=\"page\">shop<",
        "href=\"/?site=%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E&amp;span=2h\">",
        "href=\"/?site=shop\">10 min<",
        "data-events=\"/events?site=shop&amp;span=2h\"",
        "<title>shop · Paceline</title>",
        "<nav aria-label=\"Pages\"><a href=\"/advice?site=shop\">",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
}

#[test]
fn a_server_that_has_done_nothing_has_a_page() {
    let (history, memories) = (History::default(), Memories::default());
    let empty = View {
        sites: vec![],
        workers: vec![],
        live: vec![],
        live_count: 0,
        incidents: vec![],
        failed: vec![],
        cache: CacheState::default(),
        ..view(&history, &memories, None)
    };
    let page = dashboard(&empty, false);
    assert!(page.contains("No requests in progress.") && page.contains("No incidents.") && !page.contains("Advice"));
    assert!(!page.contains("NaN"), "{page}");
}
