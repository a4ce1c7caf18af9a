//! Outbound calls, for Prometheus. It never makes one.

use egress::CallFigures;

use super::{ControlPart, Exposition, SiteObservation, Type, NOTHING};
use crate::request::front::Front;

pub const PART: ControlPart = ControlPart { metrics, ..NOTHING };

fn metrics(text: &mut Exposition, front: &Front, _: &[SiteObservation]) {
    let sites = front.egress.told();
    let each = || sites.iter().flat_map(|(site, all)| all.iter().map(move |(to, told)| (&**site, &**to, told)));
    type Count = fn(&CallFigures) -> u64;
    let counts: [(&'static str, &str, Count); 3] = [
        ("paceline_outbound_calls_total", "Calls that processes made through the front.", |told| told.calls),
        ("paceline_outbound_connections_total", "Connections opened for outbound calls.", |told| told.connections),
        ("paceline_outbound_repeated_total", "Calls that were sent a second time.", |told| told.repeated),
    ];
    for (name, help, count) in counts {
        let mut family = text.family(name, Type::Counter, help);
        each().for_each(|(site, to, told)| family.sample(&[("site", site), ("upstream", to)], count(told)));
    }
    let help = "Outbound calls without a response, by reason (docs/egress-protocol.md).";
    let mut family = text.family("paceline_outbound_failures_total", Type::Counter, help);
    for (site, to, told) in each() {
        for (kind, count) in &told.failures {
            family.sample(&[("site", site), ("upstream", to), ("kind", kind)], count);
        }
    }
    let help = "Time in outbound calls, by phase: DNS, connecting and TLS of new connections, waiting for a free connection, until the head of the response, total.";
    let mut family = text.family("paceline_outbound_seconds_total", Type::Counter, help);
    for (site, to, told) in each() {
        let phases = [
            ("dns", told.dns),
            ("connect", told.connect),
            ("tls", told.tls),
            ("wait", told.waited),
            ("first_byte", told.first),
            ("total", told.total),
        ];
        for (phase, time) in phases {
            family.sample(&[("site", site), ("upstream", to), ("phase", phase)], time.as_secs_f64());
        }
    }
}
