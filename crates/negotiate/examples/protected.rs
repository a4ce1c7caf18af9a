//! A page that only people with a ticket see, to try an acceptor with curl and browsers, and the other things that the
//! scenarios in test/sso need. It is no server: it reads one small request after the other.
//!
//!     protected serve KEYTAB [realm=R] [service=S] [bindings=CERTIFICATE] [ntlm] [replay=NAME]
//!     protected token HOST [bindings=CERTIFICATE] [count=N]    the first token for HTTP at HOST, in base64; N of them, a line each
//!     protected check KEYTAB HOST                        what `check` finds, a line each
//!
//! `serve` prints its port.

use std::{error::Error, path::Path, rc::Rc};

use negotiate::{check, Acceptor, Answer, BindingPolicy, ChannelBindings, Conversation, Refusal, Settings};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::LocalSet,
};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match &words[..] {
        ["serve", keytab, options @ ..] => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            LocalSet::new().block_on(&runtime, serve(keytab, options))
        }
        ["token", host, options @ ..] => {
            let bindings = bindings(options)?;
            for _ in 0..option(options, "count").map_or(Ok(1), str::parse)? {
                let token = check::first_token(Path::new("libgssapi_krb5.so.2"), host, bindings.as_ref())?;
                println!("{}", negotiate::challenge(&token).trim_start_matches("Negotiate "));
            }
            Ok(())
        }
        ["check", keytab, host] => {
            for finding in check::all(&Settings { keytab: keytab.into(), ..Settings::default() }, host) {
                println!("{:?} {}: {}", finding.level, finding.topic, finding.text);
                finding.advice.iter().for_each(|advice| println!("     {advice}"));
            }
            for browser in check::browsers(&[(*host).to_owned()]) {
                println!("{}: {}: {}", browser.name, browser.place, browser.value);
            }
            Ok(())
        }
        _ => Err("serve KEYTAB, token HOST, or check KEYTAB HOST".into()),
    }
}

fn option<'a>(options: &[&'a str], name: &str) -> Option<&'a str> {
    options.iter().find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
}

fn bindings(options: &[&str]) -> Result<Option<ChannelBindings>, Box<dyn Error>> {
    let Some(path) = option(options, "bindings") else { return Ok(None) };
    let bindings = ChannelBindings::tls_server_end_point(&std::fs::read(path)?);
    Ok(Some(bindings.ok_or("no certificate in DER")?))
}

async fn serve(keytab: &str, options: &[&str]) -> Result<(), Box<dyn Error>> {
    let bindings = bindings(options)?;
    let acceptor = Rc::new(Acceptor::open(Settings {
        keytab: keytab.into(),
        realms: option(options, "realm").into_iter().map(str::to_owned).collect(),
        services: option(options, "service").into_iter().map(str::to_owned).collect(),
        ntlm: options.contains(&"ntlm"),
        bindings: if bindings.is_some() { BindingPolicy::Require } else { BindingPolicy::IfSent },
        replay_cache: option(options, "replay").map(str::to_owned),
        ..Settings::default()
    })?);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    loop {
        let (stream, _) = listener.accept().await?;
        let (acceptor, bindings) = (acceptor.clone(), bindings.clone());
        tokio::task::spawn_local(async move {
            if let Err(error) = converse(stream, &acceptor, bindings).await {
                eprintln!("{error}");
            }
        });
    }
}

/// One connection, and the one conversation that it has.
async fn converse(
    mut stream: TcpStream,
    acceptor: &Acceptor,
    bindings: Option<ChannelBindings>,
) -> Result<(), Box<dyn Error>> {
    let mut conversation = Conversation::default();
    let mut read = Vec::new();
    loop {
        let end = loop {
            if let Some(at) = read.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if read.len() > 128 << 10 || stream.read_buf(&mut read).await? == 0 {
                return Ok(());
            }
        };
        let head: Vec<u8> = read.drain(..end).collect();
        let response = match authorization(&head).and_then(negotiate::token) {
            None => response(401, &negotiate::challenge(b""), "a ticket is needed"),
            Some(Err(refusal)) => refused(&refusal),
            Some(Ok(token)) => match acceptor.accept(&mut conversation, token, bindings.clone()).await {
                Answer::Refused(refusal) => refused(&refusal),
                Answer::Continue { reply } => response(401, &negotiate::challenge(&reply), "go on"),
                Answer::Accepted { principal: who, reply } => {
                    let body = format!(
                        "{} of {} by {}, bound: {}, {}, groups: {}",
                        who.name,
                        who.realm,
                        who.mechanism.as_str(),
                        who.bound,
                        if who.expires.is_some() { "expires" } else { "never expires" },
                        who.groups.join(" ")
                    );
                    response(200, &negotiate::challenge(&reply), &body)
                }
            },
        };
        stream.write_all(response.as_bytes()).await?;
    }
}

fn authorization(head: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"authorization:";
    head.split(|byte| *byte == b'\n')
        .find(|line| line.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME)))
        .map(|line| &line[NAME.len()..])
}

fn refused(refusal: &Refusal) -> String {
    let status = if refusal.is_ours() { 503 } else { 401 };
    response(status, &negotiate::challenge(b""), &format!("{}: {refusal}", refusal.kind()))
}

fn response(status: u16, challenge: &str, body: &str) -> String {
    let length = body.len() + 1;
    format!("HTTP/1.1 {status} -\r\nWWW-Authenticate: {challenge}\r\nContent-Length: {length}\r\n\r\n{body}\n")
}
