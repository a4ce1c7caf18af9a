# frozen_string_literal: true

require_relative "library"

# Redis and Valkey by the gems redis, redis-client and hiredis: what only reads is sent. Anything else is a write: it is noted, and refused as a server
# refuses it that has no permission for it. The list is of what Redis itself says that it reads; of modules' commands and scripts nobody can tell.
# Rails.cache and sessions write before this, into the shadow's memory (caches.rb, sessions.rb).
module Paceline
  module Server
    module Shadow
      class Guards
        module Redis
          # Commands, by what they are about; last those of connections, transactions and subscriptions.
          READING = %w[
            BITCOUNT BITFIELD_RO BITPOS GET GETBIT GETRANGE LCS MGET STRLEN SUBSTR
            DBSIZE DUMP EXISTS EXPIRETIME KEYS PEXPIRETIME PTTL RANDOMKEY SCAN SORT_RO TOUCH TTL TYPE
            HEXISTS HEXPIRETIME HGET HGETALL HKEYS HLEN HMGET HPEXPIRETIME HPTTL HRANDFIELD HSCAN HSTRLEN HTTL HVALS
            LINDEX LLEN LPOS LRANGE
            SCARD SDIFF SINTER SINTERCARD SISMEMBER SMEMBERS SMISMEMBER SRANDMEMBER SSCAN SUNION
            ZCARD ZCOUNT ZDIFF ZINTER ZINTERCARD ZLEXCOUNT ZMSCORE ZRANDMEMBER ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZRANK ZREVRANGE ZREVRANGEBYLEX
            ZREVRANGEBYSCORE ZREVRANK ZSCAN ZSCORE ZUNION
            XLEN XPENDING XRANGE XREAD XREVRANGE
            GEODIST GEOHASH GEOPOS GEORADIUS_RO GEORADIUSBYMEMBER_RO GEOSEARCH PFCOUNT
            EVAL_RO EVALSHA_RO FCALL_RO
            COMMAND ECHO INFO LASTSAVE LOLWUT PING ROLE TIME
            ASKING AUTH HELLO QUIT READONLY READWRITE RESET SELECT
            DISCARD EXEC MULTI UNWATCH WATCH
            PSUBSCRIBE PUNSUBSCRIBE SSUBSCRIBE SUBSCRIBE SUNSUBSCRIBE UNSUBSCRIBE
          ].freeze
          # Of these commands the second word says what is done.
          READING_PARTS = {
            "ACL" => %w[WHOAMI], "CLIENT" => %w[CACHING GETNAME ID INFO LIST NO-EVICT NO-TOUCH SETINFO SETNAME TRACKING TRACKINGINFO],
            "CLUSTER" => %w[COUNTKEYSINSLOT GETKEYSINSLOT INFO KEYSLOT MYID NODES REPLICAS SHARDS SLAVES SLOTS], "CONFIG" => %w[GET], "FUNCTION" => %w[DUMP LIST STATS],
            "MEMORY" => %w[STATS USAGE], "OBJECT" => %w[ENCODING FREQ IDLETIME REFCOUNT], "PUBSUB" => %w[CHANNELS NUMPAT NUMSUB SHARDCHANNELS SHARDNUMSUB],
            "SCRIPT" => %w[EXISTS], "SENTINEL" => %w[GET-MASTER-ADDR-BY-NAME GET-PRIMARY-ADDR-BY-NAME MASTER MASTERS REPLICAS SENTINELS SLAVES],
            "XINFO" => %w[CONSUMERS GROUPS STREAM]
          }.freeze
          ALLOWED = READING.to_h { |name| [name, nil] }.merge(READING_PARTS).freeze
          REFUSAL = "NOPERM a shadow of paceline doctor does not write"
          private_constant :ALLOWED

          # Before Redis::Client of the gem redis, until its version 4: all that is sent goes through it.
          module OfClient
            def process(commands)
              commands.each { |command| Redis.check(command) { ::Redis::CommandError } }
              super
            end

            private

            def establish_connection
              Guards.unguarded { super }
            end
          end

          # Before the connections of redis-client, which the gem redis uses from its version 5 on.
          module OfConnection
            def write(command)
              Redis.check(command) { ::RedisClient::CommandError }
              super
            end

            def write_multi(commands)
              commands.each { |command| Redis.check(command) { ::RedisClient::CommandError } }
              super
            end

            private

            def connect
              Confinement.outside { Guards.unguarded { super } }
            end
          end

          # Before Hiredis::Connection, the driver of older versions, which can also be used by itself.
          module OfHiredis
            def write(command)
              Redis.check(command) { Errno::EROFS }
              super
            end

            def connect(...)
              Confinement.outside { super }
            end
          end

          ALL = [
            Library.new("Redis::Client", OfClient, method: :process), Library.new("RedisClient::RubyConnection", OfConnection, method: :write),
            Library.new("RedisClient::HiredisConnection", OfConnection, method: :write), Library.new("Hiredis::Connection", OfHiredis, method: :write)
          ].freeze

          class << self
            # Notes a command that is no read, and raises what the block gives.
            def check(command)
              return if Guards.off? || reads?(command)

              Guards.note("store", "the Redis command #{command.first.to_s.upcase}")
              raise yield, REFUSAL
            end

            # `command`: an Array of its words.
            def reads?(command)
              name = command.first.to_s.upcase
              return false unless ALLOWED.key?(name)

              parts = ALLOWED[name]
              parts.nil? || parts.include?(command[1].to_s.upcase)
            end
          end
        end
      end
    end
  end
end
