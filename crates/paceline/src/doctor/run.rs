//! A run: the application as it is, what may be worth a change, a trial of each, and the report. The rooms below do it;
//! here is their order. It decides nothing by itself.

use doctor::{
    candidate::{Candidate, Kind},
    findings,
    observation::{Asset, Machine, Observations, Queue, Server, Settings},
    report::Report,
    verdict,
};

use super::{
    baseline::Baseline,
    driver::{Driver, RunError},
    expected_time,
    fetching::{Link, Listener},
    left_out::why,
    machine::Process,
    progress::expected,
    replaying::line,
    samples::Samples,
    trying,
};

/// Candidates that are tried; the most promising come first.
const MAX_TRIALS: usize = 24;

/// What is known beside the requests.
pub struct Surroundings {
    pub site: String,
    pub server: Server,
    pub machine: Machine,
    pub queue: Option<Queue>,
    /// How the server runs the application, given a process of it.
    pub settings: Box<dyn FnOnce(&Process) -> Settings>,
    /// Where the server can be asked for the files that pages link to.
    pub listeners: Vec<Listener>,
    /// Only these are tried; empty: all.
    pub only: Vec<Kind>,
    /// Rounds of each trial. None: until it is decided.
    pub rounds: Option<usize>,
}

/// What a run has found.
pub struct RunResult {
    pub report: Report,
    /// Its version; empty: not a Rails application.
    pub rails: String,
}

pub fn run(driver: &mut Driver, samples: Samples, around: Surroundings) -> Result<RunResult, RunError> {
    for remark in &samples.remarks {
        driver.say(remark);
    }
    let baseline = Baseline::measure(driver, samples, driver.is_live())?;
    if baseline.sample.requests == 0 {
        return Err(RunError::Nothing(nothing(&baseline)));
    }
    let assets = assets(driver, &baseline, &around)?;
    let observations = Observations {
        server: around.server,
        ruby: baseline.hello.ruby.clone(),
        rails: baseline.hello.rails.clone(),
        facts: baseline.hello.facts.clone(),
        settings: (around.settings)(&baseline.process),
        machine: around.machine,
        queue: around.queue,
        assets,
        routes: baseline.observed.clone(),
    };
    let mut candidates = findings::find(&observations);
    candidates.retain(|one| around.only.is_empty() || around.only.contains(&one.kind));
    let candidates = findings::in_order_of_trial(candidates, MAX_TRIALS);
    let verdicts = try_all(driver, &baseline, &observations, candidates, around.rounds);
    driver.say_waited();
    Ok(RunResult { report: Report::new(&around.site, baseline.sample, verdicts), rails: baseline.hello.rails })
}

fn try_all(
    driver: &mut Driver,
    baseline: &Baseline,
    observations: &Observations,
    candidates: Vec<Candidate>,
    rounds: Option<usize>,
) -> Vec<verdict::Verdict> {
    let all = candidates.iter().filter(|one| one.trial.is_tried()).count();
    let (mut to_come, mut done) = (candidates.clone(), 0);
    // What was measured before stays known.
    let mut over: Option<String> = None;
    let failed = |why: &str| verdict::Outcome { failure: Some(line(why).into_owned()), ..Default::default() };
    let mut verdicts = Vec::new();
    for candidate in candidates {
        if candidate.trial.is_tried() && over.is_none() {
            let starting = driver.starting();
            let time = |one: &Candidate| expected_time::of(baseline, one, rounds, starting);
            let expected = expected(time(&candidate), to_come.iter().map(time).sum());
            done += 1;
            driver.say(&format!("trying {done} of {all}: {}{expected}", candidate.short));
        }
        to_come.remove(0);
        let outcome = match &over {
            Some(why) if candidate.trial.is_tried() => failed(why),
            _ => trying::try_it(driver, baseline, &candidate, rounds).unwrap_or_else(|why| {
                if let RunError::BusyMachine(_) = why {
                    over = Some(why.to_string());
                }
                failed(&why.to_string())
            }),
        };
        let verdict = verdict::judge(candidate, &outcome, observations);
        // The report comes when all trials are over.
        verdict.at_once().iter().for_each(|line| driver.say(line));
        verdicts.push(verdict);
    }
    verdicts
}

/// The files that most pages link to, as a browser would get them: from the running server, or from an application that
/// another server serves.
fn assets(driver: &mut Driver, baseline: &Baseline, around: &Surroundings) -> Result<Vec<Asset>, RunError> {
    let links = baseline.links.most_linked();
    let found: Vec<Option<Asset>> = match (around.listeners.first(), &around.server) {
        (Some(listener), Server::Paceline) => links.iter().map(|link| listener.fetch(&link.host, &link.path)).collect(),
        (None, Server::Other(_)) if !driver.is_live() && !links.is_empty() => {
            let mut shadow = driver.shadow()?;
            links.iter().map(|link| driver.replaying.file(&mut shadow, link).ok()).collect()
        }
        _ => Vec::new(),
    };
    let with_share = |(link, asset): (&Link, Option<Asset>)| Some(Asset { share: link.share, ..asset? });
    Ok(links.iter().zip(found).filter_map(with_share).collect())
}

/// Why no request is left.
fn nothing(baseline: &Baseline) -> String {
    match baseline.sample.dropped.first() {
        None => "no request to replay: name some with --path or --log".into(),
        Some(first) => {
            let all = baseline.sample.dropped.len();
            format!("none of {all} requests can be replayed; {} {}", first.request, why(&first.why))
        }
    }
}
