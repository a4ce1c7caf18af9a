//! Other servers an app speaks to while it boots: Redis, memcached, anything that refuses a connection, and ports
//! taken. It never connects to one.

use super::{
    case::{Case, Symptom},
    Suggestion,
};

pub fn rule(s: &Symptom, case: &Case) -> Option<Suggestion> {
    if s.is(&["Errno::EADDRINUSE"]) {
        let port = s.after("port ", &[' ', ')', ',']).and_then(|port| port.parse().ok());
        return port_taken(port, case);
    }
    if s.class.starts_with("Redis::") || s.class.starts_with("RedisClient::") {
        return redis(s);
    }
    if s.class.starts_with("Dalli::") {
        return Suggestion::run(
            "memcached does not answer: it is not running, or the app looks for it elsewhere (MEMCACHE_SERVERS).",
            "systemctl start memcached",
        );
    }
    if s.is(&["Errno::ECONNREFUSED"]) || s.class.ends_with("::ConnectionError") && s.says("refused") {
        let place =
            s.after("connect(2) for ", &['\n']).map(|place| place.replace(['"', '\''], "").replace(" port ", ":"));
        let port =
            place.as_deref().and_then(|place| place.rsplit(':').next()).and_then(|port| port.parse::<u16>().ok());
        if let Some((name, service)) = port.and_then(known) {
            return Suggestion::run(
                format!(
                    "{name} does not answer at {}: it is not running, or the app looks for it in the wrong place.",
                    place.unwrap_or_default()
                ),
                format!("systemctl start {service}"),
            );
        }
        let place = place.map(|place| format!(" at {place}")).unwrap_or_default();
        return Suggestion::say(format!("The app tried to connect to a server{place} that does not answer: start the server, or correct the address."));
    }
    if s.is(&["SocketError", "Socket::ResolutionError"]) {
        return Suggestion::say(
            "The app looked up a host name that does not exist: correct the address, or the machine's DNS settings.",
        );
    }
    None
}

fn redis(s: &Symptom) -> Option<Suggestion> {
    if s.says_any(&["NOAUTH", "WRONGPASS"]) {
        return Suggestion::say("Redis asks for a password: put it into REDIS_URL (redis://:password@host:6379).");
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

/// Also for the front's own listening sockets.
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
    use super::super::testing::*;

    #[test]
    #[rustfmt::skip]
    fn other_servers() {
        for (class, message, text, command) in [
            ("Errno::EADDRINUSE", "Address already in use - bind(2) for \"127.0.0.1\" port 3000", "Port 3000 is in use by puma (pid 4711)", "paceline -p 3001"),
            ("Errno::EADDRINUSE", "Address already in use - bind(2) for \"::1\" port 8080", "ss -ltnp", "paceline -p 3000"),
            ("Errno::EADDRINUSE", "Address already in use", "already listens", "-"),
            ("Redis::CannotConnectError", "Connection refused - connect(2) for 127.0.0.1:6379", "Redis does not answer", "systemctl start redis-server"),
            ("RedisClient::CannotConnectError", "Connection refused", "REDIS_URL", "systemctl start redis-server"),
            ("Redis::CommandError", "NOAUTH Authentication required.", "password", "-"),
            ("Errno::ECONNREFUSED", "Connection refused - connect(2) for \"localhost\" port 9200", "Elasticsearch does not answer at localhost:9200", "systemctl start elasticsearch"),
            ("Errno::ECONNREFUSED", "Connection refused - connect(2) for 10.0.0.9:8500", "at 10.0.0.9:8500", "-"),
            ("SocketError", "getaddrinfo: Name or service not known", "host name", "-"),
        ] {
            row(&RACK, class, message, text, command);
        }
    }
}
