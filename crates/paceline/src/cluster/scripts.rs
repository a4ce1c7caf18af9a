//! What is done at Valkey or Redis in one step each, in Lua: the members, the journal, what is closed on all fronts, and the
//! lease of a restart of all of them. No key expires: one that does may be evicted before its time. They read no clock but
//! Valkey's own.

use std::sync::LazyLock;

use redis::Script;

pub struct Scripts {
    pub beat: Script,
    pub publish: Script,
    pub read: Script,
    pub members: Script,
    pub closed: Script,
    pub close: Script,
    pub take_restart: Script,
    pub keep_restart: Script,
    pub end_restart: Script,
}

/// Another program may have written to our keys. What is of another kind is deleted, and the command repeated: it would be refused for
/// ever. To ask for the kind of each key before would be a fifth of a look at a page. And no longer value than we write comes to a front:
/// it is as if it were not there.
const REPAIRS: &str = r"
        local function sure(command, key, ...)
          local answer = redis.pcall(command, key, ...)
          if type(answer) ~= 'table' or not answer.err then return answer end
          if string.find(answer.err, 'WRONGTYPE', 1, true) then redis.call('DEL', key) end
          return redis.call(command, key, ...)
        end
        local function short(key, field, most)
          if sure('HSTRLEN', key, field) > most then return '' end
          return redis.call('HGET', key, field) or ''
        end
        local function number_of(key, field)
          return tonumber(string.match(short(key, field, 15), '^%d+$')) or 0
        end
        ";

/// A script that may call these functions.
pub(super) fn repairing(script: &str) -> Script {
    Script::new(&[REPAIRS, script].concat())
}

pub static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| Scripts {
    // KEYS: the members, the end, what is closed, the restart. ARGV: its id, what it says, for how long, the version of what
    // is closed that it knows. Without a key that expires purges wait for each member that is there.
    beat: repairing(
        r"
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        sure('HSET', KEYS[1], ARGV[1], string.format('%.0f', now) .. ' ' .. ARGV[3] .. ' ' .. ARGV[2])
        local version, sites = short(KEYS[3], 'version', 256), ''
        if version ~= ARGV[4] then sites = short(KEYS[3], 'sites', 1048576) end
        local order, left = '', number_of(KEYS[4], 'until') - now
        if left > 0 and short(KEYS[4], 'to', 256) == ARGV[1] then order = short(KEYS[4], 'order', 65536) end
        return { number_of(KEYS[2], 'number'), short(KEYS[2], 'mark', 256), version, sites, order, math.max(0, left) }
        ",
    ),
    // KEYS: the journal, the end. ARGV: who writes, how many entries stay, mark and order of each entry. A number that is none, or an
    // entry beyond it, was not written by a front: then the journal begins anew, and all fronts drop all pages.
    publish: repairing(
        r"
        local kind = redis.call('TYPE', KEYS[1]).ok
        if kind ~= 'none' and kind ~= 'stream' then redis.call('DEL', KEYS[1]) end
        local number = short(KEYS[2], 'number', 15)
        local about = redis.call('EXISTS', KEYS[1]) == 1 and redis.call('XINFO', 'STREAM', KEYS[1]) or {}
        local last = 0
        for at = 1, #about, 2 do
          if about[at] == 'last-generated-id' then last = tonumber(string.match(about[at + 1], '^%d+')) end
        end
        local is_number = string.match(number, '^%d+$') or redis.call('HEXISTS', KEYS[2], 'number') == 0
        if not is_number or last > (tonumber(number) or 0) then redis.call('DEL', KEYS[1], KEYS[2]) end
        for at = 3, #ARGV, 2 do
          local previous = short(KEYS[2], 'mark', 256)
          number = redis.call('HINCRBY', KEYS[2], 'number', 1)
          redis.call('HSET', KEYS[2], 'mark', ARGV[at])
          if number == 1 then redis.call('DEL', KEYS[1]) end
          redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], string.format('%d-0', number),
            'previous', previous, 'mark', ARGV[at], 'from', ARGV[1], 'order', ARGV[at + 1])
        end
        return number
        ",
    ),
    // KEYS: the journal. ARGV: after which entry, how many, bytes of a value that a front writes, bytes of all, roughly. Of an entry that
    // another program has written it tells that it is there.
    read: Script::new(
        r"
        local entries, after, left = {}, ARGV[1], tonumber(ARGV[4])
        while #entries < tonumber(ARGV[2]) and left > 0 do
          local one = redis.call('XRANGE', KEYS[1], after, '+', 'COUNT', 1)[1]
          if not one then break end
          local said = { mark = '', previous = '', from = '', order = '' }
          for at = 1, #one[2], 2 do
            local name, value = one[2][at], one[2][at + 1]
            if said[name] and #value <= tonumber(ARGV[3]) then said[name] = value end
          end
          left = left - #said.mark - #said.previous - #said.from - #said.order
          entries[#entries + 1] = { one[1], { said.mark, said.previous, said.from, said.order } }
          after = '(' .. one[1]
        end
        return entries
        ",
    ),
    // KEYS: the members. ARGV: for how long the silent stay, for how long a member may say that it is there, how many there may be, and
    // how many bytes of them. A millisecond more for the two that were cut off. What was said at a time to come, as by the clock of a
    // primary before, counts from now on: it would stay until then. Of more than there may be the most are no fronts': all are forgotten,
    // and the fronts say within a moment that they are there. Until then nobody is known.
    members: repairing(
        r"
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        local members, left_to_read = {}, tonumber(ARGV[4])
        local found = sure('HLEN', KEYS[1]) <= tonumber(ARGV[3]) and redis.call('HKEYS', KEYS[1])
        for _, member in ipairs(found or {}) do
          local value = short(KEYS[1], member, 65536)
          left_to_read = left_to_read - #value
          local seen, lasts, said = string.match(value, '^(%d+) (%d+) (.*)$')
          seen, lasts = tonumber(seen or 0), math.min(tonumber(lasts or 0), tonumber(ARGV[2]))
          if seen > now then
            seen = now
            redis.call('HSET', KEYS[1], member, string.format('%.0f %.0f ', now, lasts) .. said)
          end
          local silent, left = now - seen, said and math.max(0, seen + lasts + 1 - now) or 0
          if left == 0 and silent > tonumber(ARGV[1]) then
            redis.call('HDEL', KEYS[1], member)
          else
            members[#members + 1] = { said or '', left, silent }
          end
        end
        if not found or left_to_read < 0 then
          redis.call('DEL', KEYS[1])
          return false
        end
        return members
        ",
    ),
    // KEYS: what is closed.
    closed: repairing(
        r"
        return { short(KEYS[1], 'version', 256), short(KEYS[1], 'sites', 1048576) }
        ",
    ),
    // KEYS: what is closed. ARGV: the version that is changed, the next one, what is closed then.
    close: repairing(
        r"
        if short(KEYS[1], 'version', 256) ~= ARGV[1] then return 0 end
        redis.call('HSET', KEYS[1], 'version', ARGV[2], 'sites', ARGV[3])
        return 1
        ",
    ),
    // KEYS: the restart. ARGV: the token, for how long, who wants it. A lease that lasts longer than one of now was not written by a front.
    take_restart: repairing(
        r"
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        local left = number_of(KEYS[1], 'until') - now
        local is_held = left > 0 and left <= tonumber(ARGV[2])
        if is_held and short(KEYS[1], 'token', 256) ~= ARGV[1] then return { 0, short(KEYS[1], 'owner', 256) } end
        redis.call('HSET', KEYS[1], 'token', ARGV[1], 'until', string.format('%.0f', now + ARGV[2]), 'owner', ARGV[3],
          'to', '', 'order', '')
        return { 1, '' }
        ",
    ),
    // KEYS: the restart. ARGV: the token, for how long, and perhaps a member with its order.
    keep_restart: Script::new(
        r"
        if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        redis.call('HSET', KEYS[1], 'until', string.format('%.0f', now + ARGV[2]))
        if ARGV[3] then redis.call('HSET', KEYS[1], 'to', ARGV[3], 'order', ARGV[4]) end
        return 1
        ",
    ),
    // KEYS: the restart. ARGV: the token.
    end_restart: Script::new(
        r"
        if redis.call('HGET', KEYS[1], 'token') == ARGV[1] then
          redis.call('HSET', KEYS[1], 'until', '0', 'to', '', 'order', '')
        end
        return 0
        ",
    ),
});
