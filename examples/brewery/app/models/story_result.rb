# What a story has measured last, in tmp/: gone with that folder, and known to all processes. `rows` are [label, milliseconds, note, [least, most]], the first one the
# old way.
class StoryResult
  FOLDER = Rails.root.join("tmp/stories")

  attr_reader :rows, :rounds, :measured_at

  class << self
    # Nil if there is none.
    def read(name)
      new(JSON.parse(FOLDER.join("#{name}.json").read))
    rescue SystemCallError, JSON::ParserError
      nil
    end

    def write(name, rows, rounds)
      FOLDER.mkpath
      result = { "rows" => rows, "rounds" => rounds, "measured_at" => Time.now.utc.iso8601 }
      part = FOLDER.join("#{name}.#{Process.pid}.part")
      part.write(JSON.generate(result))
      part.rename(FOLDER.join("#{name}.json"))
      new(result)
    end

    # Runs the block while no other process or thread does. False if one does: a measurement beside another one would be wrong.
    def alone
      FOLDER.mkpath
      FOLDER.join("lock").open("w") do |file|
        return false unless file.flock(File::LOCK_EX | File::LOCK_NB)

        yield
        true
      end
    end
  end

  def initialize(result)
    @rows, @rounds = result.values_at("rows", "rounds")
    @measured_at = Time.iso8601(result["measured_at"])
  end

  # How much faster or slower it is than the old way, in words. The ranges of their rounds meet: that is no difference.
  def compared(row)
    before, own = rows.first, row
    spread = [before[3][0] / own[3][1], before[3][1] / own[3][0]] if before[3] && own[3]
    Comparison.text(before[1] / own[1], spread, better: "times as fast", worse: "times as slow")
  end

  # The length of its bar: a part of the longest.
  def part(row)
    row[1] / rows.map { |_, milliseconds| milliseconds }.max
  end
end
