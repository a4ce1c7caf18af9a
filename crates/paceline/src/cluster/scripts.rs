//! What is done at Valkey or Redis in one step each, in Lua: the members, the journal, what is closed on all fronts, and the
//! lease of a restart of all of them. No key expires: one that does may be evicted before its time. They read no clock but
//! Valkey's own.

use std::sync::LazyLock;

use redis::Script;

pub struct Scripts {
    pub beat: Script,
    pub publish: Script,
    pub members: Script,
    pub closed: Script,
    pub close: Script,
    pub take_restart: Script,
    pub keep_restart: Script,
    pub end_restart: Script,
}

pub static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| Scripts {
    // KEYS: the members, the end, what is closed, the restart. ARGV: its id, what it says, for how long, the version of what
    // is closed that it knows. Without a key that expires purges wait for each member that is there.
    beat: Script::new(
        r"
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', now) .. ' ' .. ARGV[3] .. ' ' .. ARGV[2])
        local closed = redis.call('HMGET', KEYS[3], 'version', 'sites')
        local version, sites = closed[1] or '', ''
        if version ~= ARGV[4] then sites = closed[2] or '' end
        local restart = redis.call('HMGET', KEYS[4], 'to', 'until', 'order')
        local order, left = '', 0
        if restart[1] == ARGV[1] and tonumber(restart[2] or '0') > now then
          order, left = restart[3] or '', tonumber(restart[2]) - now
        end
        return {
          redis.call('HGET', KEYS[2], 'number') or '0', redis.call('HGET', KEYS[2], 'mark') or '', version, sites, order, left
        }
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
    // KEYS: what is closed.
    closed: Script::new(
        r"
        local closed = redis.call('HMGET', KEYS[1], 'version', 'sites')
        return { closed[1] or '', closed[2] or '' }
        ",
    ),
    // KEYS: what is closed. ARGV: the version that is changed, the next one, what is closed then.
    close: Script::new(
        r"
        if (redis.call('HGET', KEYS[1], 'version') or '') ~= ARGV[1] then return 0 end
        redis.call('HSET', KEYS[1], 'version', ARGV[2], 'sites', ARGV[3])
        return 1
        ",
    ),
    // KEYS: the restart. ARGV: the token, for how long, who wants it.
    take_restart: Script::new(
        r"
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        local known = redis.call('HMGET', KEYS[1], 'token', 'until', 'owner')
        if known[1] ~= ARGV[1] and tonumber(known[2] or '0') > now then return { 0, known[3] or '' } end
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
