//! What is done with shared pages at the server, each in one step. The keys of a page are one slot's. Times are the
//! server's, in microseconds. They never wait.

use std::sync::LazyLock;

use redis::Script;

use crate::cluster::scripts::repairing;

/// A permission that stands for "each front by itself".
pub(super) const ALONE: &str = "!";

pub(super) struct Scripts {
    pub look: Script,
    pub write: Script,
    pub release: Script,
    pub renew: Script,
    pub secret: Script,
}

pub(super) static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| Scripts {
    // KEYS: page, permission. ARGV: the request's token, for how many ms the permission is given, what stands for "each by itself", and of
    // pages that are of no use more than how many bytes they have, or how one begins. An empty page is none.
    look: repairing(
        r"
        local time = redis.call('TIME')
        local now = time[1] * 1000000 + time[2]
        local length = sure('STRLEN', KEYS[1])
        if length > 0 and length <= tonumber(ARGV[4]) and redis.call('GETRANGE', KEYS[1], 0, 35) ~= ARGV[5] then
          return { 'page', now, redis.call('GET', KEYS[1]) }
        end
        local holder = sure('GET', KEYS[2])
        if not holder or holder == ARGV[1] then
          redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
          return { 'lead', now, '' }
        end
        return { holder == ARGV[3] and 'alone' or 'wait', now, '' }
        ",
    ),
    // KEYS: permission, page, what leads to it. ARGV: who writes, when the page expires, the page, what leads to it.
    // A page begins with a word and the time of its permission, in hexadecimal digits: 20 bytes. Who comes 10 s after that
    // without the permission is too late. What leads to several pages lives as long as they; of two the later stays, and no page
    // is written that it does not lead to. From byte 62 and a mark on they are alike if they lead to the same.
    write: repairing(
        r"
        local holder = sure('GET', KEYS[1])
        if holder and holder ~= ARGV[1] then return 0 end
        if holder then redis.call('DEL', KEYS[1]) end
        local time = redis.call('TIME')
        local now = time[1] * 1000000 + time[2]
        if not holder and now - tonumber(string.sub(ARGV[3], 5, 20), 16) > 10000000 then return 0 end
        local function is_later(key, value)
          local old, new = sure('GETRANGE', key, 0, 19), string.sub(value, 1, 20)
          return #old == 20 and string.sub(old, 1, 4) == string.sub(new, 1, 4) and old > new
        end
        local function leads_to(value) return #value > 61 and string.sub(value, 62 + string.byte(value, 61)) end
        if is_later(KEYS[2], ARGV[3]) then return 0 end
        local keeps = KEYS[3] and is_later(KEYS[3], ARGV[4])
        if keeps and leads_to(redis.call('GETRANGE', KEYS[3], 0, #ARGV[4] + 64)) ~= leads_to(ARGV[4]) then return 0 end
        redis.call('SET', KEYS[2], ARGV[3], 'PXAT', ARGV[2])
        if KEYS[3] then
          local lives_longer = redis.call('PTTL', KEYS[3]) > ARGV[2] - math.floor(now / 1000)
          if not keeps then
            if lives_longer then
              redis.call('SET', KEYS[3], ARGV[4], 'KEEPTTL')
            else
              redis.call('SET', KEYS[3], ARGV[4], 'PXAT', ARGV[2])
            end
          elseif not lives_longer then
            redis.call('PEXPIREAT', KEYS[3], ARGV[2])
          end
        end
        return 1
        ",
    ),
    // KEYS: permission, page. ARGV: who has it, for how many ms each front is by itself, what stands for that, whether the
    // page is outdated.
    release: repairing(
        r"
        if sure('GET', KEYS[1]) ~= ARGV[1] then return 0 end
        if ARGV[2] == '0' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2]) end
        if ARGV[4] == '1' then redis.call('DEL', KEYS[2]) end
        return 1
        ",
    ),
    // KEYS: permission. ARGV: who has it, for how many ms more.
    renew: repairing(
        r"
        if sure('GET', KEYS[1]) ~= ARGV[1] then return 0 end
        return redis.call('PEXPIRE', KEYS[1], ARGV[2])
        ",
    ),
    // KEYS: the secret of the keys. ARGV: a new one, that is taken if there is none, or nothing that a front has written.
    secret: repairing(
        r"
        local kept = sure('GETRANGE', KEYS[1], 0, 32)
        if #kept == 32 and not string.match(kept, '%X') then return kept end
        redis.call('SET', KEYS[1], ARGV[1])
        return ARGV[1]
        ",
    ),
});
