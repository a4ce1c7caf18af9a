# frozen_string_literal: true

# The writes of one connection's transaction, until it ends. They are announced just before they can be seen by others: before
# COMMIT, or before a statement outside of a transaction. It knows transactions by their SQL alone, so raw BEGIN, savepoints
# and COMMIT count as well. What a statement changes is decided by the front; here every statement that is not plainly a read
# counts as a write.
module Paceline
  module AutoCache
    class Transactions
      # Statements that are kept of one transaction. One that has more changed anything.
      MAX = 1000
      # The next transaction begins at once.
      CHAIN = /\A\s+CHAIN\b/i
      private_constant :CHAIN

      # Of a connection (an adapter of Active Record, a driver's connection).
      def self.of(connection)
        connection.instance_variable_get(:@paceline_transactions) ||
          connection.instance_variable_set(:@paceline_transactions, new)
      end

      def initialize
        reset
      end

      # The connection is new, or was lost: what it had not committed is gone.
      def reset
        @state = :closed
        @pending = []
        @savepoints = []
        @begun_by_savepoint = false
      end

      # Runs a statement, and announces what becomes visible by it. The block runs it, or only sends it.
      def run(sql, values, sent: false, &block)
        @sent = sent
        if Statements.several?(sql)
          AutoCache.recording&.writes!
          several(sql, values, &block)
        elsif (control = Statements::CONTROL.match(sql))
          chains = control[3].casecmp?("AND") && CHAIN.match?(control.post_match)
          control(control[1].upcase, !control[2].nil?, control[3], chains, &block)
        elsif Statements.read?(sql)
          yield
        else
          AutoCache.recording&.writes!
          written(sql, values, &block).tap { reset if Statements::PREPARE.match?(sql) }
        end
      end

      # The key that the last statement has generated.
      def generated(column, value)
        last = @pending.last or return
        last[2] = [column, value]
      end

      private

      def written(sql, values)
        entry = [sql, values, nil]
        result = @state == :open ? yield : announce([entry]) { yield }
        # It may have begun a transaction, as a new connection does that restores the one of the lost connection.
        keep(entry) unless @state == :closed
        result
      end

      # It may begin or end a transaction: from here on each write is announced at once, and again at the next COMMIT.
      def several(sql, values)
        @state = :unsure if sql.match?(/\b(?:BEGIN|START|COMMIT|END|ROLLBACK|ABORT|SAVEPOINT)\b/i) || @state == :unsure
        entry = [sql, values, nil]
        keep(entry)
        result = announce(@pending.dup) { yield }
        @pending.clear if @state == :closed
        result
      end

      # The first place is the one that is never taken back by a savepoint.
      def keep(entry)
        @pending.size < MAX ? @pending << entry : @pending[0] = [Statements.anything([@pending[0], entry]), [], nil]
      end

      def control(verb, to, name, chains, &)
        case verb
        when "COMMIT", "END"
          # What was prepared, maybe by another process, nobody knows here.
          name.casecmp?("PREPARED") ? announce([[Statements.anything([]), [], nil]], &) : commit(chains, &)
        when "ROLLBACK", "ABORT"
          result = yield
          to ? back_to(name) : reset
          @state = :open if chains
          result
        when "RELEASE" then release(name, &)
        else
          result = yield
          # A savepoint outside of a transaction begins one.
          @begun_by_savepoint = verb == "SAVEPOINT" if @state == :closed
          @savepoints << [name, @pending.size] if verb == "SAVEPOINT"
          @state = :open
          result
        end
      end

      # In SQLite the savepoint that began the transaction ends it.
      def release(name, &)
        mark = @savepoints.rindex { |own, _| own.casecmp?(name) }
        return commit(&) if mark == 0 && @begun_by_savepoint

        result = @state == :unsure ? announce(@pending.dup, &) : yield
        @savepoints = @savepoints.first(mark) if mark
        result
      end

      def commit(chains = false)
        result = @pending.empty? ? yield : announce(@pending) { yield }
        reset
        @state = :open if chains
        result
      end

      def back_to(name)
        return if @state == :unsure

        mark = @savepoints.rindex { |own, _| own.casecmp?(name) } or return
        @pending = @pending.first(@savepoints[mark][1])
        @savepoints = @savepoints.first(mark + 1)
      end

      # Whatever becomes of it, the front is told: a commit whose answer is lost may have happened.
      def announce(entries)
        journal = AutoCache.journal or return yield
        sent = @sent
        id = journal.intend(entries)
        begin
          result = yield
          done = "commit" unless sent
          result
        ensure
          journal.done(id, done || "unknown")
          AutoCache.schema_changed(settled: !done.nil?) if Statements.change_schema?(entries)
        end
      end
    end
  end
end
