# frozen_string_literal: true

# The application that `bin/bench outbound` serves: a page that makes fifteen calls to an API, one way or another.
#
#   OUTBOUND_LIB, _GEM       where the benchmark's callers and the gem's files are
#   OUTBOUND_H2, _H1         the API: with HTTP/2, and without
#   OUTBOUND_CERTIFICATES    which are trusted
#
# /page?CALLER,SERVER answers with JSON: `ms`, `cpu_ms`, `wrong` (null, or what), and `pid` of the worker. / answers with the pid alone.
require "json"
$LOAD_PATH.unshift(ENV.fetch("OUTBOUND_GEM"))
require File.join(ENV.fetch("OUTBOUND_LIB"), "callers")
require "faraday"
require "net/http/persistent"
require "paceline/http/faraday"

# As an application has its API clients: made once for the process.
callers = Hash.new do |hash, (name, server)|
  hash[[name, server]] = Bench::OutboundCallers.make(name, ENV.fetch("OUTBOUND_#{server.upcase}"), ENV.fetch("OUTBOUND_CERTIFICATES"))
end
clock = -> { [Process::CLOCK_MONOTONIC, Process::CLOCK_PROCESS_CPUTIME_ID].map { |which| Process.clock_gettime(which) } }

run lambda { |env|
  answer = { "pid" => Process.pid }
  if env["PATH_INFO"] == "/page"
    began = clock.call
    answer["wrong"] = Bench::OutboundCallers.batch(callers[env["QUERY_STRING"].split(",")])
    answer["ms"], answer["cpu_ms"] = clock.call.zip(began).map { |now, before| (now - before) * 1000 }
  end
  body = JSON.generate(answer)
  [200, { "content-type" => "application/json", "content-length" => body.bytesize.to_s }, [body]]
}
