# frozen_string_literal: true

# Writes what `bin/bench xml` found, as Markdown and JSON.
require_relative "../lib/section_report"
require_relative "parsers"
require_relative "sections"

module Bench
  # RESULTS: {section => the XmlContest or XmlResponses that ran}.
  class XmlReport < SectionReport
    def kind = "xml"

    def markdown
      [heading, *@results.map { |name, found| send(name, found) }, absent, setting].compact.join("\n\n") << "\n"
    end

    def data
      { **of_run, results: @results.transform_values { |found| sums(found) },
        not_measured: missing }
    end

    private

    def heading
      <<~TEXT.strip
        # #{@command}

        #{about_run("#{@options.rounds} round#{"s" if @options.rounds > 1} of #{@options.seconds} s")}

        µs: processor time for a document, garbage collection included; median of the rounds, and their least and most. x: so many times quicker than the
        first (parsing: than LibXML), median of the rounds' ratios. Objects: allocated for a document.
      TEXT
    end

    def writers(contest)
      "## Writers\n\nOne process each, in turns; #{sizes(contest)}. `dispatch` writes nothing: what Ruby's method_missing and blocks cost.\n\n" +
        contested(contest, XmlSections::WRITERS) + differing(contest)
    end

    def views(contest)
      "## Whole views\n\nActionView renders the .builder template, in process. The empty template is what it costs itself.\n\n" +
        contested(contest, XmlSections::VIEWS) + differing(contest)
    end

    def parsing(contest)
      "## Hash.from_xml\n\nOf #{rounded(XmlParsers.document.bytesize)} bytes, #{XmlParsers::RECORDS} records.\n\n" + contested(contest, XmlSections::PARSING) + differing(contest)
    end

    def contested(contest, ways)
      titles = ways.to_h { |way| [way.name, way.title] }
      rows = contest.rows.group_by(&:document).flat_map do |document, some|
        some.each_with_index.map do |row, i|
          [i.zero? ? document : "", row.way, microseconds(row.us), microseconds(row.least), microseconds(row.most), factor(row.times), rounded(row.objects), titles[row.way]]
        end
      end
      align(["document", "way", "µs", "least", "most", "x", "objects", ""], rows, texts: [0, 1, 7])
    end

    def differing(contest)
      others = contest.rows.select(&:differs)
      return "\n\n#{contest.rows.map(&:way).uniq.size == 1 ? "There is nobody to compare with." : "All gave the same."}" if others.empty?

      "\n\nOther bytes than the first one's:\n\n" + others.map { |row| "- #{row.way}, #{row.document}: #{row.differs}" }.join("\n")
    end

    def responses(responses)
      rows = responses.summary.groups.flat_map do |group|
        group.rows.each_with_index.map { |row, i| [i.zero? ? group.scenario : "", i.zero? ? group.shape.to_s : "", *figures(row)] }
      end
      "## Whole responses\n\nA small Rails application in production, #{Servers::WORKERS} workers. CPU: µs a request in all of the server's processes. x: to #{XmlResponses::BASELINE}.\n\n" +
        [disturbed(responses.summary.groups, @facts["processors"]),
         align(["document", "load", "server", "p50 ms", "p99 ms", "requests/s", "x", "CPU µs", "x", ""], rows, texts: [0, 1, 2, 9])].compact.join("\n\n")
    end

    def figures(row)
      return [row.server, *refused(row.wrong, 6), ""] if row.wrong

      [row.server, milliseconds(row.p50), milliseconds(row.p99), rounded(row.rate), factor(row.rate_ratio), rounded(row.cpu), factor(row.cpu_ratio),
       row.elsewhere > QUIET ? "#{row.elsewhere.round(1)} processors busy elsewhere" : ""]
    end

    def absent
      "Not measured:\n\n#{missing.map { |what, why| "- #{what}: #{why}" }.join("\n")}" if missing.any?
    end

    def missing = @results.flat_map { |section, found| found.absent.map { |name, why| ["#{section}, #{name}", why] } }.to_h

    def sizes(contest) = contest.bytes.map { |document, bytes| "#{document} #{rounded(bytes)}" }.join(", ") << " bytes"

    def microseconds(number) = number < 10 ? format("%.2f", number) : rounded(number)

    def sums(found)
      return found.rows.map { |row| row.to_h.compact } if found.is_a?(XmlContest)

      found.summary.groups.map { |group| { document: group.scenario, load: group.shape.to_s, servers: group.rows.map { |row| row.to_h.compact } } }
    end
  end
end
