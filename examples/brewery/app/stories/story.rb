# What one of Paceline's parts is about: something that was slow, the line that changed it, and a small measurement of both, made on this machine when somebody
# asks for it. A subclass says what is measured. Nothing here is an estimate, and no figure comes from elsewhere. What needs more than this application
# (other servers, Redmine, swap space) is a BenchStory.
class Story
  # One way to do the same work. `note`: called afterwards for one more fact, or nil.
  Way = Struct.new(:label, :work, :note)

  # The ways do not have the same result.
  class Different < StandardError; end

  ALL = %w[xml one_write provision pstore page_ahead servers deploy proxy rails swap].freeze

  class << self
    def all
      ALL.map { |name| find(name) }
    end

    # Nil if there is none of this name.
    def find(name)
      "#{name}_story".camelize.constantize.new if ALL.include?(name)
    end

    # What it says of itself.
    attr_reader :title, :slow, :line, :measured

    private

    attr_writer :title, :slow, :line, :measured
  end

  delegate :title, :slow, :line, :measured, to: :class

  def name
    self.class.name.underscore.delete_suffix("_story")
  end

  def result
    StoryResult.read(name)
  end

  # The view of its result.
  def partial = "stories/result"

  # Whether a page can measure it.
  def live? = true

  # What measures it in a terminal, where a page can't.
  def command = nil

  # Measures all ways in turn, `rounds` times each, after one round that is not counted. Yields the part that is done and what comes next. Returns the
  # StoryResult; raises Different, or whatever the work raises.
  def measure
    prepare
    times = Hash.new { |hash, label| hash[label] = [] }
    steps = ways.product((0..rounds).to_a).size
    (0..rounds).each do |round|
      ways.each_with_index do |way, place|
        yield((round * ways.size + place) / steps.to_f, round.zero? ? "#{way.label}, to warm up" : "#{way.label}, round #{round} of #{rounds}") if block_given?
        time = clock { compare(way.label, way.work.call) }
        times[way.label] << time unless round.zero?
      end
    end
    StoryResult.write(name, ways.map { |way| [way.label, median(times[way.label]), way.note&.call, times[way.label].minmax] }, rounds)
  ensure
    clean_up
  end

  private

  def rounds
    3
  end

  def prepare; end

  def clean_up; end

  # Milliseconds. The garbage of what was measured before is not part of it.
  def clock
    GC.start(full_mark: false)
    started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    yield
    (Process.clock_gettime(Process::CLOCK_MONOTONIC) - started) * 1000
  end

  def median(times)
    sorted = times.sort
    (sorted[(sorted.size - 1) / 2] + sorted[sorted.size / 2]) / 2
  end

  def compare(label, outcome)
    @outcome ||= outcome
    raise Different, "“#{label}” has another result than “#{ways.first.label}”" unless outcome == @outcome
  end

  # For files that a measurement needs; under tmp/.
  def folder
    StoryResult::FOLDER.tap(&:mkpath)
  end
end
