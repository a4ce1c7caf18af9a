//! The connection to Valkey or Redis (6.2 or newer), and what is asked there: each step is one command or one script, so
//! it is done completely or not at all. A connection that breaks is made again at the next step. It never shows an
//! address with its password, and keeps nothing of what it reads.

use std::{sync::LazyLock, time::Duration};

use ::cluster::{Entry, Member, Millis, Order, Position, Sighting};
use parking_lot::Mutex;
use redis::{aio::MultiplexedConnection, streams::StreamReadReply, FromRedisValue, Script, ScriptInvocation};

use super::{primary::Primary, Settings};

pub use super::primary::without_details;

/// Time for an answer.
pub const ANSWER_TIME: Duration = Duration::from_secs(1);
/// How long a look at the journal waits for an entry.
pub const WAITING_TIME: Duration = Duration::from_secs(1);
/// Entries that the journal keeps, roughly. A front that has missed more drops everything.
const JOURNAL: usize = 10_000;
/// Entries that are read at once.
const READ: usize = 256;
/// Milliseconds for which a member that fell silent is still shown.
const REMEMBERED: u64 = 600_000;

/// Valkey, as one cluster of fronts uses it.
pub struct Link {
    primary: Result<Primary, String>,
    /// Hosts and ports, or the path of the socket.
    place: String,
    /// They have one slot of a Valkey Cluster.
    prefix: String,
    connection: Mutex<Option<MultiplexedConnection>>,
}

impl Link {
    /// Does not connect. It reads files, so no event loop calls it.
    pub fn open(settings: &Settings) -> Link {
        Link {
            primary: Primary::open(settings),
            place: settings.url.place(),
            prefix: format!("{{paceline:{}}}:", settings.name),
            connection: Mutex::default(),
        }
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

    /// Says that the member is there, for so long. Where the journal ends.
    pub async fn beat(&self, member: &Member, ttl: Millis) -> Result<Position, String> {
        let mut script = SCRIPTS.beat.prepare_invoke();
        script.key(self.key("members")).key(self.key("end"));
        script.arg(&member.id).arg(member.to_json()).arg(ttl);
        let (number, mark): (u64, String) = self.run(&script).await?;
        Ok(Position { number, mark })
    }

    /// Writes orders into the journal. The number of the last.
    pub async fn publish(&self, from: &str, orders: &[Order]) -> Result<u64, String> {
        let mut script = SCRIPTS.publish.prepare_invoke();
        script.key(self.key("journal")).key(self.key("end"));
        script.arg(from).arg(JOURNAL);
        for order in orders {
            script.arg(mark()).arg(order.to_json());
        }
        self.run(&script).await
    }

    /// All members, those that fell silent lately included.
    pub async fn members(&self) -> Result<Vec<Sighting>, String> {
        let mut script = SCRIPTS.members.prepare_invoke();
        script.key(self.key("members")).arg(REMEMBERED);
        let found: Vec<(String, i64, u64)> = self.run(&script).await?;
        let seen = |(member, left, silent): (String, i64, u64)| {
            Some(Sighting { member: Member::from_json(&member)?, left: u64::try_from(left).unwrap_or(0), silent })
        };
        Ok(found.into_iter().filter_map(seen).collect())
    }

    /// A connection that may wait for entries.
    pub async fn reader(&self) -> Result<MultiplexedConnection, String> {
        self.connect(WAITING_TIME + ANSWER_TIME).await
    }

    /// The entries after `number`; none: none came.
    pub async fn read(&self, reader: &mut MultiplexedConnection, number: u64) -> Result<Vec<Entry>, String> {
        let mut command = redis::cmd("XREAD");
        command.arg("COUNT").arg(READ).arg("BLOCK").arg(WAITING_TIME.as_millis() as u64);
        command.arg("STREAMS").arg(self.key("journal")).arg(format!("{number}-{}", u64::MAX));
        let found: Option<StreamReadReply> =
            command.query_async(reader).await.map_err(|error| without_details(&error))?;
        let entry = |found: redis::streams::StreamId| {
            let text = |key: &str| found.get::<String>(key).unwrap_or_default();
            // One that can't be read has no mark that the next could follow, so it purges everything.
            let number = found.id.split('-').next().and_then(|number| number.parse().ok()).unwrap_or(0);
            Entry {
                at: Position { number, mark: text("mark") },
                previous: text("previous"),
                from: text("from"),
                order: Order::from_json(&text("order")),
            }
        };
        Ok(found.into_iter().flat_map(|found| found.keys).flat_map(|key| key.ids).map(entry).collect())
    }

    /// Runs a script. Each may run twice: if the connection was lost, nobody knows whether it has.
    async fn run<T: FromRedisValue>(&self, script: &ScriptInvocation<'_>) -> Result<T, String> {
        let known = self.connection.lock().clone();
        let mut connection = match known {
            Some(connection) => connection,
            None => {
                let connection = self.connect(ANSWER_TIME).await?;
                *self.connection.lock() = Some(connection.clone());
                connection
            }
        };
        script.invoke_async(&mut connection).await.map_err(|error| {
            // Of one that is slow nobody knows whether it comes back, and one that refuses to write is no primary any more.
            *self.connection.lock() = None;
            without_details(&error)
        })
    }

    /// A connection of its own.
    pub async fn connect(&self, answer_time: Duration) -> Result<MultiplexedConnection, String> {
        let primary = self.primary.as_ref().map_err(String::clone)?;
        primary.connect(&self.key("end"), answer_time).await
    }
}

/// A new mark.
fn mark() -> String {
    let mut mark = uuid::Uuid::new_v4().simple().to_string();
    mark.truncate(16);
    mark
}

struct Scripts {
    beat: Script,
    publish: Script,
    members: Script,
}

static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| Scripts {
    // KEYS: the members, the end. ARGV: its id, what it says, for how long. No key expires: one that does may be evicted
    // before its time, and purges would not wait for the member.
    beat: Script::new(
        r"
        local time = redis.call('TIME')
        local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
        redis.call('HSET', KEYS[1], ARGV[1], now .. ' ' .. ARGV[3] .. ' ' .. ARGV[2])
        return { redis.call('HGET', KEYS[2], 'number') or '0', redis.call('HGET', KEYS[2], 'mark') or '' }
        ",
    ),
    // KEYS: the journal, the end. ARGV: who writes, how many entries stay, mark and order of each entry.
    publish: Script::new(
        r"
        local number
        for at = 3, #ARGV, 2 do
          local previous = redis.call('HGET', KEYS[2], 'mark') or ''
          number = redis.call('HINCRBY', KEYS[2], 'number', 1)
          redis.call('HSET', KEYS[2], 'mark', ARGV[at])
          if number == 1 then redis.call('DEL', KEYS[1]) end
          redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], string.format('%d-0', number),
            'previous', previous, 'mark', ARGV[at], 'from', ARGV[1], 'order', ARGV[at + 1])
        end
        return number
        ",
    ),
    // KEYS: the members. ARGV: for how long the silent stay. A millisecond more for the two that were cut off.
    members: Script::new(
        r"
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        local found = redis.call('HGETALL', KEYS[1])
        local members = {}
        for at = 1, #found, 2 do
          local seen, lasts, said = string.match(found[at + 1], '^(%d+) (%d+) (.*)$')
          local silent = seen and math.max(0, now - tonumber(seen)) or now
          local left = seen and math.max(0, tonumber(seen) + tonumber(lasts) + 1 - now) or 0
          if left == 0 and silent > tonumber(ARGV[1]) then
            redis.call('HDEL', KEYS[1], found[at])
          else
            members[#members + 1] = { said or '', left, silent }
          end
        end
        return members
        ",
    ),
});
