//! Other servers an app speaks to while it boots: Redis, memcached, anything that refuses a connection, and ports
//! taken. It never connects to one.

use super::{
    case::{Case, Symptom},
    Suggestion,
};

pub fn rule(s: &Symptom, case: &Case) -> Option<Suggestion> {
    if s.is(&["Errno::EADDRINUSE"]) {
        return port_of_app(s, case);
    }
    if s.class.starts_with("Redis::") || s.class.starts_with("RedisClient::") {
        return redis(s);
    }
    if s.is(&["Dalli::RingError", "Dalli::NetworkError"]) {
        return Suggestion::run(
            "memcached does not answer: it is not running, or the app looks for it elsewhere (MEMCACHE_SERVERS).",
            "systemctl start memcached",
        );
    }
    // Net::HTTP tells an address before the kernel's words, and those in brackets.
    let tried = s.after("Failed to open TCP connection to ", &[' ', '\n']);
    if s.is(&["Errno::ECONNREFUSED"]) || s.class.ends_with("::ConnectionError") && s.says("refused") {
        let told = s.after("connect(2) for ", &['\n', ')']);
        let place = told.map(|place| place.replace(['"', '\''], "").replace(" port ", ":"));
        return refused(place.as_deref().or(tried));
    }
    if s.is(&["SocketError", "Socket::ResolutionError"]) {
        let host =
            tried.and_then(|place| place.rsplit_once(':')).map_or(String::new(), |(host, _)| format!(", {host}"));
        return Suggestion::say(format!("The app looked up a host name that does not exist{host}: correct the address, or the machine's DNS settings."));
    }
    if s.class == "OpenSSL::SSL::SSLError" && s.says("certificate verify failed") {
        return Suggestion::run("The app does not trust the certificate of a server that it connects to: this machine's list of authorities is missing or old, or the server's certificate has run out or is signed by itself.", "apt-get install ca-certificates");
    }
    if s.is(&["Net::OpenTimeout", "Net::ReadTimeout"]) {
        let at = tried.map(|place| format!(" at {place}")).unwrap_or_default();
        return Suggestion::say(format!("A server{at} that the app waits for does not answer in time: it is overloaded, or a firewall is between them."));
    }
    None
}

/// `place`: as `localhost:9200`.
fn refused(place: Option<&str>) -> Option<Suggestion> {
    let at = place.map(|place| format!(" at {place}")).unwrap_or_default();
    let port = place.and_then(|place| place.rsplit(':').next()).and_then(|port| port.parse::<u16>().ok());
    match port.and_then(known) {
        Some((name, service)) => Suggestion::run(
            format!("{name} does not answer{at}: it is not running, or the app looks for it in the wrong place."),
            format!("systemctl start {service}"),
        ),
        None => Suggestion::say(format!(
            "The app tried to connect to a server{at} that does not answer: start the server, or correct the address."
        )),
    }
}

/// What a Redis that answers says of a command is the code's concern.
fn redis(s: &Symptom) -> Option<Suggestion> {
    if s.says_any(&["NOAUTH", "WRONGPASS"]) {
        return Suggestion::say("Redis asks for a password: put it into REDIS_URL (redis://:password@host:6379).");
    }
    if !s.class.contains("Connect") && !s.class.contains("Timeout") {
        return None;
    }
    Suggestion::run("Redis does not answer: it is not running, or REDIS_URL (or the app's configuration, config/cable.yml) points elsewhere.", "systemctl start redis-server")
}

fn known(port: u16) -> Option<(&'static str, &'static str)> {
    match port {
        5432 => Some(("PostgreSQL", "postgresql")),
        3306 => Some(("MySQL (or MariaDB)", "mariadb")),
        6379 => Some(("Redis", "redis-server")),
        11211 => Some(("memcached", "memcached")),
        9200 => Some(("Elasticsearch", "elasticsearch")),
        5672 => Some(("RabbitMQ", "rabbitmq-server")),
        _ => None,
    }
}

/// The app's code listens on a port itself: for metrics, for a debugger.
fn port_of_app(s: &Symptom, case: &Case) -> Option<Suggestion> {
    let place = s.place(case).map(|place| format!(" ({place})")).unwrap_or_default();
    let Some(port) = s.after("port ", &[' ', ')', ',']).and_then(|port| port.parse().ok()) else {
        return Suggestion::say(format!(
            "The app's own code listens on a port or socket{place} that is in use: choose another one there."
        ));
    };
    let holder = case.seen.port_holder(port).unwrap_or_else(|| "another program".into());
    Suggestion::say(format!("The app's own code listens on port {port}{place}, which is in use by {holder}: stop that, or choose another port in the code. If it is an older process of this app, which serves until the new ones are ready, listen only in one process that outlives restarts, or on port 0."))
}

/// Of the front's own listening sockets.
pub fn port_taken(port: Option<u16>, case: &Case) -> Option<Suggestion> {
    let Some(port) = port else {
        return Suggestion::say(
            "Another program already listens there: stop it, or choose another port with `paceline -p`.",
        );
    };
    let other = if port == 3000 { 3001 } else { 3000 };
    let text = match case.seen.port_holder(port) {
        Some(holder) => format!("Port {port} is in use by {holder}: stop it, or choose another port."),
        None => format!("Port {port} is in use by another program: stop it, or choose another port. (As root, `ss -ltnp` shows the program.)"),
    };
    Suggestion::run(text, format!("paceline -p {other}"))
}

#[cfg(test)]
mod tests {
    use super::super::{suggest_with, testing::*};

    #[test]
    #[rustfmt::skip]
    fn other_servers() {
        for (class, message, text, command) in [
            ("Errno::EADDRINUSE", "Address already in use - bind(2) for \"127.0.0.1\" port 3000", "listens on port 3000 (config/x.rb:7), which is in use by puma (pid 4711)", "-"),
            ("Errno::EADDRINUSE", "Address already in use - bind(2) for \"::1\" port 8080", "in use by another program", "-"),
            ("Errno::EADDRINUSE", "Address already in use", "choose another one there", "-"),
            ("Redis::CannotConnectError", "Connection refused - connect(2) for 127.0.0.1:6379", "Redis does not answer", "systemctl start redis-server"),
            ("RedisClient::CannotConnectError", "Connection refused", "REDIS_URL", "systemctl start redis-server"),
            ("Redis::CommandError", "NOAUTH Authentication required.", "password", "-"),
            ("Errno::ECONNREFUSED", "Connection refused - connect(2) for \"localhost\" port 9200", "Elasticsearch does not answer at localhost:9200", "systemctl start elasticsearch"),
            ("Errno::ECONNREFUSED", "Connection refused - connect(2) for 10.0.0.9:8500", "at 10.0.0.9:8500", "-"),
            ("Errno::ECONNREFUSED", "Failed to open TCP connection to 127.0.0.1:9200 (Connection refused - connect(2) for \"127.0.0.1\" port 9200)", "Elasticsearch does not answer at 127.0.0.1:9200:", "systemctl start elasticsearch"),
            ("Net::OpenTimeout", "Failed to open TCP connection to 10.0.0.9:80 (execution expired)", "A server at 10.0.0.9:80 that the app waits for", "-"),
            ("OpenSSL::SSL::SSLError", "SSL_connect returned=1 errno=0 state=error: certificate verify failed (certificate has expired)", "does not trust", "apt-get install ca-certificates"),
            ("Dalli::RingError", "No server available", "memcached does not answer", "systemctl start memcached"),
            ("SocketError", "getaddrinfo: Name or service not known", "host name that does not exist:", "-"),
            ("SocketError", "Failed to open TCP connection to mail.invalid:25 (getaddrinfo: Name or service not known)", "does not exist, mail.invalid:", "-"),
        ] {
            row(&RACK, class, message, text, command);
        }
    }

    #[test]
    fn a_server_that_answers_is_not_said_to_be_silent() {
        for (class, message) in [
            ("Redis::CommandError", "WRONGTYPE Operation against a key holding the wrong kind of value"),
            ("RedisClient::CommandError", "OOM command not allowed when used memory > 'maxmemory'."),
            ("Dalli::ValueOverMaxSize", "Value for beers over max size: 1048576 <= 2000000"),
        ] {
            assert_eq!(suggest_with(&report("production", exception(class, message)), &RACK), None, "{class}");
        }
    }
}
