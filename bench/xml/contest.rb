# frozen_string_literal: true

# Several ways to the same document, each in a process of its own, taking turns: round by round every document by every way (A B C A B C).
# Whether they give the same bytes is looked at first.
require_relative "../lib/arithmetic"
require_relative "process"

module Bench
  class XmlContest
    # ENVIRONMENT is the process's; MUTE: it writes nothing, and is not expected to.
    Way = Struct.new(:name, :title, :environment, :mute, keyword_init: true)

    # US and OBJECTS for a document: median, least and most of the rounds' means. TIMES: how many times quicker than the baseline (median of the
    # rounds' ratios); SHARE: objects to the baseline's. DIFFERS says from where on its bytes are others.
    Row = Struct.new(:document, :way, :us, :least, :most, :times, :objects, :differs, keyword_init: true)

    attr_reader :rows, :absent, :bytes

    # The block is told of each step and whether something was measured. BASELINE is a way's name.
    def initialize(section, ways, documents, baseline:, options:, &told)
      @section = section
      @ways = ways
      @documents = documents
      @baseline = baseline
      @options = options
      @told = told
      @absent = {}
      @bytes = {}
    end

    def steps = @options.rounds * @ways.size * @documents.size

    def run
      start
      differences = compare
      found = measure
      @rows = @documents.flat_map do |document|
        running.map do |way|
          self.class.row(document, way.name, found[[document, way.name]], found[[document, @baseline]] || [], differences[[document, way.name]])
        end
      end
      self
    ensure
      (@processes || {}).each_value(&:close)
    end

    # FOUND and BASE: pairs of microseconds and objects, one for each round.
    def self.row(document, way, found, base, differs = nil)
      times = found.zip(base).filter_map { |(us, _), (base_us, _)| Arithmetic.ratio(base_us, us) }
      us = found.map(&:first)
      Row.new(document: document, way: way, us: Arithmetic.median(us), least: us.min, most: us.max, times: Arithmetic.median(times),
              objects: Arithmetic.median(found.map(&:last)), differs: differs)
    end

    # Where GIVEN leaves EXPECTED, in words; nil if it does not.
    def self.difference(expected, given)
      return if expected.b == given.b

      at = expected.bytes.zip(given.bytes).index { |one, other| one != other } || expected.bytesize
      shown = [expected, given].map { |text| text.byteslice([at - 8, 0].max, 28).to_s.force_encoding(Encoding::UTF_8).scrub("?").inspect }
      "from byte #{at} on #{shown[1]} instead of #{shown[0]}"
    end

    private

    def running = @ways.select { |way| @processes.key?(way.name) }

    def start
      @processes = {}
      @ways.each do |way|
        @told.call("#{way.name} starts", false)
        @processes[way.name] = XmlProcess.new(@section, way.name, way.environment || {})
      rescue XmlProcess::Failed => e
        @absent[way.name] = e.message
      end
    end

    # {[document, way] => what differs from the baseline's result, or from the first one's}. Who can't write a document is out.
    def compare
      results = @documents.to_h { |document| [document, results_of(document)] }
      @documents.each_with_object({}) do |document, differences|
        expected = results[document][@baseline] || results[document].values.first
        @bytes[document] = expected&.bytesize
        running.reject(&:mute).each { |way| differences[[document, way.name]] = self.class.difference(expected, results[document][way.name]) }
      end
    end

    def results_of(document)
      running.to_h do |way|
        [way.name, @processes[way.name].result(document)]
      rescue XmlProcess::Failed => e
        @absent[way.name] = "#{document}: #{e.message}"
        @processes.delete(way.name).close
        [way.name, nil]
      end
    end

    def measure
      found = Hash.new { |all, key| all[key] = [] }
      @options.rounds.times do |round|
        @documents.each do |document|
          running.each do |way|
            found[[document, way.name]] << @processes[way.name].measure(document, @options.seconds)
            @told.call("round #{round + 1}, #{way.name}, #{document}", true)
          end
        end
      end
      found
    end
  end
end
