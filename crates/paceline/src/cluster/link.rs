//! The connection to Valkey or Redis (6.2 or newer), and what is asked there: each step is one command or one script, so
//! it is done completely or not at all. A connection that breaks is made again at the next step. It never shows an
//! address with its password, and keeps nothing of what it reads.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use ::cluster::{ClosedSites, Entry, Member, Millis, Order, Position, RestartOrder, Sighting};
use parking_lot::Mutex;
use redis::{aio::MultiplexedConnection, streams::StreamReadReply, FromRedisValue, ScriptInvocation};

use super::{
    error::LinkError,
    primary::{Primary, Terms},
    scripts::SCRIPTS,
    Settings,
};

/// Time for an answer.
pub const ANSWER_TIME: Duration = Duration::from_secs(1);
/// How long a look at the journal waits for an entry.
pub const WAITING_TIME: Duration = Duration::from_secs(1);
/// Entries that the journal keeps, roughly. A front that has missed more drops everything.
const JOURNAL: usize = 10_000;
/// Entries that are read at once, and bytes of them. Where they are longer, a script cuts what no front has written.
const READ: usize = 256;
const READ_BYTES: u64 = 4 << 20;
/// Bytes of an entry that a front writes, and of all that come cut at once, roughly.
const LONGEST_ORDER: usize = 256 << 10;
const CUT_BYTES: usize = 1 << 20;
/// Time for that: the server has to go through what is cut.
const CUT_TIME: Duration = Duration::from_secs(10);
/// Milliseconds for which a member that fell silent is still shown.
const REMEMBERED: u64 = 600_000;
/// Milliseconds for which a member may say that it is there: `partition_ttl` at most.
const LONGEST_STAY: u64 = 3_600_000;
/// Members, and bytes of what they say. Other programs may write there, too.
const MEMBERS: usize = 1000;
const MEMBER_BYTES: usize = 8 << 20;

/// Valkey, as one cluster of fronts uses it.
pub struct Link {
    primary: Result<Primary, LinkError>,
    /// Hosts and ports, or the path of the socket.
    place: String,
    /// They have one slot of a Valkey Cluster.
    prefix: String,
    /// The last, unless it has failed.
    connection: Mutex<Option<NumberedConnection>>,
    /// How many were made. Behind each there may be another run of the server, with another journal.
    connections: AtomicU64,
    /// The one by which the end of the journal was asked for last, and when that was done by it for the first time.
    asked: Mutex<(u64, Millis)>,
}

/// A connection that may wait for entries.
pub struct Reader {
    connection: MultiplexedConnection,
    terms: Terms,
}

/// What a member hears when it says that it is there.
pub struct BeatAnswer {
    /// Where the journal ends.
    pub end: Position,
    /// Since when this connection is asked.
    pub since: Millis,
    /// What the member has said of itself: that it has applied all up to here.
    pub applied: u64,
    /// The version of what is closed on all fronts; empty: nobody has closed anything yet.
    pub closed: String,
    /// That, as JSON, if the member knows another version.
    pub closed_sites: String,
    /// What it is told to restart, as JSON, and for how long that holds. Empty: nothing.
    pub order: String,
    pub order_left: Millis,
}

/// A connection, and which of this front's it is.
#[derive(Clone)]
struct NumberedConnection {
    number: u64,
    connection: MultiplexedConnection,
}

impl Link {
    /// Does not connect. It reads files, so no event loop calls it.
    pub fn open(settings: &Settings) -> Link {
        Link {
            primary: Primary::open(settings),
            place: settings.url.place(),
            prefix: format!("{{paceline:{}}}:", settings.name),
            connection: Mutex::default(),
            connections: AtomicU64::new(0),
            asked: Mutex::default(),
        }
    }

    /// How many connections were made, the first one included.
    pub fn connections(&self) -> u64 {
        self.connections.load(Relaxed)
    }

    /// Since when the connection of now is asked where the journal ends. None: it was not yet, or there is none.
    pub fn asked_since(&self) -> Option<Millis> {
        let (number, since) = *self.asked.lock();
        self.connection.lock().as_ref().is_some_and(|known| known.number == number).then_some(since)
    }

    /// A key that is this cluster's.
    pub fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    pub fn place(&self) -> &str {
        &self.place
    }

    /// Where the primary was found last. None: there is only one place where it can be, or it was not found yet.
    pub fn primary(&self) -> Option<String> {
        self.primary.as_ref().ok()?.found()
    }

    /// Says that a member is there, for so long. `asked`: now. `member`: what it says of itself, by the time since which this
    /// connection is asked: what it has read before was perhaps another journal. `closed`: the version of what is closed on all
    /// fronts that it knows.
    pub async fn beat(
        &self,
        asked: Millis,
        member: impl FnOnce(Millis) -> Member,
        ttl: Millis,
        closed: &str,
    ) -> Result<BeatAnswer, LinkError> {
        let connection = self.connected().await?;
        let since = self.asked_by(connection.number, asked);
        let member = member(since);
        let mut script = SCRIPTS.beat.prepare_invoke();
        script.key(self.key("members")).key(self.key("end")).key(self.key("closed")).key(self.key("restart"));
        script.arg(&member.id).arg(member.to_json()).arg(ttl).arg(closed);
        let answer: (u64, String, String, String, String, Millis) = self.run_by(connection, &script).await?;
        let (number, mark, closed, closed_sites, order, order_left) = answer;
        let end = Position { number, mark };
        Ok(BeatAnswer { end, since, applied: member.applied, closed, closed_sites, order, order_left })
    }

    /// Since when a connection is asked, now included.
    fn asked_by(&self, number: u64, now: Millis) -> Millis {
        let mut asked = self.asked.lock();
        if asked.0 != number {
            *asked = (number, now);
        }
        asked.1
    }

    /// What is closed on all fronts, as JSON, and its version.
    pub async fn closed(&self) -> Result<(String, String), LinkError> {
        let mut script = SCRIPTS.closed.prepare_invoke();
        script.key(self.key("closed"));
        self.run(&script).await
    }

    /// Changes what is closed on all fronts. False: it is not of the version `from` any more.
    pub async fn close(&self, from: &str, to: &str, sites: &ClosedSites) -> Result<bool, LinkError> {
        let mut script = SCRIPTS.close.prepare_invoke();
        script.key(self.key("closed")).arg(from).arg(to).arg(sites.to_json());
        self.run(&script).await
    }

    /// Takes the lease of a restart of all fronts, for so long. Who has it, if somebody does.
    pub async fn take_restart(&self, token: &str, owner: &str, time: Millis) -> Result<Option<String>, LinkError> {
        let mut script = SCRIPTS.take_restart.prepare_invoke();
        script.key(self.key("restart")).arg(token).arg(time).arg(owner);
        let (is_taken, owner): (bool, String) = self.run(&script).await?;
        Ok((!is_taken).then_some(owner))
    }

    /// Keeps the lease, with an order for one member or with the one that there is. False: somebody else has it.
    pub async fn keep_restart(
        &self,
        token: &str,
        time: Millis,
        order: Option<(&str, &RestartOrder)>,
    ) -> Result<bool, LinkError> {
        let mut script = SCRIPTS.keep_restart.prepare_invoke();
        script.key(self.key("restart")).arg(token).arg(time);
        if let Some((member, order)) = order {
            script.arg(member).arg(order.to_json());
        }
        self.run(&script).await
    }

    /// Gives the lease back. An order that its member has not heard is not given any more.
    pub async fn end_restart(&self, token: &str) -> Result<(), LinkError> {
        let mut script = SCRIPTS.end_restart.prepare_invoke();
        script.key(self.key("restart")).arg(token);
        self.run(&script).await
    }

    /// Writes orders into the journal. The last one's place there.
    pub async fn publish(&self, from: &str, orders: &[Order]) -> Result<Position, LinkError> {
        let mut script = SCRIPTS.publish.prepare_invoke();
        script.key(self.key("journal")).key(self.key("end"));
        script.arg(from).arg(JOURNAL);
        let mut last = String::new();
        for order in orders {
            last = mark();
            script.arg(&last).arg(order.to_json());
        }
        Ok(Position { number: self.run(&script).await?, mark: last })
    }

    /// All members, those that fell silent lately included.
    pub async fn members(&self) -> Result<Vec<Sighting>, LinkError> {
        let mut script = SCRIPTS.members.prepare_invoke();
        script.key(self.key("members")).arg(REMEMBERED).arg(LONGEST_STAY).arg(MEMBERS).arg(MEMBER_BYTES);
        let found: Option<Vec<(String, i64, u64)>> = self.run(&script).await?;
        let found = found.ok_or(LinkError::TooManyMembers)?;
        let seen = |(member, left, silent): (String, i64, u64)| {
            Some(Sighting { member: Member::from_json(&member)?, left: u64::try_from(left).unwrap_or(0), silent })
        };
        Ok(found.into_iter().filter_map(seen).collect())
    }

    /// A connection that may wait for entries.
    pub async fn reader(&self) -> Result<Reader, LinkError> {
        let terms = Terms { most: READ_BYTES, ..Terms::new(WAITING_TIME + ANSWER_TIME) };
        Ok(Reader { connection: self.connect_on(&terms).await?, terms })
    }

    /// The entries after `number`; none: none came.
    pub async fn read(&self, reader: &mut Reader, number: u64) -> Result<Vec<Entry>, LinkError> {
        let mut command = redis::cmd("XREAD");
        command.arg("COUNT").arg(READ).arg("BLOCK").arg(WAITING_TIME.as_millis() as u64);
        command.arg("STREAMS").arg(self.key("journal")).arg(format!("{number}-{}", u64::MAX));
        let found: Option<StreamReadReply> = match command.query_async(&mut reader.connection).await {
            Ok(found) => found,
            Err(_) if reader.terms.exceeded.load(Relaxed) => {
                let cut = self.read_cut(number).await?;
                *reader = self.reader().await?;
                return Ok(cut);
            }
            Err(error) => return Err(error.into()),
        };
        let entry = |found: redis::streams::StreamId| {
            let text = |key: &str| found.get::<String>(key).unwrap_or_default();
            entry_of(&found.id, [text("mark"), text("previous"), text("from"), text("order")])
        };
        Ok(found.into_iter().flat_map(|found| found.keys).flat_map(|key| key.ids).map(entry).collect())
    }

    /// Reads entries without what is longer than fronts write.
    async fn read_cut(&self, number: u64) -> Result<Vec<Entry>, LinkError> {
        let mut script = SCRIPTS.read.prepare_invoke();
        script.key(self.key("journal")).arg(format!("({number}-{}", u64::MAX));
        script.arg(READ).arg(LONGEST_ORDER).arg(CUT_BYTES);
        let mut connection = self.connect(CUT_TIME).await?;
        let found: Vec<(String, Vec<Vec<u8>>)> = script.invoke_async(&mut connection).await?;
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap_or_default();
        let entry = |(id, said): (String, Vec<Vec<u8>>)| {
            let said: [Vec<u8>; 4] = said.try_into().unwrap_or_default();
            entry_of(&id, said.map(text))
        };
        Ok(found.into_iter().map(entry).collect())
    }

    /// Runs a script. Each may run twice: if the connection was lost, nobody knows whether it has.
    async fn run<T: FromRedisValue>(&self, script: &ScriptInvocation<'_>) -> Result<T, LinkError> {
        let connection = self.connected().await?;
        self.run_by(connection, script).await
    }

    async fn run_by<T: FromRedisValue>(
        &self,
        connection: NumberedConnection,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, LinkError> {
        let NumberedConnection { number, mut connection } = connection;
        script.invoke_async(&mut connection).await.map_err(|error| {
            // Of one that is slow nobody knows whether it comes back, and one that refuses to write is no primary any more.
            let mut known = self.connection.lock();
            if known.as_ref().is_some_and(|known| known.number == number) {
                *known = None;
            }
            LinkError::from(error)
        })
    }

    /// The connection and its number; a new one if the last is broken.
    async fn connected(&self) -> Result<NumberedConnection, LinkError> {
        let known = self.connection.lock().clone();
        if let Some(known) = known {
            return Ok(known);
        }
        let connection = self.connect(ANSWER_TIME).await?;
        let mut known = self.connection.lock();
        let number = self.connections.fetch_add(1, Relaxed) + 1;
        let numbered = NumberedConnection { number, connection };
        *known = Some(numbered.clone());
        Ok(numbered)
    }

    /// A connection of its own.
    pub async fn connect(&self, answer_time: Duration) -> Result<MultiplexedConnection, LinkError> {
        self.connect_on(&Terms::new(answer_time)).await
    }

    async fn connect_on(&self, terms: &Terms) -> Result<MultiplexedConnection, LinkError> {
        let primary = self.primary.as_ref().map_err(LinkError::clone)?;
        primary.connect(&self.key("end"), terms).await
    }
}

/// One that can't be read has no mark that the next could follow, so it purges everything.
fn entry_of(id: &str, [mark, previous, from, order]: [String; 4]) -> Entry {
    let number = id.split('-').next().and_then(|number| number.parse().ok()).unwrap_or(0);
    Entry { at: Position { number, mark }, previous, from, order: Order::from_json(&order) }
}

/// A new mark.
pub fn mark() -> String {
    let mut mark = uuid::Uuid::new_v4().simple().to_string();
    mark.truncate(16);
    mark
}
