# frozen_string_literal: true

require_relative "store"

module Paceline
  module Session
    # What a session store of Rack (Rack::Session::Abstract::PersistedSecure) or Rails (ActionDispatch::Session::AbstractSecureStore) has to do,
    # by a Store. What a request has seen is kept in its environment, since what it changed is told by that. An id is found, or made here: never taken
    # from a client.
    module Persistence
      # What one request has seen: Records by public id; what is renewed, by the new id. `known`: whether the session that it has now is one that is kept.
      # `committing`: whether the app is done with it.
      Seen = Struct.new(:records, :renewed, :known, :committing)
      private_constant :Seen

      def initialize(app, options = {})
        unless options[:store]
          raise ArgumentError, "store: must be the path of a file, like \"storage/sessions.paceline\", or the URL of a Redis (redis://…)"
        end
        @sessions = Store.new(**options.slice(*Store::OPTIONS))
        super(app, options.reject { |name, _| Store::OPTIONS.include?(name) })
        @seen = "paceline.session.#{@key}"
      end

      def find_session(req, sid)
        seen = seen(req)
        if sid && (record = @sessions.find(sid.public_id.to_s))
          seen.known = true
          seen.records[sid.public_id] = record
          [sid, @sessions.values(record)]
        else
          [begin_session(seen), {}]
        end
      end

      # Returns false if the session was destroyed meanwhile.
      def write_session(req, sid, session, options)
        seen = seen(req)
        id = sid.public_id
        expire_after = options[:expire_after] || options[:max_age]
        if (record, taken = seen.renewed.delete(id))
          kept = @sessions.renew(id, record, taken, session, expire_after: expire_after)
        else
          record = seen.records[id] || @sessions.find(id) or return false
          return @sessions.update(id, record, session, expire_after: expire_after) && sid if record.kept?

          kept = @sessions.create(id, session, expire_after: expire_after)
        end
        kept && (seen.records[id] = kept) && sid
      end

      # Returns the id of the session that takes its place, unless it is dropped.
      def delete_session(req, sid, options)
        seen = seen(req)
        taken = @sessions.take(sid.public_id)
        record = seen.records.delete(sid.public_id)
        renewing = seen.committing && options[:renew]
        seen.known = false unless renewing
        return if options[:drop]

        fresh = begin_session(seen)
        seen.renewed[fresh.public_id] = [record || taken || Record.none, taken] if renewing
        fresh
      end

      def commit_session(req, res)
        seen(req).committing = true
        session = req.get_header(Rack::RACK_SESSION)
        # What is to be renewed is loaded while it is there.
        session.empty? if session.options[:renew] && !session.options[:drop]
        super
      end

      private

      # A session that nobody has put anything into is none: it gets no record and no cookie.
      def commit_session?(req, session, options)
        super && (!session.empty? || seen(req).known)
      end

      def begin_session(seen)
        sid = generate_sid
        seen.records[sid.public_id] = Record.none
        sid
      end

      def seen(req)
        return Seen.new({}, {}) unless req.respond_to?(:get_header)

        req.get_header(@seen) || req.set_header(@seen, Seen.new({}, {}))
      end
    end
  end
end
