//! Work within a request that has no place there: slow middleware and mail.

use super::{is_rails, of, patch, shown, Look, WeighedCandidate};
use crate::{
    candidate::{Candidate, Edit, Fix, Kind, Trial},
    observation::{Observations, ObservedRequest},
    profile::{Profile, ProfiledLine},
    protocol::Patch,
    units,
};

/// A middleware takes so long for itself, and this part of the request: what all requests pay must be more than noise.
pub(super) const MIDDLEWARE_US: f64 = 1_000.0;
pub(super) const MIDDLEWARE_PART: f64 = 0.1;
/// Middleware of the frameworks, which an application can't do without; passing over it would break the page.
const NEEDED: [&str; 17] = [
    "ActionDispatch::",
    "ActiveRecord::",
    "ActiveSupport::",
    "ActionCable::",
    "Rails::",
    "Rack::Session",
    "Rack::MethodOverride",
    "Rack::ETag",
    "Rack::ConditionalGet",
    "Rack::Head",
    "Rack::ContentLength",
    "Rack::TempfileReaper",
    "Rack::Runtime",
    "Rack::Sendfile",
    "Rack::Protection",
    "Sinatra::",
    "Warden",
];
/// Ways of delivery that wait for another program.
const WAITING: [&str; 4] = ["smtp", "sendmail", "exim", "ses"];

pub(super) fn rule(observations: &Observations, found: &mut Vec<WeighedCandidate>) {
    for look in Look::all(observations) {
        found.extend(slow_middleware(&look));
        found.extend(mail(observations, &look));
    }
}

fn slow_middleware(look: &Look) -> Vec<WeighedCandidate> {
    let mut names: Vec<&str> = Vec::new();
    for middleware in look.route.requests.iter().flat_map(|request| &request.evidence.middleware) {
        let is_needed = NEEDED.iter().any(|needed| middleware.name.starts_with(needed));
        if !is_needed && !names.contains(&middleware.name.as_str()) {
            names.push(&middleware.name);
        }
    }
    names.into_iter().filter_map(|name| one_middleware(look, name)).collect()
}

fn one_middleware(look: &Look, name: &str) -> Option<WeighedCandidate> {
    let us = |request: &ObservedRequest| {
        let same = request.evidence.middleware.iter().filter(|middleware| middleware.name == name);
        // Observing makes a request slower, and each of its parts.
        let slower = (request.observed_wall_us / request.wall_us.max(1.0)).max(1.0);
        same.map(|middleware| middleware.own_us).sum::<f64>() / slower
    };
    let ceiling_us = look.mean(us);
    if ceiling_us < MIDDLEWARE_US || ceiling_us < look.wall_us * MIDDLEWARE_PART {
        return None;
    }
    let sentence = format!("the middleware {name} takes {} of each request", units::millis(ceiling_us));
    let (line, why) = match name {
        "Rack::Deflater" => {
            ("config.middleware.delete Rack::Deflater", "the server compresses too: decide for one of them")
        }
        _ => ("do it once, after the answer, or not at all", "only its author knows what it is for"),
    };
    let trial = Trial::WhatIf { trial: vec![Patch::named("free_middleware").with("middleware", name)] };
    let candidate = of(look.route, Kind::SlowMiddleware, sentence, shown("", line, why), trial);
    let short = format!("the middleware {name}");
    let at = middleware_place(look, name);
    Some(look.found(Candidate { subject: name.into(), at, short, ceiling_us, ..candidate }))
}

/// The line that takes most, by the profile, of those that are known to be its work, or else of those in the file of its
/// `call`; else where that begins.
fn middleware_place(look: &Look, name: &str) -> String {
    let profile = Profile::of(look.route);
    let is_own = |line: &ProfiledLine| {
        let is_there = line.middleware.as_deref() == Some(name) && !line.at.is_empty();
        is_there.then_some(())
    };
    if let Some((line, ..)) = profile.greatest(is_own) {
        return line.at.clone();
    }
    let all = look.route.requests.iter().flat_map(|request| &request.evidence.middleware);
    let begins = all.filter(|one| one.name == name).map(|one| one.at.as_str()).find(|at| !at.is_empty());
    let Some((begins, (file, _))) = begins.and_then(|at| Some((at, at.rsplit_once(':')?))) else {
        return String::new();
    };
    let is_there = |line: &ProfiledLine| {
        let path = line.at.rsplit_once(':').map(|(path, _)| path);
        (path == Some(file)).then_some(())
    };
    profile.greatest(is_there).map_or_else(|| begins.to_owned(), |(line, ..)| line.at.clone())
}

fn mail(observations: &Observations, look: &Look) -> Option<WeighedCandidate> {
    let us = |request: &ObservedRequest| request.evidence.mail.as_ref().map_or(0.0, |mail| mail.us);
    let mail = look.most(us).evidence.mail.as_ref().filter(|mail| mail.count > 0)?;
    let delivery = observations.facts.mail_delivery.as_deref().unwrap_or("smtp");
    let is_waiting = WAITING.iter().any(|way| delivery.contains(way));
    if !is_waiting {
        return None;
    }
    let sentence = format!(
        "{} sent before the page is answered, and it waits for {delivery}",
        match mail.count {
            1 => "a mail is".to_string(),
            count => format!("{} mails are", units::grouped(count)),
        }
    );
    let fix = if is_rails(observations) {
        Fix {
            file: mail.at.split(':').next().unwrap_or_default().into(),
            line: "deliver_later instead of deliver_now".into(),
            edit: Edit::Shown { why: "it needs a queue adapter that runs jobs outside of requests".into() },
        }
    } else {
        shown("", "send mail from a thread or a job", "it is a change of the application's own code")
    };
    let candidate = of(look.route, Kind::SyncMail, sentence, fix, patch(Patch::named("async_mail")));
    let ceiling_us = look.mean(us);
    Some(look.found(Candidate { at: mail.at.clone(), subject: "mail".into(), ceiling_us, ..candidate }))
}
