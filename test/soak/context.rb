# frozen_string_literal: true

# `bin/soak context`: so many requests of random users over 5 threads, with exceptions, time-outs, hijacks, killed and interrupted threads. Ends with status 1 if
# one saw another's user, or a thread kept something. SEED repeats the users and the ways they end, though not the moments of threads.
require "context/support/crowd"

requests = Integer(ARGV.fetch(0))
seed = Integer(ENV.fetch("SEED") { Random.new_seed % (1 << 32) })
began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
crowd = Crowd.new(requests: requests, seed: seed).run
seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC) - began

kinds = crowd.counts.sort_by { |_, count| -count }.map { |kind, count| "#{kind} #{count}" }.join(", ")
puts format("Ruby %s, seed %d: %d requests in %.1f s, %d threads killed and %d interrupted from outside", RUBY_VERSION, seed, requests, seconds, crowd.killed, crowd.interrupted)
puts "whole ones: #{kinds}"
crowd.wrong.each { |kind, wanted, found| puts "WRONG: a request (#{kind}) of #{wanted || "nobody"} found #{found.inspect}" }
puts "nobody saw another's user" if crowd.wrong.empty?
exit(crowd.wrong.empty? ? 0 : 1)
