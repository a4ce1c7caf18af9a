# The example `people` of crates/directory: asks a directory, and the lines are the answers.
require "open3"

module People
  CHECKOUT = File.expand_path("../../..", __dir__)
  BIN = ENV.fetch("PEOPLE_BIN") { File.join(ENV.fetch("CARGO_TARGET_DIR", File.join(CHECKOUT, "target")), "debug/examples/people") }

  # The last answer.
  def ask(*arguments) = ask_all(*arguments).last

  def ask_all(*arguments)
    output, status = Open3.capture2e(BIN, *arguments)
    assert status.success?, output
    output.lines(chomp: true)
  end

  # Runs the block when the example pauses. The result: the answers after that.
  def ask_around(*arguments)
    Open3.popen2e(BIN, *arguments) do |input, output, _|
      line = output.gets(chomp: true) until line == "paused"
      yield
      input.puts "go on"
      output.each_line(chomp: true).to_a
    end
  end
end
