# frozen_string_literal: true

# The program in which one of those compared lives: `ruby measured.rb SECTION NAME`. It works only when it is asked to, a line of JSON
# each time, so that several of them take turns. Knows nothing of the others.
require "json"

module Bench
  class XmlMeasured
    WARM_UP = 20
    # Documents over which allocations are counted.
    COUNTED = 20

    def initialize(subject)
      @subject = subject
      @works = {}
      @times = {}
    end

    # What it writes, as text.
    def result(document)
      { "result" => work(document).call.then { |result| result.is_a?(String) ? result.b.unpack1("H*") : canonical(result).b.unpack1("H*") } }
    end

    # Microseconds of processor time for a document, over at least SECONDS, garbage collection included, and the objects allocated for it.
    def measure(document, seconds)
      work = work(document)
      times = @times[document] ||= enough(work, seconds)
      GC.start
      { "us" => timed(work, times) * 1e6 / times, "objects" => allocated(work) }
    end

    private

    def work(document)
      @works[document] ||= @subject.work(document).tap { |work| WARM_UP.times { work.call } }
    end

    def enough(work, seconds)
      times = 1
      times *= 2 while (elapsed = timed(work, times)) < seconds / 4.0
      [(times * seconds / elapsed).ceil, 1].max
    end

    def timed(work, times)
      began = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
      times.times { work.call }
      Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - began
    end

    def allocated(work)
      before = GC.stat(:total_allocated_objects)
      COUNTED.times { work.call }
      ((GC.stat(:total_allocated_objects) - before) / COUNTED.to_f).floor
    end

    # Equal hashes have the same text, in whatever order their keys came.
    def canonical(value)
      case value
      when Hash then "{#{value.map { |key, one| "#{key.inspect}=>#{canonical(one)}" }.sort.join(", ")}}"
      when Array then "[#{value.map { |one| canonical(one) }.join(", ")}]"
      else value.inspect
      end
    end
  end

  SECTIONS = { "writers" => %w[writers XmlWriters], "views" => %w[views XmlViews], "parsing" => %w[parsers XmlParsers] }.freeze

  def self.answer_questions(section, name)
    out = $stdout.dup
    $stdout.reopen($stderr)
    file, constant = SECTIONS.fetch(section)
    require_relative file
    measured = XmlMeasured.new(const_get(constant).make(name))
    out.puts JSON.generate("ready" => true)
    out.flush
    $stdin.each_line do |line|
      question = JSON.parse(line)
      answer = question["seconds"] ? measured.measure(question["document"], question["seconds"]) : measured.result(question["document"])
      out.puts JSON.generate(answer)
      out.flush
    end
  rescue LoadError, StandardError => e
    out.puts JSON.generate("failed" => "#{e.class}: #{e.message.lines.first&.strip}")
  end
end

Bench.answer_questions(*ARGV) if $PROGRAM_NAME == __FILE__
