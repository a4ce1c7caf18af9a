# frozen_string_literal: true

require_relative "import"
require_relative "table"
require_relative "trust"

module Paceline
  class PStore
    # A PStore in Records: the file is one of LMDB, with a record for each root. A transaction that writes has the file for itself, as
    # with Ruby's PStore; one that reads sees it as it was when it began, and neither waits nor is waited for.
    class RecordFile
      def initialize(store, path, trust:)
        @store = store
        @path = path
        @trust = trust
      end

      # Yields the table. Saves it if the block returns true.
      def transaction(read_only, &block)
        stat = stat_of_file
        return yield({}) if read_only && stat.nil?

        unless known?(stat)
          # Who only reads changes no file, be it one that could be taken over.
          return PlainFile.new(@store, @path, trust: @trust).transaction(true, &block) if read_only && Import.marshal?(@path)

          stat = recognise
        end
        read_only ? read(@records, stat, &block) : write(@records, stat, &block)
      end

      private

      def stat_of_file
        File.stat(@path)
      rescue Errno::ENOENT
        nil
      end

      # Whether this is the file that was looked at before, still its owner's.
      def known?(stat)
        stat && @known && stat.ino == @known.ino && stat.dev == @known.dev && stat.uid == @known.uid && stat.mode == @known.mode
      end

      # Takes over a file of Ruby's PStore, and makes sure that the file may be loaded.
      def recognise
        Import.call(@path, trust: @trust) if Import.marshal?(@path)
        stat = stat_of_file
        Trust.check(@path, stat) if stat && !@trust
        @records = Records.at(@path)
        @known = stat
      end

      def read(records, stat)
        records.snapshot(stat) { |now| yield Table.new(now) }
      end

      def write(records, stat)
        records.exclusively(stat) do
          changes = records.snapshot do |now|
            table = Table.new(now)
            table.changes if yield(table)
          end
          records.commit(changes, sync: @store.ultra_safe) if changes
        end
      rescue ThreadError
        # This thread has it already, by another PStore of the same file.
        raise Error, "nested transaction"
      end
    end
    private_constant :RecordFile
  end
end
