require "open3"

# A story that needs more than this application: `bin/bench story NAME` of the checkout measures it, and the card shows the newest result that is there. Where
# `page` is true a button runs it in its quick way, one short round. A subclass has the words, and the name of the bench's story is its own.
class BenchStory < Story
  # What the bench prints while it measures.
  STEP = %r{\A\[(\d+)/(\d+), [^\]]*\] (.*)}
  # Of the server that this application runs under; another one is measured.
  OWN = /\APACELINE_(?!BIN\z|GEM_DIR\z)/
  # Lines of its last words.
  LAST = 3

  class << self
    attr_reader :page, :needs

    # The checkout that this guide is part of, or a copy in its tmp; nil: somewhere else.
    def checkout
      @checkout ||= [Rails.root.join("../.."), Rails.root.join("../../..")].find { |folder| folder.join("bin/bench").exist? }&.cleanpath
    end

    # The program that measures. BREWERY_BENCH names another one.
    def bench
      ENV["BREWERY_BENCH"] || checkout&.join("bin/bench")&.to_s
    end

    private

    attr_writer :page, :needs
  end

  def needs
    self.class.needs ? " (needs #{self.class.needs})" : ""
  end

  def result
    BenchResult.newest(name, results)
  end

  def partial = "stories/bench_result"

  def live?
    !!(self.class.page && self.class.bench)
  end

  def command
    "bin/bench story #{name}"
  end

  # One short round. If the reader goes away the bench ends, with all that it has started.
  def measure
    last = []
    status = run do |line|
      done, steps, words = line.match(STEP)&.captures
      next last = [*last, line.strip].reject(&:empty?).last(LAST) unless done

      yield(done.to_f / [steps.to_i, 1].max, words) if block_given?
    end
    raise "#{command} --quick: #{last.join(" / ")}" unless status.success?

    BenchResult.newest(name, [here]) or raise "#{command} --quick has left no result"
  end

  private

  # Where the results of the button go.
  def here
    folder.join("bench")
  end

  def results
    [here, *self.class.checkout&.then { |checkout| [checkout.join("bench/results"), checkout.join("tmp/bench/results")] }]
  end

  def run
    environment = ENV.keys.grep(OWN).to_h { |name| [name, nil] }
    input, output, bench = Open3.popen2e(environment, self.class.bench, "story", name, "--quick", "--output", here.to_s)
    input.close
    output.each_line { |line| yield line.scrub }
    bench.value
  ensure
    stop(bench) if bench&.alive?
    output&.close
  end

  # It stops its servers first.
  def stop(bench)
    Process.kill(:TERM, bench.pid)
    bench.join
  rescue Errno::ESRCH
    nil
  end
end
