//! What the old front and the new one say to each other, on a pair of Unix sockets: a kind, a length, as many bytes;
//! open descriptors go with the first message. It never waits longer than it was told to.

use std::{
    io::{self, IoSlice, IoSliceMut, Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::PathBuf,
};

use cache::store::{How, Key};
use rustix::net::{
    recvmsg, sendmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde_json::{json, Value};

use crate::caching::{Codes, Purge};

/// Another number: another language. Two that don't speak the same don't take over from each other.
const VERSION: u64 = 1;
/// Descriptors that the kernel takes along with a message.
pub const MAX_FDS: usize = 250;
/// Of any message but a record of the cache.
const LONGEST: usize = 1 << 20;
const LONGEST_RECORD: usize = u32::MAX as usize;

mod kind {
    pub const HELLO: u8 = 1;
    pub const READY: u8 = 2;
    pub const FAILED: u8 = 3;
    pub const RECORD: u8 = 4;
    pub const PURGE: u8 = 5;
    pub const COMMIT: u8 = 6;
    pub const TOOK_OVER: u8 = 7;
}

/// What the old front has, in the order of the descriptors that come with it: listeners, the control socket if there is
/// one, the pipe to the stand-in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hello {
    /// The pid by which the server is known.
    pub identity: i32,
    /// Who speaks.
    pub parent: i32,
    /// Addresses as they were configured.
    pub listeners: Vec<String>,
    pub control: Option<PathBuf>,
    /// Its folder was made for it.
    pub control_folder: bool,
    /// What keys of the cache are made with.
    pub secret: [u64; 2],
    /// The folder of the cache's disk, where the old front has it open.
    pub disk: Option<PathBuf>,
    /// Up to where the cache is purged, in a cluster.
    pub cluster: Option<String>,
    /// Sites whose applications are up.
    pub up: Vec<String>,
    /// Which code has made what the cache keeps.
    pub codes: Codes,
}

/// What the new front makes use of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Takeover {
    /// Of each listener.
    pub listeners: Vec<bool>,
    pub control: bool,
    pub pidfile: Option<PathBuf>,
    /// It opens the same disk for its cache.
    pub disk: bool,
    /// What it has of the cache is kept under the same keys.
    pub cache: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Message {
    Hello(Hello),
    /// The applications are up.
    Ready(Takeover),
    /// There will be no new front, and why.
    Failed(String),
    Record(Key, Vec<u8>),
    Purge(Purge, How),
    /// All that is to be told has been, the disk is closed: serve.
    Commit,
    TookOver,
}

pub fn send(mut to: &UnixStream, message: &Message) -> io::Result<()> {
    let (kind, payload) = encoded(message);
    to.write_all(&head(kind, payload.len())?)?;
    to.write_all(&payload)
}

/// A record of the cache, without a copy of it.
pub fn send_record(mut to: &UnixStream, key: Key, record: &[u8]) -> io::Result<()> {
    to.write_all(&head(kind::RECORD, 16 + record.len())?)?;
    to.write_all(&key.0.to_le_bytes())?;
    to.write_all(record)
}

/// The first message, with open descriptors.
pub fn send_hello(to: &UnixStream, hello: &Hello, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let (kind, payload) = encoded(&Message::Hello(hello.clone()));
    let head = head(kind, payload.len())?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut with = SendAncillaryBuffer::new(&mut space);
    if !with.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other(format!("more than {MAX_FDS} sockets")));
    }
    let sent = sendmsg(to.as_fd(), &[IoSlice::new(&head)], &mut with, SendFlags::empty())?;
    let mut rest = to;
    rest.write_all(&head[sent..])?;
    rest.write_all(&payload)
}

/// The next message; None: the other side is gone.
pub fn receive(from: &UnixStream) -> io::Result<Option<Message>> {
    let mut first = [0];
    let mut from = from;
    if from.read(&mut first)? == 0 {
        return Ok(None);
    }
    receive_after(from, first[0]).map(Some)
}

/// The first message, with what came along.
pub fn receive_hello(from: &UnixStream) -> io::Result<(Hello, Vec<OwnedFd>)> {
    let mut first = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut with = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(&mut first)];
    let received = recvmsg(from.as_fd(), &mut into, &mut with, RecvFlags::CMSG_CLOEXEC)?;
    let mut fds = Vec::new();
    for message in with.drain() {
        if let RecvAncillaryMessage::ScmRights(came) = message {
            fds.extend(came);
        }
    }
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    match receive_after(from, first[0])? {
        Message::Hello(hello) => Ok((hello, fds)),
        _ => Err(broken()),
    }
}

fn receive_after(mut from: &UnixStream, kind: u8) -> io::Result<Message> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    let most = if kind == kind::RECORD { LONGEST_RECORD } else { LONGEST };
    if length > most {
        return Err(broken());
    }
    // Room is made as it comes, not as it is promised.
    let mut payload = Vec::with_capacity(length.min(LONGEST));
    from.take(length as u64).read_to_end(&mut payload)?;
    if payload.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    decoded(kind, payload).ok_or_else(broken)
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the other program speaks another version of the handover protocol")
}

fn head(kind: u8, length: usize) -> io::Result<[u8; 5]> {
    let length = u32::try_from(length).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?.to_le_bytes();
    Ok([kind, length[0], length[1], length[2], length[3]])
}

fn encoded(message: &Message) -> (u8, Vec<u8>) {
    let json = |value: Value| value.to_string().into_bytes();
    match message {
        Message::Hello(hello) => (
            kind::HELLO,
            json(json!({
                "version": VERSION,
                "identity": hello.identity,
                "parent": hello.parent,
                "listeners": hello.listeners,
                "control": hello.control,
                "control_folder": hello.control_folder,
                "secret": hello.secret,
                "disk": hello.disk,
                "cluster": hello.cluster,
                "up": hello.up,
                "codes": hello.codes,
            })),
        ),
        Message::Ready(taken) => (
            kind::READY,
            json(json!({
                "listeners": taken.listeners,
                "control": taken.control,
                "pidfile": taken.pidfile,
                "disk": taken.disk,
                "cache": taken.cache,
            })),
        ),
        Message::Failed(why) => (kind::FAILED, why.chars().take(LONGEST / 8).collect::<String>().into_bytes()),
        Message::Record(key, record) => (kind::RECORD, [&key.0.to_le_bytes()[..], record].concat()),
        Message::Purge(what, how) => {
            let (what, which) = match what {
                Purge::Url(url) => ("url", url.as_str()),
                Purge::Tag(tag) => ("tag", tag.as_str()),
                Purge::Prefix(prefix) => ("prefix", prefix.as_str()),
                Purge::All => ("all", ""),
            };
            (kind::PURGE, json(json!({ "what": what, "which": which, "expire": *how == How::Expire })))
        }
        Message::Commit => (kind::COMMIT, Vec::new()),
        Message::TookOver => (kind::TOOK_OVER, Vec::new()),
    }
}

fn decoded(kind: u8, payload: Vec<u8>) -> Option<Message> {
    let json = || serde_json::from_slice::<Value>(&payload).ok();
    let path = |value: &Value| value.as_str().map(PathBuf::from);
    let number = |value: &Value| value.as_i64().and_then(|number| i32::try_from(number).ok());
    let words = |value: &Value| -> Option<Vec<String>> {
        value.as_array()?.iter().map(|word| word.as_str().map(str::to_owned)).collect()
    };
    Some(match kind {
        kind::HELLO => {
            let hello = json()?;
            if hello["version"].as_u64() != Some(VERSION) {
                return None;
            }
            Message::Hello(Hello {
                identity: number(&hello["identity"])?,
                parent: number(&hello["parent"])?,
                listeners: words(&hello["listeners"])?,
                control: path(&hello["control"]),
                control_folder: hello["control_folder"].as_bool()?,
                secret: [hello["secret"][0].as_u64()?, hello["secret"][1].as_u64()?],
                disk: path(&hello["disk"]),
                cluster: hello["cluster"].as_str().map(str::to_owned),
                up: words(&hello["up"])?,
                // An older front does not say it.
                codes: serde_json::from_value(hello["codes"].clone()).unwrap_or_default(),
            })
        }
        kind::READY => {
            let taken = json()?;
            Message::Ready(Takeover {
                listeners: taken["listeners"].as_array()?.iter().map(Value::as_bool).collect::<Option<_>>()?,
                control: taken["control"].as_bool()?,
                pidfile: path(&taken["pidfile"]),
                disk: taken["disk"].as_bool()?,
                cache: taken["cache"].as_bool()?,
            })
        }
        kind::FAILED => Message::Failed(String::from_utf8_lossy(&payload).into_owned()),
        kind::RECORD => {
            let (key, record) = payload.split_first_chunk::<16>()?;
            Message::Record(Key(u128::from_le_bytes(*key)), record.to_vec())
        }
        kind::PURGE => {
            let purge = json()?;
            let which = purge["which"].as_str()?.to_owned();
            let how = if purge["expire"].as_bool()? { How::Expire } else { How::Drop };
            let what = match purge["what"].as_str()? {
                "url" => Purge::Url(which),
                "tag" => Purge::Tag(which),
                "prefix" => Purge::Prefix(which),
                "all" => Purge::All,
                _ => return None,
            };
            Message::Purge(what, how)
        }
        kind::COMMIT => Message::Commit,
        kind::TOOK_OVER => Message::TookOver,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let hello = Hello {
            identity: 7,
            parent: 8,
            listeners: vec!["127.0.0.1:3000".into(), "/run/a.sock".into()],
            control: Some("/a/tmp/paceline.sock".into()),
            control_folder: true,
            secret: [u64::MAX, 1],
            disk: None,
            cluster: Some("shop 57-9f3c".into()),
            up: vec!["shop".into()],
            codes: Codes::from([("shop".into(), Some("5e".into())), ("blog".into(), None)]),
        };
        let file = std::fs::File::open("/dev/null").unwrap();
        send_hello(&ours, &hello, &[file.as_fd(), ours.as_fd()]).unwrap();
        let (heard, fds) = receive_hello(&theirs).unwrap();
        assert_eq!((heard, fds.len()), (hello, 2));
        drop(fds);
        let before = br#"{"listeners":[],"control":false,"pidfile":null,"disk":false,"cache":true,"cookies":true}"#;
        let old = decoded(kind::READY, before.to_vec());
        assert_eq!(
            old,
            Some(Message::Ready(Takeover { cache: true, ..Takeover::default() })),
            "an older program wants names of cookies, too"
        );
        let taken = Takeover { listeners: vec![true, false], pidfile: Some("/p".into()), ..Takeover::default() };
        for message in [
            Message::Ready(taken),
            Message::Failed("no\nway".into()),
            Message::Record(Key(u128::MAX - 1), vec![1; 100_000]),
            Message::Purge(Purge::Url("http://a/".into()), How::Expire),
            Message::Purge(Purge::All, How::Drop),
            Message::Commit,
            Message::TookOver,
        ] {
            std::thread::scope(|scope| {
                scope.spawn(|| send(&ours, &message).unwrap());
                assert_eq!(receive(&theirs).unwrap().unwrap(), message);
            });
        }
        drop(ours);
        assert_eq!(receive(&theirs).unwrap(), None);
    }

    #[test]
    fn what_speaks_otherwise_is_refused() {
        for said in
            [&b"\x09\0\0\0\0"[..], b"\x01\x02\0\0\0{}", b"\x02\xff\xff\xff\xff", b"\x06\0", b"GET / HTTP/1.1\r\n"]
        {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            ours.write_all(said).unwrap();
            drop(ours);
            assert!(receive(&theirs).is_err(), "{said:?}");
        }
    }
}
