# frozen_string_literal: true

# Writes what `bin/bench pstore` found, as Markdown and JSON.
require_relative "contest"
require_relative "import"
require_relative "requests"
require_relative "session"
require_relative "ways"
require_relative "../lib/section_report"

module Bench
  # RESULTS: {section => the PStoreContest, PStoreImport or PStoreRequests that ran}.
  class PStoreReport < SectionReport
    def kind = "pstore"

    def markdown
      [heading, *@results.map { |name, found| send(name, found) }, absent, setting].compact.join("\n\n") << "\n"
    end

    def data
      options = @options.to_h.merge(ways: @options.ways.map(&:name))
      { **of_run, options: options,
        results: @results.to_h { |name, found| [name, send("#{name}_data", found)] }, not_measured: missing }
    end

    # {way => [reading, updating]}: what a transaction takes at the most records, in units of what it takes at the fewest.
    def self.flatness(rows)
      rows.group_by(&:way).to_h do |way, some|
        [way, PStoreContest::WHATS.map do |what|
          few, many = some.select { |row| row.what == what }.minmax_by(&:records)
          Arithmetic.ratio(many.us, few.us) unless few.records == many.records
        end]
      end
    end

    private

    def heading
      <<~TEXT.strip
        # #{@command}

        #{about_run("#{@options.rounds} round#{"s" if @options.rounds > 1}")}
      TEXT
    end

    def stores(contest)
      [<<~TEXT.strip, updates(contest), reads(contest), durable(contest), flatness(contest), losses(contest), sizes(contest)].join("\n\n")
        ## One record

        A record is a session of #{rounded(Marshal.dump(PStoreSession.make(1)).bytesize)} bytes in Marshal's format, which is part of each figure. µs: a transaction of a random record by one
        process, elapsed, median of the rounds; CPU: its processor time, with that of Redis. #{@options.processes} processes: transactions a second of all of them.
        Writing a block of the disk and waiting for it takes #{rounded(contest.fsync * 1e6)} µs (fdatasync, median).
      TEXT
    end

    def reads(contest) = "### Read\n\n#{table(contest, "read", nil)}"
    def updates(contest) = "### Update\n\nA power failure may cost the last ones.\n\n#{table(contest, "update", nil)}"
    def durable(contest) = "### Update, synced\n\nOn the disk when the transaction ends.\n\n#{table(contest, "update", true)}"

    # Reading is the same whether writing waits for the disk.
    def table(contest, what, durable)
      rows = @options.ways.reject { |way| what == "update" ? way.durable != durable : way.durable }.flat_map do |way|
        some = contest.rows.select { |row| row.way == way.name && row.what == what }
        some.each_with_index.map { |row, i| [i.zero? ? way.title : "", rounded(row.records), rounded(row.us), rounded(row.cpu), rounded(1e6 / row.us), row.together ? rounded(row.together) : ""] }
      end
      align(["store", "records", "µs", "CPU µs", "a second", "#{@options.processes} processes, a second"], rows, texts: [0])
    end

    def flatness(contest)
      rows = self.class.flatness(contest.rows).map { |way, (read, update)| [title(way), factor(read), factor(update)] }
      "### From #{rounded(@options.records.min)} to #{rounded(@options.records.max)} records\n\nA transaction at the most records that were measured, in units of one at the fewest.\n\n" +
        align(["store", "read", "update"], rows, texts: [0])
    end

    def losses(contest)
      rows = contest.losses.map { |loss| [title(loss.way), rounded(loss.records), rounded(loss.updates), rounded(loss.lost)] }
      "### Lost updates\n\nEach update adds one to a counter in its record; all counters are added up at the end. By one process and by #{@options.processes} at once, " \
        "those that share a file together.\n\n" + align(["store", "records", "updates", "lost"], rows, texts: [0])
    end

    def sizes(contest)
      rows = contest.bytes.flat_map { |way, sizes| sizes.map { |records, bytes| [title(way), records ? rounded(records) : "all", megabytes(bytes)] } }
      "### Room\n\nMB on the disk at the end; of Redis, all sizes together in memory.\n\n" + align(["store", "records", "MB"], rows, texts: [0])
    end

    def import(import)
      "## Taking over a file of Ruby's PStore\n\n#{rounded(PStoreImport::RECORDS)} records, #{megabytes(import.bytes)} MB: #{import.seconds.round(2)} s (median)."
    end

    def requests(requests)
      rows = requests.summary.groups.flat_map { |group| group.rows.map { |row| figures(row) } }
      "## Whole requests\n\nA small Rails application in production, served by Paceline with #{Servers::WORKERS} workers; each request reads and changes its session. #{rounded(@options.sessions)} visitors, " \
        "#{@options.clients} connections. CPU: µs a request in all of the server's processes, with Redis. x: to #{PStoreRequests::BASELINE}.\n\n" +
        [disturbed(requests.summary.groups, @facts["processors"]),
         align(["sessions in", "requests/s", "x", "CPU µs", "x", "p50 ms", "p99 ms", ""], rows, texts: [0, 7])].compact.join("\n\n")
    end

    def figures(row)
      return [row.server, *refused(row.wrong, 6), ""] if row.wrong

      [row.server, rounded(row.rate), factor(row.rate_ratio), rounded(row.cpu), factor(row.cpu_ratio), milliseconds(row.p50), milliseconds(row.p99),
       row.elsewhere > QUIET ? "#{row.elsewhere.round(1)} processors busy elsewhere" : ""]
    end

    def absent
      "Not measured:\n\n#{missing.map { |what, why| "- #{what}: #{why}" }.join("\n")}" if missing.any?
    end

    def missing
      failed = @results.flat_map { |section, found| found.absent.map { |name, why| ["#{section}, #{name}", why] } }.to_h
      return failed unless @results["stores"]

      @options.ways.select { |way| way.most && way.most < @options.records.max }.each do |way|
        failed["#{way.title}, more than #{rounded(way.most)} records"] = "not run: it would take too long to make or to use"
      end
      failed
    end

    def title(way) = @options.ways.find { |one| one.name == way }.title

    def stores_data(contest)
      { rows: contest.rows.map(&:to_h), losses: contest.losses.map(&:to_h), bytes: contest.bytes, fsync_seconds: contest.fsync }
    end

    def import_data(import) = { records: PStoreImport::RECORDS, bytes: import.bytes, seconds: import.seconds }
    def requests_data(requests) = requests.summary.groups.map { |group| { load: group.shape.to_s, stores: group.rows.map { |row| row.to_h.compact } } }
  end
end
