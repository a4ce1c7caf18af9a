//! What is done with shared pages at the server, each in one step. The keys of a page are one slot's. Times are the
//! server's, in microseconds. They never wait.

use std::sync::LazyLock;

use redis::Script;

/// A permission that stands for "each front by itself".
pub(super) const ALONE: &str = "!";

pub(super) struct Scripts {
    pub look: Script,
    pub write: Script,
    pub release: Script,
    pub renew: Script,
}

pub(super) static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| Scripts {
    // KEYS: page, permission. ARGV: who asks, for how many ms the permission is given, how a page that is of no use begins,
    // what stands for "each by itself".
    look: Script::new(
        r"
        local time = redis.call('TIME')
        local now = time[1] * 1000000 + time[2]
        local page = redis.call('GET', KEYS[1])
        if page and (ARGV[3] == '' or string.sub(page, 1, #ARGV[3]) ~= ARGV[3]) then return { 'page', now, page } end
        local holder = redis.call('GET', KEYS[2])
        if not holder or holder == ARGV[1] then
          redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
          return { 'lead', now, '' }
        end
        return { holder == ARGV[4] and 'alone' or 'wait', now, '' }
        ",
    ),
    // KEYS: permission, page, what leads to it. ARGV: who writes, when the page expires, the page, what leads to it.
    // A page begins with a word and the time of its permission: 20 bytes. What leads to several pages lives as long as they.
    write: Script::new(
        r"
        local holder = redis.call('GET', KEYS[1])
        if holder and holder ~= ARGV[1] then return 0 end
        if holder then redis.call('DEL', KEYS[1]) end
        local old, new = redis.call('GETRANGE', KEYS[2], 0, 19), string.sub(ARGV[3], 1, 20)
        if #old == 20 and string.sub(old, 1, 4) == string.sub(new, 1, 4) and old > new then return 0 end
        redis.call('SET', KEYS[2], ARGV[3], 'PXAT', ARGV[2])
        if KEYS[3] then
          local time = redis.call('TIME')
          local left = redis.call('PTTL', KEYS[3])
          if left > ARGV[2] - time[1] * 1000 - math.floor(time[2] / 1000) then
            redis.call('SET', KEYS[3], ARGV[4], 'KEEPTTL')
          else
            redis.call('SET', KEYS[3], ARGV[4], 'PXAT', ARGV[2])
          end
        end
        return 1
        ",
    ),
    // KEYS: permission, page. ARGV: who has it, for how many ms each front is by itself, what stands for that, whether the
    // page is outdated.
    release: Script::new(
        r"
        if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
        if ARGV[2] == '0' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2]) end
        if ARGV[4] == '1' then redis.call('DEL', KEYS[2]) end
        return 1
        ",
    ),
    // KEYS: permission. ARGV: who has it, for how many ms more.
    renew: Script::new(
        r"
        if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
        return redis.call('PEXPIRE', KEYS[1], ARGV[2])
        ",
    ),
});
