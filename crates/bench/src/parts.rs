//! The parts of a request's time: those that the client sees, and those that the server reports. Never measures.

/// A part of the time from the moment at which a request was due until the last byte of its response, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Due, and not yet begun, since no connection was free (with a rate only).
    Late,
    Connect,
    Tls,
    /// Sending the request.
    Upload,
    /// From the request's last byte to the response's first one, where the server tells nothing of it.
    Wait,
    /// The wait without queue and application: the network, and the server in front of the application.
    Front,
    /// Waiting for a worker thread, and there for the virtual machine's lock.
    Queue,
    Sql,
    Views,
    Gc,
    /// Calls to other servers.
    Outbound,
    /// In the application, without the four before.
    App,
    /// From the response's first byte to its last one.
    Response,
}

/// In the order in which they are drawn.
pub const PARTS: [Part; 13] = [
    Part::Late,
    Part::Connect,
    Part::Tls,
    Part::Upload,
    Part::Wait,
    Part::Front,
    Part::Queue,
    Part::Sql,
    Part::Views,
    Part::Gc,
    Part::Outbound,
    Part::App,
    Part::Response,
];

impl Part {
    /// As in tables, charts and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Part::Late => "late",
            Part::Connect => "connect",
            Part::Tls => "tls",
            Part::Upload => "upload",
            Part::Wait => "wait",
            Part::Front => "front",
            Part::Queue => "queue",
            Part::Sql => "sql",
            Part::Views => "views",
            Part::Gc => "gc",
            Part::Outbound => "outbound",
            Part::App => "app",
            Part::Response => "response",
        }
    }
}

/// Durations of all parts, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parts(pub [u32; PARTS.len()]);

impl Parts {
    pub fn get(&self, part: Part) -> u32 {
        self.0[part as usize]
    }

    pub fn set(&mut self, part: Part, micros: u32) {
        self.0[part as usize] = micros;
    }

    pub fn total(&self) -> u64 {
        self.0.iter().map(|micros| u64::from(*micros)).sum()
    }

    /// Divides what was `Wait` by what the server told. The sum stays what the client has measured: where the server
    /// reports more time than that, its parts shrink alike.
    pub fn divide(&mut self, inside: &Inside) {
        let wait = self.get(Part::Wait);
        let (mut queue, mut app) = (inside.queue, inside.app);
        let told = u64::from(queue) + u64::from(app);
        if told > u64::from(wait) {
            queue = (u64::from(queue) * u64::from(wait) / told) as u32;
            app = wait - queue;
        }
        // The garbage collector runs within the others: where the sum is too much, they have counted it as well.
        let gc = inside.gc.min(app);
        let within = [inside.sql, inside.views, inside.outbound];
        let sum: u64 = within.iter().map(|micros| u64::from(*micros)).sum();
        let room = app - gc;
        let shrunk =
            within.map(
                |micros| {
                    if sum > u64::from(room) {
                        (u64::from(micros) * u64::from(room) / sum) as u32
                    } else {
                        micros
                    }
                },
            );
        for (part, micros) in [Part::Sql, Part::Views, Part::Outbound].into_iter().zip(shrunk) {
            self.set(part, micros);
        }
        self.set(Part::Gc, gc);
        self.set(Part::Wait, 0);
        self.set(Part::Front, wait - queue - app);
        self.set(Part::Queue, queue);
        self.set(Part::App, room - shrunk.iter().sum::<u32>());
    }
}

/// What the server reports of one request, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Inside {
    pub queue: u32,
    /// With all that follows.
    pub app: u32,
    pub sql: u32,
    pub views: u32,
    pub gc: u32,
    pub outbound: u32,
}

impl Inside {
    /// Of the value of a Server-Timing field (W3C Server Timing, section 3). None: it tells nothing of the application.
    pub fn parse(value: &str) -> Option<Inside> {
        let mut inside = Inside::default();
        let mut known = false;
        for metric in value.split(',') {
            let mut words = metric.split(';').map(str::trim);
            let name = words.next().unwrap_or_default();
            let duration = words.find_map(|word| word.strip_prefix("dur=")?.trim_matches('"').parse::<f64>().ok());
            let Some(micros) = duration.filter(|ms| ms.is_finite() && *ms >= 0.0).map(|ms| (ms * 1000.0) as u32) else {
                continue;
            };
            match name {
                "queue" => inside.queue = micros,
                "app" => {
                    inside.app = micros;
                    known = true;
                }
                "sql" => inside.sql = micros,
                "views" => inside.views = micros,
                "gc" => inside.gc = micros,
                "outbound" => inside.outbound = micros,
                _ => {}
            }
        }
        known.then_some(inside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_divides_what_the_client_waited() {
        let mut parts = Parts::default();
        parts.set(Part::Connect, 100);
        parts.set(Part::Wait, 10_000);
        let inside =
            Inside::parse("queue;dur=2.0, app;dur=7.5, sql;dur=3, views;desc=x;dur=\"1.5\", other;dur=9").unwrap();
        parts.divide(&inside);
        let shown = [Part::Front, Part::Queue, Part::App, Part::Sql, Part::Views, Part::Wait];
        assert_eq!(shown.map(|part| parts.get(part)), [500, 2000, 3000, 3000, 1500, 0]);
        assert_eq!(parts.total(), 10_100);
    }

    #[test]
    fn the_sum_stays_what_the_client_measured() {
        let mut parts = Parts::default();
        parts.set(Part::Wait, 1000);
        parts.divide(&Inside { queue: 1000, app: 3000, sql: 3000, views: 1000, gc: 150, ..Inside::default() });
        assert_eq!(parts.total(), 1000);
        let shown = [Part::Queue, Part::Gc, Part::Sql, Part::Views, Part::App];
        assert_eq!(shown.map(|part| parts.get(part)), [250, 150, 450, 150, 0]);
    }

    #[test]
    fn other_servers_metrics_are_no_inside() {
        for value in ["", "cache;desc=hit", "app", "app;dur=x", "app;dur=-1", "db;dur=3"] {
            assert_eq!(Inside::parse(value), None, "{value}");
        }
    }
}
