# frozen_string_literal: true

# `bin/bench context`: CPU time of a request through Paceline::Context, in µs: beside the same without it, and beside ActiveSupport::CurrentAttributes where that
# is installed. The median of ROUNDS (15) rounds of REQUESTS (50,000) each, in one process without a server, the ways in turn.
$LOAD_PATH.unshift(File.expand_path("../gem/lib", __dir__))
require "paceline/context"

ROUNDS = Integer(ENV.fetch("ROUNDS", "15"))
REQUESTS = Integer(ENV.fetch("REQUESTS", "50000"))

# A body as a framework's: with code of its own.
class Body
  def each = yield("hello")
  def close = nil
end

USER = Struct.new(:id).new(42)
Paceline::Context.user_from { |_| USER }

asks = -> { Paceline.current.user; Paceline.current.request_id; Paceline.current[:tenant] = 1; Paceline.current[:tenant] }
apps = {
  "an Array" => ->(_) { [200, {}, ["hello"]] },
  "a body" => ->(_) { [200, {}, Body.new] },
  "a body, and asked for user, id and a value" => ->(_) { asks.call; [200, {}, Body.new] },
}

begin
  require "active_support"
  require "active_support/current_attributes"
  class Current < ActiveSupport::CurrentAttributes
    attribute :user, :request_id, :tenant
  end
  # The same by Rails' means: set for each request, reset after it.
  apps["a body, and set and asked in CurrentAttributes"] = lambda do |_|
    Current.user = USER
    Current.request_id = "ab12"
    Current.tenant = 1
    %i[user request_id tenant].each { |name| Current.public_send(name) }
    ActiveSupport::CurrentAttributes.reset_all
    [200, {}, Body.new]
  end
rescue LoadError
  warn "bench/context: without ActiveSupport there is nothing to compare with"
end

def microseconds(app)
  GC.start
  GC.disable
  began = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
  REQUESTS.times do
    _, _, body = app.call("HTTP_X_REQUEST_ID" => "ab12")
    body.each(&:itself)
    body.close if body.respond_to?(:close)
  end
  (Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - began) * 1e6 / REQUESTS
ensure
  GC.enable
end

bare_asks = apps.delete("a body, and asked for user, id and a value")
ways = apps.to_h { |name, app| [name, app] }
%w[an\ Array a\ body].each { |name| ways["#{name}, with Paceline::Context"] = Paceline::Context.new(apps[name]) }
ways["a body, with Paceline::Context, and asked for user, id and a value"] = Paceline::Context.new(bare_asks)

times = Hash.new { |all, name| all[name] = [] }
ROUNDS.times { ways.each { |name, app| times[name] << microseconds(app) } }
median = times.transform_values { |each| each.sort[each.size / 2] }

puts "Ruby #{RUBY_VERSION}, #{ROUNDS} rounds of #{REQUESTS} requests; CPU time of a request, median:"
median.each { |name, time| puts format("%8.2f µs  %s", time, name) }
puts format("so it costs %.2f µs where the body is an Array, and %.2f µs where it is not",
            median["an Array, with Paceline::Context"] - median["an Array"], median["a body, with Paceline::Context"] - median["a body"])
