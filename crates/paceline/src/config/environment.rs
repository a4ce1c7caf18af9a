//! Settings from environment variables: the conventions of Puma, Rails, Thruster and systemd.
//! It never reads the process's own environment; it is given one.

use super::{bind, layer::Layer, options::OPTIONS, Bind, Surroundings};

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
    ("TARGET_PORT", "the application needs no port of its own"),
    ("TLS_DOMAIN", "TLS is not served by this version"),
    ("HTTPS_PORT", "TLS is not served by this version"),
];

const FIRST_HANDED_OVER_FD: i32 = 3;

pub fn read(around: &Surroundings) -> FromEnvironment {
    let mut read = FromEnvironment::default();
    let variable = |name: &str| (around.env)(name).map(|text| text.trim().to_string()).filter(|text| !text.is_empty());
    for option in OPTIONS {
        let Some((name, text)) = option.env.iter().find_map(|name| Some((*name, variable(name)?))) else { continue };
        // Some shells export HOST as the machine's name, which must not open the server to the network.
        if name == "HOST" && bind::address(&text).is_none() {
            read.notices
                .push(format!("HOST={text} ignored: not an IP address (BINDING or -b names the address to listen on)"));
            continue;
        }
        match option.kind.parse(&text) {
            Ok(value) => read.layer.set(option.key, value),
            Err(why) => read.problems.push(format!("{name}={text}: {why}")),
        }
    }
    for (name, why) in WITHOUT_MEANING {
        if variable(name).is_some() {
            read.notices.push(format!("{name} has no meaning here: {why}"));
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
