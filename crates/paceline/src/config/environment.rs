//! Settings from environment variables: the conventions of Puma, Rails, Thruster and systemd.
//! It never reads the process's own environment; it is given one.

use super::{bind, layer::Layer, options, Bind, Surroundings};

/// What the environment says.
#[derive(Debug, Default)]
pub struct FromEnvironment {
    pub layer: Layer,
    /// Sockets handed over by systemd; they take the place of all other addresses.
    pub handed_over: Vec<Bind>,
    pub notices: Vec<String>,
    pub problems: Vec<String>,
}

/// Variables of Thruster that have no meaning here.
const WITHOUT_MEANING: &[(&str, &str)] = &[
    ("TARGET_PORT", "the application needs no port"),
    ("TLS_DOMAIN", "set certificates in [[tls]]"),
    ("HTTPS_PORT", "for TLS, set `bind` to https://HOST:PORT"),
];

const FIRST_HANDED_OVER_FD: i32 = 3;

pub fn read(around: &Surroundings) -> FromEnvironment {
    let mut read = FromEnvironment::default();
    let variable = |name: &str| (around.env)(name).map(|text| text.trim().to_string()).filter(|text| !text.is_empty());
    for option in options::all() {
        let mut found = option.env.iter().filter_map(|name| Some((*name, variable(name)?)));
        let own = found.find(|(name, text)| {
            let is_link = is_service_link(name, text);
            if is_link {
                read.notices
                    .push(format!("{name}={text} ignored: it is where a Kubernetes service is (enableServiceLinks)"));
            }
            !is_link
        });
        let Some((name, text)) = own else { continue };
        // Some shells export HOST as the machine's name, which must not open the server to the network.
        if name == "HOST" && bind::address(&text).is_none() {
            read.notices.push(format!(
                "HOST={text} ignored: not an IP address (use BINDING or -b for the address to listen on)"
            ));
            continue;
        }
        match option.kind.parse(&text) {
            Ok(value) => read.layer.set(option.key, value),
            // They are not for us alone: what an application's own traces can do with them must not keep it from being
            // served.
            Err(why) if name.starts_with("OTEL_") => read.notices.push(format!("{name}={text} ignored: {why}")),
            Err(why) => read.problems.push(format!("{name}={text}: {why}")),
        }
    }
    for (name, why) in WITHOUT_MEANING {
        if variable(name).is_some() {
            read.notices.push(format!("{name} is ignored: {why}"));
        }
    }
    if variable("LISTEN_PID").and_then(|pid| pid.parse().ok()) == Some(around.pid) {
        match variable("LISTEN_FDS").map(|count| count.parse::<i32>()) {
            Some(Ok(count @ 0..=1024)) => {
                read.handed_over = (0..count).map(|nth| Bind::Fd(FIRST_HANDED_OVER_FD + nth)).collect();
            }
            Some(_) => read.problems.push("LISTEN_FDS must be the number of sockets handed over".into()),
            None => {}
        }
    }
    read
}

/// Kubernetes and Docker tell each container of services by variables: of the service `http` by HTTP_PORT.
fn is_service_link(name: &str, text: &str) -> bool {
    name.ends_with("PORT") && ["tcp://", "udp://", "sctp://"].iter().any(|scheme| text.starts_with(scheme))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{test_folder::around, Value};

    fn read_from(env: &[(&str, &str)]) -> FromEnvironment {
        around(Path::new("/"), env, read)
    }

    #[test]
    fn variables_and_their_settings() {
        let text = |text: &str| Value::Text(text.into());
        for (env, key, value) in [
            (&[("PORT", "80")][..], "port", Some(Value::Int(80))),
            (&[("HTTP_PORT", "80")], "port", Some(Value::Int(80))),
            (&[("PORT", "1"), ("HTTP_PORT", "2")], "port", Some(Value::Int(1))),
            (&[("PORT", "tcp://10.96.0.7:80"), ("HTTP_PORT", "2")], "port", Some(Value::Int(2))),
            (&[("HTTP_PORT", "udp://10.96.0.7:53")], "port", None),
            (&[("WEB_CONCURRENCY", "3")], "workers", Some(Value::Int(3))),
            (&[("WEB_CONCURRENCY", "auto")], "workers", Some(Value::Auto)),
            (&[("WEB_CONCURRENCY", "1:4")], "workers", Some(Value::Between(1, 4))),
            (&[("WEB_CONCURRENCY", "  ")], "workers", None),
            (&[("RAILS_MAX_THREADS", "4"), ("MAX_THREADS", "9")], "threads", Some(Value::Int(4))),
            (&[("PUMA_MAX_THREADS", "6")], "threads", Some(Value::Int(6))),
            (&[("RACK_ENV", "staging")], "environment", Some(text("staging"))),
            (&[("RACK_ENV", "test"), ("RAILS_ENV", "production")], "environment", Some(text("production"))),
            (&[("RAILS_ENV", ""), ("APP_ENV", "test")], "environment", Some(text("test"))),
            (&[("HOST", "0.0.0.0")], "address", Some(text("0.0.0.0"))),
            (&[("BINDING", "::"), ("HOST", "mybox")], "address", Some(text("::"))),
            (&[("HOST", "mybox")], "address", None),
            (&[("LOG_REQUESTS", "false")], "log_requests", Some(Value::Bool(false))),
            (&[("MAX_REQUEST_BODY", "0")], "max_body", Some(Value::Off)),
            (&[("X_SENDFILE_ENABLED", "0")], "x_sendfile", Some(Value::Bool(false))),
        ] {
            let read = read_from(env);
            assert_eq!(read.layer.get(key), value.as_ref(), "{env:?}");
            assert_eq!(read.problems, [""; 0], "{env:?}");
        }
    }

    #[test]
    fn notices_and_problems() {
        let read = read_from(&[("TARGET_PORT", "3000"), ("HOST", "mybox"), ("PORT", "http"), ("BINDING", "mybox")]);
        assert_eq!(read.notices.len(), 1);
        assert_eq!(read.problems.len(), 2, "{:?}", read.problems);
        let read = read_from(&[("HTTP_PORT", "tcp://10.96.0.7:80")]);
        assert_eq!(read.problems, [""; 0]);
        assert!(read.notices[0].starts_with("HTTP_PORT=tcp://10.96.0.7:80 ignored"), "{:?}", read.notices);
        let read = read_from(&[("HOST", "mybox")]);
        assert!(read.notices[0].starts_with("HOST=mybox ignored"));
    }

    #[test]
    fn sockets_handed_over() {
        for (pid, count, fds) in [("77", "2", vec![Bind::Fd(3), Bind::Fd(4)]), ("78", "2", vec![]), ("", "1", vec![])] {
            assert_eq!(read_from(&[("LISTEN_PID", pid), ("LISTEN_FDS", count)]).handed_over, fds);
        }
        assert_eq!(read_from(&[("LISTEN_PID", "77"), ("LISTEN_FDS", "x")]).problems.len(), 1);
    }
}
