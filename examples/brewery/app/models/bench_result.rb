# What `bin/bench story NAME` has found, from the JSON that it writes: the figures of one part, before and after, and on which machine, when and how they were
# measured. Reads files alone.
class BenchResult
  # What stands behind a figure. Of other measures their own name does.
  UNITS = { "rate" => "requests/s", "p50" => "ms (half of the requests took no longer)", "p99" => "ms (99 of 100 requests took no longer)", "ms" => "ms",
            "us" => "µs", "failed" => "requests lost" }.freeze
  # Rounds of a result that is more than a first impression.
  ROUNDS = 5
  # Of processes that wait for each processor: with more before it began, the machine was not idle.
  IDLE = 0.5

  Row = Struct.new(:name, :value, :wrong, :first, keyword_init: true)

  # Nil if there is none in these folders that can be read.
  def self.newest(name, folders)
    files = folders.flat_map { |folder| Dir.glob(folder.join("story-#{name}-*.json")) }
    newest = files.max_by { |path| File.basename(path) } and new(JSON.parse(File.read(newest)))
  rescue SystemCallError, JSON::ParserError, KeyError
    nil
  end

  attr_reader :part, :measure, :rows, :command

  def initialize(result)
    @result = result
    @command = result.fetch("command")
    parts = result.fetch("parts")
    shown = parts.find { |one| one["title"] == result.dig("shown", "part") } || parts.fetch(0)
    @part, @measure = shown.fetch_values("title", "main")
    before = result.dig("shown", "before", "name") || shown["baseline"]
    @rows = shown.fetch("rows").map { |row| Row.new(name: row.fetch("name"), value: row.dig("figures", @measure), wrong: row["wrong"], first: row["name"] == before) }
  end

  def unit = UNITS.fetch(measure, measure.tr("_", " "))

  # Which bar is the better one.
  def better = measure == "rate" ? "longer" : "shorter"

  # How many times better or worse the way after is, as the median of the rounds; nil if that can't be said.
  def compared = Comparison.text(ratio, rounds)

  # The least and the most of the rounds, as those words have them.
  def spread
    compared&.end_with?("worse") ? rounds&.map { |one| 1 / one }&.sort : rounds
  end
  def after = @result.dig("shown", "after", "name")

  # The length of its bar: a part of the longest.
  def part_of_longest(row)
    longest = rows.filter_map(&:value).max.to_f
    longest.zero? ? 0 : row.value / longest
  end

  # What makes it less than a result, in words.
  def warnings
    rounds = @result.dig("options", "rounds").to_i
    few = "#{rounds} #{"round".pluralize(rounds)} alone: a first impression" if rounds < ROUNDS
    busy = "the machine was not idle before: a load of #{load} for #{processors} processors" if load > IDLE * processors
    [few, busy].compact
  end

  def machine
    facts = @result.fetch("machine", {})
    memory = "#{facts["memory_mb"].to_i / 1024} GB" if facts["memory_mb"]
    [facts["date"], "#{processors} x #{facts["processor"]}", memory, @result.dig("versions", "paceline")].compact.join(" · ")
  end

  # {way => why it was left out}
  def not_run = @result["not_run"] || {}

  private

  def ratio = @result.dig("shown", "ratio")
  def rounds = @result.dig("shown", "spread")
  def load = @result.dig("machine", "load_before").to_a.first.to_f
  def processors = [@result.dig("machine", "processors").to_i, 1].max
end
